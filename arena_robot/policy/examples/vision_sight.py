"""
Detection of objects on the table from one wrist image and the arm's joints.

Shapes and sizes of the objects are known. Most are fitted by their outline (:mod:`vision_shapes`),
a bowl or plate by the ring of its rim. Positions are in m in the base frame.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from arena_robot.core.observation import Floats, Pixels
from arena_robot.policy.examples.vision_body import IMAGE_SIZE, PAD_M, WristEye
from arena_robot.policy.examples.vision_colours import Blob, Labels, blobs
from arena_robot.policy.examples.vision_shapes import (
    CUBE,
    HOUSING,
    PANEL,
    TRAY,
    Found,
    Solid,
    filled,
    fitted,
)
from arena_robot.robots.grippers import ROBOTIQ_2F85

TIP_M = 0.167 - PAD_M         # pads to fingertips
_TIP_HALF_M = 0.011
_DARK, _EDGE = 45.0, 28.0
_MOST = 6                     # patches looked at closely
REACH_X, REACH_Y = (0.30, 0.72), (-0.36, 0.36)


def within_reach(place: Floats) -> bool:
    """Return whether a point lies over the part of the table where objects stand."""
    out: bool = (REACH_X[0] < place[0] < REACH_X[1]) and (REACH_Y[0] < place[1] < REACH_Y[1])
    return out


def near(labels: Labels, eye: WristEye, colour: str, area_m2: tuple[float, float]) -> list[Blob]:
    """Return the patches of one paint (or of every one) on the table, of a size."""
    return [blob for blob in blobs(labels, colour)
            if within_reach(eye.on_plane(blob.centre, 0.02)[0])
            and area_m2[0] < blob.area * eye.pixel_m(0.02) ** 2 < area_m2[1]]


def cubes(labels: Labels, eye: WristEye, colour: str = '', base: float = 0.0) -> list[Found]:
    """Return the blocks seen of one colour (or of every one), the best fits first."""
    found = [fitted(eye, blob, CUBE, base)
             for blob in near(labels, eye, colour, (0.0005, 0.008))[:_MOST]]
    return sorted(found, key=lambda one: -one.sure)


def trays(labels: Labels, eye: WristEye) -> list[Found]:
    """Return the square trays, whatever their colours."""
    return [fitted(eye, filled(blob), TRAY)
            for blob in near(labels, eye, '', (0.008, 0.032))[:_MOST]]


def button(labels: Labels, eye: WristEye) -> Found | None:
    """Return the push button by its housing; ``position`` is the housing's middle."""
    for blob in blobs(labels, 'housing')[:1]:
        found = fitted(eye, filled(blob), HOUSING)
        if found.sure > 0.6:
            return found
    return None


def panels(labels: Labels, eye: WristEye) -> list[Found]:
    """Return candidates for a drawer's front panel, the best fits first."""
    found = [fitted(eye, filled(blob), PANEL)
             for blob in near(labels, eye, '', (0.003, 0.06))[:_MOST]]
    return sorted(found, key=lambda one: -one.sure)


def likest(labels: Labels, eye: WristEye, solid: Solid, colour: str = '', base: float = 0.0,
           rivals: Sequence[Solid] = (CUBE,)) -> list[Found]:
    """Return candidates for ``solid``, those first that fit it better than its rivals."""
    found = []
    for blob in near(labels, eye, colour, (0.0008, 0.02))[:_MOST]:
        whole = filled(blob)
        mine = fitted(eye, whole, solid, base, False)
        other = max(fitted(eye, whole, rival, base, False).sure for rival in rivals)
        found.append((mine.sure - other, whole, mine))
    found.sort(key=lambda one: -one[0])
    return [fitted(eye, blob, solid, base) if more > 0.0 or not i else mine
            for i, (more, blob, mine) in enumerate(found)]


def ring(pixels: Pixels, eye: WristEye, radius: float, z: float) -> Found:
    """Return the round thing whose rim has ``radius`` at height ``z``, wherever it fits best."""
    soft = cv2.GaussianBlur(pixels, (3, 3), 0).astype(float)
    soft[pixels.max(axis=2) < _DARK] = np.nan
    xs, ys = np.arange(0.36, 0.66, 0.01), np.arange(-0.28, 0.28, 0.01)
    place, score = _best_ring(soft, eye, radius, z, xs, ys)
    for step in (0.004, 0.0015):
        offsets = np.arange(-3, 4) * step
        place, score = _best_ring(soft, eye, radius, z, place[0] + offsets, place[1] + offsets)
    return Found('', np.array([*place, z]), 0.0, score, eye.position)


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


