"""
Tables of driver classes by part and backend, and of grippers, with those of installed packages.

A module is imported only when it is used. The arguments of a driver's constructor are read here
too: a node offers each as a parameter.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table, broken_members
from arena_robot.drivers.base import Arm, Camera, Gripper
from arena_robot.robots.grippers import GRIPPERS, GripperModel

DriverClass = type[Any]     # called with the driver's own arguments

PROTOCOLS: dict[str, type] = {'arm': Arm, 'gripper': Gripper, 'camera': Camera}
SCALARS = (bool, int, float, str)
CLOCK, BACKEND = 'clock', 'backend'
# What a backend begins with that names a robot of LeRobot too; the driver gets the whole name.
LEROBOT = 'lerobot:'


def _checked(part: str, cls: object, backend: str) -> DriverClass:
    what = f"the {part} backend '{backend}'"
    if not inspect.isclass(cls):
        raise ConfigError(f'{what} is not a class, found {cls!r}')
    if broken := broken_members(cls, PROTOCOLS[part]):
        raise ConfigError(f'{what}: {cls.__name__} does not keep the protocol {part.title()} of '
                          f'arena_robot.drivers.base; it lacks {", ".join(broken)}')
    return cls


def _table(part: str, built_in: dict[str, DriverClass | str]) -> Table[DriverClass]:
    return Table(f'{part} backend', f'arena_robot.drivers.{part}', built_in,
                 partial(_checked, part))


DRIVERS: dict[str, Table[DriverClass]] = {
    'arm': _table('arm', {
        'sim': 'arena_robot.drivers.sim.parts:SimArm',
        'replay': 'arena_robot.drivers.replay:ReplayArm',
        'droid_nuc': 'arena_robot.drivers.droid_nuc.arm:DroidNucArm',
        'franka_rs': 'arena_robot.drivers.franka.arm:FrankaRsArm',
        'libfranka': 'arena_robot.drivers.franka.arm:LibfrankaArm',
        'lerobot': 'arena_robot.drivers.lerobot_parts:LeRobotArm',
    }),
    'gripper': _table('gripper', {
        'sim': 'arena_robot.drivers.sim.parts:SimGripper',
        'replay': 'arena_robot.drivers.replay:ReplayGripper',
        'robotiq': 'arena_robot.drivers.robotiq:RobotiqGripper',
        'droid_nuc': 'arena_robot.drivers.droid_nuc.gripper:DroidNucGripper',
        'lerobot': 'arena_robot.drivers.lerobot_parts:LeRobotGripper',
    }),
    'camera': _table('camera', {
        'sim': 'arena_robot.drivers.sim.camera:SimCamera',
        'replay': 'arena_robot.drivers.replay:ReplayCamera',
        'zed': 'arena_robot.drivers.zed:ZedCamera',
        'uvc': 'arena_robot.drivers.uvc:UvcCamera',
        'realsense': 'arena_robot.drivers.realsense:RealsenseCamera',
        'lerobot': 'arena_robot.drivers.lerobot_parts:LeRobotCamera',
    }),
}


def _model(row: object, name: str) -> GripperModel:
    if not isinstance(row, GripperModel):
        raise ConfigError(f"the gripper_type '{name}' is not a GripperModel of "
                          f'arena_robot.robots.grippers, found {row!r:.60}')
    return row


GRIPPER_MODELS: Table[GripperModel] = Table(
    'gripper_type', 'arena_robot.grippers', GRIPPERS, _model)


def driver(part: str, backend: str) -> DriverClass:
    """
    Return the class behind ``backend`` for ``part`` ('arm', 'gripper' or 'camera').

    ``backend`` is a built-in name, one that an installed package adds in the entry point group
    ``arena_robot.drivers.<part>``, ``lerobot:TYPE``, or ``module:Class``. Raises ConfigError that
    names the nearest known word, what cannot be imported, or what the class lacks of the part's
    protocol.
    """
    if part not in DRIVERS:
        raise ConfigError(f"no robot part '{part}'.{nearest(part, DRIVERS)}")
    return DRIVERS[part].find('lerobot' if backend.startswith(LEROBOT) else backend)


def require_part(part: str, instance: object) -> None:
    """Raise ConfigError when a made part lacks attributes that its class could not show."""
    if broken := broken_members(instance, PROTOCOLS[part]):
        raise ConfigError(f'{type(instance).__name__} does not keep the protocol {part.title()} '
                          f'of arena_robot.drivers.base; it lacks {", ".join(broken)}')


@dataclass(frozen=True)
class Argument:
    """An argument; ``default`` is None where it has none, or where None is its default."""

    name: str
    required: bool
    default: Any = None


def arguments(cls: type[Any]) -> tuple[Argument, ...]:
    """
    Return the arguments of a driver's constructor.

    Raises ConfigError for one that a parameter cannot set: ``*args``, ``**kwargs``, an argument
    without a name, and a default that is neither None, a bool, int, float or str, nor a list of
    one of these.
    """
    try:
        known = inspect.signature(cls).parameters
    except ValueError as error:
        raise ConfigError(f'{cls.__name__}: its arguments cannot be read: {error}') from error
    return tuple(_argument(cls, arg) for arg in known.values())


def check_names(cls: type[Any], given: Mapping[str, Any]) -> None:
    """Raise ConfigError for a name that is no argument of ``cls``, with the nearest one."""
    known = [argument.name for argument in arguments(cls)]
    for name in given:
        if name not in known:
            raise ConfigError(f"{cls.__name__} has no parameter '{name}'.{nearest(name, known)}")


def fitted(cls: type[Any], argument: Argument, value: Any) -> Any:
    """
    Return ``value`` as a driver takes it: 1 as 1.0 or '1' and a list as a tuple where meant.

    Raises ConfigError when it has another type than the argument's default.
    """
    if argument.default is None:
        return tuple(value) if isinstance(value, list) else value
    if isinstance(argument.default, tuple):
        items = tuple(value) if isinstance(value, list | tuple) else (value,)
        kinds = {type(item) for item in argument.default}
        return tuple(_scalar(cls, argument.name, kind, item) for item in items
                     for kind in kinds or {type(item)})
    return _scalar(cls, argument.name, type(argument.default), value)


def _argument(cls: type[Any], arg: inspect.Parameter) -> Argument:
    if arg.kind in (arg.VAR_POSITIONAL, arg.VAR_KEYWORD, arg.POSITIONAL_ONLY):
        raise ConfigError(f'{cls.__name__} takes {str(arg).split("=")[0]}, which no parameter '
                          'can set; give each argument of its constructor a name')
    if arg.default is arg.empty:
        return Argument(arg.name, required=True)
    default = tuple(arg.default) if isinstance(arg.default, list) else arg.default
    items = default if isinstance(default, tuple) else (default,)
    alike = len({type(item) for item in items}) <= 1
    if arg.name == CLOCK or default is None or (
            alike and all(type(item) in SCALARS for item in items)):
        return Argument(arg.name, required=False, default=default)
    raise ConfigError(f'{cls.__name__}: {arg.name}={arg.default!r:.60} cannot be a parameter; '
                      'a default is None, a bool, int, float or str, or a list of one of these')


def _scalar(cls: type[Any], name: str, kind: type, value: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) is int:
        return str(value)       # a serial number
    if type(value) is not kind:
        raise ConfigError(f'{cls.__name__}: {name} must be a {kind.__name__}, found '
                          f'{type(value).__name__} {value!r:.60}')
    return value
