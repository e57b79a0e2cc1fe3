"""The tasks by name, every family with opposite goals; specifications and solutions in files."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
# Of a proposed goal, a share of the range: between those of the table, 0.12 and 0.3.
PROPOSED_TOLERANCE = 0.15
_NAME = re.compile(r'[A-Za-z][A-Za-z0-9 ]{2,59}')    # also a file's name


@dataclass(frozen=True)
class TaskProposal:
    """
    A new task in the scene of the task ``scene``: one joint ends at ``target``.

    ``target`` and ``starts`` (by ``object/joint``) are shares of the joints' ranges; joints that
    are not in ``starts`` start as in the task ``scene``.
    """

    scene: str
    name: str
    description: str
    object: str
    joint: str
    target: float
    starts: Mapping[str, float] = field(default_factory=dict)


def slug(name: str) -> str:
    """Return a task's name as the command line takes it: ``open_drawer``."""
    return '_'.join(name.lower().split())


def find_task(name: str) -> SkillTask:
    """Return a task by name or slug, or of a proposal's file; ConfigError names the nearest."""
    if name.endswith('.json'):
        return proposed_task(from_json(TaskProposal, _read(Path(name)), name))
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


def proposed_task(proposal: TaskProposal) -> SkillTask:
    """Return the task of a proposal; ConfigError says why its scene does not allow it."""
    if proposal.scene not in SKILL_TASKS:
        raise ConfigError(f"no skill task is named '{proposal.scene}'")
    scene, key = SKILL_TASKS[proposal.scene].spec, f'{proposal.object}/{proposal.joint}'
    if not _NAME.fullmatch(proposal.name) or slug(proposal.name) in _BY_SLUG:
        raise ConfigError(f"'{proposal.name}' is the name of another task, or has more than "
                          'letters, digits and spaces')
    if proposal.object not in (names := [thing.name for thing in scene.objects]):
        raise ConfigError(f"the scene has no object '{proposal.object}'; it has "
                          f"{', '.join(names)}")
    for joint, share in ((key, proposal.target), *proposal.starts.items()):
        if joint not in scene.initial:
            raise ConfigError(f"the scene has no joint '{joint}'; it has "
                              f"{', '.join(scene.initial)}")
        if not 0.0 <= share <= 1.0:
            raise ConfigError(f"{share:g} is beyond the limits of '{joint}', 0 to 1 of its range")
    initial = {**scene.initial, **proposal.starts}
    if abs(initial[key] - proposal.target) <= PROPOSED_TOLERANCE:
        raise ConfigError(f"'{key}' starts at {initial[key]:g}, where the goal "
                          f'{proposal.target:g} holds already')
    rows = [(abs(goal.target - proposal.target), number, task)
            for number, task in enumerate(SKILL_TASKS.values()) for goal in task.goals
            if isinstance(goal, JointGoal) and f'{goal.object}/{goal.joint}' == key]
    if not rows:
        raise ConfigError(f"'{key}' does not stay where it is moved: its spring moves it back")
    like = min(rows)[2]
    spec = TaskSpec(proposal.name, proposal.description, like.spec.family, scene.objects, initial)
    goal = JointGoal(proposal.object, proposal.joint, proposal.target, PROPOSED_TOLERANCE)
    return SkillTask(spec, (goal,), {key: like.held[key]},
                     tuple(name for name in initial if name != key), like.grasps)


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
