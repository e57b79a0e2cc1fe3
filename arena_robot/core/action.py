"""
What a policy asked for, and what was really sent.

DROID's four action spaces. The last number of every action is the gripper *position* (0 open,
1 closed, binarised at > 0.5); the others are seven joints, or x y z and three fixed-axis angles.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats


class ActionSpace(str, Enum):
    """How the numbers of an action are meant."""

    JOINT_POSITION = 'joint_position'
    JOINT_VELOCITY = 'joint_velocity'
    CARTESIAN_POSITION = 'cartesian_position'
    CARTESIAN_VELOCITY = 'cartesian_velocity'

    @property
    def size(self) -> int:
        """Length of an action: 8 for joint spaces, 7 for cartesian ones."""
        return 8 if self.value.startswith('joint') else 7

    @property
    def is_velocity(self) -> bool:
        """Whether the arm's numbers are velocities in [-1, 1]."""
        return self.value.endswith('velocity')


@dataclass(frozen=True)
class Action:
    """One control step's request: ``values`` (8,) or (7,) in ``space``."""

    values: Floats
    space: ActionSpace


@dataclass(frozen=True)
class Chunk:
    """The N actions of one inference: ``actions`` (N, 8) or (N, 7) float32 in ``space``."""

    actions: NDArray[np.float32]
    space: ActionSpace
    inference_s: float = 0.0

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
    GRIPPER_RANGE = 'gripper_range'
    STEP_LIMIT = 'step_limit'
    JOINT_LIMIT = 'joint_limit'
    VELOCITY_LIMIT = 'velocity_limit'
    TORQUE_LIMIT = 'torque_limit'
    WORKSPACE = 'workspace'
    SINGULARITY = 'singularity'
    HELD = 'held'


@dataclass(frozen=True)
class Clamp:
    """One intervention: what was asked, what was sent, and why, in a person's words."""

    reason: ClampReason
    asked: tuple[float, ...]
    sent: tuple[float, ...]
    detail: str


@dataclass(frozen=True)
class SafeCommand:
    """What safety lets through: joint target (7,) rad, gripper 0..1, and every clamp made."""

    q: Floats
    gripper: float
    clamps: tuple[Clamp, ...] = ()
