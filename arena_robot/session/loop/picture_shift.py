"""
How far a picture moved as a whole, whatever else changed in the scene.

Corners that both pictures show are matched, and enough of them must agree on one shift, rotation
and scale. Objects, the robot and the light may differ.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Pixels

WIDTH = 512
CORNERS = 1500
FAINT = 7    # least contrast of a corner, of 255
AGREE_PX = 3.0
MIN_AGREEING, MIN_SHARE = 25, 0.3


def picture_shift(before: Pixels, now: Pixels) -> float | None:
    """
    Return how far the picture (H, W, 3) moved at the corner that moved most, in its widths.

    None where the two do not share enough corners to tell.
    """
    start_corners, now_corners = _corners(before), _corners(now)
    if start_corners is None or now_corners is None:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(start_corners[1],
                                                                  now_corners[1])
    if len(pairs) < MIN_AGREEING:
        return None
    start_points = np.array([start_corners[0][pair.queryIdx] for pair in pairs])
    now_points = np.array([now_corners[0][pair.trainIdx] for pair in pairs])
    affine, agreeing = cv2.estimateAffinePartial2D(
        start_points, now_points, ransacReprojThreshold=AGREE_PX, maxIters=4000)
    count = int(agreeing.sum()) if affine is not None else 0
    if count < max(MIN_AGREEING, MIN_SHARE * len(pairs)):
        return None
    height = WIDTH * before.shape[0] / before.shape[1]
    edges = np.array([(x, y, 1.0) for x in (0.0, WIDTH) for y in (0.0, height)])
    moved = edges @ np.asarray(affine).T - edges[:, :2]
    return float(np.max(np.linalg.norm(moved, axis=1))) / WIDTH


def _corners(pixels: Pixels) -> tuple[list[tuple[float, float]], NDArray[np.uint8]] | None:
    """Return places (px) and descriptors of a picture's corners, None when it has too few."""
    height = max(1, round(pixels.shape[0] * WIDTH / pixels.shape[1]))
    gray = cv2.cvtColor(cv2.resize(pixels, (WIDTH, height), interpolation=cv2.INTER_AREA),
                        cv2.COLOR_RGB2GRAY)
    points, described = cv2.ORB.create(CORNERS, fastThreshold=FAINT).detectAndCompute(gray, None)
    if described is None or len(points) < MIN_AGREEING:
        return None
    return [(point.pt[0], point.pt[1]) for point in points], np.asarray(described, np.uint8)
