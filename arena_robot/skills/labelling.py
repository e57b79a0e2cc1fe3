"""
Algorithm 1 for one task: base solutions, completions from every prefix of one, all executed.

Nothing is executed twice: a solution that was written again counts again and has its result
from before. A reply that cannot be read is counted and is no solution. A prefix is good when a
solution that succeeded begins with it; its soft label is the share of the task's solutions through
the prefix that succeeded.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.skills.base import (
    Execution,
    SkillExecutor,
    SkillPolicy,
    Solution,
    Subtask,
    TaskSpec,
    plain,
)

Exemplars = Sequence[tuple[TaskSpec, Solution]]
BASE, COMPLETION = 'base', 'completion'


@dataclass(frozen=True)
class TriedSolution:
    """
    A solution and what became of it.

    ``origin`` is base or completion; a completion kept ``kept`` subtasks of base ``number``, a
    base has its own number.
    """

    solution: Solution
    execution: Execution
    origin: str = BASE
    number: int = 0
    kept: int = 0


@dataclass(frozen=True)
class PrefixLabel:
    """A prefix with 1 or more subtasks, whether it is good, and its share of successes."""

    key: str
    prefix: Solution
    good: bool
    share: float


def label_prefixes(tried: Sequence[TriedSolution]) -> tuple[PrefixLabel, ...]:
    """Return every prefix of one task's solutions once, shorter ones first, then by key."""
    passed: dict[str, list[bool]] = {}
    shown: dict[str, Solution] = {}
    for solved in tried:
        for length, key in enumerate(prefix_keys(solved.solution), 1):
            passed.setdefault(key, []).append(solved.execution.success)
            shown.setdefault(key, replace(solved.solution,
                                          subtasks=solved.solution.subtasks[:length]))
    labels = [PrefixLabel(key, shown[key], any(ends), sum(ends) / len(ends))
              for key, ends in passed.items()]
    return tuple(sorted(labels, key=lambda label: (len(label.prefix.subtasks), label.key)))


def shortest_success(tried: Sequence[TriedSolution]) -> Solution | None:
    """Return the solution with the fewest subtasks that succeeded, the first of equals."""
    good = [solved.solution for solved in tried if solved.execution.success]
    return min(good, key=lambda solution: len(solution.subtasks), default=None)


def prefix_key(solution: Solution, length: int) -> str:
    """Return the SHA-256 of the scene and the first ``length`` subtasks, 16 hexadecimal digits."""
    parts = [solution.task, plain(solution.scene),
             *(_subtask(subtask) for subtask in solution.subtasks[:length])]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def solution_key(solution: Solution) -> str:
    """Return the key of the whole solution."""
    return prefix_key(solution, len(solution.subtasks))


def prefix_keys(solution: Solution) -> list[str]:
    """Return the keys of the prefixes with 1, 2, … n subtasks."""
    return [prefix_key(solution, length + 1) for length in range(len(solution.subtasks))]


def _subtask(subtask: Subtask) -> list[str]:
    lines = [line.rstrip() for line in subtask.code.strip().splitlines()]
    return [subtask.kind.value, '\n'.join(lines), subtask.action_space.value]


class CompletedBase(str, Enum):
    """Which successful base solutions are completed."""

    FIRST = 'first'
    RANDOM = 'random'
    ALL = 'all'


@dataclass(frozen=True)
class LabelSettings:
    """``bases`` solutions per task, ``completions`` from each prefix, ``exemplars`` per prompt."""

    bases: int = 3
    completions: int = 3
    completed: CompletedBase = CompletedBase.FIRST
    exemplars: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.bases < 1 or self.completions < 0 or self.exemplars < 0 or self.seed < 0:
            raise ConfigError('bases must be at least 1; completions, exemplars and seed 0')


@dataclass(frozen=True)
class LabelledTask:
    """All that was tried for a task; ``malformed`` replies are no solutions."""

    spec: TaskSpec
    tried: tuple[TriedSolution, ...]
    malformed: int = 0


class OnceEach:
    """An executor that runs each solution once; ``known`` are results from before, by key."""

    def __init__(self, executor: SkillExecutor,
                 known: Mapping[str, Execution] | None = None) -> None:
        self._executor = executor
        self.known = dict(known or {})
        self.runs = 0

    def execute(self, spec: TaskSpec, solution: Solution, seed: int) -> Execution:
        """Return the result of a solution."""
        key = run_key(solution, seed)
        if key not in self.known:
            self.runs += 1
            self.known[key] = self._executor.execute(spec, solution, seed)
        return self.known[key]


def run_key(solution: Solution, seed: int) -> str:
    """Return the name of a result: of this solution with this seed."""
    return f'{solution_key(solution)}/{seed}'


def label_task(spec: TaskSpec, policy: SkillPolicy, executor: SkillExecutor,
               exemplars: Exemplars, settings: LabelSettings) -> LabelledTask:
    """Return what Algorithm 1 tries for a task."""
    once = OnceEach(executor)
    tried: list[TriedSolution] = []
    malformed = 0
    for number in range(settings.bases):
        try:
            solution = policy.generate(spec, exemplars, _seed(settings, number, 0, 0))
        except ModelBadReply:
            malformed += 1
            continue
        tried.append(TriedSolution(solution, once.execute(spec, solution, settings.seed), BASE,
                                   number))
    for base, kept, draw in _completions(tried, settings):
        prefix = replace(base.solution, subtasks=base.solution.subtasks[:kept])
        try:
            solution = policy.complete(spec, prefix, exemplars,
                                       _seed(settings, base.number, kept + 1, draw))
        except ModelBadReply:
            malformed += 1
            continue
        tried.append(TriedSolution(solution, once.execute(spec, solution, settings.seed),
                                   COMPLETION, base.number, kept))
    return LabelledTask(spec, tuple(tried), malformed)


def _completions(bases: Sequence[TriedSolution], settings: LabelSettings
                 ) -> Iterator[tuple[TriedSolution, int, int]]:
    """Yield (base, subtasks kept, number of the draw); 0 subtasks keep only the scene."""
    good = [base for base in bases if base.execution.success]
    if settings.completed is CompletedBase.FIRST:
        good = good[:1]
    elif settings.completed is CompletedBase.RANDOM and good:
        rng = np.random.default_rng([settings.seed, len(good)])
        good = [good[int(rng.integers(len(good)))]]
    for base in good:
        for kept in range(len(base.solution.subtasks)):
            for draw in range(settings.completions):
                yield base, kept, draw


def _seed(settings: LabelSettings, number: int, kept: int, draw: int) -> int:
    return ((settings.seed * 1000 + number) * 100 + kept) * 100 + draw
