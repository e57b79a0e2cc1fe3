"""The parameters of arm_node."""

from collections.abc import Mapping
from typing import Any

from arena_robot.nodes.parameters import Param
from arena_robot.safety.limits import RESET_JOINTS, ROBOTS, ArmLimits, limits_for

ARM_PARAMS = (
    Param('backend', 'sim', 'driver of the arm: sim, replay, an installed one, module:Class'),
    Param('robot_type', 'panda', 'which Franka', choices=tuple(sorted(ROBOTS))),
    Param('robot_ip', '172.16.0.2', 'address of the robot, or of the NUC that drives it'),
    Param('arm_prefix', '', "what comes before joint and frame names, such as 'left'"),
    Param('use_fake_hardware', False, 'use the backend sim whatever backend says'),
    Param('joint_state_rate', 125.0, 'joint_states (Hz)', 1.0, 1000.0),
    Param('arm_state_rate', 50.0, 'arm_state and the topics of '
          'franka_robot_state_broadcaster (Hz)', 1.0, 200.0),
    Param('command_timeout', 0.5, 'silence (s) after which the arm holds', 0.05, 5.0),
    Param('max_command_age', 0.2, 'age (s) above which a command is refused', 0.01, 5.0),
    Param('max_state_age', 0.1, 'age (s) of a reading above which commands are refused',
          0.005, 1.0),
    Param('reset_joints', list(RESET_JOINTS), "goal of go_home (rad), DROID's by default"),
    Param('goal_tolerance', 0.03, 'distance (rad) at which a motion has arrived', 0.001, 0.5),
    Param('base_frame', '', 'frame of poses; empty: <prefix>_<robot_type>_link0'),
)
_MEANING = {
    'joint_lower': 'lowest joint positions (rad)', 'joint_upper': 'highest joint positions (rad)',
    'velocity': 'joint speeds (rad/s)', 'torque': 'spring torques (N m)',
    'workspace_lower': "lower corner of the flange's box (m)",
    'workspace_upper': "upper corner of the flange's box (m)",
    'elbow_lower': "lower corner of the elbow's box (m)",
    'elbow_upper': "upper corner of the elbow's box (m)",
    'max_joint_delta': 'largest step of an action (rad)',
    'max_lead': 'largest distance of a target from the arm (rad)',
}


def limit_params(robot_type: str) -> tuple[Param, ...]:
    """Return the parameters ``limits.*`` with the robot's own values as defaults."""
    limits = ROBOTS[robot_type]
    out = []
    for name, meaning in _MEANING.items():
        value = getattr(limits, name)
        default = list(value) if isinstance(value, tuple) else value
        out.append(Param(f'limits.{name}', default, f'limit: {meaning}'))
    return tuple(out)


def limits_of(robot_type: str, values: Mapping[str, Any]) -> ArmLimits:
    """Return the limits that ``limits.*`` values describe. Raises ConfigError."""
    changes = {name.removeprefix('limits.'): value for name, value in values.items()}
    return limits_for(robot_type, changes)
