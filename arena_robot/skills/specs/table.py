"""The tasks by name, every family with opposite goals; specifications and solutions in files."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json
from arena_robot.skills.base import SkillObject, Solution, TaskSpec, from_json, to_json
from arena_robot.skills.specs import tasks as of
from arena_robot.skills.specs.tasks import (
    OPENING,
    SETTING,
    JointGoal,
    JointRow,
    LiftGoal,
    PlaceGoal,
    PressGoal,
    SkillTask,
    TaskGoal,
)

_REST = 0.5     # where a joint stands that the task is not about


def slug(name: str) -> str:
    """Return a task's name as the command line takes it: ``open_drawer``."""
    return '_'.join(name.lower().split())


def find_task(name: str) -> SkillTask:
    """Return a task by its name or slug; ConfigError names the nearest."""
    task = SKILL_TASKS.get(name) or _BY_SLUG.get(slug(name))
    if task is None:
        near = difflib.get_close_matches(slug(name), _BY_SLUG, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ''
        raise ConfigError(f"no skill task is named '{name}'.{hint} `arena skill spec` lists them")
    return task


def _of_joint(row: JointRow) -> SkillTask:
    others = [joint.name for joint in row.thing.joints if joint.name != row.joint]
    objects = (row.thing, of.CUBE) if others or row.thing is of.DIMMER else (
        row.thing, of.DIMMER, of.CUBE)
    key = f'{row.thing.name}/{row.joint}'
    rest = {f'{thing.name}/{joint.name}': _REST for thing in objects for joint in thing.joints}
    spec = TaskSpec(row.name, row.description, row.family, objects, rest | {key: row.start})
    return SkillTask(spec, (JointGoal(row.thing.name, row.joint, *row.goal),),
                     {key: row.link}, tuple(name for name in rest if name != key), not row.pushed)


def _pressing(name: str, description: str, *buttons: str) -> SkillTask:
    joints = of.DISHWASHER.joints
    initial = {f'Dishwasher/{joint.name}': 1.0 for joint in joints}
    spec = TaskSpec(name, description, 'button', (of.DISHWASHER, of.DIMMER, of.CUBE),
                    initial | {'Dimmer/slide': _REST})
    return SkillTask(spec, tuple(PressGoal('Dishwasher', button) for button in buttons),
                     {f'Dishwasher/{joint.name}': joint.link for joint in joints
                      if joint.name in buttons},
                     ('Dimmer/slide',), grasps=False)


def _carrying(name: str, description: str, *goals: TaskGoal) -> SkillTask:
    objects: tuple[SkillObject, ...] = (of.CUBE, of.LEFT_MARK, of.RIGHT_MARK, of.DIMMER)
    spec = TaskSpec(name, description, 'cube', objects, {'Dimmer/slide': _REST})
    return SkillTask(spec, goals, {}, ('Dimmer/slide',))


_OTHERS = (
    _pressing('Press Start Button', 'The robot arm presses the start button of the dishwasher',
              'start'),
    _pressing('Press Stop Button', 'The robot arm presses the stop button of the dishwasher',
              'stop'),
    _pressing('Press Start and Stop Buttons', 'The robot arm presses the start button of the '
              'dishwasher and then its stop button', 'start', 'stop'),
    _carrying('Lift Cube', 'The robot arm picks the cube up and holds it above the table',
              LiftGoal('Cube')),
    _carrying('Move Cube to Left Mark', 'The robot arm carries the cube to the square on the '
              'left and puts it down there', PlaceGoal('Cube', 'LeftMark')),
    _carrying('Move Cube to Right Mark', 'The robot arm carries the cube to the square on the '
              'right and puts it down there', PlaceGoal('Cube', 'RightMark')),
)
SKILL_TASKS: Mapping[str, SkillTask] = MappingProxyType({
    task.spec.name: task for task in (*map(_of_joint, (*OPENING, *SETTING)), *_OTHERS)})
_BY_SLUG = {slug(name): task for name, task in SKILL_TASKS.items()}


def read_solution(path: Path) -> Solution:
    """Return the solution in a JSON file. Raises DataError."""
    return from_json(Solution, _read(path), str(path))


def write_solution(path: Path, solution: Solution) -> None:
    """Write a solution as a JSON file."""
    write_json(path, to_json(solution))


def _read(path: Path) -> object:
    try:
        data: object = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'cannot read {path}: {error}') from error
    return data
