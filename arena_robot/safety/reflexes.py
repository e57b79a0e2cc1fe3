"""
Above what torque and force an arm stops by itself, and whose fault it is.

A Franka has 41 errors. A policy's targets are within the limits of this package, and the control
process makes a smooth motion of them at 1 kHz. So a policy is the cause of a contact, of a posture
at a limit, and of the forces there. The connection, the motion generator and the vendor's own
motions are the station's. The simulated arm has errors of its own for a contact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import ArmState
from arena_robot.robots.arms import DOF, MOST_JOINTS

SIMULATED = frozenset(f'joint{joint}_collision' for joint in range(1, MOST_JOINTS + 1))
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
# The most that can be asked: torque of a joint in N m, force (N) and torque (N m) at the flange.
# DROID's own thresholds are 40 for all of them.
MOST_TORQUE = 100.0
MOST_FORCE = (100.0, 100.0, 100.0, 30.0, 30.0, 30.0)


def cause(arm: ArmState) -> frozenset[str] | None:
    """Return BY_MOTION or BY_STATION for an arm that must be recovered, None where unknown."""
    reported = {name.lower() for error in arm.errors for name in error.replace(',', ' ').split()}
    if not arm.recovery_required:
        return None
    return next((names for names in (BY_MOTION, BY_STATION) if reported & names), None)


@dataclass(frozen=True)
class CollisionThresholds:
    """
    Above ``upper_*`` is a collision, between ``lower_*`` and it a contact.

    ``*_torque`` (n,) N m at the joints; ``*_force`` (6,) at the flange, N and N m. Empty:
    unchanged.
    """

    lower_torque: tuple[float, ...] = ()
    upper_torque: tuple[float, ...] = ()
    lower_force: tuple[float, ...] = ()
    upper_force: tuple[float, ...] = ()

    def checked(self, joints: int = DOF) -> 'CollisionThresholds':
        """Return these thresholds; SafetyError when an arm of n ``joints`` cannot have them."""
        _check('torque', self.lower_torque, self.upper_torque, (MOST_TORQUE,) * joints)
        _check('force', self.lower_force, self.upper_force, MOST_FORCE)
        if not self.upper_torque and not self.upper_force:
            raise SafetyError('no thresholds were given: torque needs '
                              f'{joints} numbers, force {len(MOST_FORCE)}')
        return self


def _check(kind: str, lower: Sequence[float], upper: Sequence[float],
           most: Sequence[float]) -> None:
    if not lower and not upper:
        return
    for name, values in (('lower', lower), ('upper', upper)):
        if len(values) != len(most):
            raise SafetyError(f'{name}_{kind}_thresholds_nominal needs {len(most)} numbers, found '
                              f'{len(values)}')
    for i, (low, high, limit) in enumerate(zip(lower, upper, most, strict=True), 1):
        if not 0.0 < low <= high <= limit:
            raise SafetyError(f'{kind} thresholds, number {i}: found {low:g} and {high:g}; they '
                              f'must be above 0, lower at most upper, upper at most {limit:g}')
