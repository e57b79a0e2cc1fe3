"""What stands still before a camera that stands still is drawn once and filled in afterwards."""

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Pixels

Depths = NDArray[np.float32]


class Backdrop:
    """
    A picture (H, W, 3) of what never moves, with how far away each pixel (H, W) is.

    Filling it in shows what drawing everything would, as long as nothing is transparent: each
    pixel is that of the nearer of two things drawn by the same rules. Of two things at the same
    depth, the moving one is shown.
    """

    def __init__(self, pixels: Pixels, depth: Depths) -> None:
        self._pixels, self._depth = pixels, depth

    def behind(self, pixels: Pixels, depth: Depths) -> Pixels:
        """Return a picture of what moves with this behind it."""
        picture: Pixels = self._pixels.copy()
        cv2.copyTo(pixels, (depth <= self._depth).view(np.uint8), picture)
        return picture
