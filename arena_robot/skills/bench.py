"""
The whole loop on a table of tasks: solutions, labels, pools, verifiers, and what they are worth.

Solutions without exemplars are written and executed first, with completions (Algorithm 1). Then
solutions with two fixed exemplars, and with exemplars of pools that never saw the test task (or
its family). Verifiers are trained on the first ones and choose among those that were held out.
Every stage is a dataset file in the folder, so that an interrupted call goes on.

Splits hold out whole tasks, whole families, or every second solution of every task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.skills.base import Execution, SkillExecutor, SkillPolicy, Solution, TaskSpec
from arena_robot.skills.dataset import (
    LabelMakers,
    Progress,
    Provenance,
    SkillDataset,
    make_dataset,
    nothing,
)
from arena_robot.skills.labelling import (
    BASE,
    CompletedBase,
    Exemplars,
    LabelledTask,
    LabelSettings,
    run_key,
    solution_key,
)
from arena_robot.skills.metrics import TaskScores
from arena_robot.skills.pool import ExemplarPool, fixed_exemplars
from arena_robot.skills.verifier import PrefixScorer, score

BASE_STAGE, FIXED_STAGE, POOL_STAGE, FAMILY_STAGE = 'base', 'fixed', 'pool', 'pool_family'
STAGES = (BASE_STAGE, FIXED_STAGE, POOL_STAGE, FAMILY_STAGE)
TASK, FAMILY, SOLUTION = 'task', 'family', 'solution'
SPLITS = (FAMILY, TASK, SOLUTION)    # the hardest first
MALFORMED_SCORE = -1.0    # below every score, so a malformed answer is chosen last


@dataclass(frozen=True)
class SkillBenchPlan:
    """
    How much is done: solutions per task with and without exemplars, completions from a prefix.

    ``folds`` of tasks or families; ``permutations`` of labels; ``how`` joins prefix scores; a
    ``ridge`` of 0 is chosen by cross-validation over training tasks.
    """

    candidates: int = 8
    with_exemplars: int = 8
    completions: int = 1
    exemplars: int = 2
    folds: int = 4
    permutations: int = 3
    how: str = 'last'
    ridge: float = 0.0
    completed: CompletedBase = CompletedBase.FIRST
    batch: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.candidates, self.with_exemplars, self.folds) < 2 or self.permutations < 1:
            raise ConfigError('a bench needs 2 candidates, 2 folds and 1 permutation or more')


PREFIXES = 3    # a solution's subtasks, roughly: from each one of the first success is completed


def most_solutions(plan: SkillBenchPlan, tasks: int) -> int:
    """Return how many solutions a bench writes at most; equal ones are executed once."""
    return tasks * (plan.candidates + plan.completions * PREFIXES
                    + (len(STAGES) - 1) * plan.with_exemplars)


@dataclass(frozen=True)
class SkillBenchParts:
    """What is compared: a policy model and an executor, each made in the process that uses it."""

    policy_name: str
    executor_name: str
    policy: Callable[[], SkillPolicy]
    executor: Callable[[TaskSpec], SkillExecutor]


Stages = dict[str, SkillDataset]


def run_stages(folder: Path, specs: Sequence[TaskSpec], parts: SkillBenchParts,
               plan: SkillBenchPlan, workers: Workers = HERE, progress: Progress = nothing
               ) -> Stages:
    """Return the datasets of all stages; what is in the folder already is not done again."""
    if len({spec.family for spec in specs}) < plan.folds:
        raise ConfigError(f'{plan.folds} folds need as many families of tasks')
    folder.mkdir(parents=True, exist_ok=True)
    stages: Stages = {}
    for number, stage in enumerate(STAGES):
        done = number * len(specs)

        def show(count: int, _: int, label: str, before: int = done) -> None:
            progress(before + count, len(STAGES) * len(specs), label)

        makers = _makers(stage, specs, parts, plan, stages)
        about = Provenance(parts.policy_name, parts.executor_name, makers.settings, plan.batch,
                           tuple(spec.name for spec in specs), stage)
        stages[stage] = make_dataset(folder / f'{stage}.jsonl', specs, about, makers,
                                     workers=workers, progress=show)
    return stages


def pools(base: SkillDataset, split: str, plan: SkillBenchPlan) -> dict[str, ExemplarPool]:
    """Return for each task a pool of other tasks; its fold, or its fold's families, are barred."""
    specs = [task.spec for task in base.tasks]
    pool_of: dict[str, ExemplarPool] = {}
    for names in groups(specs, split, plan.folds, plan.seed):
        pool = base.pool(ExemplarPool(barred=frozenset(names)))
        pool_of |= dict.fromkeys(names, pool)
    return pool_of


def _makers(stage: str, specs: Sequence[TaskSpec], parts: SkillBenchParts, plan: SkillBenchPlan,
            before: Stages) -> LabelMakers:
    settings = LabelSettings(plan.candidates, plan.completions, plan.completed, 0, plan.seed)
    if stage != BASE_STAGE:
        settings = replace(settings, bases=plan.with_exemplars, completions=0,
                           exemplars=plan.exemplars)
    return LabelMakers(parts.policy, parts.executor, settings,
                       _chosen(stage, specs, plan, before), known_results(before, plan.seed))


def _chosen(stage: str, specs: Sequence[TaskSpec], plan: SkillBenchPlan, before: Stages
            ) -> Mapping[str, Exemplars]:
    if stage == BASE_STAGE:
        return {spec.name: () for spec in specs}
    if stage == FIXED_STAGE:
        return {spec.name: fixed_exemplars() for spec in specs}
    of = pools(before[BASE_STAGE], FAMILY if stage == FAMILY_STAGE else TASK, plan)
    return {spec.name: of[spec.name].pairs(spec, plan.exemplars) for spec in specs}


def known_results(stages: Stages, seed: int) -> dict[str, dict[str, Execution]]:
    """Return the results of all stages by task and solution."""
    results: dict[str, dict[str, Execution]] = {}
    for data in stages.values():
        for task in data.tasks:
            known = results.setdefault(task.spec.name, {})
            known |= {run_key(t.solution, seed): t.execution for t in task.tried}
    return results


@dataclass(frozen=True)
class Fold:
    """Labelled tasks to train on, and tasks with the base solutions that are held out."""

    train: tuple[LabelledTask, ...]
    test: tuple[LabelledTask, ...]


def groups(specs: Sequence[TaskSpec], split: str, folds: int, seed: int) -> list[set[str]]:
    """Return the names of the test tasks of each fold; every task is in one fold."""
    of = {spec.name: spec.family if split == FAMILY else spec.name for spec in specs}
    units = sorted(set(of.values()))
    order = np.random.default_rng([seed, folds, len(units)]).permutation(len(units))
    place = {units[int(k)]: number % folds for number, k in enumerate(order)}
    return [{name for name, unit in of.items() if place[unit] == fold} for fold in range(folds)]


def folds_of(tasks: Sequence[LabelledTask], split: str, folds: int, seed: int) -> Iterator[Fold]:
    """Yield the folds; every base solution is held out once."""
    if split == SOLUTION:
        yield from (_halves(tasks, half) for half in (0, 1))
        return
    for names in groups([task.spec for task in tasks], split, folds, seed):
        yield Fold(tuple(task for task in tasks if task.spec.name not in names),
                   tuple(_bases(task) for task in tasks if task.spec.name in names))


def scored(scorer: PrefixScorer | None, tasks: Sequence[LabelledTask], how: str = 'last',
           bases: int = 0) -> list[TaskScores]:
    """
    Return outcomes and scores of base solutions; equal scores without a scorer.

    Where there are fewer than ``bases``, the rest were malformed replies: failures that are never
    chosen before a solution.
    """
    def of(spec: TaskSpec, solution: Solution) -> float:
        return 0.0 if scorer is None else score(scorer, spec, solution, how)

    return [_scored(task, bases, of) for task in tasks]


def _scored(task: LabelledTask, bases: int, of: Callable[[TaskSpec, Solution], float]
            ) -> TaskScores:
    rows = [t for t in task.tried if t.origin == BASE]
    missing = max(0, bases - len(rows))
    return TaskScores(
        task.spec.name,
        np.array([float(t.execution.success) for t in rows] + [0.0] * missing),
        np.array([of(task.spec, t.solution) for t in rows] + [MALFORMED_SCORE] * missing))


def _bases(task: LabelledTask) -> LabelledTask:
    return replace(task, tried=tuple(t for t in task.tried if t.origin == BASE))


def _halves(tasks: Sequence[LabelledTask], half: int) -> Fold:
    """Return the fold that holds out a half; what is equal to a held out one is not trained on."""
    test = tuple(replace(task, tried=tuple(
        t for t in task.tried if t.origin == BASE and t.number % 2 == half)) for task in tasks)
    train = []
    for task, held_out in zip(tasks, test, strict=True):
        out = {solution_key(t.solution) for t in held_out.tried}
        train.append(replace(task, tried=tuple(
            t for t in task.tried
            if t.number % 2 != half and solution_key(t.solution) not in out)))
    return Fold(tuple(train), test)
