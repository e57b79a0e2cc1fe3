"""Cached background of a fixed camera: static objects are rendered once per scene."""

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Pixels

Depths = NDArray[np.float32]


class Backdrop:
    """
    An image (H, W, 3) of the static objects, with the depth (H, W) of each pixel.

    The result equals rendering everything, as long as nothing is transparent: each pixel is that
    of the nearer of two objects, rendered in the same way. At the same depth the moving object is
    shown.
    """

    def __init__(self, pixels: Pixels, depth: Depths) -> None:
        self._pixels, self._depth = pixels, depth

    def behind(self, pixels: Pixels, depth: Depths) -> Pixels:
        """Return an image of the moving objects in front of this background."""
        picture: Pixels = self._pixels.copy()
        cv2.copyTo(pixels, (depth <= self._depth).view(np.uint8), picture)
        return picture
