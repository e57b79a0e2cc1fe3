"""
DROID's four action spaces as joint targets, by DROID's formulas.

Velocities are fractions in [-1, 1] of the largest motion of one 15 Hz step: 0.2 rad per joint,
0.075 m, 0.15 rad of rotation. A joint target is the measured position plus such a motion: an
offset of the controller's spring, not a speed set point.
"""

from collections.abc import Callable
from enum import Enum

import numpy as np

from arena_robot.core.action import ActionSpace, handled
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import (
    MAX_JOINT_DELTA,
    MAX_LINEAR_DELTA,
    MAX_ROTATION_DELTA,
    ArmLimits,
)
from arena_robot.safety.kinematics import (
    FLANGE,
    frames,
    jacobian,
    joint_step,
    pose_difference,
    pose_of,
)

# Joint target (7,) rad, then the flange motion (6,) asked for and found: empty where nothing had
# to be solved.
Target = tuple[Floats, Floats, Floats]
TargetFunction = Callable[[Floats, Floats, ArmLimits], Target]
_NONE: Floats = np.empty(0)


def joint_velocity_target(velocity: Floats, q: Floats) -> Floats:
    """Return q + 0.2 v (7,) rad; v is scaled as a whole when any |v_i| exceeds 1."""
    largest = float(np.max(np.abs(velocity)))
    return q + MAX_JOINT_DELTA * (velocity / largest if largest > 1.0 else velocity)


def cartesian_motion(velocity: Floats) -> Floats:
    """Return the flange motion (6,) m, rad; linear and angular parts each of norm 1 at most."""
    return np.concatenate([MAX_LINEAR_DELTA * _within_unit(velocity[:3]),
                           MAX_ROTATION_DELTA * _within_unit(velocity[3:])])


def cartesian_position_velocity(target: Floats, pose: Floats) -> Floats:
    """Return the cartesian velocity (6,), not yet normalised, towards a target pose."""
    delta = pose_difference(target, pose)
    out: Floats = delta / np.array([MAX_LINEAR_DELTA] * 3 + [MAX_ROTATION_DELTA] * 3)
    return out


def cartesian_target(velocity: Floats, q: Floats, limits: ArmLimits) -> Target:
    """
    Return the joint target (7,), and the requested and achieved flange motion (6,).

    The joint motion of the IK is treated as a joint velocity, as DROID does.
    """
    jac = jacobian(frames(q))
    asked = cartesian_motion(velocity)
    step = joint_step(asked, q, jac, limits, MAX_JOINT_DELTA)
    return joint_velocity_target(step / MAX_JOINT_DELTA, q), asked, jac @ step


def binarised(position: float) -> float:
    """Return 1 (closed) for ``position > 0.5``, else 0 (open)."""
    return 1.0 if position > 0.5 else 0.0


def target_function(space: ActionSpace) -> TargetFunction:
    """
    Return what turns the arm numbers of an action in ``space`` into a joint target.

    Raises SafetyError for a space that is not in the table: nothing may be sent for it.
    """
    try:
        return TARGETS[space]
    except KeyError:
        name = space.value if isinstance(space, Enum) else space
        raise SafetyError(f"no action space '{name}' is known to "
                          f"safety, only {', '.join(known.value for known in TARGETS)}: "
                          'refused') from None


def _joint_position(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    return np.array(values, dtype=np.float64), _NONE, _NONE


def _joint_velocity(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    return joint_velocity_target(values, q), _NONE, _NONE


def _cartesian_position(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    pose = pose_of(frames(q)[FLANGE])
    return cartesian_target(cartesian_position_velocity(values, pose), q, limits)


TARGETS = handled({
    ActionSpace.JOINT_POSITION: _joint_position,
    ActionSpace.JOINT_VELOCITY: _joint_velocity,
    ActionSpace.CARTESIAN_POSITION: _cartesian_position,
    ActionSpace.CARTESIAN_VELOCITY: cartesian_target,
}, 'safety.action_spaces.TARGETS')


def _within_unit(v: Floats) -> Floats:
    norm = float(np.linalg.norm(v))
    return v / norm if norm > 1.0 else v
