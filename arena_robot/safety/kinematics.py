"""
Kinematics of a Franka arm: forward kinematics, Jacobian, and DROID's pose angles.

Panda and FR3 share one set of modified (Craig) Denavit-Hartenberg parameters. Everything is in
the base frame (``link0``), metres and radians; the end frame is the flange (``link8``), as in
DROID.
"""

import math

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF, FRANKA_DH, FRANKA_FLANGE_M, ROBOTS

ELBOW, FLANGE = 3, 7
NEXT, AFTER = np.array([1, 2, 0]), np.array([2, 0, 1])     # axes of a cross product

for _robot in ROBOTS.values():
    if (_robot.dh, _robot.flange_m) != (FRANKA_DH, FRANKA_FLANGE_M):
        raise NotImplementedError(f'safety.kinematics computes one geometry, {_robot.name} has '
                                  'another: give frames() and jacobian() the robot')


def _linear_parts() -> tuple[Floats, Floats, Floats]:
    """Return (7, 4, 4) constant, cosine and sine parts: T_i = C + cos(q_i) A + sin(q_i) B."""
    constant, cosine, sine = (np.zeros((DOF, 4, 4)) for _ in range(3))
    for i, (a, d, alpha) in enumerate(FRANKA_DH):
        ca, sa = round(math.cos(alpha), 15), round(math.sin(alpha), 15)
        constant[i] = np.array([[0, 0, 0, a], [0, 0, -sa, -d * sa], [0, 0, ca, d * ca],
                                [0, 0, 0, 1]])
        cosine[i, :3, :2] = np.array([[1, 0], [0, ca], [0, sa]])
        sine[i, :3, :2] = np.array([[0, -1], [ca, 0], [sa, 0]])
    return constant, cosine, sine


_CONSTANT, _COSINE, _SINE = _linear_parts()


def frames(q: Floats) -> Floats:
    """Return (8, 4, 4) poses of links 1 to 7 and of the flange for joints ``q`` (7,) rad."""
    local = (_CONSTANT + np.cos(q)[:, None, None] * _COSINE + np.sin(q)[:, None, None] * _SINE)
    chain = np.empty((8, 4, 4))
    chain[0] = local[0]
    for i in range(1, DOF):
        np.dot(chain[i - 1], local[i], out=chain[i])
    chain[FLANGE] = chain[6]
    chain[FLANGE, :3, 3] += FRANKA_FLANGE_M * chain[6, :3, 2]
    return chain


def jacobian(chain: Floats, link: int = FLANGE) -> Floats:
    """
    Return the (6, 7) geometric Jacobian (linear over angular) of a frame's origin.

    ``chain`` is the result of :func:`frames`; columns of joints beyond ``link`` are zero.
    """
    joints = min(link + 1, DOF)
    z = chain[:joints, :3, 2]
    d = chain[link, :3, 3] - chain[:joints, :3, 3]
    out = np.zeros((6, DOF))
    out[:3, :joints] = (z[:, NEXT] * d[:, AFTER] - z[:, AFTER] * d[:, NEXT]).T
    out[3:, :joints] = z.T
    return out


def flange_pose(q: Floats) -> Floats:
    """Return the flange's ``x y z roll pitch yaw`` (6,), DROID's ``cartesian_position``."""
    return pose_of(frames(q)[FLANGE])


def pose_of(transform: Floats) -> Floats:
    """Return the (6,) pose of a (4, 4) transform."""
    return np.concatenate([transform[:3, 3], rpy_of(transform[:3, :3])])


def rotation_of(rpy: Floats) -> Floats:
    """Return the (3, 3) rotation Rz(yaw) Ry(pitch) Rx(roll): fixed axes, scipy's ``'xyz'``."""
    cr, cp, cy = (math.cos(a) for a in rpy)
    sr, sp, sy = (math.sin(a) for a in rpy)
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])


def rpy_of(rotation: Floats) -> Floats:
    """Return roll, pitch, yaw (3,) of a rotation; at pitch ±90° the yaw is set to 0."""
    flat = math.hypot(rotation[0, 0], rotation[1, 0])
    pitch = math.atan2(-rotation[2, 0], flat)
    if flat < 1e-7:
        return np.array([math.atan2(-rotation[1, 2], rotation[1, 1]), pitch, 0.0])
    return np.array([math.atan2(rotation[2, 1], rotation[2, 2]), pitch,
                     math.atan2(rotation[1, 0], rotation[0, 0])])


def add_poses(delta: Floats, pose: Floats) -> Floats:
    """Return ``pose`` moved by ``delta`` in the base frame: p + dp, R(dr) R(pose)."""
    rotation = rotation_of(delta[3:]) @ rotation_of(pose[3:])
    return np.concatenate([pose[:3] + delta[:3], rpy_of(rotation)])


def pose_difference(target: Floats, source: Floats) -> Floats:
    """Return the (6,) delta with ``add_poses(delta, source) == target``."""
    rotation = rotation_of(target[3:]) @ rotation_of(source[3:]).T
    return np.concatenate([target[:3] - source[:3], rpy_of(rotation)])
