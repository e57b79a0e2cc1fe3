"""Parameters of the nodes of robot parts: arm, gripper, camera, and parts behind other nodes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.jpeg import QUALITY
from arena_robot.core.observation import ROLES
from arena_robot.drivers.table import GRIPPER_MODELS
from arena_robot.nodes.lib.images import ENCODINGS, TRANSPORTS
from arena_robot.nodes.lib.parameters import (
    ANY,
    DOWN,
    UP,
    Parameters,
    by_name,
    param,
    require_prefix,
)
from arena_robot.robots.arms import PANDA, RESET_JOINTS, ArmLimits, Robot, prefixed
from arena_robot.robots.cameras import STYLES
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel
from arena_robot.safety.limits import limits_for, robot_of
from arena_robot.safety.urdf import CameraMount

_PANDA = PANDA.limits
# What the parameter robot_type says, wherever it is declared.
ROBOT_TYPE = ('which arm: panda, fr3, an embodiment of `arena embodiment list`, or the path of '
              'its YAML file')
CRISP, JTC = 'crisp', 'joint_trajectory_controller'
COMMAND_TOPICS = {CRISP: 'target_joint', JTC: f'{JTC}/joint_trajectory'}
PARALLEL, SINGLE, TOPIC = 'ParallelGripperCommand', 'GripperCommand', 'topic'
MOUNT_SIZE = 6    # x y z roll pitch yaw


@dataclass(frozen=True, kw_only=True)
class PartParams(Parameters):
    """The parameters of every part."""

    autostart: bool = param(
        True, 'configure and activate at start, and again after a failure')
    diagnostic_period: float = param(
        1.0, 'time between two reports on /diagnostics', 0.1, 60.0, unit='s', live=ANY)
    backend: str = param(
        'sim', 'driver of the part: sim, replay, franka_rs, libfranka, robotiq, droid_nuc, an '
        'installed one, module:Class')
    use_fake_hardware: bool = param(False, 'use the backend sim instead of backend')

    def __post_init__(self) -> None:
        require_prefix(str(by_name(self).get('arm_prefix', '')))

    @property
    def chosen_backend(self) -> str:
        """The backend that is used."""
        return 'sim' if self.use_fake_hardware else self.backend


@dataclass(frozen=True, kw_only=True)
class CommandedParams(PartParams):
    """The parameters of parts that move."""

    max_command_age: float = param(
        0.2, 'age above which a command is refused', 0.01, 5.0, unit='s', live=DOWN)
    accept_unstamped: bool = param(
        False, 'accept commands without a stamp too, which a played bag may send')
    publish_tf: bool = param(
        True, 'publish tf and tf_static; false where a robot_state_publisher does')


@dataclass(frozen=True, kw_only=True)
class ArmParams(CommandedParams):
    """Parameters of every arm_node, independent of the robot."""

    robot_type: str = param('panda', ROBOT_TYPE)
    robot_ip: str = param('172.16.0.2', 'address of the robot, or of the NUC that drives it')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    joint_state_rate: float = param(
        125.0, 'rate of joint_states', 1.0, 1000.0, unit='Hz', live=ANY)
    arm_state_rate: float = param(
        50.0, 'rate of arm_state and of the topics of franka_robot_state_broadcaster',
        1.0, 200.0, unit='Hz', live=ANY)
    command_timeout: float = param(
        0.5, 'time without a command after which the arm holds', 0.05, 5.0, unit='s',
        live=DOWN)
    max_state_age: float = param(
        0.1, 'age of a reading above which commands are refused', 0.005, 1.0, unit='s',
        live=DOWN)
    reset_joints: tuple[float, ...] = param(
        RESET_JOINTS, "goal of go_home, DROID's by default; while it is that, an embodiment's own",
        unit='rad')
    goal_tolerance: float = param(
        0.03, 'distance at which a motion has reached its goal', 0.001, 0.5, unit='rad')
    base_frame: str = param('', 'frame of poses; empty: <prefix>_<robot_type>_link0')
    ee_frame: str = param(
        '', 'frame whose pose is published and commanded; empty: <prefix>_<robot_type>_link8, the '
        'flange')
    gripper_type: str = param(
        ROBOTIQ_2F85.name, 'the gripper at the flange in the description; empty: none')

    def __post_init__(self) -> None:
        super().__post_init__()
        robot_of(self.robot_type)

    @property
    def home(self) -> tuple[float, ...]:
        """The goal of go_home."""
        return home_of(robot_of(self.robot_type), self.reset_joints)


@dataclass(frozen=True, kw_only=True)
class LimitParams(Parameters):
    """The parameters ``limits.*`` of arm_node; their defaults are the robot's own limits."""

    joint_lower: tuple[float, ...] = param(
        _PANDA.joint_lower, 'limit: lowest joint positions', unit='rad', live=UP)
    joint_upper: tuple[float, ...] = param(
        _PANDA.joint_upper, 'limit: highest joint positions', unit='rad', live=DOWN)
    velocity: tuple[float, ...] = param(
        _PANDA.velocity, 'limit: joint speeds', unit='rad/s', live=DOWN)
    torque: tuple[float, ...] = param(
        _PANDA.torque, 'limit: spring torques', unit='N m', live=DOWN)
    workspace_lower: tuple[float, ...] = param(
        _PANDA.workspace_lower, "limit: lower corner of the flange's workspace", unit='m',
        live=UP)
    workspace_upper: tuple[float, ...] = param(
        _PANDA.workspace_upper, "limit: upper corner of the flange's workspace", unit='m',
        live=DOWN)
    elbow_lower: tuple[float, ...] = param(
        _PANDA.elbow_lower, "limit: lower corner of the elbow's workspace", unit='m', live=UP)
    elbow_upper: tuple[float, ...] = param(
        _PANDA.elbow_upper, "limit: upper corner of the elbow's workspace", unit='m', live=DOWN)
    max_joint_delta: float = param(
        _PANDA.max_joint_delta, 'limit: largest step of an action', unit='rad', live=DOWN)
    max_lead: float = param(
        _PANDA.max_lead, 'limit: largest distance of a target from the arm', unit='rad', live=DOWN)
    self_distance: float = param(
        _PANDA.self_distance, 'limit: smallest distance between links of an arm whose model has '
        'their shapes; 0: not checked', 0.0, 0.5, unit='m', live=UP)

    @classmethod
    def of(cls, limits: ArmLimits) -> 'LimitParams':
        """Return the parameters with a robot's limits as their values."""
        return cls(**{name: getattr(limits, name) for name in by_name(cls())})

    def limits(self, robot_type: str) -> ArmLimits:
        """Return the limits of a robot with these values. Raises ConfigError."""
        return limits_for(robot_type, by_name(self))


def home_of(robot: Robot, reset_joints: tuple[float, ...]) -> tuple[float, ...]:
    """Return ``reset_joints``, or the robot's own where they are left at DROID's."""
    return robot.reset_joints if reset_joints == RESET_JOINTS else reset_joints


def gripper_of(params: ArmParams) -> GripperModel | None:
    """Return the gripper of the description, None for none. Raises ConfigError."""
    return GRIPPER_MODELS.find(params.gripper_type) if params.gripper_type else None


def ee_frame_of(params: ArmParams) -> str:
    """
    Return the frame at the arm's end; ConfigError for one that is not at the flange.

    DROID's poses are the flange's, and so is what the safety layer bounds.
    """
    robot = robot_of(params.robot_type)
    flange = robot.flange_frame(params.arm_prefix)
    gripper = gripper_of(params)
    known = [flange, *([prefixed(gripper.base_link, params.arm_prefix)] if gripper else [])]
    if params.ee_frame and params.ee_frame not in known:
        raise ConfigError(f"ee_frame '{params.ee_frame}' is not at the flange; it can be "
                          f"{' or '.join(known)}")
    return params.ee_frame or flange


def reset_joints_within(joints: Sequence[float], limits: ArmLimits) -> None:
    """Raise ConfigError unless ``reset_joints`` are joints that the limits allow."""
    if len(joints) != limits.joints:
        raise ConfigError(f'reset_joints needs {limits.joints} numbers, found {len(joints)}')
    for i, (angle, low, high) in enumerate(
            zip(joints, limits.joint_lower, limits.joint_upper, strict=True), 1):
        if not low <= angle <= high:
            raise ConfigError(f'reset_joints: joint {i} is {angle:g} {limits.chain.units[i - 1]}, '
                              f'allowed are {low:g} to {high:g}')


@dataclass(frozen=True, kw_only=True)
class GripperParams(CommandedParams):
    """The parameters of gripper_node."""

    gripper_type: str = param(ROBOTIQ_2F85.name, 'which gripper')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    publish_rate: float = param(
        50.0, 'rate of joint_states and gripper_state', 1.0, 500.0, unit='Hz', live=ANY)
    gripper_closed_position: float = param(
        0.0, "finger joint's position when closed; 0: that of gripper_type", 0.0, 3.2, unit='rad')
    speed: float = param(
        0.5, 'closing speed, as a fraction of the largest', 0.0, 1.0, live=ANY)
    force: float = param(
        0.0, "grip force, as a fraction of the largest; DROID's is 0", 0.0, 1.0, live=ANY)
    stall_timeout: float = param(
        0.05, 'time without motion that counts as stalled', 0.0, 5.0, unit='s')
    goal_tolerance: float = param(
        0.02, 'distance at which a goal is reached', 0.0, 0.5, unit='rad')
    allow_stalling: bool = param(True, 'a goal that stops at an object is a success')
    goal_timeout: float = param(
        5.0, 'time after which a goal has failed', 0.1, 60.0, unit='s')
    gripper_action: str = param(
        SINGLE, "type of gripper_cmd: Humble's and CRISP's, or that of Jazzy's "
        'parallel_gripper_action_controller, which needs control_msgs', choices=(SINGLE, PARALLEL))
    policy_action_topic: str = param(
        'arm_node/policy_action', "policy actions; their last number is the gripper's position")

    @property
    def model(self) -> GripperModel:
        """The row of ``gripper_type``, with this station's closed position. Raises ConfigError."""
        row = GRIPPER_MODELS.find(self.gripper_type)
        closed_rad = self.gripper_closed_position or row.closed_rad
        return dataclasses.replace(row, closed_rad=closed_rad)


@dataclass(frozen=True, kw_only=True)
class CameraParams(PartParams):
    """The parameters of camera_node."""

    role: str = param('left', 'position of the camera', choices=ROLES)
    serial_number: str = param('', 'serial number that the camera must have; empty: any')
    camera_name: str = param('', 'prefix of frame names; empty: the role')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    extrinsics: tuple[float, ...] = param(
        (), "pose of the left eye's optical frame in extrinsics_frame: x y z (m) roll pitch yaw "
        "(rad); empty: unknown, or the simulation's")
    extrinsics_frame: str = param(
        '', f'frame that the camera is fixed to, such as {PANDA.base_frame()}, or '
        f'{PANDA.flange_frame()} on the wrist')
    publish_tf: bool = param(
        True, "publish the camera's frames on tf_static; false where another node does")
    pub_frame_rate: float = param(
        15.0, 'frames published', 0.1, 120.0, unit='Hz', live=ANY)
    width: int = param(0, 'published width; 0: size of the camera', 0, 4096, unit='px')
    height: int = param(0, 'published height; 0: size of the camera', 0, 4096, unit='px')
    encoding: str = param('rgb8', 'pixel format', choices=tuple(ENCODINGS))
    jpeg_quality: int = param(
        QUALITY, 'quality of …/compressed, encoded only while it has subscribers', 1, 100,
        live=ANY)
    topic_style: str = param(
        'zed5', 'topic names: of a ZED wrapper version, generic, mono: a camera with one eye, or '
        'realsense: one eye and its depth',
        choices=tuple(STYLES))
    capture_latency_ms: float = param(
        41.0, "stamp minus true exposure, published in diagnostics; DROID's for ZED",
        0.0, 1000.0, unit='ms')

    @property
    def frame_name(self) -> str:
        """What the names of the camera's frames begin with."""
        name = self.camera_name or self.role
        return f'{self.arm_prefix}_{name}' if self.arm_prefix else name

    @property
    def mount(self) -> CameraMount | None:
        """Where the camera is; None where ``extrinsics`` is empty. Raises ConfigError."""
        if not self.extrinsics:
            return None
        if len(self.extrinsics) != MOUNT_SIZE or not np.all(np.isfinite(self.extrinsics)):
            raise ConfigError(f'extrinsics needs {MOUNT_SIZE} finite numbers, x y z roll pitch '
                              f'yaw; found {list(self.extrinsics)}')
        if not self.extrinsics_frame:
            raise ConfigError('extrinsics needs extrinsics_frame: the frame that the camera is '
                              f'fixed to, such as {PANDA.base_frame()}')
        return CameraMount(self.extrinsics_frame, self.extrinsics)


@dataclass(frozen=True, kw_only=True)
class RosControlArmParams(Parameters):
    """The parameters ``ros_control.*`` of an arm_node."""

    joint_states: str = param('joint_states', 'topic with the joint states of the arm')
    controller: str = param(
        CRISP, 'kind of the controller that takes the targets', choices=(CRISP, JTC))
    command_topic: str = param(
        '', 'topic of the targets; empty: target_joint of CRISP, or '
        'joint_trajectory_controller/joint_trajectory')
    robot_description: str = param(
        'robot_description', 'topic with the URDF that the controllers use: an arm that is not of '
        'robot_type is refused; empty: only the names of its joints are compared')
    broadcaster: str = param(
        '', 'name of a franka_robot_state_broadcaster: external torques and, with franka_msgs, '
        'mode and errors; empty: none')
    error_recovery: str = param(
        'action_server/error_recovery', "franka_ros2's action, used with franka_msgs")
    open_timeout: float = param(
        5.0, 'time to find the topics', 0.1, 60.0, unit='s')


@dataclass(frozen=True, kw_only=True)
class RosControlGripperParams(Parameters):
    """The parameters ``ros_control.*`` of a gripper_node."""

    joint_states: str = param('joint_states', "topic with the finger joint's state")
    joint: str = param(
        '', 'the finger joint, 0 open, without arm_prefix; empty: that of gripper_type')
    command: str = param(
        PARALLEL, 'what takes the positions: an action of control_msgs, or the Float64MultiArray '
        'topic of a position controller, in rad', choices=(PARALLEL, SINGLE, TOPIC))
    name: str = param(
        'robotiq_gripper_controller/gripper_cmd', 'name of that action or topic')
    reactivate: str = param(
        'robotiq_activation_controller/reactivate_gripper',
        'Trigger service that activates the gripper; empty: none')
    open_timeout: float = param(
        5.0, 'time to find the topics', 0.1, 60.0, unit='s')


@dataclass(frozen=True, kw_only=True)
class RosCameraParams(Parameters):
    """The parameters ``ros.*`` of a camera_node."""

    node: str = param('', 'node whose images are used, such as zed/zed_node')
    topic_style: str = param(
        'zed5', 'names of its topics', choices=tuple(STYLES))
    transport: str = param('raw', 'how its images are sent', choices=tuple(TRANSPORTS))
    open_timeout: float = param(5.0, 'time to find the topics', 0.1, 60.0, unit='s')
