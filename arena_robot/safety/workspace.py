"""Workspace boxes of flange and elbow: distance outside, and motion back inside."""

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import ArmLimits
from arena_robot.safety.kinematics import ELBOW, FLANGE, frames, jacobian

POINTS = (FLANGE, ELBOW)
_DAMPING = 1e-4
_INSET_M = 1e-5


def outside(q: Floats, limits: ArmLimits) -> float:
    """Return how far (m) flange or elbow lies outside its box at ``q``; 0 inside."""
    points = frames(q)[POINTS, :3, 3]
    low, high = limits.box
    return float(max(np.max(low - points), np.max(points - high), 0.0))


def slide_in(q: Floats, limits: ArmLimits, steps: int = 6) -> Floats:
    """
    Return joints near ``q`` that bring flange and elbow to their box's wall, or as near as found.

    Only the coordinates that are outside are moved, so a motion along the wall continues.
    """
    low, high = limits.box[0] + _INSET_M, limits.box[1] - _INSET_M
    for _ in range(steps):
        chain = frames(q)
        points = chain[POINTS, :3, 3]
        error = np.clip(points, low, high) - points
        bad = np.abs(error) > 0.0
        if not bad.any():
            break
        rows = np.concatenate([jacobian(chain, link)[:3][bad[i]]
                               for i, link in enumerate(POINTS)])
        gram = rows @ rows.T + _DAMPING * np.eye(len(rows))
        q = q + rows.T @ np.linalg.solve(gram, error[bad])
    return q
