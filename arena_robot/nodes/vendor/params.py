"""Parameters of the backends ``ros_control`` and ``ros``: names in another package's graph."""

from dataclasses import dataclass

from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.nodes.remote.transports import TRANSPORTS
from arena_robot.robots.cameras import STYLES

CRISP, JTC = 'crisp', 'joint_trajectory_controller'
COMMAND_TOPICS = {CRISP: 'target_joint', JTC: f'{JTC}/joint_trajectory'}
PARALLEL, SINGLE, TOPIC = 'ParallelGripperCommand', 'GripperCommand', 'topic'


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
