"""Parameters of arm_node."""

from collections.abc import Sequence
from dataclasses import dataclass

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.table import GRIPPER_MODELS
from arena_robot.nodes.lib.parameters import CommandedParams, Parameters, by_name, param
from arena_robot.robots.arms import DOF, PANDA, RESET_JOINTS, ROBOTS, ArmLimits
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel, prefixed
from arena_robot.safety.limits import limits_for, robot_of

_PANDA = PANDA.limits


@dataclass(frozen=True, kw_only=True)
class ArmParams(CommandedParams):
    """Parameters of every arm_node, independent of the robot."""

    robot_type: str = param('panda', 'which Franka', choices=tuple(sorted(ROBOTS)))
    robot_ip: str = param('172.16.0.2', 'address of the robot, or of the NUC that drives it')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    joint_state_rate: float = param(125.0, 'rate of joint_states', 1.0, 1000.0, unit='Hz')
    arm_state_rate: float = param(
        50.0, 'rate of arm_state and of the topics of franka_robot_state_broadcaster',
        1.0, 200.0, unit='Hz')
    command_timeout: float = param(
        0.5, 'time without a command after which the arm holds', 0.05, 5.0, unit='s')
    max_state_age: float = param(
        0.1, 'age of a reading above which commands are refused', 0.005, 1.0, unit='s')
    reset_joints: tuple[float, ...] = param(
        RESET_JOINTS, "goal of go_home, DROID's by default", unit='rad')
    goal_tolerance: float = param(
        0.03, 'distance at which a motion has reached its goal', 0.001, 0.5, unit='rad')
    base_frame: str = param('', 'frame of poses; empty: <prefix>_<robot_type>_link0')
    ee_frame: str = param(
        '', 'frame whose pose is published and commanded; empty: <prefix>_<robot_type>_link8, the '
        'flange')
    gripper_type: str = param(
        ROBOTIQ_2F85.name, 'the gripper at the flange in the description; empty: none')


@dataclass(frozen=True, kw_only=True)
class LimitParams(Parameters):
    """The parameters ``limits.*`` of arm_node; their defaults are the robot's own limits."""

    joint_lower: tuple[float, ...] = param(
        _PANDA.joint_lower, 'limit: lowest joint positions', unit='rad')
    joint_upper: tuple[float, ...] = param(
        _PANDA.joint_upper, 'limit: highest joint positions', unit='rad')
    velocity: tuple[float, ...] = param(_PANDA.velocity, 'limit: joint speeds', unit='rad/s')
    torque: tuple[float, ...] = param(_PANDA.torque, 'limit: spring torques', unit='N m')
    workspace_lower: tuple[float, ...] = param(
        _PANDA.workspace_lower, "limit: lower corner of the flange's workspace", unit='m')
    workspace_upper: tuple[float, ...] = param(
        _PANDA.workspace_upper, "limit: upper corner of the flange's workspace", unit='m')
    elbow_lower: tuple[float, ...] = param(
        _PANDA.elbow_lower, "limit: lower corner of the elbow's workspace", unit='m')
    elbow_upper: tuple[float, ...] = param(
        _PANDA.elbow_upper, "limit: upper corner of the elbow's workspace", unit='m')
    max_joint_delta: float = param(
        _PANDA.max_joint_delta, 'limit: largest step of an action', unit='rad')
    max_lead: float = param(
        _PANDA.max_lead, 'limit: largest distance of a target from the arm', unit='rad')

    @classmethod
    def of(cls, limits: ArmLimits) -> 'LimitParams':
        """Return the parameters with a robot's limits as their values."""
        return cls(**{name: getattr(limits, name) for name in by_name(cls())})

    def limits(self, robot_type: str) -> ArmLimits:
        """Return the limits of a robot with these values. Raises ConfigError."""
        return limits_for(robot_type, by_name(self))


def gripper_of(params: ArmParams) -> GripperModel | None:
    """Return the gripper of the description, None for none. Raises ConfigError."""
    return GRIPPER_MODELS.find(params.gripper_type) if params.gripper_type else None


def ee_frame_of(params: ArmParams) -> str:
    """
    Return the frame at the arm's end; ConfigError for one that is not at the flange.

    DROID's poses are the flange's, and so is what the safety layer bounds.
    """
    robot = robot_of(params.robot_type)
    flange = f'{robot.arm_name(params.arm_prefix)}_link{DOF + 1}'
    gripper = gripper_of(params)
    known = [flange, *([prefixed(gripper.base_link, params.arm_prefix)] if gripper else [])]
    if params.ee_frame and params.ee_frame not in known:
        raise ConfigError(f"ee_frame '{params.ee_frame}' is not at the flange; it can be "
                          f"{' or '.join(known)}")
    return params.ee_frame or flange


def reset_joints_within(joints: Sequence[float], limits: ArmLimits) -> None:
    """Raise ConfigError unless ``reset_joints`` are seven angles that the limits allow."""
    if len(joints) != DOF:
        raise ConfigError(f'reset_joints needs {DOF} numbers, found {len(joints)}')
    for i, (angle, low, high) in enumerate(
            zip(joints, limits.joint_lower, limits.joint_upper, strict=True), 1):
        if not low <= angle <= high:
            raise ConfigError(f'reset_joints: joint {i} is {angle:g} rad, allowed are {low:g} to '
                              f'{high:g}')
