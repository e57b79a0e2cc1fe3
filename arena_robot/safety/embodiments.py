"""
Embodiments: files that say what a robot is, so that an arm is data and no code.

A file ``config/embodiments/NAME.yaml``, or one that another package names in the entry point group
``arena_robot.embodiments``, has arms, grippers, cameras and the layouts of actions. An arm is a
row of ``robots/arms.py``, or a model in MJCF or URDF: :mod:`arena_robot.safety.models`.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.config import build, mistakes, nearest, read_yaml, shipped
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table
from arena_robot.core.observation import ROLES, Floats
from arena_robot.robots.action_spaces import MIXED, ActionLayout, SliceMeaning
from arena_robot.robots.arms import ROBOTS, Robot
from arena_robot.robots.cameras import CameraKind
from arena_robot.robots.grippers import GRIPPERS
from arena_robot.safety.action_spaces import (
    LENGTH,
    OF_JOINTS,
    TURN,
    Hand,
    LayoutDrive,
    layout_drive,
)
from arena_robot.safety.models import ArmPart, arm_row, model_joints, model_path

# What a proposal has beside the arm.
PROPOSED: dict[str, Any] = {
    'grippers': {'gripper': {'type': 'robotiq_2f85'}},
    'cameras': {role: {'kind': 'stereo', 'role': role} for role in ROLES}, 'layouts': {}}


@dataclass(frozen=True)
class GripperPart:
    """
    A gripper: ``type``, a row of this package, or its ``stroke_m``; its number when closed.

    ``joints``: the one or two of the model of ``arm`` (empty: the only one) that are its fingers,
    at ``closed_at`` and ``open_at`` (rad or m, one each), which push with ``effort`` (N m or N).
    ``grasp`` x y z (m) roll pitch yaw (rad) is the point between them in the arm's ``tool``: z
    out of the hand, y towards the first finger. Where the first joint is one of ``arm`` too, this
    is the hand of another arm that is moved with it; the second finger follows the first.
    """

    type: str = ''
    stroke_m: float = 0.0
    closed: float = 1.0
    open: float = 0.0
    arm: str = ''
    joints: tuple[str, ...] = ()
    closed_at: tuple[float, ...] = ()
    open_at: tuple[float, ...] = ()
    effort: float = 0.0
    grasp: tuple[float, ...] = (0.0,) * 6

    def __post_init__(self) -> None:
        if self.type and self.type not in GRIPPERS:
            raise ValueError(f"unknown type '{self.type}'.{nearest(self.type, GRIPPERS)}")
        if not self.type and not self.stroke_m > 0.0:
            raise ValueError('a gripper has a type, or a stroke_m above 0')
        if self.closed == self.open:
            raise ValueError('closed and open must be two different numbers')
        if not self.joints:
            return
        ends = list(zip(self.closed_at, self.open_at, strict=False))
        if self.type or not (len(self.joints) == len(self.closed_at) == len(self.open_at)
                             and len(self.joints) in (1, 2) and all(a != b for a, b in ends)):
            raise ValueError('a gripper of joints has one or two, a number for each in closed_at '
                             'and another in open_at, and no type')
        finite = len(self.grasp) == 6 and all(map(math.isfinite, self.grasp))
        if not (self.effort > 0.0 and finite):
            raise ValueError('a gripper of joints has an effort above 0 (N m or N), and in grasp '
                             '6 numbers: x y z (m) roll pitch yaw (rad)')


@dataclass(frozen=True)
class CameraPart:
    """A camera: what it gives, and its ``role`` of this package's, where it has one."""

    kind: CameraKind = CameraKind.MONO
    role: str = ''

    def __post_init__(self) -> None:
        if self.role and self.role not in ROLES:
            raise ValueError(f"unknown role '{self.role}'.{nearest(self.role, ROLES)}")


@dataclass(frozen=True)
class Embodiment:
    """What a robot is; parts and layouts by name. ``name`` is the robot_type of its arm."""

    name: str
    title: str
    arms: Mapping[str, ArmPart]
    grippers: Mapping[str, GripperPart]
    cameras: Mapping[str, CameraPart]
    layouts: Mapping[str, ActionLayout]


def _file(row: object, name: str) -> Path:
    if not isinstance(row, str | Path):
        raise ConfigError(f"the embodiment '{name}' is not the path of a YAML file, found {row!r}")
    return Path(row)


def _shipped_files() -> dict[str, Path | str]:
    folder = shipped('config/embodiments/droid.yaml').resolve().parent
    return {path.stem: path for path in sorted(folder.glob('*.yaml'))}


EMBODIMENTS: Table[Path] = Table('embodiment', 'arena_robot.embodiments', _shipped_files(), _file)


def path_of(name: str) -> Path:
    """Return the file of an embodiment: a path to a YAML file, or a name. Raises ConfigError."""
    return Path(name) if name.endswith(('.yaml', '.yml')) else EMBODIMENTS.find(name)


def checked(path: Path) -> tuple[Embodiment | None, dict[str, Robot], list[str]]:
    """
    Return a file's embodiment, the rows of its arms by part, and every mistake in it.

    Without a mistake the list is empty; with one there may be no embodiment, or arms are missing.
    """
    try:
        data = read_yaml(path)
    except ConfigError as error:
        return None, {}, [str(error)]
    wrong = mistakes(Embodiment, data, path.name)
    arms: dict[str, Robot] = {}
    for part, values in dict(data.get('arms') or {}).items():
        if isinstance(values, Mapping) and not mistakes(ArmPart, values, part):
            try:
                title = str(data.get('title', part))
                name = str(data.get('name', path.stem))
                arms[part] = arm_row(build(ArmPart, values), path.parent, title,
                                     name if len(data['arms']) == 1 else f'{name}_{part}',
                                     _hand(data.get('grippers')),
                                     _fingers(data.get('grippers'), part))
            except ConfigError as error:
                wrong += [f'{path.name}.arms.{part}: {line}' for line in str(error).splitlines()]
    if wrong:
        return None, arms, wrong
    made = build(Embodiment, data, path.name)
    arms = {part: dataclasses.replace(row, fingers=tuple(
        joint for joint, *_ in _hands(made, part, row).values())) for part, row in arms.items()}
    wrong = [*_finger_mistakes(made, path.parent), *_layout_mistakes(made, arms)]
    return made, arms, [f'{path.name}.{line}' for line in wrong]


def _finger_mistakes(made: Embodiment, folder: Path) -> list[str]:
    out = []
    for name, gripper in made.grippers.items():
        arm = gripper.arm or ' or '.join(made.arms)
        where = f'grippers.{name}:'
        if not gripper.joints:
            continue
        if arm not in made.arms:
            out.append(f'{where} say in arm whose model has its joints, found '
                       f"'{gripper.arm}'.{nearest(arm, made.arms)}")
        elif not made.arms[arm].model:
            out.append(f'{where} the arm {arm} has no model with its joints')
        else:
            known = model_joints(model_path(made.arms[arm].model, folder))
            out += [f"{where} the model of the arm has no joint '{joint}'.{nearest(joint, known)}"
                    for joint in gripper.joints if joint not in known]
            out += [f'{where} {joint} follows {gripper.joints[0]}: leave it out of arms.{arm}'
                    for joint in gripper.joints[1:] if joint in made.arms[arm].joints]
    return out


def _hand(grippers: object) -> tuple[float, float]:
    """Return the capsule of the first gripper that is a row of this package."""
    types = [str(row.get('type')) for row in (
        grippers.values() if isinstance(grippers, Mapping) else ()) if isinstance(row, Mapping)]
    return next((GRIPPERS[name].capsule for name in types if name in GRIPPERS), (0.0, 0.0))


def _fingers(grippers: object, part: str) -> dict[str, float]:
    """Return where the joints of the grippers of the arm ``part`` are open."""
    rows = [build(GripperPart, row) for row in (
        grippers.values() if isinstance(grippers, Mapping) else ())
        if isinstance(row, Mapping) and not mistakes(GripperPart, row, '')]
    return {joint: opened for row in rows if row.arm in ('', part)
            for joint, opened in zip(row.joints, row.open_at, strict=True)}


def _layout_mistakes(made: Embodiment, arms: Mapping[str, Robot]) -> list[str]:
    out = [] if made.arms else ['arms: an embodiment has at least one arm']
    roles = [camera.role for camera in made.cameras.values() if camera.role]
    out += [f"cameras: {roles.count(role)} have the role '{role}'; a role has one camera"
            for role in ROLES if roles.count(role) > 1]
    for name, layout in made.layouts.items():
        if not layout.rate > 0.0:
            out.append(f'layouts.{name}: rate must be above 0, found {layout.rate}')
        for part in layout.slices:
            owner, _, what = part.name.partition('.')
            where = f"layouts.{name}: slice '{part.name}'"
            if owner not in made.arms and what == 'velocity':
                out.append(f'{where} moves a base, and no driver of this package has one')
            elif owner not in {*made.arms, *made.grippers}:
                out.append(f'{where} is of no part.'
                           f'{nearest(owner, [*made.arms, *made.grippers])}')
            size = {'joint_position': arms[owner].joints - sum(
                other.size for other in layout.slices if other is not part
                and (other.name == part.name or other.name in _hands(made, owner, arms[owner]))
            ) if owner in arms else 0,
                    'flange_position': 3, 'flange_rotation': 3, '': 1}.get(what, 0)
            if size not in (0, part.size):
                out.append(f'{where} has size {part.size}, expected {size}')
    return out


def _hands(made: Embodiment, part: str, arm: Robot) -> dict[str, Hand]:
    """Return the grippers whose first finger is a joint of the arm ``part``."""
    return {name: (arm.own_joints.index(hand.joints[0]), hand.closed_at[0], hand.open_at[0])
            for name, hand in made.grippers.items()
            if hand.joints and hand.arm in ('', part) and hand.joints[0] in arm.own_joints}


def drive_of(made: Embodiment, part: str, arm: Robot, layout: str) -> LayoutDrive:
    """Return how the arm ``part`` is driven in a layout; ConfigError says why it cannot be."""
    return layout_drive(made.layouts[layout], part, arm.limits,
                        {name: (grip.open, grip.closed) for name, grip in made.grippers.items()},
                        _hands(made, part, arm))


@cache
def agreed_drive(robot_type: str, layout: str, rate_hz: float) -> LayoutDrive:
    """
    Return how the arm of ``robot_type`` is driven in a policy's ``layout``, ROBOT/NAME.

    Raises ConfigError unless it is a layout of this robot, for a loop of ``rate_hz``.
    """
    robot, _, name = layout.partition('/')
    asked = f"the policy's actions are in the layout '{layout}'"
    if robot_type in ROBOTS:
        raise ConfigError(f'{asked}, and robot_type is {robot_type}, which has none: set it to an '
                          'embodiment whose file has that layout')
    file, _, part = robot_type.partition('#')
    row = arm_of(robot_type)
    made, arms, _ = checked(path_of(file))
    assert made is not None    # or arm_of had raised
    if robot != row.name or name not in made.layouts:
        raise ConfigError(f'{asked}; this arm is {row.name} with the layouts '
                          f"{', '.join(made.layouts) or 'none'}")
    drive = drive_of(made, part or next(iter(arms)), row, name)
    if drive.rate_hz != rate_hz:
        raise ConfigError(f'{asked}, of {drive.rate_hz:g} Hz, and the control loop runs at '
                          f'{rate_hz:g} Hz: set control_rate, or rate in the layout')
    return drive


@cache
def _described(robot: str) -> Embodiment:
    path = path_of(robot)
    return build(Embodiment, read_yaml(path), path.name)


def layout_state(layout: str, q: Floats, gripper: float) -> Floats:
    """
    Return joints (n,) rad, m and a gripper, 0 open to 1 closed, as a ``layout`` has them.

    Only the embodiment's file is read and no model, so that a policy's machine needs none. Raises
    ConfigError unless the joints of the layout are absolute.
    """
    robot, _, name = layout.partition('/')
    made, out = _described(robot), list[Floats]()
    if name not in made.layouts:
        raise ConfigError(f"{robot} has no layout '{name}'.{nearest(name, made.layouts)}")
    units, slices = {**TURN, **LENGTH, MIXED: 1.0}, made.layouts[name].slices
    arm = next((part.name.partition('.')[0] for part in slices if '.' in part.name), '')
    moved = made.arms[arm].joints if arm in made.arms else ()
    fingers = {joint for part in slices if part.name in made.grippers
               for joint in made.grippers[part.name].joints}
    rest = q[[i for i, joint in enumerate(moved) if joint not in fingers]] if moved else q
    for part in slices:
        if part.name in made.grippers:
            hand, share = made.grippers[part.name], gripper
            if hand.joints and hand.joints[0] in moved:
                share = (q[moved.index(hand.joints[0])] - hand.open_at[0]) / (
                    hand.closed_at[0] - hand.open_at[0])
            out.append(np.array([hand.open + share * (hand.closed - hand.open)]) / part.one)
        elif part.name.partition('.')[2] not in OF_JOINTS or part.unit not in units \
                or part.meaning is not SliceMeaning.ABSOLUTE:
            raise ConfigError(f"no state is known in the layout '{layout}': {part.name} is not "
                              f'absolute joints in {", ".join(units)}')
        else:
            out.append(rest[:part.size] / (part.one * units[part.unit]))
            rest = rest[part.size:]
    return np.concatenate(out)


def arm_of(robot_type: str) -> Robot:
    """Return an embodiment's arm, as :func:`part_of`; ConfigError has each mistake of the file."""
    return part_of(robot_type)[1]


@cache
def part_of(robot_type: str) -> tuple[ArmPart, Robot, Path, tuple[GripperPart, ...]]:
    """
    Return the arm ``name``, ``file.yaml`` or ``name#part``, its row and the file's folder.

    Last the grippers whose joints are in the arm's model.
    """
    name, _, part = robot_type.partition('#')
    path = path_of(name)
    made, arms, wrong = checked(path)
    if wrong or made is None:
        raise ConfigError('\n'.join(wrong))
    if part not in arms and (part or len(arms) > 1):
        raise ConfigError(f'{robot_type}: say which arm, as {name}#ARM.{nearest(part, arms)}')
    part = part or next(iter(arms))
    own = tuple(gripper for gripper in made.grippers.values()
                if gripper.joints and gripper.arm in ('', part))
    return made.arms[part], arms[part], path.parent, own


def cameras_of(robot_type: str) -> dict[str, CameraKind]:
    """Return the kinds of an embodiment's cameras by role; DROID's where no camera has a role."""
    made = None if robot_type in ROBOTS else _described(robot_type.partition('#')[0])
    kinds = {part.role: part.kind for part in made.cameras.values() if part.role} if made else {}
    return kinds or dict.fromkeys(ROLES, CameraKind.STEREO)
