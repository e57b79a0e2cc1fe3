"""
One step of inverse kinematics: from a flange motion to a bounded joint motion.

Solves  min_x ‖J x − v‖² + ρ² ‖x − x₀‖²  subject to  l ≤ x ≤ u  for one 15 Hz step.
x₀ is a weak attraction to the middle pose, so that the redundant degree of freedom does not drift.
The bounds keep a joint away from its limits; they shrink to zero before the limit.
"""

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import ArmLimits

REGULARISATION = 1e-2
NULLSPACE_GAIN = 0.025
LIMIT_DISTANCE = 0.3
LIMIT_SCALE = 0.95


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


def box_qp(H: Floats, g: Floats, low: Floats, high: Floats, rounds: int = 60) -> Floats:
    """
    Return argmin ½ xᵀHx − gᵀx over ``low <= x <= high`` for a positive definite ``H`` (n, n).

    Active set: go to the minimum over the free variables, fixing each that meets its bound on the
    way; there, free the one whose gradient points inwards most, until none does. Every iterate
    lies within the bounds, also if ``rounds`` run out.
    """
    x: Floats = np.clip(np.linalg.solve(H, g), low, high)
    free = (x > low) & (x < high)
    for _ in range(rounds):
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
