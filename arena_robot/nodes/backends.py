"""
Drivers of nodes by the parameter ``backend``, from drivers/table.py.

A driver's constructor arguments are parameters: those the node has under the same name, and
others as ``driver.<argument>``. Simulation and replay have their own constructors here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter
from typing_extensions import Self

from arena_robot.core.errors import ArenaError, ConfigError
from arena_robot.drivers.base import AdjustsPicture, Part, Setting
from arena_robot.drivers.table import CLOCK, arguments, driver, require_part
from arena_robot.nodes.lib.parameters import (
    ANY,
    DRIVER,
    Meaning,
    Param,
    Parameters,
    by_name,
    declare,
    declare_one,
    is_set,
    param,
    set_value,
)
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import (
    ArmParams,
    CameraParams,
    GripperParams,
    PartParams,
    RosCameraParams,
    RosControlArmParams,
    RosControlGripperParams,
)
from arena_robot.nodes.lib.timeline import RosClock, ShiftedTime, Timeline
from arena_robot.robots.arms import prefixed
from arena_robot.robots.cameras import STYLE_OF, CameraKind
from arena_robot.safety.limits import robot_of
from arena_robot.safety.reflexes import CollisionThresholds

AnyPartNode = PartNode[PartParams]
Maker = Callable[[], Part]


@dataclass(frozen=True, kw_only=True)
class ReplayBackend(Parameters):
    """The parameters ``replay.*`` of a part with the backend replay."""

    folder: str = param('', 'episode folder to play back')
    focal: float = param(
        0.414, 'focal length of its cameras, as a share of the width', 0.05, 5.0)


@dataclass(frozen=True, kw_only=True)
class SimBackend(Parameters):
    """The parameters ``sim.*`` of a part with the backend sim, alone in a world of its own."""

    task: str = param('cube_in_bowl', 'scene of the simulated part')


def choose(node: AnyPartNode, kind: str, backend: str) -> Maker:
    """
    Return a function that makes the part of ``kind`` ('arm', 'gripper', 'camera') for a backend.

    Declares the backend's own parameters. Raises ConfigError with the available backends.
    """
    if (kind, backend) in OF_OTHER_NODES:
        return OF_OTHER_NODES[kind, backend](node)
    try:
        driver_class = driver(kind, backend)
    except ConfigError as error:
        also = ', '.join(name for part, name in OF_OTHER_NODES if part == kind)
        raise ConfigError(f"{node.get_fully_qualified_name()}: {error} For other packages' "
                          f'nodes: {also}.') from error
    special = {'sim': _simulated, 'replay': _replayed}.get(backend)
    return special(node, kind) if special else _plain(node, kind, driver_class)


def of_other_nodes(kind: str, backend: str) -> bool:
    """Return whether a part stands behind nodes of other packages."""
    return (kind, backend) in OF_OTHER_NODES


def _plain(node: AnyPartNode, kind: str, driver_class: type[Any]) -> Maker:
    """Return a function that calls the constructor of ``found`` with parameters by name."""
    given, wanted = by_name(node.params), dict[str, Any]()
    settings = driver_class.settings() if issubclass(driver_class, AdjustsPicture) else {}
    for argument in arguments(driver_class):
        name = f'{DRIVER}{argument.name}'
        if argument.name == CLOCK:
            wanted[CLOCK] = node.timeline.part
        elif argument.name in given:
            wanted[argument.name] = given[argument.name]
        elif argument.default is not None or is_set(node, name):
            wanted[argument.name] = declare_one(node, Param(
                name, set_value(node, name) if argument.default is None else argument.default,
                _meaning(driver_class, argument.name, settings.get(argument.name))))
        elif argument.required:
            raise ConfigError(f'{driver_class.__name__} needs {argument.name}: set the parameter '
                              f'{name} of {node.get_name()}')

    def make() -> Part:
        made: Part = driver_class(**wanted)
        require_part(kind, made)
        return made

    if settings:
        _adjust(node, tuple(settings), wanted)
    return make


def _meaning(driver_class: type[Any], name: str, setting: Setting | None) -> Meaning:
    if setting is None:
        return Meaning(f'{name} of {driver_class.__name__}')
    return Meaning(setting.description, setting.low, setting.high, setting.unit, live=ANY)


def _adjust(node: AnyPartNode, names: Sequence[str], wanted: dict[str, Any]) -> None:
    """Have the camera take these settings when their parameters change, or refuse the change."""
    def allow(asked: list[Parameter]) -> SetParametersResult:
        changed = {name: p.value for p in asked for name in names if p.name == f'{DRIVER}{name}'}
        new = {name: changed.get(name, wanted[name]) for name in names}
        try:
            if changed and isinstance(node.part, AdjustsPicture):
                node.part.set_picture(new)
        except ArenaError as error:
            return SetParametersResult(successful=False, reason=str(error))
        wanted.update(changed)
        return SetParametersResult(successful=True)
    node.add_on_set_parameters_callback(allow)


def _replayed(node: AnyPartNode, kind: str) -> Maker:
    v = declare(node, ReplayBackend(), 'replay.')
    if not v.folder:
        raise ConfigError(f'{node.get_fully_qualified_name()}: backend replay needs replay.folder')

    def make() -> Part:
        from arena_robot.drivers.replay import open_recorded, replayed
        player = open_recorded(v.folder, node.timeline.part)
        return replayed(kind, player, _role(node) if kind == 'camera' else '', v.focal)
    return make


def _role(node: AnyPartNode) -> str:
    if not isinstance(node.params, CameraParams):
        raise ConfigError(f'{node.get_name()} is no camera: it has no role')
    return node.params.role


def _simulated(node: AnyPartNode, kind: str) -> Maker:
    """Return a function that makes one simulated part in its own world."""
    v = declare(node, SimBackend(), 'sim.')
    clock = RosClock(node.get_clock(), node.context)
    cameras = {}
    if isinstance(node.params, CameraParams):
        cameras[node.params.role] = next((each for each, style in STYLE_OF.items()
                                          if style == node.params.topic_style), CameraKind.STEREO)
    arm = node.params if isinstance(node.params, ArmParams) else ArmParams()

    def make() -> Part:
        from arena_robot.drivers.sim.station import SimStation
        station = SimStation.make(
            v.task, robot=arm.robot_type, cameras=cameras, epoch_ns=clock.now_ns(),
            command_timeout_s=arm.command_timeout)
        timeline = ShiftedTime(station.clock, clock)
        station.world.on_tick.append(timeline.tick)
        station.world.start()
        parts: dict[str, Part] = {'arm': station.arm, 'gripper': station.gripper}
        return Alone({**parts, **station.cameras}[next(iter(cameras), kind)], timeline,
                     station.close)
    return make


def _ros_control_arm(node: AnyPartNode) -> Maker:
    v, arm = declare(node, RosControlArmParams(), 'ros_control.'), node.params
    if not isinstance(arm, ArmParams):
        raise ConfigError(f'{node.get_name()} is no arm')
    robot, prefix, timeout_s = robot_of(arm.robot_type), arm.arm_prefix, arm.command_timeout

    def make() -> Part:
        from arena_robot.nodes.vendor.arm import RosControlArm
        return RosControlArm(node, robot, prefix, node.timeline.part, v, timeout_s)
    return make


def _ros_control_gripper(node: AnyPartNode) -> Maker:
    v, gripper = declare(node, RosControlGripperParams(), 'ros_control.'), node.params
    if not isinstance(gripper, GripperParams):
        raise ConfigError(f'{node.get_name()} is no gripper')
    model = gripper.model
    joint = prefixed(v.joint or model.joint, gripper.arm_prefix)

    def make() -> Part:
        from arena_robot.nodes.vendor.gripper import RosControlGripper
        return RosControlGripper(node, joint, model, node.timeline.part, v)
    return make


def _ros_camera(node: AnyPartNode) -> Maker:
    v = declare(node, RosCameraParams(), 'ros.')
    if not v.node:
        raise ConfigError(f'{node.get_fully_qualified_name()}: backend ros needs ros.node, the '
                          'node whose images are used')
    serial = node.params.serial_number if isinstance(node.params, CameraParams) else ''

    def make() -> Part:
        from arena_robot.nodes.remote.camera import RosCamera
        return RosCamera(node, v, serial)
    return make


# Backends that talk to nodes of other packages, so they cannot be drivers without ROS.
OF_OTHER_NODES: dict[tuple[str, str], Callable[[AnyPartNode], Maker]] = {
    ('arm', 'ros_control'): _ros_control_arm,
    ('gripper', 'ros_control'): _ros_control_gripper,
    ('camera', 'ros'): _ros_camera,
}


class Alone:
    """One part of a simulated station, which is closed with it, and the time that it keeps."""

    def __init__(self, part: Part, timeline: Timeline, end_world: Callable[[], None]) -> None:
        self.timeline = timeline
        self._part = part
        self._end_world = end_world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def open(self) -> None:
        """Open the part."""
        self._part.open()

    def close(self) -> None:
        """Close the part and end its world."""
        self._part.close()
        self._end_world()

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """Set an arm's thresholds; an isinstance check does not see what __getattr__ finds."""
        self._part.set_collision_behavior(thresholds)  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
