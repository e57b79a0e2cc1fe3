"""
The exemplar pool: solutions that succeeded, found by the likeness of their tasks.

A pool has at most one solution per task, the one with the fewest subtasks, and never one of a
barred task (a test task). It is one JSON file, replaced whole. Two fixed exemplars, which no
task is like, stand in every prompt of the condition `fixed`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.skills.base import (
    SkillJoint,
    SkillLink,
    SkillObject,
    Solution,
    TaskSpec,
    from_json,
    to_json,
)
from arena_robot.skills.embedding import cosines
from arena_robot.skills.subtask_lines import expand, parse_lines

VERSION = 1
_HATCH = TaskSpec(
    'Unlatch Roof Hatch', 'The arm takes the bar of the roof hatch and swings the hatch outwards.',
    'fixed', (SkillObject('hatch', 'hatch', (
        SkillLink('hatch_frame'), SkillLink('hatch_flap', 'hatch_frame', 'bar')), (
            SkillJoint('hatch_swing', 'hinge', 0.0, 1.2, 'hatch_flap'),)),),
    {'hatch/hatch_swing': 0.0})
_APPLE = TaskSpec(
    'Put Apple on Plate', 'The arm takes the apple and puts it on the plate.', 'fixed',
    (SkillObject('apple', 'fruit', (SkillLink('apple'),)),
     SkillObject('plate', 'dish', (SkillLink('plate'),))), {})
_LINES = (
    (_HATCH, 'reach hatch\ngrasp hatch hatch_flap\njoint hatch hatch_swing upper 0.3\nrelease'),
    (_APPLE, 'reach apple\ngrasp apple\nmove apple plate 0.06\nrelease'))


@dataclass(frozen=True)
class Exemplar:
    """A task with a solution that was executed with success; ``source`` says where and when."""

    spec: TaskSpec
    solution: Solution
    source: str = ''


@dataclass(frozen=True)
class ExemplarPool:
    """Exemplars by task; ``barred`` are names of tasks that may not enter."""

    exemplars: tuple[Exemplar, ...] = ()
    barred: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = [exemplar.spec.name for exemplar in self.exemplars]
        if inside := self.barred & set(names):
            raise DataError(f'tasks kept for tests are in the pool: {", ".join(sorted(inside))}')
        if len(set(names)) < len(names):
            raise DataError('a task is in the pool twice')

    def nearest(self, spec: TaskSpec, count: int) -> list[tuple[Exemplar, float]]:
        """Return the ``count`` exemplars of other tasks most like ``spec``, and their cosines."""
        others = [exemplar for exemplar in self.exemplars if exemplar.spec.name != spec.name]
        like = cosines(words_of(spec), [words_of(exemplar.spec) for exemplar in others])
        order = sorted(range(len(others)), key=lambda k: (-like[k], others[k].spec.name))
        return [(others[k], float(like[k])) for k in order[:count]]

    def grown(self, spec: TaskSpec, solution: Solution, source: str = '') -> 'ExemplarPool':
        """Return the pool with a solution that succeeded; a longer one of a known task is left."""
        if solution.task != spec.name:
            raise DataError(f"the solution is of '{solution.task}', not of '{spec.name}'")
        known = {exemplar.spec.name: exemplar for exemplar in self.exemplars}
        have = known.get(spec.name)
        if have is not None and len(have.solution.subtasks) <= len(solution.subtasks):
            return self
        known[spec.name] = Exemplar(spec, solution, source)
        return replace(self, exemplars=tuple(known.values()))

    def without(self, names: Sequence[str]) -> 'ExemplarPool':
        """Return the pool that bars ``names``, which lose their exemplars."""
        return ExemplarPool(tuple(kept for kept in self.exemplars if kept.spec.name not in names),
                            self.barred | set(names))

    def pairs(self, spec: TaskSpec, count: int) -> list[tuple[TaskSpec, Solution]]:
        """Return what a policy model is given for ``spec``."""
        return [(exemplar.spec, exemplar.solution) for exemplar, _ in self.nearest(spec, count)]


def words_of(spec: TaskSpec) -> str:
    """Return the text by which tasks are compared: name and description."""
    return f'{spec.name}. {spec.description}'


def write_pool(path: Path, pool: ExemplarPool) -> None:
    """Write a pool, whole or not at all."""
    write_json(path, {'version': VERSION, 'barred': sorted(pool.barred), 'exemplars': [
        {'spec': to_json(exemplar.spec), 'solution': to_json(exemplar.solution),
         'source': exemplar.source}
        for exemplar in pool.exemplars]})


def read_pool(path: Path) -> ExemplarPool:
    """Return a pool; ConfigError when there is no such file, DataError when it is no pool."""
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error
    except ValueError as error:
        raise DataError(f'{path} is no exemplar pool: {error}') from error
    try:
        if data['version'] != VERSION:
            raise DataError(f'{path} has version {data["version"]}, this program reads {VERSION}')
        return ExemplarPool(tuple(
            Exemplar(from_json(TaskSpec, row['spec'], f'{path}: exemplar {k}'),
                     from_json(Solution, row['solution'], f'{path}: exemplar {k}'),
                     str(row['source'])) for k, row in enumerate(data['exemplars'])),
            frozenset(data['barred']))
    except (KeyError, TypeError) as error:
        raise DataError(f'{path} is no exemplar pool: {error!r}') from error


def fixed_exemplars() -> tuple[tuple[TaskSpec, Solution], ...]:
    """Return the two exemplars."""
    return tuple((spec, _solution(spec, text)) for spec, text in _LINES)


def _solution(spec: TaskSpec, text: str) -> Solution:
    scene: dict[str, object] = {'objects': [o.name for o in spec.objects],
                                'joints': dict(spec.initial)}
    return Solution(spec.name, scene, tuple(expand(s, spec) for s in parse_lines(text)), 'by hand')
