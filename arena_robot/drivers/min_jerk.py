"""The path of a motion: minimal jerk, at rest at both ends."""

import numpy as np

from arena_robot.core.observation import Floats


def min_jerk(start: Floats, goal: Floats, share: float) -> Floats:
    """Return the joints (7,) rad after a ``share`` of the motion's time; at the ends beyond it."""
    s = min(1.0, max(0.0, share))
    shape = s ** 3 * (10 - 15 * s + 6 * s * s)
    return np.asarray(start + shape * (goal - start))
