"""
Kinematics of a serial arm: forward kinematics, Jacobian, and DROID's pose angles.

An arm's geometry is its :class:`Chain`, without one that of Panda and FR3. Everything is in the
base frame, metres and radians; the end frame is the flange, as in DROID.

One step of inverse kinematics, from a flange motion to a bounded joint motion, solves
min_x ‖J x − v‖² + ρ² ‖x − x₀‖²  subject to  l ≤ x ≤ u  for one 15 Hz step. x₀ is a weak attraction
to the middle pose, so that the redundant degree of freedom does not drift. The bounds keep a joint
away from its limits; they shrink to zero before the limit.
"""

import math

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import NotConverged
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import FRANKA_CHAIN, ArmLimits, Chain

ELBOW, FLANGE = 3, 7     # of a Franka
END = -1                 # of any arm: its flange
NEXT, AFTER = np.array([1, 2, 0]), np.array([2, 0, 1])     # axes of a cross product

REGULARISATION = 1e-2    # DROID's, as the next three
NULLSPACE_GAIN = 0.025
LIMIT_DISTANCE = 0.3
LIMIT_SCALE = 0.95
LIMIT_SHARE = 0.125     # of a joint's range, the most that the distance takes at each end
# Of solve: its starts and the steps from each, the error it ends at (m, rad), the most a joint
# moves in one step (rad), and the largest damping, with which a pose that is far is approached.
STARTS, SOLVE_STEPS, SOLVED, SOLVE_STEP, SOLVE_DAMPING = 30, 60, 1e-9, 0.5, 1e-2
ROUNDS = 60     # of the active set; each frees or fixes one joint


def frames(q: Floats, arm: Chain = FRANKA_CHAIN) -> Floats:
    """Return (n + 1, 4, 4) poses of the links that the joints ``q`` (n,) move, and the flange."""
    constant, cosine, sine, slope = arm.parts
    local = constant + np.cos(q)[:, None, None] * cosine + np.sin(q)[:, None, None] * sine
    if any(arm.slides):
        local += np.asarray(q)[:, None, None] * slope
    count = len(local)
    poses = np.empty((count + 1, 4, 4))
    poses[:count] = local
    for i, parent in enumerate(arm.parents):
        if parent >= 0:
            np.dot(poses[parent], local[i], out=poses[i])
    np.dot(poses[count - 1], arm.end_pose, out=poses[END])
    return poses


def jacobian(poses: Floats, link: int = END, arm: Chain = FRANKA_CHAIN) -> Floats:
    """
    Return the (6, n) geometric Jacobian (linear over angular) of a frame's origin.

    ``poses`` is the result of :func:`frames`; those of joints that do not move ``link`` are zero.
    """
    count = len(poses) - 1
    link %= count + 1
    joints = min(link + 1, count)
    z = (poses[:joints, :3, :3] @ arm.directions[:joints])[:, :, 0]
    d = poses[link, :3, 3] - poses[:joints, :3, 3]
    out = np.zeros((6, count))
    out[:3, :joints] = (z[:, NEXT] * d[:, AFTER] - z[:, AFTER] * d[:, NEXT]).T
    out[3:, :joints] = z.T
    if any(arm.slides):
        slides = np.flatnonzero(arm.sliding[:joints])
        out[:3, slides], out[3:, slides] = z[slides].T, 0.0
    if arm.before:
        out[:, ~arm.moves[joints - 1]] = 0.0
    return out


def joint_motion(axis: Floats, q: float, slides: bool) -> Floats:
    """Return the (4, 4) motion about a unit ``axis``, by Rodrigues' formula, or along it."""
    x, y, z = axis
    out = np.eye(4)
    if slides:
        out[:3, 3] = q * np.asarray(axis)
        return out
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    out[:3, :3] += np.sin(q) * cross + (1.0 - np.cos(q)) * cross @ cross
    return out


def flange_pose(q: Floats, arm: Chain = FRANKA_CHAIN) -> Floats:
    """Return the flange's ``x y z roll pitch yaw`` (6,), DROID's ``cartesian_position``."""
    return pose_of(frames(q, arm)[END])


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
    Return lower and upper bounds (n,) on one step's joint motion of ``max_delta`` at most.

    A joint moves at most 0.95 of the distance to a line 0.3 rad (m), or an eighth of its range,
    before its hardware limit; beyond that line it may only move back.
    """
    low, high = np.array(limits.hardware_lower), np.array(limits.hardware_upper)
    distance = np.minimum(LIMIT_DISTANCE, LIMIT_SHARE * (high - low))
    room_below = np.maximum(0.0, q - low - distance)
    room_above = np.maximum(0.0, high - distance - q)
    most = max_delta * limits.scale
    return (-np.minimum(most, LIMIT_SCALE * room_below),
            np.minimum(most, LIMIT_SCALE * room_above))


def joint_step(motion: Floats, q: Floats, jac: Floats, limits: ArmLimits,
               max_delta: float) -> Floats:
    """Return the joint motion (n,) for a flange motion (6,) m, rad at joints ``q``."""
    low, high = step_bounds(q, limits, max_delta)
    weight = REGULARISATION ** 2
    H = jac.T @ jac
    H.flat[::len(q) + 1] += weight
    drawn = q * limits.chain.moves[END] if limits.chain.before else q    # other arms stay
    g = jac.T @ motion - weight * NULLSPACE_GAIN * drawn
    return box_qp(H, g, low, high)


def solve(target: Floats, q: Floats, limits: ArmLimits) -> Floats:
    """
    Return joints (n,) within the limits that bring the flange to the pose ``target`` (4, 4).

    From ``q`` on, then from places drawn within the limits, always the same ones. Raises
    NotConverged with what remains at the nearest place.
    """
    drawn = np.random.default_rng(0).uniform(limits.q_min, limits.q_max, (STARTS - 1, len(q)))
    drawn[:, limits.chain.others] = q[list(limits.chain.others)]
    nearest, least = q, math.inf
    for start in (np.clip(q, limits.q_min, limits.q_max), *drawn):
        found, size = _descend(target, start, limits)
        if size < SOLVED:
            return found
        if size < least:
            nearest, least = found, size
    error = _error(target, frames(nearest, limits.chain)[END])
    room = np.minimum(nearest - limits.q_min, limits.q_max - nearest)
    stuck = ', '.join(str(i + 1) for i in np.flatnonzero(room < 1e-6))
    raise NotConverged(
        f'from {STARTS} starts the flange comes no nearer than '
        f'{1e3 * np.linalg.norm(error[:3]):.1f} mm and '
        f'{np.degrees(np.linalg.norm(error[3:])):.1f} degrees to its goal, with '
        f"{f'joint {stuck}' if stuck else 'no joint'} at a limit")


def _descend(target: Floats, q: Floats, limits: ArmLimits) -> tuple[Floats, float]:
    """
    Return where damped least squares with bounds end, and the norm of the error there.

    Each step is the minimum of ‖J x − e‖² + λ ‖x‖², with the error e and λ = ‖e‖².
    """
    for _ in range(SOLVE_STEPS):
        poses = frames(q, limits.chain)
        error = _error(target, poses[END])
        size = float(np.linalg.norm(error))
        if size < SOLVED:
            return q, size
        J, most = jacobian(poses, arm=limits.chain), SOLVE_STEP * limits.scale
        H = J.T @ J + min(max(size ** 2, 1e-12), SOLVE_DAMPING) * np.eye(len(q))
        q = q + box_qp(H, J.T @ error, np.maximum(limits.q_min - q, -most),
                       np.minimum(limits.q_max - q, most))
    return q, float(np.linalg.norm(_error(target, frames(q, limits.chain)[END])))


def _error(target: Floats, pose: Floats) -> Floats:
    """Return the way (m) and the turn (rad, a rotation vector) from a pose to the target (6,)."""
    return np.concatenate([target[:3, 3] - pose[:3, 3],
                           _turn_vector(target[:3, :3] @ pose[:3, :3].T)])


def _turn_vector(rotation: Floats) -> Floats:
    """Return the axis of a rotation, as long as its angle."""
    skew = 0.5 * np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0],
                           rotation[1, 0] - rotation[0, 1]])
    sine, cosine = float(np.linalg.norm(skew)), 0.5 * (float(np.trace(rotation)) - 1.0)
    if sine > 1e-9:
        return skew * (math.atan2(sine, cosine) / sine)
    column: Floats = (rotation + np.eye(3))[:, int(np.argmax(np.diag(rotation)))]
    return skew if cosine > 0.0 else column * (math.pi / float(np.linalg.norm(column)))


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
