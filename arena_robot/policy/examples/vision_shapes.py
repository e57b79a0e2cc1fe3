"""
Solids with known outlines, and their fit to a region of one colour in an image.

Sizes are those of everyday things, in m; a solid's own frame has its origin below its middle, on
what it stands on, z up.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.policy.examples.vision_body import WristEye
from arena_robot.policy.examples.vision_colours import Blob, Labels, Mask

_FINE = 3         # outlines are compared at this many times the picture's resolution
_MARGIN = 8       # pixels around a patch
_COARSE = 3
PARALLEL = 0.998   # cosine between two lines of sight that do not determine a height


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


@dataclass(frozen=True)
class Found:
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


def _box(half: tuple[float, float, float], middle: tuple[float, float, float]) -> Floats:
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return signs * half + middle


def _turned(*rings: tuple[float, float]) -> Floats:
    """Return points on circles of (radius, height)."""
    angles = np.linspace(0.0, 2.0 * np.pi, 20, endpoint=False)
    return np.concatenate([np.column_stack([r * np.cos(angles), r * np.sin(angles),
                                            np.full(20, z)]) for r, z in rings])


def _square(side: float, height: float) -> Solid:
    return Solid((_box((side / 2, side / 2, height / 2), (0.0, 0.0, height / 2)),), height,
                 tuple(np.radians(np.arange(-45.0, 45.0, 7.5))))


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


def fitted(eye: WristEye, blob: Blob, solid: Solid, base: float = 0.0, fine: bool = True) -> Found:
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
                   key=lambda one: one.sure)
    if fine:
        middle = yaws.index(best.yaw)
        for step in range(1 - _COARSE, _COARSE):
            yaw = yaws[(middle + step) % len(yaws)]
            best = max(best, _fitted_at(eye, blob, solid, base, yaw, best.position[:2], drawing,
                                        2), key=lambda one: one.sure)
    return best


def _fitted_at(eye: WristEye, blob: Blob, solid: Solid, base: float, yaw: float, place: Floats,
               drawing: _Drawing, rounds: int) -> Found:
    """Return the fit of one turn: moved so that outline and patch have the same centre."""
    z = base + solid.height / 2
    for left in range(rounds, -1, -1):
        canvas = drawing.drawn(solid.outlines(eye, np.array([*place, base]), yaw))
        seen = drawing.centre(canvas)
        if left == 0 or seen is None:
            break
        ends = eye.on_plane(np.array([blob.centre, seen]), z)
        place = place + ends[0] - ends[1]
    return Found(blob.colour, np.array([*place, z]), yaw, drawing.overlap(canvas), eye.position)


def height_of(one: Found, other: Found) -> float:
    """
    Return the height (m) of an object from two views: where their lines of sight are closest.

    Infinite when the lines are too nearly parallel.
    """
    sights = [found.position - found.eye for found in (one, other)]
    a, b = (sight / np.linalg.norm(sight) for sight in sights)
    along = float(a @ b)
    if along > PARALLEL:
        return math.inf
    gap = other.eye - one.eye
    far_a, far_b = np.array([[1.0, -along], [along, -1.0]]) @ [gap @ a, gap @ b] / (
        1.0 - along * along)
    return float((one.eye + far_a * a + other.eye + far_b * b)[2] / 2)


def filled(blob: Blob) -> Blob:
    """Return a patch with its holes filled: an object on top belongs to the outline."""
    edges, _ = cv2.findContours(blob.mask.astype(np.uint8), cv2.RETR_EXTERNAL,
                                cv2.CHAIN_APPROX_NONE)
    mask = cv2.drawContours(np.zeros(blob.mask.shape, np.uint8), edges, -1, 1, cv2.FILLED) > 0
    ys, xs = np.nonzero(mask)
    return Blob(blob.colour, np.array([xs.mean(), ys.mean()]), int(mask.sum()), mask)
