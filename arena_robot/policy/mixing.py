"""Weighted means of actions: where one chunk follows another, and in temporal ensembling."""

import math

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.observation import Floats

ANGLES = slice(3, 6)    # of a pose


def mixed(rows: Floats, weights: Floats, space: ActionSpace) -> Floats:
    """
    Return the mean (size,) of the actions ``rows`` (K, size) with ``weights`` (K,), any scale.

    Angles of a flange pose go the shorter way from the last row, so -179 and 179 degrees do not
    meet at 0. The gripper is a mean too; it closes above 0.5.
    """
    rows = np.asarray(rows, np.float64)
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    if space is ActionSpace.CARTESIAN_POSITION:
        rows = rows.copy()
        turn = rows[:, ANGLES] - rows[-1, ANGLES]
        rows[:, ANGLES] = rows[-1, ANGLES] + (turn + math.pi) % (2.0 * math.pi) - math.pi
    out: Floats = shares @ rows
    return out
