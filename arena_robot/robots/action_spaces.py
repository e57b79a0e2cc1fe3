"""
DROID's four action spaces, one row each.

The last number of every action is the gripper *position* (0 open, 1 closed, binarised at > 0.5);
the others are the arm's joints, or x y z and three fixed-axis angles.
"""

import math
from dataclasses import dataclass

from arena_robot.robots.arms import (
    DOF,
    MAX_JOINT_DELTA,
    MAX_LINEAR_DELTA,
    MAX_ROTATION_DELTA,
)

JOINT_NUMBERS = tuple(f'joint_{i}' for i in range(1, DOF + 1))
POSE_NUMBERS = ('x', 'y', 'z', 'roll', 'pitch', 'yaw')
_TURN = 2.0 * math.pi


@dataclass(frozen=True)
class SpaceRow:
    """
    What is known of one action space: its arm numbers, without the gripper's, which comes last.

    ``wire`` is its number in arena_policy.proto. ``names``, ``units`` and ``largest`` hold one
    entry a number; an action is clipped to ± ``largest``. ``meaning`` is for documents and errors.
    """

    wire: int
    names: tuple[str, ...]
    units: tuple[str, ...]
    largest: tuple[float, ...]
    is_velocity: bool
    meaning: str


SPACES = {
    'joint_position': SpaceRow(
        1, JOINT_NUMBERS, ('rad',) * DOF, (_TURN,) * DOF, False, '7 absolute joint angles, rad'),
    'joint_velocity': SpaceRow(
        2, JOINT_NUMBERS, ('',) * DOF, (1.0,) * DOF, True,
        f'7 fractions, -1 to 1; 1 puts the target {MAX_JOINT_DELTA:g} rad ahead of the measured '
        'joint'),
    'cartesian_position': SpaceRow(
        3, POSE_NUMBERS, ('m',) * 3 + ('rad',) * 3, (2.0,) * 3 + (_TURN,) * 3, False,
        'flange pose in the base frame: m, then fixed-axis roll pitch yaw in rad'),
    'cartesian_velocity': SpaceRow(
        4, POSE_NUMBERS, ('',) * 6, (1.0,) * 6, True,
        f'6 fractions, -1 to 1; 1 puts the target {MAX_LINEAR_DELTA:g} m, or '
        f'{MAX_ROTATION_DELTA:g} rad, ahead of the measured pose'),
}
