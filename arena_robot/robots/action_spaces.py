"""
DROID's four action spaces, one row each, for an arm of any number of joints; layouts of others.

The last number of every action is the gripper *position* (0 open, 1 closed, binarised at > 0.5);
the others are the arm's joints, or x y z and three fixed-axis angles.
"""

import dataclasses
import math
from dataclasses import dataclass
from enum import Enum

from arena_robot.robots.arms import (
    DOF,
    MAX_JOINT_DELTA,
    MAX_LINEAR_DELTA,
    MAX_ROTATION_DELTA,
)


def joint_numbers(joints: int) -> tuple[str, ...]:
    """Return the names of the numbers of so many joints, ``joint_1`` first."""
    return tuple(f'joint_{i}' for i in range(1, joints + 1))


JOINT_NUMBERS = joint_numbers(DOF)
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

    @property
    def of_joints(self) -> bool:
        """Whether there is one number for each joint."""
        return self.names == JOINT_NUMBERS

    def sized(self, units: tuple[str, ...]) -> 'SpaceRow':
        """Return the row of an arm whose joints have these ``units``, rad or m."""
        if not self.of_joints:
            return self
        count = len(units)
        return dataclasses.replace(
            self, names=joint_numbers(count),
            units=self.units[:1] * count if self.is_velocity else units,
            largest=self.largest[:1] * count, meaning=f'{count}{self.meaning[1:]}')


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

DROID_HZ = 15.0
MIXED = 'rad or m'      # unit of joints of which some turn and some slide


class SliceMeaning(str, Enum):
    """What the numbers of a slice are added to."""

    ABSOLUTE = 'absolute'
    DELTA_STATE = 'delta_state'
    DELTA_TARGET = 'delta_target'
    VELOCITY = 'velocity'


@dataclass(frozen=True)
class Slice:
    """
    ``size`` numbers of an action, in a row.

    ``name`` is what they move: ``part.joint_position``, ``part.flange_position``,
    ``part.flange_rotation`` (fixed-axis roll pitch yaw), or a gripper. The number 1 stands for
    ``one`` of the ``unit``, of a velocity for so much a second; ``frame`` is that of poses.
    """

    name: str
    size: int
    meaning: SliceMeaning = SliceMeaning.ABSOLUTE
    unit: str = ''
    frame: str = ''
    one: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f'size must be 1 or more, found {self.size}')
        if not 0.0 < self.one < math.inf:
            raise ValueError(f'one must be above 0, found {self.one}')


@dataclass(frozen=True)
class ActionLayout:
    """The numbers of an action, ``rate`` times a second (Hz)."""

    slices: tuple[Slice, ...]
    rate: float = DROID_HZ
