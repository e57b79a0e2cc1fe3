"""
Kinematics of a Franka arm: forward kinematics, Jacobian, and DROID's pose angles.

Panda and FR3 share one set of modified (Craig) Denavit-Hartenberg parameters. Everything is in
the base frame (``link0``), metres and radians; the end frame is the flange (``link8``), as in
DROID.

One step of inverse kinematics, from a flange motion to a bounded joint motion, solves
min_x ‖J x − v‖² + ρ² ‖x − x₀‖²  subject to  l ≤ x ≤ u  for one 15 Hz step. x₀ is a weak attraction
to the middle pose, so that the redundant degree of freedom does not drift. The bounds keep a joint
away from its limits; they shrink to zero before the limit.
"""

import math

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF, FRANKA_DH, FRANKA_FLANGE_M, ROBOTS, ArmLimits

ELBOW, FLANGE = 3, 7
NEXT, AFTER = np.array([1, 2, 0]), np.array([2, 0, 1])     # axes of a cross product

for _robot in ROBOTS.values():
    if (_robot.dh, _robot.flange_m) != (FRANKA_DH, FRANKA_FLANGE_M):
        raise NotImplementedError(f'safety.kinematics computes one geometry, {_robot.name} has '
                                  'another: give frames() and jacobian() the robot')
REGULARISATION = 1e-2    # DROID's, as the next three
NULLSPACE_GAIN = 0.025
LIMIT_DISTANCE = 0.3
LIMIT_SCALE = 0.95
ROUNDS = 60     # of the active set; seven joints free or fix one in each


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


def step_bounds(q: Floats, limits: ArmLimits, max_delta: float) -> tuple[Floats, Floats]:
    """
    Return lower and upper bounds (7,) rad on one step's joint motion.

    A joint moves at most 0.95 of the distance to a line 0.3 rad before its hardware limit; beyond
    that line it may only move back.
    """
    room_below = np.maximum(0.0, q - np.array(limits.hardware_lower) - LIMIT_DISTANCE)
    room_above = np.maximum(0.0, np.array(limits.hardware_upper) - LIMIT_DISTANCE - q)
    return (-np.minimum(max_delta, LIMIT_SCALE * room_below),
            np.minimum(max_delta, LIMIT_SCALE * room_above))


def joint_step(motion: Floats, q: Floats, jac: Floats, limits: ArmLimits,
               max_delta: float) -> Floats:
    """Return the joint motion (7,) rad for a flange motion (6,) m, rad at joints ``q``."""
    low, high = step_bounds(q, limits, max_delta)
    weight = REGULARISATION ** 2
    H = jac.T @ jac
    H.flat[::8] += weight
    g = jac.T @ motion - weight * NULLSPACE_GAIN * q
    return box_qp(H, g, low, high)


def box_qp(H: Floats, g: Floats, low: Floats, high: Floats) -> Floats:
    """
    Return argmin ½ xᵀHx − gᵀx over ``low <= x <= high`` for a positive definite ``H`` (n, n).

    Active set: go to the minimum over the free variables, fixing each that meets its bound on the
    way; there, free the one whose gradient points inwards most, until none does. Every iterate
    lies within the bounds, also if the rounds run out.
    """
    x: Floats = np.clip(np.linalg.solve(H, g), low, high)
    free = (x > low) & (x < high)
    for _ in range(ROUNDS):
        x, blocked = _to_minimum(H, g, x, free, low, high)
        if blocked >= 0:
            free[blocked] = False
            continue
        gradient = H @ x - g
        inward = np.where(x <= low, -gradient, gradient) * ~free * (high > low)
        worst = int(np.argmax(inward))
        if inward[worst] < 1e-12:
            break
        free[worst] = True
    return x


def _to_minimum(H: Floats, g: Floats, x: Floats, free: NDArray[np.bool_], low: Floats,
                high: Floats) -> tuple[Floats, int]:
    """Return the point towards the free variables' minimum, and which bound stopped it or -1."""
    index = np.flatnonzero(free)
    if not index.size:
        return x, -1
    step = np.linalg.solve(H[np.ix_(index, index)], (g - H @ x)[index])
    y = x[index]
    goal = y + step
    over = (goal < low[index]) | (goal > high[index])
    if not over.any():
        out = x.copy()
        out[index] = goal
        return out, -1
    wall = np.where(step < 0.0, low[index], high[index])
    part = np.full(index.size, 2.0)
    part[over] = (wall - y)[over] / step[over]
    first = int(np.argmin(part))
    out = x.copy()
    out[index] = np.clip(y + part[first] * step, low[index], high[index])
    out[index[first]] = wall[first]
    return out, int(index[first])
