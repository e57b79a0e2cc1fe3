"""Poses in DROID's convention from MuJoCo's matrices."""

from math import atan2, hypot

import numpy as np

from arena_robot.core.observation import Floats


def pose_of(position: Floats, matrix: Floats) -> Floats:
    """Return ``x y z roll pitch yaw`` (extrinsic xyz, R = Rz Ry Rx) from (3,) and (9,)."""
    r = matrix
    flat = hypot(r[0], r[3])
    if flat > 1e-9:
        angles = atan2(r[7], r[8]), atan2(-r[6], flat), atan2(r[3], r[0])
    else:
        angles = atan2(-r[5], r[4]), atan2(-r[6], flat), 0.0
    return np.array([*position, *angles])


def yaw_quat(yaw: float) -> Floats:
    """Return the quaternion w x y z of a turn about z."""
    return np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
