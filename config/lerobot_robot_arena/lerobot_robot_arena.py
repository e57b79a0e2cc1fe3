"""
A station of ours as a robot of LeRobot: simulated in its process, or any that runs, over ROS 2.

``--robot.type=arena_station`` or ``--robot.type=arena_ros_station``. Names and units are those of
the datasets that ``arena episode export --format lerobot`` writes: the state is the seven joints
in rad and the gripper, 0 open to 1 closed; the pictures are the left eyes of the cameras by role.
"""

from abc import abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from arena_robot.core.action import Action, ActionSpace, GripperCommand
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.drivers.guarded import GuardedArm, guarded
from arena_robot.drivers.sim.station import SimStation

FIND_S = 20.0      # until the nodes of a station answer
ANSWER_S = 1.0     # until the arm's node has said what it accepted
MAX_AGE_S = 0.3    # of a state or a picture over ROS


@dataclass(kw_only=True)
class StationConfig:
    """``action_space`` is one of DROID's four; ``roles`` are cameras, ``width`` by ``height``."""

    action_space: str = 'joint_position'
    roles: list[str] = field(default_factory=lambda: ['left', 'wrist'])
    width: int = 320
    height: int = 180


@RobotConfig.register_subclass('arena_station')
@dataclass(kw_only=True)
class ArenaStationConfig(StationConfig, RobotConfig):
    """
    ``task`` is a name of ``arena sim tasks``, ``seed`` chooses its instance.

    ``robot`` is ``panda`` or ``fr3``.
    """

    task: str = 'cube_in_bowl'
    seed: int = 0
    robot: str = 'panda'


@RobotConfig.register_subclass('arena_ros_station')
@dataclass(kw_only=True)
class ArenaRosStationConfig(StationConfig, RobotConfig):
    """``namespace`` is that of the station's nodes, ``topic_style`` the cameras' parameter."""

    namespace: str = ''
    topic_style: str = 'zed5'


class Station(Robot):
    """What both kinds of station share."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.config = config
        self.cameras = dict.fromkeys(config.roles)    # LeRobot's scripts count them
        self._space = ActionSpace(config.action_space)
        self._state = (*ActionSpace.JOINT_POSITION.row.names, 'gripper')

    @property
    def observation_features(self) -> dict[str, Any]:
        """The state's numbers, and the shapes of the pictures."""
        shape = (self.config.height, self.config.width, 3)
        return dict.fromkeys(self._state, float) | dict.fromkeys(self.config.roles, shape)

    @property
    def action_features(self) -> dict[str, type]:
        """The numbers of an action."""
        return dict.fromkeys((*self._space.row.names, 'gripper'), float)

    @property
    def is_calibrated(self) -> bool:
        """A station always is."""
        return True

    def calibrate(self) -> None:
        """Do nothing."""

    def configure(self) -> None:
        """Do nothing."""

    def connect(self, calibrate: bool = True) -> None:
        """Set up the simulation, or find the station's nodes."""
        if self.is_connected:
            raise DeviceAlreadyConnectedError(f'{self} is connected')
        self._open()

    def disconnect(self) -> None:
        """Close the simulation, or let go of the nodes: the arm holds."""
        self._require()
        self._close()

    def get_observation(self) -> dict[str, Any]:
        """Return the state, and the pictures (H, W, 3) by role."""
        self._require()
        numbers, pictures = self._seen()
        return {**{name: float(value) for name, value in zip(self._state, numbers, strict=True)},
                **pictures}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Carry out an action; of joint targets, return those that were accepted."""
        self._require()
        names = list(self.action_features)
        values = np.array([float(action[name]) for name in names])
        accepted = self._act(Action(values, self._space), float(values[-1] > 0.5))
        if self._space is ActionSpace.JOINT_POSITION:
            values = np.append(accepted, values[-1])
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    def _require(self) -> None:
        if not self.is_connected:
            raise DeviceNotConnectedError(f'{self} is not connected')

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def _seen(self) -> tuple[list[float], dict[str, Any]]: ...

    @abstractmethod
    def _act(self, action: Action, closed: float) -> Floats: ...


class ArenaStation(Station):
    """
    A simulated station with a task; ``station`` tells how far it got.

    Each action lasts 1/15 s of the simulation, in which nothing happens while no action comes, and
    passes the safety layer of a station.
    """

    config_class = ArenaStationConfig
    name = 'arena_station'
    station: SimStation | None = None
    _arm: GuardedArm | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the station is set up."""
        return self.station is not None

    def _open(self) -> None:
        config = self.config
        station = SimStation.make(config.task, config.seed, config.robot, eyes=('left',),
                                  cameras=config.roles, size=(config.width, config.height))
        station.open()
        self.station = station
        self._arm = guarded(station.arm, station.robot, station.clock)

    def _close(self) -> None:
        self.station.close()
        self.station = self._arm = None

    def _seen(self) -> tuple[list[float], dict[str, Any]]:
        station = self.station
        return [*station.arm.state().q, station.gripper.state().position], {
            role: camera.frame().left.pixels for role, camera in station.cameras.items()}

    def _act(self, action: Action, closed: float) -> Floats:
        station = self.station
        stamp_ns = station.clock.now_ns()
        safe = self._arm.decide(action, stamp_ns)
        station.gripper.command(GripperCommand(closed, stamp_ns))
        station.step(1.0 / CONTROL_RATE_HZ)
        return safe.q


class ArenaRosStation(Station):
    """
    A station that runs, through the topics of its nodes; rclpy must be where LeRobot is.

    Actions pass the safety layer of arm_node. Cameras are the nodes ``<role>_camera``, which
    publish pictures of the configured size.
    """

    config_class = ArenaRosStationConfig
    name = 'arena_ros_station'
    _stack: ExitStack | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the nodes were found."""
        return self._stack is not None

    def _open(self) -> None:
        from arena_robot.nodes.lib.listener import Listening
        from arena_robot.nodes.lib.spin import Spin
        from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera, RemoteGripper
        config = self.config
        with ExitStack() as stack:
            spin = stack.enter_context(Spin())
            node = Listening('lerobot', namespace=config.namespace, context=spin.context)
            spin.add(node, threads=3)
            self._clock = node.get_clock()
            self._arm = stack.enter_context(RemoteArm(node, timeout_s=FIND_S))
            self._gripper = stack.enter_context(RemoteGripper(node, timeout_s=FIND_S))
            self._eyes = {role: stack.enter_context(RemoteCamera(
                node, f'{role}_camera', FIND_S, config.topic_style, eyes=('left',)))
                for role in config.roles}
            for role, camera in self._eyes.items():
                height, width = camera.wait_frame(FIND_S).left.pixels.shape[:2]
                if (width, height) != (config.width, config.height):
                    raise ConfigError(f'{role}_camera publishes {width}x{height}: set '
                                      f'--robot.width={width} --robot.height={height}')
            self._stack = stack.pop_all()

    def _close(self) -> None:
        stack, self._stack = self._stack, None
        stack.close()

    def _seen(self) -> tuple[list[float], dict[str, Any]]:
        position = self._gripper.state(MAX_AGE_S).position
        return [*self._arm.state(MAX_AGE_S).q, position], {
            role: camera.frame(MAX_AGE_S).left.pixels for role, camera in self._eyes.items()}

    def _act(self, action: Action, closed: float) -> Floats:
        stamp_ns = self._clock.now().nanoseconds
        answer = self._arm.act(action, stamp_ns)
        self._gripper.command(GripperCommand(closed, stamp_ns))
        return answer.result(ANSWER_S).q
