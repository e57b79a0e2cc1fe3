"""
Actions: a policy's request, and the command that was sent.

DROID's four action spaces, one row of a table each. The last number of every action is the gripper
*position* (0 open, 1 closed, binarised at > 0.5); the others are seven joints, or x y z and three
fixed-axis angles.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import DOF, Floats

Entry = TypeVar('Entry')

JOINT_NUMBERS = tuple(f'joint_{i}' for i in range(1, DOF + 1))
POSE_NUMBERS = ('x', 'y', 'z', 'roll', 'pitch', 'yaw')
_TURN = 2.0 * math.pi


class ActionSpace(str, Enum):
    """Meaning of an action's numbers; everything known about a space is in its row of SPACES."""

    JOINT_POSITION = 'joint_position'
    JOINT_VELOCITY = 'joint_velocity'
    CARTESIAN_POSITION = 'cartesian_position'
    CARTESIAN_VELOCITY = 'cartesian_velocity'

    @property
    def row(self) -> 'SpaceRow':
        """What is known of this space: its row of SPACES."""
        return SPACES[self]

    @property
    def size(self) -> int:
        """Length of an action: the arm's numbers and the gripper's."""
        return len(SPACES[self].names) + 1

    @property
    def is_velocity(self) -> bool:
        """Whether the arm's numbers are velocities in [-1, 1]."""
        return SPACES[self].is_velocity


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


def handled(table: Mapping[ActionSpace, Entry], where: str) -> Mapping[ActionSpace, Entry]:
    """
    Return ``table``, which must have an entry for every action space.

    Called where a table is defined, so a module whose table lacks a space cannot be imported.
    Raises NotImplementedError.
    """
    missing = ', '.join(space.value for space in ActionSpace if space not in table)
    if missing:
        raise NotImplementedError(f'{where} does not handle the action space {missing}: add an '
                                  'entry for it')
    return table


# What DROID's velocity actions of 1 add to the measured joint (rad) or flange (m, rad).
MAX_JOINT_DELTA, MAX_LINEAR_DELTA, MAX_ROTATION_DELTA = 0.2, 0.075, 0.15

SPACES = handled({
    ActionSpace.JOINT_POSITION: SpaceRow(
        1, JOINT_NUMBERS, ('rad',) * DOF, (_TURN,) * DOF, False, '7 absolute joint angles, rad'),
    ActionSpace.JOINT_VELOCITY: SpaceRow(
        2, JOINT_NUMBERS, ('',) * DOF, (1.0,) * DOF, True,
        f'7 fractions, -1 to 1; 1 puts the target {MAX_JOINT_DELTA:g} rad ahead of the measured '
        'joint'),
    ActionSpace.CARTESIAN_POSITION: SpaceRow(
        3, POSE_NUMBERS, ('m',) * 3 + ('rad',) * 3, (2.0,) * 3 + (_TURN,) * 3, False,
        'flange pose in the base frame: m, then fixed-axis roll pitch yaw in rad'),
    ActionSpace.CARTESIAN_VELOCITY: SpaceRow(
        4, POSE_NUMBERS, ('',) * 6, (1.0,) * 6, True,
        f'6 fractions, -1 to 1; 1 puts the target {MAX_LINEAR_DELTA:g} m, or '
        f'{MAX_ROTATION_DELTA:g} rad, ahead of the measured pose'),
}, 'core.action.SPACES')


@dataclass(frozen=True)
class Action:
    """One control step's request: ``values`` (size,) in ``space``."""

    values: Floats
    space: ActionSpace


@dataclass(frozen=True)
class Chunk:
    """
    The N actions of one inference: ``actions`` (N, size) float32 in ``space``.

    The next four say how it is executed, from a relay, which keeps them out of the spec; 0 and
    False: as the spec says. ``observation_sha256`` is of the observation that was sent for it; ''
    when none was sent.
    """

    actions: NDArray[np.float32]
    space: ActionSpace
    inference_s: float = 0.0
    open_loop_horizon: int = 0
    blend_steps: int = 0
    pipelined: bool = False
    real_time_chunking: bool = False
    observation_sha256: str = ''

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class ArmCommand:
    """A joint target: ``q`` (7,) rad, made at ``stamp_ns``."""

    q: Floats
    stamp_ns: int


@dataclass(frozen=True)
class GripperCommand:
    """A gripper target: ``position`` 0 open to 1 closed; speed and force as fractions 0 to 1."""

    position: float
    stamp_ns: int
    speed: float = 0.5
    force: float = 0.0


class ClampReason(str, Enum):
    """Why the command differs from the request."""

    ACTION_RANGE = 'action_range'
    STEP_LIMIT = 'step_limit'
    JOINT_LIMIT = 'joint_limit'
    VELOCITY_LIMIT = 'velocity_limit'
    TORQUE_LIMIT = 'torque_limit'
    WORKSPACE = 'workspace'
    SINGULARITY = 'singularity'
    NOT_TAKEN = 'not_taken'


@dataclass(frozen=True)
class Clamp:
    """One change of a command: what was requested, what was sent, and why."""

    reason: ClampReason
    asked: tuple[float, ...]
    sent: tuple[float, ...]
    detail: str


@dataclass(frozen=True)
class SafeCommand:
    """An allowed joint target (7,) rad, and every clamp that made it so."""

    q: Floats
    clamps: tuple[Clamp, ...] = ()
