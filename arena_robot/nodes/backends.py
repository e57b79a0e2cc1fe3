"""
What stands behind a node: the parameter ``backend``, looked up in drivers/table.py.

A driver's constructor arguments are parameters: those the node has under the same name, and
others as ``<backend>.<argument>``, or ``driver.<argument>`` where the backend is written as
``module:Class``. Only simulation and replay are put together by hand.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_robot.core.camera import CameraInfo
from arena_robot.core.errors import ArenaError, ConfigError
from arena_robot.core.observation import EYES
from arena_robot.drivers.base import Part
from arena_robot.drivers.table import driver, require_part
from arena_robot.nodes.parameters import Param, declare
from arena_robot.nodes.timeline import RosClock, ShiftedTime

if TYPE_CHECKING:
    from arena_robot.nodes.part_node import PartNode

Maker = Callable[[], Part]


def choose(node: 'PartNode', kind: str, backend: str) -> Maker:
    """
    Return what makes the part of ``kind`` ('arm', 'gripper', 'camera') for a backend.

    Declares the backend's own parameters. Raises ConfigError naming the backends there are.
    """
    try:
        found = driver(kind, backend)
    except ConfigError as error:
        raise ConfigError(f'{node.get_fully_qualified_name()}: {error}') from error
    special = {'sim': _simulated, 'replay': _replayed}.get(backend)
    return special(node, kind) if special else _plain(node, kind, found, backend)


def _plain(node: 'PartNode', kind: str, found: type[Any], backend: str) -> Maker:
    """Return a maker that hands parameters to the constructor of ``found`` by name."""
    wanted: dict[str, Any] = {}
    prefix = 'driver' if ':' in backend else backend
    for name, argument in inspect.signature(found).parameters.items():
        if name == 'clock':
            wanted[name] = node.timeline.part
        elif name in node.values:
            wanted[name] = node.values[name]
        elif argument.default is not inspect.Parameter.empty and argument.default is not None:
            param = Param(f'{prefix}.{name}', argument.default, f'{name} of {found.__name__}')
            wanted[name] = declare(node, [param])[param.name]
        elif argument.default is inspect.Parameter.empty:
            raise ConfigError(f'{found.__name__} needs {name}, and {node.get_name()} has no such '
                              'parameter')

    def make() -> Part:
        made: Part = found(**wanted)
        require_part(kind, made)
        return made
    return make


def _replayed(node: 'PartNode', kind: str) -> Maker:
    values = declare(node, [
        Param('replay.folder', '', 'episode folder to play back'),
        Param('replay.focal', 0.414, 'focal length of its cameras, as a share of the width',
              0.05, 5.0)])
    if not values['replay.folder']:
        raise ConfigError(f'{node.get_fully_qualified_name()}: backend replay needs replay.folder')

    def make() -> Part:
        from arena_robot.drivers.recorded import read_recorded
        from arena_robot.drivers.replay import Player
        recorded = read_recorded(values['replay.folder'])
        player = Player(recorded, node.timeline.part)
        if kind != 'camera':
            return driver(kind, 'replay')(player)  # type: ignore[no-any-return]
        role = node.values['role']
        track = recorded.views.get(f'{role}_left') or recorded.views.get(f'{role}_right')
        if track is None:
            raise ArenaError(f"{values['replay.folder']} has no pictures of the {role} camera")
        height, width = track.picture(0).shape[:2]
        info = _pinhole(width, height, values['replay.focal'])
        return driver(kind, 'replay')(  # type: ignore[no-any-return]
            player, role, dict.fromkeys(EYES, info))
    return make


def _pinhole(width: int, height: int, focal: float) -> CameraInfo:
    f = focal * width
    k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
    return CameraInfo(width, height, k, 0.0, '')


def _simulated(node: 'PartNode', kind: str) -> Maker:
    """Return a maker of one simulated part alone, in a world of its own."""
    values = declare(node, [Param('sim.task', 'cube_in_bowl', 'scene of the simulated part')])
    clock = RosClock(node.get_clock(), node.context)
    cameras = (node.values['role'],) if kind == 'camera' else ()

    def make() -> Part:
        from arena_robot.drivers.sim.station import SimStation
        station = SimStation.make(
            values['sim.task'], robot=node.values.get('robot_type', 'panda'), cameras=cameras,
            epoch_ns=clock.now_ns(), command_timeout_s=node.values.get('command_timeout', 0.5))
        timeline = ShiftedTime(station.clock, clock)
        station.world.on_tick.append(timeline.tick)
        node.timeline = timeline
        station.world.start()
        return Alone(station, station.cameras[node.values['role']] if cameras
                     else getattr(station, kind))
    return make


class Alone:
    """One part of a simulated station, which ends with it."""

    def __init__(self, station: Any, part: Any) -> None:
        self._station, self._part = station, part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def close(self) -> None:
        """Close the part and end its world."""
        self._part.close()
        self._station.close()

    def __enter__(self) -> Any:
        self._part.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
