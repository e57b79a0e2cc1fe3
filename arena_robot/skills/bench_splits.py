"""
Splits of labelled tasks into folds, and scores of the solutions that are held out.

task: whole tasks are held out; family: whole families; solution: every second solution of every
task, so that the tasks themselves are known.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.skills.base import Solution, TaskSpec
from arena_robot.skills.identity import solution_key
from arena_robot.skills.labelling import LabelledTask
from arena_robot.skills.labels import BASE
from arena_robot.skills.metrics import TaskScores
from arena_robot.skills.verifier import PrefixScorer, score

TASK, FAMILY, SOLUTION = 'task', 'family', 'solution'
SPLITS = (TASK, FAMILY, SOLUTION)
MALFORMED_SCORE = -1.0


@dataclass(frozen=True)
class Fold:
    """Labelled tasks to train on, and tasks with the base solutions that are held out."""

    train: tuple[LabelledTask, ...]
    test: tuple[LabelledTask, ...]


def groups(specs: Sequence[TaskSpec], split: str, folds: int, seed: int) -> list[set[str]]:
    """Return the names of the test tasks of each fold; every task is in one fold."""
    of = {one.name: one.family if split == FAMILY else one.name for one in specs}
    units = sorted(set(of.values()))
    order = np.random.default_rng([seed, folds, len(units)]).permutation(len(units))
    place = {units[int(k)]: number % folds for number, k in enumerate(order)}
    return [{name for name, unit in of.items() if place[unit] == fold} for fold in range(folds)]


def folds_of(tasks: Sequence[LabelledTask], split: str, folds: int, seed: int) -> Iterator[Fold]:
    """Yield the folds; every base solution is held out once."""
    if split == SOLUTION:
        yield from (_halves(tasks, half) for half in (0, 1))
        return
    for names in groups([one.spec for one in tasks], split, folds, seed):
        yield Fold(tuple(one for one in tasks if one.spec.name not in names),
                   tuple(_bases(one) for one in tasks if one.spec.name in names))


def scored(scorer: PrefixScorer | None, tasks: Sequence[LabelledTask], how: str = 'last',
           bases: int = 0) -> list[TaskScores]:
    """
    Return outcomes and scores of base solutions; equal scores without a scorer.

    Where there are fewer than ``bases``, the rest were malformed replies: failures that are never
    chosen before a solution.
    """
    def of(spec: TaskSpec, solution: Solution) -> float:
        return 0.0 if scorer is None else score(scorer, spec, solution, how)

    return [_scored(one, bases, of) for one in tasks]


def _scored(one: LabelledTask, bases: int, of: Callable[[TaskSpec, Solution], float]
            ) -> TaskScores:
    rows = [t for t in one.tried if t.origin == BASE]
    missing = max(0, bases - len(rows))
    return TaskScores(
        one.spec.name,
        np.array([float(t.execution.success) for t in rows] + [0.0] * missing),
        np.array([of(one.spec, t.solution) for t in rows] + [MALFORMED_SCORE] * missing))


def _bases(one: LabelledTask) -> LabelledTask:
    return replace(one, tried=tuple(t for t in one.tried if t.origin == BASE))


def _halves(tasks: Sequence[LabelledTask], half: int) -> Fold:
    """Return the fold that holds out a half; what is equal to a held out one is not trained on."""
    test = tuple(replace(one, tried=tuple(
        t for t in one.tried if t.origin == BASE and t.number % 2 == half)) for one in tasks)
    train = []
    for one, held in zip(tasks, test, strict=True):
        out = {solution_key(t.solution) for t in held.tried}
        train.append(replace(one, tried=tuple(
            t for t in one.tried if t.number % 2 != half and solution_key(t.solution) not in out)))
    return Fold(tuple(train), test)
