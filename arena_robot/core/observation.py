"""
Observation of a station at one instant: images, geometry of camera eyes, arm, gripper, prompt.

Units are SI and radians. Stamps are capture times in integer nanoseconds of the station's clock.
Poses are base to flange (``link8``) as ``x y z roll pitch yaw`` with fixed-axis (extrinsic xyz)
angles, DROID's ``cartesian_position``. Gripper positions run from 0 (open) to 1 (closed).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
Millimetres = NDArray[np.uint16]
Picture = NDArray[Any]    # Pixels (H, W, 3) or Millimetres (H, W)

# Below this, of its fastest joint, an arm counts as at rest: 1 cm/s at half a metre.
STILL_RAD_S = 0.02
ROLES = ('left', 'right', 'wrist')
OUTSIDE = ROLES[:2]
EYES = ('left', 'right')
DEPTH = 'depth'    # beside the eyes of a camera that measures it
NO_EYE: Pixels = np.zeros((0, 0, 3), np.uint8)    # the right picture of a camera with one eye


def view(role: str, eye: str = 'left') -> str:
    """Return the key of one camera eye in an observation, such as ``'wrist_left'``."""
    return f'{role}_{eye}'


VIEWS = tuple(view(role, eye) for role in ROLES for eye in EYES)


class RobotMode(IntEnum):
    """Franka's robot modes, with its numbers."""

    OTHER = 0
    IDLE = 1
    MOVE = 2
    GUIDING = 3
    REFLEX = 4
    USER_STOPPED = 5
    AUTOMATIC_ERROR_RECOVERY = 6


class ObjectStatus(IntEnum):
    """Robotiq's gOBJ register."""

    MOVING = 0
    GRIPPED_OPENING = 1
    GRIPPED_CLOSING = 2
    AT_REQUESTED = 3


@dataclass(frozen=True)
class Image:
    """``pixels`` (H, W, 3) uint8 RGB, captured at ``stamp_ns``."""

    pixels: Pixels
    stamp_ns: int


@dataclass(frozen=True)
class DepthImage:
    """
    Distances along the optical axis of a left eye, one for each of its pixels.

    ``millimetres`` (H, W) uint16, 0 where nothing was measured, captured at ``stamp_ns``.
    """

    millimetres: Millimetres
    stamp_ns: int


@dataclass(frozen=True)
class ArmState:
    """
    One reading of the arm.

    Shapes: ``q`` (n,) rad, ``dq`` (n,) rad/s, ``tau`` (n,) N m measured, ``tau_ext`` (n,) N m,
    ``pose`` (6,) flange in the base frame. ``q_desired`` (n,) rad is the target being tracked.
    ``joint_names`` are in the same order; empty from a driver, which does not know its prefix.
    """

    stamp_ns: int
    q: Floats
    dq: Floats
    tau: Floats
    tau_ext: Floats
    pose: Floats
    q_desired: Floats
    mode: RobotMode = RobotMode.IDLE
    errors: tuple[str, ...] = ()
    control_success_rate: float = 1.0
    joint_names: tuple[str, ...] = ()

    @property
    def recovery_required(self) -> bool:
        """Return whether the arm must be recovered before it accepts commands again."""
        return self.mode in (RobotMode.REFLEX, RobotMode.USER_STOPPED)


@dataclass(frozen=True)
class GripperState:
    """One reading of the gripper: ``position`` 0 open to 1 closed, ``width_m`` between pads."""

    stamp_ns: int
    position: float
    width_m: float
    requested_position: float
    is_moving: bool = False
    object_status: ObjectStatus = ObjectStatus.AT_REQUESTED
    fault: int = 0
    current_a: float = 0.0


@dataclass(frozen=True)
class LeftOver:
    """
    What is left of the last chunk while the next one is inferred.

    ``actions`` (N, size) are those that the arm has not executed yet, as the policy gave them. So
    many as ``inference_delay`` of them will be executed before the first action of the answer is.
    """

    actions: Floats
    inference_delay: int


@dataclass(frozen=True)
class Observation:
    """
    The input of a policy at one step; ``images`` is keyed by :func:`view`.

    ``depths`` are of cameras that measure it, by keys such as ``wrist_depth``.

    A policy that samples seeds its random generator with ``episode_seed``, the same in all queries
    of a rollout and of its repetition; 0: the caller sent none. ``left_over`` is for policies with
    ``real_time_chunking``; None: no chunk is being executed. ``third_person`` is the role of the
    outside camera that a policy with only one of them sees.
    """

    stamp_ns: int
    arm: ArmState
    gripper: GripperState
    prompt: str
    step: int = 0
    images: Mapping[str, Image] = field(default_factory=dict)
    episode_seed: int = 0
    left_over: LeftOver | None = None
    third_person: str = 'left'
    depths: Mapping[str, DepthImage] = field(default_factory=dict)

    def age_ns(self) -> int:
        """Return how much older than ``stamp_ns`` the oldest part of this observation is."""
        stamps = [self.arm.stamp_ns, self.gripper.stamp_ns,
                  *(image.stamp_ns for image in self.images.values())]
        return self.stamp_ns - min(stamps)

    def skew_ns(self) -> int:
        """Return the largest distance between an image's stamp and the arm's."""
        return max((abs(image.stamp_ns - self.arm.stamp_ns) for image in self.images.values()),
                   default=0)


@dataclass(frozen=True)
class CameraInfo:
    """
    A rectified pinhole eye.

    ``k`` (3, 3) intrinsics in pixels, ``baseline_m`` to the left eye (0 for the left eye),
    ``frame_id`` the optical frame (z forward, x right, y down).
    """

    width: int
    height: int
    k: Floats
    baseline_m: float
    frame_id: str
    extras: Mapping[str, str] = field(default_factory=dict)

    def p(self) -> Floats:
        """Return the (3, 4) projection matrix; ``P[0, 3] = -fx * baseline``."""
        return np.column_stack([self.k, [-self.k[0, 0] * self.baseline_m, 0.0, 0.0]])
