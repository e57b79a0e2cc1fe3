"""
A study: which policies are compared, at which start conditions, and how it will be decided.

It is declared in ``study.yaml`` before the first trial, and its hash is in the journal of the
study. :func:`schedule` makes the order of trials from the study and a secret seed. A *block* is
what is run without a change of evaluator or start condition: every policy of the block once, one
after the other, as slot A, B, …. A *round* has every start condition once. So whatever changes
over the day (the light, the battery, the evaluator's eye) reaches all policies alike.

The order is made by sorting SHA-256 digests of the seed and the block, not by a random generator
of a library: anybody can make it again, with any program, once the seed is revealed.
"""

import dataclasses
import hashlib
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from pathlib import Path
from typing import Any

from arena_robot.core.config import load
from arena_robot.core.pair import canonical
from arena_robot.core.verdict import BETWEEN, FAILURE_TAGS, OPTIONAL, Extras

STUDY_FILE = 'study.yaml'
USUAL = {True: (0.5, 0.75), False: (0.2, 0.5)}    # a difference that a lab cares about


class Design(str, Enum):
    """Which policies meet in a block."""

    PAIRS = 'pairs'              # both of two
    ROUND_ROBIN = 'round_robin'  # two of N; all pairs, equally often
    TASK_LIST = 'task_list'      # all of N, each at every task; nobody is asked for a preference
    CONTROL = 'control'          # the control and one of the others


class Measure(str, Enum):
    """What is compared within a block."""

    SUCCESS = 'success'          # one policy succeeds where the other fails
    PROGRESS = 'progress'        # one gets further
    PREFERENCE = 'preference'    # the evaluator prefers one


class Unit(str, Enum):
    """What counts as one observation."""

    BLOCK = 'block'
    EVALUATOR = 'evaluator'      # evaluators may differ in which policy does well with them


class Stopping(str, Enum):
    """When the study ends."""

    FIXED = 'fixed'              # after all rounds, and the test is made once
    SEQUENTIAL = 'sequential'    # as soon as the test decides, or after all rounds


@dataclass(frozen=True)
class StudyArm:
    """One policy: its ``name``, ``address`` and the ``settings`` it is served with."""

    name: str
    address: str = ''
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StartCondition:
    """How a trial starts: the ``instruction`` for the policy, and ``start`` for the person."""

    name: str
    task: str = ''
    instruction: str = ''
    start: str = ''


@dataclass(frozen=True)
class DecisionRule:
    """
    The test, chosen before the first trial.

    ``level``: at most this chance that any policy is called better where all are equal.
    ``assumed``: with the measure `success` the success rates of the worse and the better policy
    that the plan is made for, 0.5 and 0.75 if left out; else the shares of blocks that each wins,
    0.2 and 0.5. ``power`` is the chance that the study then says so.
    """

    measure: Measure = Measure.SUCCESS
    unit: Unit = Unit.BLOCK
    stopping: Stopping = Stopping.FIXED
    level: float = 0.05
    power: float = 0.8
    assumed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.assumed:
            object.__setattr__(self, 'assumed', USUAL[self.measure is Measure.SUCCESS])
        low, high = (*self.assumed, math.nan, math.nan)[:2]
        if len(self.assumed) != 2 or not (
                0 < self.level < 0.5 and 0 < self.power < 1 and 0 <= low < high <= 1):
            raise ValueError(f'need 0 < level < 0.5, 0 < power < 1 and two assumed shares from 0 '
                             f'to 1, the smaller first; found {self.level}, {self.power} and '
                             f'{self.assumed}')
        if self.measure is not Measure.SUCCESS and low + high > 1:
            raise ValueError(f'the assumed shares of blocks won are {low} and {high}; together '
                             'they are at most 1')


@dataclass(frozen=True)
class Study:
    """
    A declared study; ``repeats`` is the number of rounds.

    ``stages`` are the steps of the task in their order, ``success`` says in words when a trial
    has succeeded. ``control`` names the arm that the design `control` compares with.
    """

    name: str
    arms: tuple[StudyArm, ...]
    conditions: tuple[StartCondition, ...]
    success: str
    design: Design = Design.PAIRS
    control: str = ''
    repeats: int = 10
    stages: tuple[str, ...] = ()
    failure_tags: tuple[str, ...] = FAILURE_TAGS
    decision: DecisionRule = field(default_factory=DecisionRule)

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        for what, words in (('arms', names), ('conditions', [c.name for c in self.conditions]),
                            ('stages', self.stages), ('failure_tags', self.failure_tags)):
            if len(set(words)) < len(words) or not all(word.strip() for word in words):
                raise ValueError(f'{what}: each needs a name of its own, found '
                                 f"{', '.join(map(repr, words))}")
        if any(BETWEEN.strip() in word for word in (*self.stages, *self.failure_tags)):
            raise ValueError('stages and failure_tags are words without a semicolon')
        if not 2 <= len(names) <= len(string.ascii_uppercase) or not self.conditions:
            raise ValueError(f'a study has 2 to {len(string.ascii_uppercase)} arms and at least '
                             f'one condition; found {len(names)} and {len(self.conditions)}')
        if self.design is Design.PAIRS and len(names) != 2:
            raise ValueError(f'the design pairs compares two arms, found {len(names)}; '
                             'round_robin takes more')
        if (self.design is Design.CONTROL) != (self.control in names):
            raise ValueError(f"control is '{self.control}'; the design control needs the name of "
                             'an arm, the other designs have none')
        if self.repeats < 1 or not self.success.strip():
            raise ValueError('repeats is at least 1, and success says when a trial succeeded')
        if self.design is Design.TASK_LIST and self.decision.measure is Measure.PREFERENCE:
            raise ValueError('in the design task_list nobody is asked for a preference; measure '
                             'success or progress')

    def extras(self) -> Extras:
        """Return what is asked after each trial: all, the stage where the study lists stages."""
        return Extras(tuple(key for key in OPTIONAL if key != 'stage' or self.stages),
                      self.stages, self.failure_tags)

    def arm(self, name: str) -> StudyArm:
        """Return the arm of that name; KeyError without one."""
        return {arm.name: arm for arm in self.arms}[name]

    def condition(self, name: str) -> StartCondition:
        """Return the start condition of that name; KeyError without one."""
        return {condition.name: condition for condition in self.conditions}[name]

    def contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of arms that are compared, in the order of the file."""
        names = [arm.name for arm in self.arms]
        if self.design is Design.CONTROL:
            return tuple((self.control, name) for name in names if name != self.control)
        return tuple(combinations(names, 2))

    def meetings(self) -> tuple[tuple[str, ...], ...]:
        """Return the sets of arms that meet in a block; a round has a block of each."""
        names = tuple(arm.name for arm in self.arms)
        return (names,) if self.design is Design.TASK_LIST else self.contrasts()

    def blocks_per_contrast(self) -> int:
        """Return in how many blocks two arms that are compared meet."""
        return self.repeats * len(self.conditions)


@dataclass(frozen=True)
class ScheduledTrial:
    """
    One rollout of the plan: the policy in ``slot`` of ``block`` runs at ``condition``.

    ``number``, ``block`` and ``round`` count from 1. ``arm`` is secret until the reveal; it is in
    no representation of the object, so that no log has it by accident.
    """

    number: int
    block: int
    round: int
    condition: str
    slot: str
    arm: str = field(repr=False)


def load_study(path: Path | str) -> Study:
    """Read a study; ConfigError for a key or value that is wrong, with the nearest right one."""
    return load(Study, path)


def plain_study(study: Study) -> dict[str, Any]:
    """Return the study as JSON and YAML have it; `build` of `core/config.py` reads it."""
    return dict(_plain(dataclasses.asdict(study)))


def study_hash(study: Study) -> str:
    """Return the hex SHA-256 of the study's canonical JSON; comments of the file do not count."""
    return hashlib.sha256(canonical(plain_study(study)).encode('utf-8')).hexdigest()


def seed_hash(seed: str) -> str:
    """Return the hex SHA-256 of a seed, which is public before the first trial."""
    return hashlib.sha256(seed.encode('utf-8')).hexdigest()


def schedule(study: Study, seed: str) -> tuple[ScheduledTrial, ...]:
    """
    Return all trials in their order; the same study and seed give the same.

    Over the rounds each arm is in each slot equally often at each condition, but for a rest of
    less than the number of slots.
    """
    trials: list[ScheduledTrial] = []
    meetings = study.meetings()
    turns = {(c.name, k): _shuffled([r % len(arms) for r in range(study.repeats)], seed, c.name, k)
             for c in study.conditions for k, arms in enumerate(meetings)}
    block = 0
    for number in range(1, study.repeats + 1):
        for name, k in _shuffled(list(turns), seed, 'round', number):
            block += 1
            arms = _shuffled(meetings[k], seed, 'order', name, k)
            turn = turns[name, k][number - 1]
            for place, arm in enumerate([*arms[turn:], *arms[:turn]]):
                trials.append(ScheduledTrial(len(trials) + 1, block, number, name,
                                             string.ascii_uppercase[place], arm))
    return tuple(trials)


def _shuffled(items: Sequence[Any], seed: str, *place: object) -> list[Any]:
    """Return the items in the order of the digests of seed, place and index."""
    def digest(index: int) -> bytes:
        return hashlib.sha256(canonical({'seed': seed, 'place': list(map(str, place)),
                                         'index': index}).encode('utf-8')).digest()
    return [items[index] for index in sorted(range(len(items)), key=digest)]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


# What `arena study new` writes above a key of the file.
COMMENTS = {
    'arms': 'the policies; what is written in settings stands in the report',
    'conditions': 'instruction is for the policy, start for the person who sets up the scene',
    'success': 'when a trial has succeeded; for the person who judges',
    'design': ', '.join(design.value for design in Design) + ' (docs/blind.md)',
    'control': 'the arm that the design control compares all others with',
    'repeats': 'rounds; each has every start condition once for the policies that meet',
    'stages': 'steps of the task in their order, for the furthest stage of a trial',
    'failure_tags': 'what a failed trial can be marked with; add your own',
    'decision': 'fixed before the first trial; measure success, progress or preference; unit '
                'block or evaluator; stopping fixed or sequential'}


def study_yaml(study: Study) -> str:
    """Return the study as the text of a file, with a comment on the keys to edit."""
    import yaml
    text = yaml.safe_dump(plain_study(study), sort_keys=False, allow_unicode=True, width=98)
    lines = []
    for line in text.splitlines():
        about = COMMENTS.get(line.partition(':')[0], '')
        lines += [f'# {about}', line] if about else [line]
    return '\n'.join(lines) + '\n'
