"""The geometry of one camera eye."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from arena_robot.core.observation import Floats


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
