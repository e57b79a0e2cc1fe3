"""Which class drives a part, by backend name; a module is imported only when it is chosen."""

import importlib
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError

DRIVERS: dict[str, dict[str, str]] = {
    'arm': {
        'sim': 'arena_robot.drivers.sim.arm:SimArm',
        'replay': 'arena_robot.drivers.replay:ReplayArm',
    },
    'gripper': {
        'sim': 'arena_robot.drivers.sim.gripper:SimGripper',
        'replay': 'arena_robot.drivers.replay:ReplayGripper',
    },
    'camera': {
        'sim': 'arena_robot.drivers.sim.camera:SimCamera',
        'replay': 'arena_robot.drivers.replay:ReplayCamera',
    },
}


def driver(part: str, backend: str) -> type[Any]:
    """
    Return the class behind ``backend`` for ``part`` ('arm', 'gripper' or 'camera').

    Raises ConfigError that names the nearest known word, or what the backend's own library lacks.
    """
    if part not in DRIVERS:
        raise ConfigError(f"no robot part '{part}'.{nearest(part, DRIVERS)}")
    backends = DRIVERS[part]
    if backend not in backends:
        raise ConfigError(f"no {part} backend '{backend}'.{nearest(backend, backends)}")
    module, name = backends[backend].split(':')
    try:
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    except ImportError as error:
        raise ConfigError(f"the {part} backend '{backend}' needs a library that is not "
                          f'installed: {error}') from error
