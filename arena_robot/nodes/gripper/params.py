"""The parameters of gripper_node."""

import dataclasses
from dataclasses import dataclass

from arena_robot.drivers.table import GRIPPER_MODELS
from arena_robot.nodes.gripper.actions import KINDS, SINGLE
from arena_robot.nodes.lib.parameters import CommandedParams, param
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel


@dataclass(frozen=True, kw_only=True)
class GripperParams(CommandedParams):
    """The parameters of gripper_node."""

    gripper_type: str = param(ROBOTIQ_2F85.name, 'which gripper')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    publish_rate: float = param(
        50.0, 'rate of joint_states and gripper_state', 1.0, 500.0, unit='Hz')
    gripper_closed_position: float = param(
        0.0, "finger joint's position when closed; 0: that of gripper_type", 0.0, 3.2, unit='rad')
    speed: float = param(
        0.5, 'closing speed, as a fraction of the largest', 0.0, 1.0, live=True)
    force: float = param(
        0.0, "grip force, as a fraction of the largest; DROID's is 0", 0.0, 1.0, live=True)
    stall_timeout: float = param(
        0.05, 'time without motion that counts as stalled', 0.0, 5.0, unit='s')
    goal_tolerance: float = param(
        0.02, 'distance at which a goal is reached', 0.0, 0.5, unit='rad')
    allow_stalling: bool = param(True, 'a goal that stops at an object is a success')
    goal_timeout: float = param(
        5.0, 'time after which a goal has failed', 0.1, 60.0, unit='s')
    gripper_action: str = param(
        SINGLE, "type of gripper_cmd: Humble's and CRISP's, or that of Jazzy's "
        'parallel_gripper_action_controller, which needs control_msgs', choices=KINDS)
    policy_action_topic: str = param(
        'arm_node/policy_action', "policy actions; their last number is the gripper's position")

    @property
    def model(self) -> GripperModel:
        """The row of ``gripper_type``, with this station's closed position. Raises ConfigError."""
        found = GRIPPER_MODELS.find(self.gripper_type)
        closed_rad = self.gripper_closed_position or found.closed_rad
        return dataclasses.replace(found, closed_rad=closed_rad)
