"""Emulators of the devices that a station file names, for `arena station --emulate`."""

import ipaddress
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.station.files import CAMERA_SUFFIX, driver_params

SCENE = 'cube_in_bowl'
CAMERAS = 'zed', 'uvc'
Section = Mapping[str, Any]


@dataclass(frozen=True)
class EmulatorProcess:
    """An emulator as a process of the station; ``arguments`` begin with what it emulates."""

    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name in messages."""
        return f'emulator {self.arguments[0]}'

    def command(self) -> list[str]:
        """Return the command line."""
        return [sys.executable, '-m', 'arena_robot.cli.main', 'emulate', *self.arguments]


@contextmanager
def emulated(path: Path | None) -> Iterator[list[EmulatorProcess]]:
    """
    Return emulators for a station file, and put stand-ins for its cameras in place; None: none.

    Raises ConfigError for a device that is not on this machine: that could be a real one.
    """
    if path is None:
        yield []
        return
    parts = {str(key).rsplit('/', 1)[-1]: section.get('ros__parameters') or {}
             for key, section in read_yaml(path).items()}
    emulators = [emulator for name, values in parts.items()
                 for emulator in _emulators(name, values)]
    cameras = {name: values for name, values in parts.items()
               if name.endswith(CAMERA_SUFFIX) and values.get('backend') in CAMERAS}
    if not emulators and not cameras:
        raise ConfigError(f'{path} names no device that can be emulated: leave out --emulate')
    before = os.environ.get('PYTHONPATH')
    with tempfile.TemporaryDirectory(prefix='arena-zed-') as folder:
        if _stand_in(Path(folder), cameras):
            os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, (folder, before)))
        try:
            yield list(dict.fromkeys(emulators))
        finally:
            os.environ.pop('PYTHONPATH', None)
            if before is not None:
                os.environ['PYTHONPATH'] = before


def _emulators(name: str, values: Section) -> list[EmulatorProcess]:
    backend = values.get('backend')
    if name == 'arm_node' and backend in ('franka_rs', 'libfranka'):
        host, _, port = str(values.get('robot_ip', '')).partition(':')
        return [EmulatorProcess((
            'fr3', '--host', _here(name, host), '--port', port or '1337', '--robot',
            str(values.get('robot_type', 'panda'))))]
    if name in ('arm_node', 'gripper_node') and backend == 'droid_nuc':
        driver_values = driver_params(values)
        host = str(values.get('robot_ip') or driver_values.get('robot_ip', ''))
        return [EmulatorProcess(('droid-nuc', '--host', _here(name, host), '--port',
                                 str(driver_values.get('port', 4242))))]
    if name == 'gripper_node' and backend == 'robotiq':
        port = str(driver_params(values).get('com_port', ''))
        if not port or port.startswith('/dev/'):
            raise ConfigError(f"{name}: driver.com_port '{port}' could be a real gripper; name a "
                              'link that may be made, such as /tmp/robotiq')
        return [EmulatorProcess(('robotiq', '--link', port, '--activated'))]
    return []


def _here(name: str, host: str) -> str:
    """Return an address of this machine; ConfigError for any other."""
    try:
        mine = ipaddress.ip_address(host).is_loopback
    except ValueError:
        mine = host == 'localhost'
    if not mine:
        raise ConfigError(f"{name}: robot_ip '{host}' could be a real robot; for --emulate it is "
                          '127.0.0.1')
    return host


def _stand_in(folder: Path, cameras: Mapping[str, Section]) -> bool:
    """Make what the cameras read; return whether ``folder`` stands in for the ZED SDK."""
    from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder, make_frames
    from arena_robot.drivers.uvc import eye_size
    zeds = {}
    for name, values in cameras.items():
        seen = EmulatedZed(str(values.get('role', 'left')), SCENE)
        driver_values = driver_params(values)
        if values['backend'] == 'zed':
            zeds[str(values.get('serial_number', ''))] = seen
        elif str(driver_values.get('device', '/dev/')).startswith('/dev/'):
            raise ConfigError(f'{name}: driver.device could be a real camera; name a file that '
                              f'may be written, such as /tmp/arena_uvc/{seen.role}.yuyv')
        else:
            make_frames(Path(driver_values['device']), seen,
                        eye_size(str(driver_values.get('resolution', 'HD720'))))
    if zeds:
        make_folder(folder, zeds)
    return bool(zeds)
