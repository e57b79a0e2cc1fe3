"""Frames of cameras by REP 103 and REP 105, and where a camera is mounted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.cameras import OPTICAL_RPY
from arena_robot.safety.kinematics import pose_of, rotation_of

# The same as a matrix.
_OPTICAL_IN_BODY = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@dataclass(frozen=True)
class FixedFrame:
    """A frame that does not move in its parent; ``pose`` is x y z (m) roll pitch yaw (rad)."""

    parent: str
    child: str
    pose: tuple[float, ...]


@dataclass(frozen=True)
class CameraMount:
    """
    Where a camera is: the pose of its left eye's optical frame in the frame ``parent``.

    ``pose`` is x y z (m) roll pitch yaw (rad, fixed axes).
    """

    parent: str
    pose: tuple[float, ...]


def camera_frames(name: str, mount: CameraMount | None, optical: Mapping[str, str],
                  baseline_m: float) -> list[FixedFrame]:
    """
    Return the frames of a camera called ``name``, the first one in its mount where that is known.

    ``<name>_camera_link`` is in the middle between the eyes; each eye has a body frame and the
    optical frame that ``optical`` names by eye.
    """
    link = f'{name}_camera_link'
    half_m = baseline_m / 2 if len(optical) > 1 else 0.0
    out = []
    if mount is not None:
        out.append(FixedFrame(mount.parent, link, link_pose(mount.pose, half_m)))
    for eye, frame in optical.items():
        side_m = half_m if eye == 'left' else -half_m
        body = frame.removesuffix('_optical') if frame.endswith('_frame_optical') \
            else frame.replace('_optical_frame', '_frame')
        out += [FixedFrame(link, body, (0.0, side_m, 0.0, 0.0, 0.0, 0.0)),
                FixedFrame(body, frame, (0.0, 0.0, 0.0, *OPTICAL_RPY))]
    return out


def link_pose(left_eye: Sequence[float], half_m: float) -> tuple[float, ...]:
    """Return the pose of the camera's link from that of its left eye's optical frame."""
    out = matrix_of(left_eye)
    out[:3, :3] = out[:3, :3] @ _OPTICAL_IN_BODY.T
    out[:3, 3] -= half_m * out[:3, 1]
    return pose_of_matrix(out)


def matrix_of(pose: Sequence[float]) -> Floats:
    """Return the (4, 4) of x y z (m) roll pitch yaw (rad)."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation_of(np.asarray(pose[3:], np.float64)), pose[:3]
    return out


def pose_of_matrix(transform: Floats) -> tuple[float, ...]:
    """Return x y z (m) roll pitch yaw (rad) of a (4, 4) transform."""
    return tuple(map(float, pose_of(transform)))
