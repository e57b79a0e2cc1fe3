"""
Whose fault it is that an arm stopped by itself.

A Franka has 41 errors. A policy's targets are within the limits of this package, and the control
process makes a smooth motion of them at 1 kHz. So a policy is the cause of a contact, of a posture
at a limit, and of the forces there. The connection, the motion generator and the vendor's own
motions are the station's. The simulated arm has errors of its own for a contact.
"""

from arena_robot.core.observation import ArmState

SIMULATED = frozenset(f'joint{joint}_collision' for joint in range(1, 8))
BY_MOTION = SIMULATED | frozenset((
    'joint_reflex', 'cartesian_reflex', 'force_control_safety_violation', 'power_limit_violation',
    'tau_j_range_violation', 'instability_detected', 'joint_move_in_wrong_direction',
    'joint_position_limits_violation', 'cartesian_position_limits_violation',
    'self_collision_avoidance_violation', 'joint_velocity_violation',
    'cartesian_velocity_violation', 'joint_motion_generator_position_limits_violation',
    'joint_motion_generator_velocity_limits_violation'))
BY_STATION = frozenset((
    'communication_constraints_violation', 'controller_torque_discontinuity',
    'joint_motion_generator_velocity_discontinuity',
    'joint_motion_generator_acceleration_discontinuity',
    'joint_position_motion_generator_start_pose_invalid', 'max_goal_pose_deviation_violation',
    'max_path_pose_deviation_violation', 'cartesian_velocity_profile_safety_violation',
    'cartesian_position_motion_generator_start_pose_invalid',
    'cartesian_position_motion_generator_invalid_frame',
    'cartesian_motion_generator_elbow_limit_violation',
    'cartesian_motion_generator_elbow_sign_inconsistent',
    'cartesian_motion_generator_start_elbow_invalid',
    'cartesian_motion_generator_velocity_limits_violation',
    'cartesian_motion_generator_velocity_discontinuity',
    'cartesian_motion_generator_acceleration_discontinuity',
    'cartesian_motion_generator_joint_position_limits_violation',
    'cartesian_motion_generator_joint_velocity_limits_violation',
    'cartesian_motion_generator_joint_velocity_discontinuity',
    'cartesian_motion_generator_joint_acceleration_discontinuity',
    'cartesian_spline_motion_generator_violation',
    'force_controller_desired_force_tolerance_violation', 'start_elbow_sign_inconsistent',
    'joint_p2p_insufficient_torque_for_planning',
    'joint_via_motion_generator_planning_joint_limit_violation',
    'base_acceleration_initialization_timeout', 'base_acceleration_invalid_reading'))


def cause(arm: ArmState) -> frozenset[str] | None:
    """Return BY_MOTION or BY_STATION for an arm that must be recovered, None where unknown."""
    said = {name.lower() for error in arm.errors for name in error.replace(',', ' ').split()}
    if not arm.recovery_required:
        return None
    return next((names for names in (BY_MOTION, BY_STATION) if said & names), None)
