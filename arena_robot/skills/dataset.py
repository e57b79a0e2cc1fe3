"""
The dataset file: a line about how it was made, then a line per task with all that was tried.

Labels are written for readers in other languages and computed again when the file is read. The
file is replaced whole after every batch of tasks, so that a call that was interrupted goes on.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import arena_robot
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_text
from arena_robot.core.parallel import HERE, Workers
from arena_robot.skills.base import (
    Execution,
    SkillExecutor,
    SkillPolicy,
    Solution,
    TaskSpec,
    from_json,
    to_json,
)
from arena_robot.skills.labelling import (
    Exemplars,
    LabelledTask,
    LabelSettings,
    OnceEach,
    TriedSolution,
    label_prefixes,
    label_task,
    shortest_success,
)
from arena_robot.skills.pool import ExemplarPool

VERSION = 1
Progress = Callable[[int, int, str], None]


def nothing(done: int, total: int, label: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Provenance:
    """What made a dataset; a file goes on only with the same."""

    policy: str
    executor: str
    settings: LabelSettings
    batch: int
    tasks: tuple[str, ...]
    exemplars: str = 'pool'
    version: int = VERSION
    package: str = field(default_factory=lambda: arena_robot.__version__)


@dataclass(frozen=True)
class SkillDataset:
    """Labelled tasks in the order of the provenance; fewer while it is being made."""

    provenance: Provenance
    tasks: tuple[LabelledTask, ...] = ()

    def pool(self, start: ExemplarPool | None = None) -> ExemplarPool:
        """Return the pool that grows by the shortest success of every task in order."""
        pool = start or ExemplarPool()
        for task in self.tasks:
            best = shortest_success(task.tried)
            if best is not None and task.spec.name not in pool.barred:
                pool = pool.grown(task.spec, best, f'{best.policy}, executed')
        return pool


@dataclass(frozen=True)
class LabelMakers:
    """
    What a worker process makes for itself: a policy model and an executor.

    ``chosen`` are the exemplars of each task where they do not come from the growing pool;
    ``known`` are results from before by task, see :class:`OnceEach`.
    """

    policy: Callable[[], SkillPolicy]
    executor: Callable[[TaskSpec], SkillExecutor]
    settings: LabelSettings
    chosen: Mapping[str, Exemplars] | None = None
    known: Mapping[str, Mapping[str, Execution]] = field(default_factory=dict)


def make_dataset(path: Path, specs: Sequence[TaskSpec], provenance: Provenance,
                 makers: LabelMakers, start: ExemplarPool | None = None,
                 workers: Workers = HERE, progress: Progress = nothing) -> SkillDataset:
    """
    Return the dataset at ``path``, complete; tasks that are in the file are not run again.

    The pool grows after each batch of tasks, by all that succeeded in it, so results do not depend
    on the workers. ConfigError when the file was made in another way.
    """
    data = SkillDataset(provenance)
    if path.exists():
        data = read_dataset(path)
        if data.provenance != provenance:
            raise ConfigError(f'{path} was made with other tasks or settings; choose another file')
    while len(data.tasks) < len(specs):
        done = len(data.tasks)
        end = done - done % provenance.batch + provenance.batch
        pool = replace(data, tasks=data.tasks[:done - done % provenance.batch]).pool(start)
        items = [_item(makers, spec, pool) for spec in specs[done:end]]
        work = partial(_label, replace(makers, chosen=None, known={}))
        batch = workers.map(work, items, _counted(progress, done, len(specs)))
        data = replace(data, tasks=(*data.tasks, *batch))
        write_dataset(path, data)
    return data


@dataclass(frozen=True)
class _Item:
    spec: TaskSpec
    exemplars: tuple[tuple[TaskSpec, Solution], ...]
    known: Mapping[str, Execution]


def _item(makers: LabelMakers, spec: TaskSpec, pool: ExemplarPool) -> _Item:
    count = makers.settings.exemplars
    chosen = pool.pairs(spec, count) if makers.chosen is None else makers.chosen[spec.name]
    return _Item(spec, tuple(chosen[:count]), makers.known.get(spec.name, {}))


def _counted(progress: Progress, before: int, total: int) -> Callable[[int, LabelledTask], None]:
    return lambda count, task: progress(before + count, total, task.spec.name)


def _label(makers: LabelMakers, item: _Item) -> LabelledTask:
    return label_task(item.spec, makers.policy(), OnceEach(makers.executor(item.spec), item.known),
                      item.exemplars, makers.settings)


def write_dataset(path: Path, data: SkillDataset) -> None:
    """Write a dataset, whole or not at all."""
    lines = [to_json(data.provenance), *(_task_json(task) for task in data.tasks)]
    write_text(path, ''.join(json.dumps(line, ensure_ascii=False) + '\n' for line in lines))


def read_dataset(path: Path) -> SkillDataset:
    """Return a dataset; ConfigError when there is no file, DataError when it is none."""
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error
    try:
        first, *rest = [json.loads(line) for line in lines]
        if first.get('version') != VERSION:
            raise DataError(f'{path} has version {first.get("version")}, this program reads '
                            f'{VERSION}')
        provenance = from_json(Provenance, first, f'{path}: line 1')
        return SkillDataset(provenance, tuple(
            _task(line, f'{path}: line {k}') for k, line in enumerate(rest, 2)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'{path} is no dataset of skills: {error!r}') from error


def _task_json(task: LabelledTask) -> dict[str, Any]:
    return {'spec': to_json(task.spec), 'malformed': task.malformed,
            'tried': [{'solution': to_json(t.solution), 'execution': to_json(t.execution),
                       'origin': t.origin, 'number': t.number, 'kept': t.kept}
                      for t in task.tried],
            'labels': [{'key': p.key, 'subtasks': len(p.prefix.subtasks), 'good': p.good,
                        'share': p.share} for p in label_prefixes(task.tried)]}


def _task(data: Mapping[str, Any], where: str) -> LabelledTask:
    return LabelledTask(from_json(TaskSpec, data['spec'], where), tuple(
        TriedSolution(from_json(Solution, t['solution'], where),
                      from_json(Execution, t['execution'], where), t['origin'], t['number'],
                      t['kept']) for t in data['tried']), data['malformed'])


def counts(tasks: Iterable[LabelledTask]) -> dict[str, float]:
    """Return the paper's numbers of a dataset: solutions and subtasks, and those that succeed."""
    labelled = list(tasks)
    ends = [t.execution.success for task in labelled for t in task.tried]
    marks = [p.good for task in labelled for p in label_prefixes(task.tried)]
    claimed = [t.execution.claimed for task in labelled for t in task.tried]
    return {'tasks': len(labelled), 'solutions': len(ends), 'successful': sum(ends),
            'claimed': sum(claimed), 'malformed': sum(task.malformed for task in labelled),
            'atsr': sum(ends) / max(len(ends), 1), 'subtasks': len(marks),
            'good_subtasks': sum(marks), 'assr': sum(marks) / max(len(marks), 1)}
