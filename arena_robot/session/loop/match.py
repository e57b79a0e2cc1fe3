"""
Scene match: similarity of the current images to the start photographs beside the journal.

Two photographs of one view are aligned in size, brightness and position; pixels that then differ
in structure (local SSIM below one half) count as changed. The score decreases with the changed
share of the image: 1 for none, 0.37 for one percent, about the size of a cube on the table. The
arm is at the same reset pose in both, so it makes no difference; a mask excludes regions.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.files import write_bytes
from arena_robot.core.jpeg import PHOTO_QUALITY, from_jpeg, to_jpeg
from arena_robot.core.observation import Floats, Pixels

WIDTH = 320            # px, of the pictures that are compared: noise and compression vanish
CHANGED_BELOW = 0.5    # likeness of a place below which its content changed
SCALE = 0.01           # changed share of the picture at which the score is 1/e
MARGIN = 8             # px around an aligned picture, where filters see its edge
MAX_SHIFT = 0.04       # share of the width; phase correlation beyond it is chance
MOVED_CAMERA = 0.01    # share of the width
GREEN_FROM = 0.8
AMBER_FROM = 0.5
# Corners of two pictures that are not aligned.
CORNERS_WIDTH = 512    # px
CORNERS = 1500         # at most
FAINT = 7              # least contrast of a corner, of 255
AGREE_PX = 3.0         # distance at which a pair of corners agrees with a shift
MIN_AGREEING, MIN_SHARE = 25, 0.3    # pairs below which the agreement is chance

Mask = NDArray[np.bool_]


class Light(str, Enum):
    """Traffic light of a score."""

    GREEN = 'green'
    AMBER = 'amber'
    RED = 'red'


@dataclass(frozen=True)
class ViewMatch:
    """
    Match of one view with its start photograph.

    ``score`` 0 to 1; ``changed`` share of the picture; ``shift`` (x, y) of the whole picture as
    shares of its width, which is the camera that moved rather than the scene; ``far`` likewise,
    where the pictures could not be aligned.
    """

    score: float
    changed: float
    shift: tuple[float, float]
    far: float = 0.0

    @property
    def light(self) -> Light:
        """Return the traffic light for the score."""
        return light(self.score)

    @property
    def camera_moved(self) -> bool:
        """Tell whether the picture as a whole moved by more than one percent of its width."""
        return max(self.far, *(abs(part) for part in self.shift)) > MOVED_CAMERA


def light(score: float) -> Light:
    """Return the traffic light for a score of 0 to 1."""
    if score >= GREEN_FROM:
        return Light.GREEN
    return Light.AMBER if score >= AMBER_FROM else Light.RED


def compare(start: Pixels, now: Pixels, leave_out: Mask | None = None) -> ViewMatch:
    """
    Compare a view (H, W, 3) with its start photograph.

    ``leave_out`` (H, W) is true where differences do not count, such as the robot. Raises
    DataError when the two do not have the same size.
    """
    if start.shape != now.shape:
        raise DataError(f'photographs of one view have one size, got {start.shape} and '
                        f'{now.shape}: was the camera replaced?')
    before, after = _gray(start), _gray(now)
    shift = _shift(before, after)
    after = _moved(after, shift)
    counts = _counting(before.shape, shift, leave_out)
    likeness = structure(before, _same_light(before, after, counts))
    changed = float(np.mean(likeness[counts] < CHANGED_BELOW)) if counts.any() else 0.0
    score = float(np.exp(-changed / SCALE))
    far = picture_shift(start, now) if score < AMBER_FROM and not any(shift) else None
    return ViewMatch(score, changed, (shift[0] / WIDTH, shift[1] / WIDTH), far or 0.0)


def compare_views(start: Mapping[str, Pixels], now: Mapping[str, Pixels],
                  leave_out: Mapping[str, Mask] | None = None) -> dict[str, ViewMatch]:
    """Compare every view that both mappings have."""
    masks = leave_out or {}
    return {name: compare(start[name], now[name], masks.get(name))
            for name in start if name in now}


def moved_cameras(matches: Mapping[str, ViewMatch]) -> tuple[str, ...]:
    """Return the roles of the cameras that seem to have moved, such as ``left``."""
    return tuple(dict.fromkeys(name.split('_')[0] for name, match in matches.items()
                               if match.camera_moved))


def overall(matches: Mapping[str, ViewMatch]) -> float:
    """Return the lowest score of the views, NaN without views; one view may see the change."""
    return min((match.score for match in matches.values()), default=float('nan'))


def structure(x: Floats, y: Floats) -> Floats:
    """Return the local SSIM of two gray pictures, -1 to 1."""
    contrast = (0.03 * 255.0) ** 2
    mean_x, mean_y = _blur(x), _blur(y)
    var_x = _blur(x * x) - mean_x ** 2
    var_y = _blur(y * y) - mean_y ** 2
    both = _blur(x * y) - mean_x * mean_y
    brightness = (2 * mean_x * mean_y + contrast) / (mean_x ** 2 + mean_y ** 2
                                                           + contrast)
    return np.asarray(brightness * (2 * both + contrast) / (var_x + var_y + contrast))


def difference(start: Pixels, now: Pixels) -> Pixels:
    """Return the live view in gray; what was removed is red, what was added is cyan."""
    before, after = (cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (start, now))
    return np.dstack([before, after, after])


def _gray(pixels: Pixels) -> Floats:
    height = max(1, round(pixels.shape[0] * WIDTH / pixels.shape[1]))
    small = cv2.resize(pixels, (WIDTH, height), interpolation=cv2.INTER_AREA)
    gray = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float64)
    return np.asarray(cv2.GaussianBlur(gray, (0, 0), 1.0))


def _shift(before: Floats, after: Floats) -> tuple[float, float]:
    """Return the shift of the whole image in pixels; (0, 0) when it cannot be estimated."""
    window = cv2.createHanningWindow(before.shape[::-1], cv2.CV_64F)
    (x, y), response = cv2.phaseCorrelate(before, after, window)
    if response < 0.1 or max(abs(x), abs(y)) > MAX_SHIFT * WIDTH:
        return 0.0, 0.0
    return (x, y) if max(abs(x), abs(y)) > 0.2 else (0.0, 0.0)


def _moved(picture: Floats, shift: tuple[float, float]) -> Floats:
    matrix = np.array([[1.0, 0.0, -shift[0]], [0.0, 1.0, -shift[1]]])
    return np.asarray(cv2.warpAffine(picture, matrix, picture.shape[::-1],
                                     borderMode=cv2.BORDER_REPLICATE))


def _same_light(before: Floats, after: Floats, counts: Mask) -> Floats:
    """Return ``after`` with the brightness and contrast of ``before``: exposure is no change."""
    if not counts.any():
        return after
    gain = before[counts].std() / max(float(after[counts].std()), 1.0)
    gain = float(np.clip(gain, 0.7, 1.4))
    return np.asarray((after - after[counts].mean()) * gain + before[counts].mean())


def _counting(shape: tuple[int, ...], shift: tuple[float, float], leave_out: Mask | None) -> Mask:
    counts = np.ones(shape, bool)
    x, y = (int(np.ceil(abs(part))) + MARGIN for part in shift)
    counts[:y], counts[-y:], counts[:, :x], counts[:, -x:] = False, False, False, False
    if leave_out is not None:
        small = cv2.resize(leave_out.astype(np.uint8), shape[::-1],
                           interpolation=cv2.INTER_NEAREST)
        counts &= small == 0
    return counts


def _blur(picture: Floats) -> Floats:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), 2.0))


def keep_photos(folder: Path, images: Mapping[str, Pixels]) -> dict[str, Pixels]:
    """
    Write one ``<view>.jpg`` per RGB image and return them as they are read back.

    Raises SessionError when they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in images.items():
        path = folder / f'{name}.jpg'
        try:
            write_bytes(path, to_jpeg(pixels, PHOTO_QUALITY))
        except OSError as error:
            raise SessionError(f'cannot write the photograph {path}: {error.strerror}; '
                               'is the disk full?') from error
    return read_photos(folder)


def read_photos(folder: Path) -> dict[str, Pixels]:
    """Return the photographs in ``folder`` as RGB by view; none where there are none."""
    photos = {}
    for path in sorted(folder.glob('*.jpg')):
        with suppress(DataError, OSError):
            photos[path.stem] = from_jpeg(path.read_bytes())
    return photos


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
    height = CORNERS_WIDTH * before.shape[0] / before.shape[1]
    edges = np.array([(x, y, 1.0) for x in (0.0, CORNERS_WIDTH) for y in (0.0, height)])
    moved = edges @ np.asarray(affine).T - edges[:, :2]
    return float(np.max(np.linalg.norm(moved, axis=1))) / CORNERS_WIDTH


def _corners(pixels: Pixels) -> tuple[list[tuple[float, float]], NDArray[np.uint8]] | None:
    """Return places (px) and descriptors of a picture's corners, None when it has too few."""
    height = max(1, round(pixels.shape[0] * CORNERS_WIDTH / pixels.shape[1]))
    gray = cv2.cvtColor(cv2.resize(pixels, (CORNERS_WIDTH, height), interpolation=cv2.INTER_AREA),
                        cv2.COLOR_RGB2GRAY)
    points, described = cv2.ORB.create(CORNERS, fastThreshold=FAINT).detectAndCompute(gray, None)
    if described is None or len(points) < MIN_AGREEING:
        return None
    return [(point.pt[0], point.pt[1]) for point in points], np.asarray(described, np.uint8)
