"""
Tables of driver classes by part and backend, and of grippers, with those of installed packages.

A module is imported only when it is used.
"""

import inspect
from functools import partial
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table
from arena_robot.core.protocols import broken_members
from arena_robot.drivers.base import Arm, Camera, Gripper
from arena_robot.robots.grippers import GRIPPERS, GripperModel

DriverClass = type[Any]     # called with the driver's own arguments

PROTOCOLS: dict[str, type] = {'arm': Arm, 'gripper': Gripper, 'camera': Camera}


def _checked(part: str, found: object, backend: str) -> DriverClass:
    what = f"the {part} backend '{backend}'"
    if not inspect.isclass(found):
        raise ConfigError(f'{what} is not a class, found {found!r}')
    if broken := broken_members(found, PROTOCOLS[part]):
        raise ConfigError(f'{what}: {found.__name__} does not keep the protocol {part.title()} of '
                          f'arena_robot.drivers.base; it lacks {", ".join(broken)}')
    return found


def _table(part: str, built_in: dict[str, DriverClass | str]) -> Table[DriverClass]:
    return Table(f'{part} backend', f'arena_robot.drivers.{part}', built_in,
                 partial(_checked, part))


DRIVERS: dict[str, Table[DriverClass]] = {
    'arm': _table('arm', {
        'sim': 'arena_robot.drivers.sim.arm:SimArm',
        'replay': 'arena_robot.drivers.replay:ReplayArm',
        'droid_nuc': 'arena_robot.drivers.droid_nuc.arm:DroidNucArm',
        'franka_rs': 'arena_robot.drivers.franka.arm:FrankaRsArm',
        'libfranka': 'arena_robot.drivers.franka.arm:LibfrankaArm',
    }),
    'gripper': _table('gripper', {
        'sim': 'arena_robot.drivers.sim.gripper:SimGripper',
        'replay': 'arena_robot.drivers.replay:ReplayGripper',
        'robotiq': 'arena_robot.drivers.robotiq.gripper:RobotiqGripper',
        'droid_nuc': 'arena_robot.drivers.droid_nuc.gripper:DroidNucGripper',
    }),
    'camera': _table('camera', {
        'sim': 'arena_robot.drivers.sim.camera:SimCamera',
        'replay': 'arena_robot.drivers.replay:ReplayCamera',
        'zed': 'arena_robot.drivers.zed.camera:ZedCamera',
        'uvc': 'arena_robot.drivers.uvc.camera:UvcCamera',
        'realsense': 'arena_robot.drivers.realsense:RealsenseCamera',
    }),
}


def _model(found: object, name: str) -> GripperModel:
    if not isinstance(found, GripperModel):
        raise ConfigError(f"the gripper_type '{name}' is not a GripperModel of "
                          f'arena_robot.robots.grippers, found {found!r:.60}')
    return found


GRIPPER_MODELS: Table[GripperModel] = Table(
    'gripper_type', 'arena_robot.grippers', GRIPPERS, _model)


def driver(part: str, backend: str) -> DriverClass:
    """
    Return the class behind ``backend`` for ``part`` ('arm', 'gripper' or 'camera').

    ``backend`` is a built-in name, one that an installed package adds in the entry point group
    ``arena_robot.drivers.<part>``, or ``module:Class``. Raises ConfigError that names the nearest
    known word, what cannot be imported, or what the class lacks of the part's protocol.
    """
    if part not in DRIVERS:
        raise ConfigError(f"no robot part '{part}'.{nearest(part, DRIVERS)}")
    return DRIVERS[part].find(backend)


def require_part(part: str, made: object) -> None:
    """Raise ConfigError when a made part lacks attributes that its class could not show."""
    if broken := broken_members(made, PROTOCOLS[part]):
        raise ConfigError(f'{type(made).__name__} does not keep the protocol {part.title()} of '
                          f'arena_robot.drivers.base; it lacks {", ".join(broken)}')
