"""
The policy model that needs no network: a seeded grammar over the specification.

It believes what the task's words say (`Intent`, not the task's own check) and errs at declared
rates: wrong limit, wrong joint, wrong tolerance, no grasp or the wrong one, wrong order, a name
that does not exist, needless subtasks. From an exemplar it copies with a probability that grows
with the likeness of the tasks. It is no language model, and what it gains from exemplars follows
from these rules.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.skills.base import Solution, TaskSpec
from arena_robot.skills.code_facts import PRIMITIVES, facts_of
from arena_robot.skills.embedding import cosines
from arena_robot.skills.pool import words_of
from arena_robot.skills.subtask_lines import (
    LOWER,
    UPPER,
    PlanStep,
    expand,
    held_link,
)

NAME = 'grammar-1'
GOOD = {UPPER: 0.2, LOWER: 0.1}
NEAR_M, LIFTED_M = 0.06, 0.12
BAD_TOLERANCE = (0.02, 0.6, 0.9)
HALF_TRUST = 0.3     # the likeness at which half of the choices are copied
Grasp = tuple[str, ...] | None
HALF = '0.5'
_UP = ('open', 'unfold', 'raise', 'increase', 'extend', 'lift', 'uncover', 'start', 'up', 'on',
       'pull')
_DOWN = ('close', 'shut', 'press', 'push', 'fold', 'lower', 'decrease', 'stop', 'cover', 'down',
         'off')
_HALF = ('half', 'halfway', 'middle', 'centre', 'center', 'partially', 'partly')
_CARRY = ('put', 'place', 'move', 'bring', 'carry', 'store', 'stack', 'throw', 'insert', 'drop')
_RAISE = ('lift', 'pick', 'raise', 'hold')
_WORD = re.compile(r'[A-Z]?[a-z]+|[A-Z]+(?![a-z])')


@dataclass(frozen=True)
class Intent:
    """
    ``kind`` is joint, move or lift; ``names`` are the words of such a line; ``goal`` of a joint.

    ``verb`` is the word that decided; ``others`` are the joints that were not chosen. ``goal`` is
    empty where the words do not tell.
    """

    kind: str
    names: tuple[str, ...]
    verb: str
    goal: str = ''
    others: tuple[tuple[str, str], ...] = ()


def words(text: str) -> list[str]:
    """Return the words of a text or of a name such as ``TrashCan`` or ``left_knob``."""
    return [word.lower() for word in _WORD.findall(text)]


def intent_of(spec: TaskSpec) -> Intent:
    """Return what the task seems to ask for."""
    tokens = [*words(spec.name), *words(spec.description)]
    joints = [(o.name, j.name) for o in spec.objects for j in o.joints]
    plain = [o.name for o in spec.objects if not o.joints]
    verb = next((w for w in tokens if w in _CARRY + _RAISE), '')
    wanted = [name for name in plain if set(words(name)) & set(tokens)]
    asks_joint = any(set(words(name)) & set(tokens) for name, _ in joints)
    if verb and wanted and not (asks_joint and tokens[0] in _UP + _DOWN):
        order = sorted(wanted, key=lambda name: _first(tokens, name))
        targets = [o.name for o in spec.objects if o.name != order[0]]
        targets.sort(key=lambda name: _first(tokens, name))
        if verb in _CARRY and targets:
            return Intent('move', (order[0], targets[0]), verb)
        return Intent('lift', (order[0],), verb)
    if joints:
        best = max(joints, key=lambda pair: _likeness(spec, pair, tokens))
        word, goal = _direction(tokens)
        return Intent('joint', best, word, goal, tuple(p for p in joints if p != best))
    names = sorted(plain, key=lambda name: _first(tokens, name))
    return Intent('lift', tuple(names[:1]), verb)


def _direction(tokens: list[str]) -> tuple[str, str]:
    if any(word in _HALF for word in tokens):
        return tokens[0], HALF
    for word in (w for w in tokens if w in ('on', 'off', 'up', 'down', 'left', 'right')):
        return f'{tokens[0]} {word}', {'on': UPPER, 'up': UPPER, 'off': LOWER, 'down': LOWER}.get(
            word, '')
    for word in tokens:
        if word in _UP or word in _DOWN:
            return word, UPPER if word in _UP else LOWER
    return tokens[0] if tokens else '', ''


def _likeness(spec: TaskSpec, pair: tuple[str, str], tokens: list[str]) -> int:
    owner = next(o for o in spec.objects if o.name == pair[0])
    joint = next(j for j in owner.joints if j.name == pair[1])
    link = next((k for k in owner.links if k.name == joint.link), None)
    named = [*words(joint.name), *words(joint.link), *(words(link.semantics) if link else [])]
    return 2 * len(set(named) & set(tokens)) + len({*words(owner.name), *words(owner.category)}
                                                 & set(tokens))


def _first(tokens: list[str], name: str) -> int:
    return min((k for k, word in enumerate(tokens) if word in words(name)), default=len(tokens))


@dataclass(frozen=True)
class ErrorRates:
    """How often a choice is wrong, and how many needless subtasks there are on average."""

    direction: float = 0.3
    joint: float = 0.15
    tolerance: float = 0.25
    grasp: float = 0.3
    order: float = 0.1
    naming: float = 0.05
    padding: float = 0.8

    def __post_init__(self) -> None:
        rates = (self.direction, self.joint, self.tolerance, self.grasp, self.order, self.naming)
        if not all(0.0 <= rate <= 1.0 for rate in rates) or not 0.0 <= self.padding <= 4.0:
            raise ConfigError('error rates are from 0 to 1, padding is from 0 to 4')


@dataclass(frozen=True)
class Example:
    """What can be copied from an exemplar; ``weight`` is the likeness of its task."""

    verb: str
    kind: str
    goal: str
    tolerance: float | None
    grasps: str
    subtasks: int
    weight: float


class StructuredGenerator:
    """A policy model without a network; the seed decides everything."""

    def __init__(self, rates: ErrorRates | None = None) -> None:
        self.name = NAME
        self.rates = rates or ErrorRates()

    def generate(self, spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
                 seed: int) -> Solution:
        """Return a solution; never raises ModelBadReply."""
        steps = self.plan(spec, exemplars, _generator(spec, seed, 'whole'))
        return Solution(spec.name, scene_of(spec), tuple(expand(s, spec) for s in steps),
                        self.name)

    def complete(self, spec: TaskSpec, prefix: Solution,
                 exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int,
                 failure: str = '') -> Solution:
        """Return the prefix with what a new plan has after it; words of a failure say nothing."""
        steps = self.plan(spec, exemplars, _generator(spec, seed, 'rest'))
        done = _last_stage(spec, prefix)
        rest = [step for step in steps if _stage(step.verb) > done]
        return replace(prefix, subtasks=(*prefix.subtasks, *(expand(s, spec) for s in rest)),
                       policy=self.name)

    def plan(self, spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
             rng: np.random.Generator) -> list[PlanStep]:
        """Return the steps of one plan."""
        intent = intent_of(spec)
        draw = _Draw(spec, intent, self.rates, examples_of(spec, exemplars), rng)
        main, grasp = draw.main(), draw.grasp()
        steps = [PlanStep('grasp', grasp)] if grasp else []
        steps.append(main)
        if grasp and len(steps) > 1 and rng.random() < self.rates.order:
            steps.reverse()
        if grasp and (intent.kind == 'move' or rng.random() < 0.3):
            steps.append(PlanStep('release'))
        return draw.padded(steps)


class _Draw:
    """The choices of one plan."""

    def __init__(self, spec: TaskSpec, intent: Intent, rates: ErrorRates,
                 examples: Sequence[Example], rng: np.random.Generator) -> None:
        self.spec, self.intent, self.rates, self.rng = spec, intent, rates, rng
        self.example = self._one_of([e for e in examples if e.kind == intent.kind])
        self.names = intent.names

    def main(self) -> PlanStep:
        """Return the subtask that does the task."""
        intent = self.intent
        if intent.kind == 'lift':
            return PlanStep('lift', self._named(intent.names), '', self._amount(LIFTED_M))
        if intent.kind == 'move':
            return PlanStep('move', self._named(intent.names), '', self._amount(NEAR_M))
        if intent.others and self.rng.random() < self.rates.joint:
            self.names = intent.others[int(self.rng.integers(len(intent.others)))]
        goal = self._goal()
        return PlanStep('joint', self._named(self.names), goal,
                        self._amount(GOOD.get(goal, 0.1)))

    def grasp(self) -> Grasp:
        """Return what is grasped first, None for nothing."""
        name, right = self.names[0], self._right()
        wanted = self._copied(lambda e: e.grasps != '')
        if wanted is None:
            wanted = self.intent.kind != 'joint' or self.rng.random() < 0.5
        if self.rng.random() >= self._rate(self.rates.grasp):
            return right if wanted else None
        others: list[Grasp] = [(o.name,) for o in self.spec.objects if o.name != name]
        others += [None if wanted else right, (name,)]
        return others[int(self.rng.integers(len(others)))]

    def padded(self, steps: list[PlanStep]) -> list[PlanStep]:
        """Return the steps with needless ones among them."""
        length = self._copied(lambda e: e.subtasks)
        extra = int(self.rng.poisson(self.rates.padding)) if length is None \
            else max(0, min(length - len(steps), 2))
        for _ in range(min(extra, 4)):
            if self.rng.random() < 0.6:
                steps = [PlanStep('reach', self._right()), *steps]
            else:
                steps = [*steps, PlanStep('release')]
        return steps

    def _right(self) -> tuple[str, ...]:
        if self.intent.kind != 'joint':
            return self.names[:1]
        return (self.names[0], held_link(self.spec, *self.names))

    def _goal(self) -> str:
        copied = self._copied(lambda e: e.goal) if self.example \
            and self.example.verb == self.intent.verb else None
        believed = copied or self.intent.goal or str(self.rng.choice([UPPER, LOWER]))
        if self.rng.random() >= self._rate(self.rates.direction):
            return believed
        return LOWER if believed == UPPER else UPPER

    def _amount(self, good: float) -> float:
        copied = self._copied(lambda e: e.tolerance)
        if copied and copied < 1.0:
            return round(float(copied), 3)
        if self.rng.random() >= self.rates.tolerance:
            return good
        return float(self.rng.choice(BAD_TOLERANCE))

    def _named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if self.rng.random() >= self.rates.naming:
            return names
        return (*names[:-1], f'{names[-1]}_{int(self.rng.integers(9))}')

    def _trust(self) -> float:
        weight = self.example.weight if self.example else 0.0
        return weight / (weight + HALF_TRUST)

    def _rate(self, rate: float) -> float:
        return rate * (1.0 - self._trust())

    def _copied(self, of: Callable[[Example], Any]) -> Any:
        if self.example is None or self.rng.random() >= self._trust():
            return None
        return of(self.example)

    def _one_of(self, examples: Sequence[Example]) -> Example | None:
        weights = np.array([e.weight for e in examples])
        if not len(weights) or weights.sum() <= 0.0:
            return None
        return examples[int(self.rng.choice(len(weights), p=weights / weights.sum()))]


def scene_of(spec: TaskSpec) -> dict[str, object]:
    """Return the scene as the specification has it."""
    return {'objects': [thing.name for thing in spec.objects], 'joints': dict(spec.initial)}


def examples_of(spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]]) -> list[Example]:
    """Return what the code of exemplars shows, with the likeness of their tasks."""
    like = cosines(words_of(spec), [words_of(other) for other, _ in exemplars])
    return [_example(other, solution, max(0.0, float(weight)))
            for (other, solution), weight in zip(exemplars, like, strict=True)]


def _example(spec: TaskSpec, solution: Solution, weight: float) -> Example:
    intent = intent_of(spec)
    facts = [facts_of(subtask, spec.objects) for subtask in solution.subtasks]
    main = next((f for f in facts if f.about in ('joint', 'place')), None)
    before = facts[:facts.index(main)] if main else facts
    grasps = [names for f in before for names in f.names('grasp_object', 'grasp_object_link')]
    goal = main.goal if main and main.goal in (UPPER, LOWER) else ''
    return Example(intent.verb, intent.kind, goal, main.tolerance if main else None,
                   'link' if any(len(n) == 2 for n in grasps) else 'object' if grasps else '',
                   len(facts), weight)


def _stage(verb: str) -> int:
    return {'reach': 0, 'grasp': 1, 'release': 3}.get(verb, 2)


def _last_stage(spec: TaskSpec, prefix: Solution) -> int:
    last = -1
    for facts in (facts_of(subtask, spec.objects) for subtask in prefix.subtasks):
        primitive = next((c for c, _ in facts.calls if c in PRIMITIVES), '')
        if primitive:
            last = max(last, 3 if primitive == 'release_grasp' and last >= 2 else
                       1 if primitive != 'release_grasp' else last)
        else:
            last = max(last, 2 if facts.about in ('joint', 'place') else 0)
    return last


def _generator(spec: TaskSpec, seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, crc32(f'{spec.name}/{purpose}'.encode())])
