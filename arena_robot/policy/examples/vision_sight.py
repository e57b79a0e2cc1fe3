"""
Detection of objects on the table from one wrist image and the arm's joints.

Pixels are sorted into colours by chromaticity, nearly independent of light and shadow. Shapes and
sizes of the objects are known, those of everyday things. Most are fitted by the outline of a
:class:`Solid`, whose own frame has its origin below its middle, on what it stands on, z up; a bowl
or plate by the ring of its rim. Positions are in m in the base frame.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats, Pixels
from arena_robot.policy.examples.vision_hands import IMAGE_SIZE, PAD_M, WristEye
from arena_robot.robots.grippers import ROBOTIQ_2F85

TIP_M = 0.167 - PAD_M         # pads to fingertips
_TIP_HALF_M = 0.011
_DARK, _EDGE = 45.0, 28.0
_MOST = 6                     # patches looked at closely
REACH_X, REACH_Y = (0.30, 0.72), (-0.36, 0.36)
PAINTS = {
    'red': (0.80, 0.13, 0.12), 'green': (0.16, 0.55, 0.22), 'blue': (0.12, 0.30, 0.75),
    'yellow': (0.93, 0.77, 0.12), 'orange': (0.93, 0.46, 0.10), 'purple': (0.45, 0.22, 0.60),
    'pink': (0.90, 0.50, 0.60), 'housing': (0.88, 0.80, 0.25),
}
COLOURS = tuple(name for name in PAINTS if name != 'housing')
_OTHERS = ((0.77, 0.62, 0.44), (0.64, 0.48, 0.31), (0.50, 0.35, 0.24), (0.36, 0.24, 0.16),
           (0.84, 0.82, 0.80), (0.60, 0.62, 0.66), (0.66, 0.62, 0.56), (0.40, 0.40, 0.44))
NOTHING = 0
_BITS = 6
_NO_HUE = 40               # sum of the channels below which a pixel has no hue
_SPREAD = 0.09           # of a paint's chromaticity
_LEAST_PX = 10
Labels = NDArray[np.uint8]
Mask = NDArray[np.bool_]
_FINE = 3         # outlines are compared at this many times the picture's resolution
_MARGIN = 8       # pixels around a patch
_COARSE = 3
PARALLEL = 0.998   # cosine between two lines of sight that do not determine a height


def within_reach(place: Floats) -> bool:
    """Return whether a point lies over the part of the table where objects stand."""
    out: bool = (REACH_X[0] < place[0] < REACH_X[1]) and (REACH_Y[0] < place[1] < REACH_Y[1])
    return out


@dataclass(frozen=True)
class Blob:
    """A patch of one paint: ``centre`` x, y in pixels, ``area`` in pixels, and where it is."""

    colour: str
    centre: Floats
    area: int
    mask: Mask


def near(labels: Labels, eye: WristEye, colour: str, area_m2: tuple[float, float]) -> list[Blob]:
    """Return the patches of one paint (or of every one) on the table, of a size."""
    return [blob for blob in blobs(labels, colour)
            if within_reach(eye.on_plane(blob.centre, 0.02)[0])
            and area_m2[0] < blob.area * eye.pixel_m(0.02) ** 2 < area_m2[1]]


@dataclass(frozen=True)
class Sighting:
    """
    A thing seen: ``position`` (3,) of its middle, ``yaw`` rad, how ``sure`` from 0 to 1.

    ``eye`` (3,) is where it was seen from: if it does not stand at the height that was assumed,
    it is elsewhere on the line from there.
    """

    colour: str
    position: Floats
    yaw: float
    sure: float
    eye: Floats

    def away(self, place: Floats) -> float:
        """Return the distance over the table to ``place`` (2,) or (3,), m."""
        return float(np.hypot(*(self.position[:2] - place[:2])))


def cubes(labels: Labels, eye: WristEye, colour: str = '', base: float = 0.0) -> list[Sighting]:
    """Return the blocks seen of one colour (or of every one), the best fits first."""
    blocks = [fitted(eye, blob, CUBE, base)
              for blob in near(labels, eye, colour, (0.0005, 0.008))[:_MOST]]
    return sorted(blocks, key=lambda block: -block.sure)


def trays(labels: Labels, eye: WristEye) -> list[Sighting]:
    """Return the square trays, whatever their colours."""
    return [fitted(eye, filled(blob), TRAY)
            for blob in near(labels, eye, '', (0.008, 0.032))[:_MOST]]


def button(labels: Labels, eye: WristEye) -> Sighting | None:
    """Return the push button by its housing; ``position`` is the housing's middle."""
    for blob in blobs(labels, 'housing')[:1]:
        housing = fitted(eye, filled(blob), HOUSING)
        if housing.sure > 0.6:
            return housing
    return None


def panels(labels: Labels, eye: WristEye) -> list[Sighting]:
    """Return candidates for a drawer's front panel, the best fits first."""
    fronts = [fitted(eye, filled(blob), PANEL)
              for blob in near(labels, eye, '', (0.003, 0.06))[:_MOST]]
    return sorted(fronts, key=lambda front: -front.sure)


@dataclass(frozen=True)
class Solid:
    """Convex ``parts`` (N, 3) each, the ``height``, and the turns (rad) that look different."""

    parts: tuple[Floats, ...]
    height: float
    yaws: tuple[float, ...]

    def outlines(self, eye: WristEye, foot: Floats, yaw: float) -> list[Floats]:
        """Return the outline (N, 2) in pixels of each part, standing at ``foot`` (3,)."""
        c, s = math.cos(yaw), math.sin(yaw)
        turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        return [cv2.convexHull(eye.project(foot + part @ turn).astype(np.float32))[:, 0]
                .astype(float) for part in self.parts]


def _square(side: float, height: float) -> Solid:
    return Solid((_box((side / 2, side / 2, height / 2), (0.0, 0.0, height / 2)),), height,
                 tuple(np.radians(np.arange(-45.0, 45.0, 7.5))))


def _box(half: tuple[float, float, float], middle: tuple[float, float, float]) -> Floats:
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return signs * half + middle


def _turned(*rings: tuple[float, float]) -> Floats:
    """Return points on circles of (radius, height)."""
    angles = np.linspace(0.0, 2.0 * np.pi, 20, endpoint=False)
    return np.concatenate([np.column_stack([r * np.cos(angles), r * np.sin(angles),
                                            np.full(20, z)]) for r, z in rings])


CUBE = _square(0.044, 0.044)
TRAY = _square(0.130, 0.026)
HOUSING = _square(0.090, 0.032)
PANEL = Solid((_box((0.006, 0.103, 0.057), (0.0, 0.0, 0.063)),), 0.126,
              tuple(np.radians(np.arange(-15.0, 15.0, 2.5))))
CUP = Solid((_turned((0.027, 0.0), (0.031, 0.083)),
             _box((0.012, 0.004, 0.022), (0.042, 0.0, 0.044))), 0.085,
            tuple(np.radians(np.arange(0.0, 360.0, 15.0))))
CUP_DOWN = Solid((_turned((0.031, 0.002), (0.027, 0.085)),
                  _box((0.012, 0.004, 0.022), (0.042, 0.0, 0.041))), 0.085, CUP.yaws)
BOTTLE = Solid((_turned((0.029, 0.0), (0.029, 0.11), (0.022, 0.133), (0.012, 0.15)),), 0.15,
               (0.0,))


def likest(labels: Labels, eye: WristEye, solid: Solid, colour: str = '', base: float = 0.0,
           rivals: Sequence[Solid] = (CUBE,)) -> list[Sighting]:
    """Return candidates for ``solid``, those first that fit it better than its rivals."""
    fits = []
    for blob in near(labels, eye, colour, (0.0008, 0.02))[:_MOST]:
        whole = filled(blob)
        mine = fitted(eye, whole, solid, base, False)
        rival_sure = max(fitted(eye, whole, rival, base, False).sure for rival in rivals)
        fits.append((mine.sure - rival_sure, whole, mine))
    fits.sort(key=lambda fit: -fit[0])
    return [fitted(eye, blob, solid, base) if more > 0.0 or not i else mine
            for i, (more, blob, mine) in enumerate(fits)]


def ring(pixels: Pixels, eye: WristEye, radius: float, z: float) -> Sighting:
    """Return the round thing whose rim has ``radius`` at height ``z``, wherever it fits best."""
    soft = cv2.GaussianBlur(pixels, (3, 3), 0).astype(float)
    soft[pixels.max(axis=2) < _DARK] = np.nan
    xs, ys = np.arange(0.36, 0.66, 0.01), np.arange(-0.28, 0.28, 0.01)
    place, score = _best_ring(soft, eye, radius, z, xs, ys)
    for step in (0.004, 0.0015):
        offsets = np.arange(-3, 4) * step
        place, score = _best_ring(soft, eye, radius, z, place[0] + offsets, place[1] + offsets)
    return Sighting('', np.array([*place, z]), 0.0, score, eye.position)


def _best_ring(soft: Floats, eye: WristEye, radius: float, z: float, xs: Floats,
               ys: Floats) -> tuple[Floats, float]:
    angles = np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False)
    spokes = np.column_stack([np.cos(angles), np.sin(angles)])
    centres = np.stack(np.meshgrid(xs, ys, indexing='ij'), axis=-1).reshape(-1, 1, 2)
    inner, outer = (_sampled(soft, eye, centres + radius * part * spokes, z)
                    for part in (0.965, 1.075))
    step = np.minimum(np.abs(inner - outer).sum(axis=-1), 60.0)
    score = np.nan_to_num(step).sum(axis=1) / 32.0 / 60.0
    best = int(score.argmax())
    return centres[best, 0], float(score[best])


def _sampled(soft: Floats, eye: WristEye, points: Floats, z: float) -> Floats:
    """Return the colours (N, K, 3) at points (N, K, 2) of height ``z``; NaN outside."""
    flat = np.column_stack([points.reshape(-1, 2), np.full(points.size // 2, z)])
    x, y = np.round(eye.project(flat)).astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < soft.shape[1]) & (y < soft.shape[0])
    colours = soft[np.clip(y, 0, soft.shape[0] - 1), np.clip(x, 0, soft.shape[1] - 1)]
    colours[~inside] = np.nan
    out: Floats = colours.reshape(*points.shape[:2], 3)
    return out


def tilt_error(pixels: Pixels, opening: float) -> float | None:
    """
    Return how much more the wrist camera is tilted than calibrated, rad; None when unclear.

    The fingertips are visible in the image: with the gripper ``opening`` 0 (shut) to 1 (open),
    their row in the image gives the tilt.
    """
    y = opening * ROBOTIQ_2F85.stroke_m / 2 + np.array([0.003, 0.0055, 0.008])
    tips = np.column_stack([np.full(6, _TIP_HALF_M), np.concatenate([y, -y]),
                            np.full(6, PAD_M + TIP_M)])
    expected, more = (WristEye.in_hand(error).project(tips) for error in (0.0, 0.01))
    rows = [_top_of_dark(pixels, round(x), row) for x, row in expected]
    shifts = [(row - want) / (up - want) * 0.01 for row, (_, want), (_, up)
              in zip(rows, expected, more, strict=True) if row is not None]
    return float(np.median(shifts)) if len(shifts) >= 4 else None


def _top_of_dark(pixels: Pixels, column: int, row: float) -> float | None:
    """Return the row (to a fraction) where the dark finger begins, near ``row``."""
    if not 0 <= column < IMAGE_SIZE[1]:
        return None
    line = pixels[:, column].astype(float).mean(axis=1)
    bottom, top = round(row) + 12, round(row) - 12
    if bottom >= len(line) or top < 1 or line[bottom] > _DARK:
        return None
    for y in range(bottom, top, -1):
        rise = line[y - 1] - line[bottom]
        if rise > _EDGE:
            behind = line[y - 2] - line[bottom]
            part = (line[y] - line[bottom]) / max(behind, rise)
            share = (line[y - 1] - line[bottom]) / max(behind, rise)
            out: float = y + 0.5 - share - part
            return out
    return None


def _chromaticity(rgb: Floats) -> Floats:
    out: Floats = rgb[..., :2] / np.maximum(rgb.sum(axis=-1, keepdims=True), 1e-6)
    return out


@functools.lru_cache(maxsize=1)
def _table() -> Labels:
    """Return the label of every colour, 6 bits a channel: 1 and up the paints, 0 the rest."""
    axis = (np.arange(1 << _BITS) + 0.5) * (256 >> _BITS)
    rgb = np.stack(np.meshgrid(axis, axis, axis, indexing='ij'), axis=-1).reshape(-1, 3)
    known = _chromaticity(np.array([*PAINTS.values(), *_OTHERS]))
    hue = _chromaticity(rgb)
    away = ((hue[:, None, :] - known[None]) ** 2).sum(axis=2)
    best = away.argmin(axis=1)
    sure = (away[np.arange(len(best)), best] < _SPREAD ** 2) & (rgb.sum(axis=1) > _NO_HUE)
    paint = best < len(PAINTS)
    return np.where(sure & paint, best + 1, NOTHING).astype(np.uint8)


def labelled(pixels: Pixels) -> Labels:
    """Return (H, W) numbers: 1 + index of the paint in :data:`PAINTS`, 0 for anything else."""
    r, g, b = (pixels[..., channel].astype(np.int32) >> (8 - _BITS) for channel in range(3))
    out: Labels = _table()[(r << 2 * _BITS) | (g << _BITS) | b]
    return out


def blobs(labels: Labels, colour: str = '') -> list[Blob]:
    """Return the patches of one paint (or of every one), the largest first."""
    patches = []
    for name in [colour] if colour else COLOURS:
        if name not in PAINTS:
            continue
        mask = (labels == 1 + list(PAINTS).index(name)).astype(np.uint8)
        _, parts, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8)
        for i in 1 + np.flatnonzero(stats[1:, cv2.CC_STAT_AREA] >= _LEAST_PX):
            patches.append(Blob(name, centres[i], int(stats[i, cv2.CC_STAT_AREA]), parts == i))
    return sorted(patches, key=lambda blob: -blob.area)


class _Drawing:
    """The surroundings of a patch at a finer resolution, to draw outlines on."""

    def __init__(self, mask: Mask) -> None:
        ys, xs = np.nonzero(mask)
        self._low = np.array([max(xs.min() - _MARGIN, 0), max(ys.min() - _MARGIN, 0)])
        crop = mask[self._low[1]:ys.max() + _MARGIN + 1, self._low[0]:xs.max() + _MARGIN + 1]
        self._patch = np.repeat(np.repeat(crop.astype(np.uint8), _FINE, 0), _FINE, 1)
        self._area = int(np.count_nonzero(self._patch))

    def drawn(self, outlines: list[Floats]) -> Labels:
        canvas = np.zeros_like(self._patch)
        for outline in outlines:
            at = np.round((outline - self._low + 0.5) * _FINE - 0.5).astype(np.int32)
            cv2.fillConvexPoly(canvas, at, 1)
        return canvas

    def centre(self, canvas: Labels) -> Floats | None:
        moments = cv2.moments(canvas, binaryImage=True)
        if moments['m00'] < 1.0:
            return None
        at = np.array([moments['m10'], moments['m01']]) / moments['m00']
        out: Floats = (at + 0.5) / _FINE - 0.5 + self._low
        return out

    def overlap(self, canvas: Labels) -> float:
        both = int(np.count_nonzero(canvas & self._patch))
        return both / max(int(np.count_nonzero(canvas)) + self._area - both, 1)


def fitted(eye: WristEye, blob: Blob, solid: Solid, base: float = 0.0, fine: bool = True,
           ) -> Sighting:
    """
    Return where ``solid``, standing at height ``base``, fits a patch best.

    Every third turn is tried, then, when ``fine``, the neighbours of the best one.
    """
    drawing = _Drawing(blob.mask)
    yaws = solid.yaws
    place = eye.on_plane(blob.centre, base + solid.height / 2)[0]
    best = _fitted_at(eye, blob, solid, base, yaws[0], place, drawing, 3)
    for yaw in yaws[_COARSE::_COARSE]:
        best = max(best, _fitted_at(eye, blob, solid, base, yaw, best.position[:2], drawing, 1),
                   key=lambda fit: fit.sure)
    if fine:
        middle = yaws.index(best.yaw)
        for step in range(1 - _COARSE, _COARSE):
            yaw = yaws[(middle + step) % len(yaws)]
            best = max(best, _fitted_at(eye, blob, solid, base, yaw, best.position[:2], drawing,
                                        2), key=lambda fit: fit.sure)
    return best


def _fitted_at(eye: WristEye, blob: Blob, solid: Solid, base: float, yaw: float, place: Floats,
               drawing: _Drawing, rounds: int) -> Sighting:
    """Return the fit of one turn: moved so that outline and patch have the same centre."""
    z = base + solid.height / 2
    for left in range(rounds, -1, -1):
        canvas = drawing.drawn(solid.outlines(eye, np.array([*place, base]), yaw))
        seen = drawing.centre(canvas)
        if left == 0 or seen is None:
            break
        ends = eye.on_plane(np.array([blob.centre, seen]), z)
        place = place + ends[0] - ends[1]
    return Sighting(blob.colour, np.array([*place, z]), yaw, drawing.overlap(canvas), eye.position)


def height_of(first: Sighting, second: Sighting) -> float:
    """
    Return the height (m) of an object from two views: where their lines of sight are closest.

    Infinite when the lines are too nearly parallel.
    """
    sights = [sighting.position - sighting.eye for sighting in (first, second)]
    a, b = (sight / np.linalg.norm(sight) for sight in sights)
    along = float(a @ b)
    if along > PARALLEL:
        return math.inf
    gap = second.eye - first.eye
    far_a, far_b = np.array([[1.0, -along], [along, -1.0]]) @ [gap @ a, gap @ b] / (
        1.0 - along * along)
    return float((first.eye + far_a * a + second.eye + far_b * b)[2] / 2)


def filled(blob: Blob) -> Blob:
    """Return a patch with its holes filled: an object on top belongs to the outline."""
    edges, _ = cv2.findContours(blob.mask.astype(np.uint8), cv2.RETR_EXTERNAL,
                                cv2.CHAIN_APPROX_NONE)
    mask = cv2.drawContours(np.zeros(blob.mask.shape, np.uint8), edges, -1, 1, cv2.FILLED) > 0
    ys, xs = np.nonzero(mask)
    return Blob(blob.colour, np.array([xs.mean(), ys.mean()]), int(mask.sum()), mask)
