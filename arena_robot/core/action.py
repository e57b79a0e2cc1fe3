"""Actions: a policy's request, and the command that was sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats
from arena_robot.robots.action_spaces import SPACES, SpaceRow

Entry = TypeVar('Entry')


class ActionSpace(str, Enum):
    """Meaning of an action's numbers; what is known of each stands in robots/action_spaces.py."""

    JOINT_POSITION = 'joint_position'
    JOINT_VELOCITY = 'joint_velocity'
    CARTESIAN_POSITION = 'cartesian_position'
    CARTESIAN_VELOCITY = 'cartesian_velocity'

    @property
    def row(self) -> SpaceRow:
        """What is known of this space."""
        return ROWS[self]

    def size(self, joints: int) -> int:
        """Return the length of an action of an arm with so many joints, the gripper's included."""
        return (joints if self.row.of_joints else len(self.row.names)) + 1

    @property
    def is_velocity(self) -> bool:
        """Whether the arm's numbers are velocities in [-1, 1]."""
        return ROWS[self].is_velocity


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


ROWS = handled({
    space: SPACES[space.value] for space in ActionSpace if space.value in SPACES
}, 'robots.action_spaces.SPACES')


@dataclass(frozen=True)
class Action:
    """One control step's request: ``values`` (size,) in ``space``."""

    values: Floats
    space: ActionSpace


@dataclass(frozen=True)
class Chunk:
    """
    The N actions of one inference: ``actions`` (N, size) float32 in ``space``.

    With a ``layout`` they are in that, ROBOT/NAME, and a station turns each into ``space``. The
    next four say how it is executed, from a relay, which keeps them out of the spec; 0 and
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
    layout: str = ''

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class ArmCommand:
    """A joint target: ``q`` (n,) rad, made at ``stamp_ns``."""

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
    SELF_COLLISION = 'self_collision'
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
    """An allowed joint target (n,) rad, and every clamp that made it so."""

    q: Floats
    clamps: tuple[Clamp, ...] = ()
