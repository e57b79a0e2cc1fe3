"""Colour classes of pixels by chromaticity, nearly independent of light and shadow."""

import functools
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats, Pixels

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
_DARK = 40               # sum of the channels below which a pixel has no hue
_SPREAD = 0.09           # of a paint's chromaticity
_LEAST_PX = 10

Labels = NDArray[np.uint8]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Blob:
    """A patch of one paint: ``centre`` x, y in pixels, ``area`` in pixels, and where it is."""

    colour: str
    centre: Floats
    area: int
    mask: Mask


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
    sure = (away[np.arange(len(best)), best] < _SPREAD ** 2) & (rgb.sum(axis=1) > _DARK)
    paint = best < len(PAINTS)
    return np.where(sure & paint, best + 1, NOTHING).astype(np.uint8)


def labelled(pixels: Pixels) -> Labels:
    """Return (H, W) numbers: 1 + index of the paint in :data:`PAINTS`, 0 for anything else."""
    r, g, b = (pixels[..., channel].astype(np.int32) >> (8 - _BITS) for channel in range(3))
    out: Labels = _table()[(r << 2 * _BITS) | (g << _BITS) | b]
    return out


def blobs(labels: Labels, colour: str = '') -> list[Blob]:
    """Return the patches of one paint (or of every one), the largest first."""
    found = []
    for name in [colour] if colour else COLOURS:
        if name not in PAINTS:
            continue
        mask = (labels == 1 + list(PAINTS).index(name)).astype(np.uint8)
        _, parts, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8)
        for i in 1 + np.flatnonzero(stats[1:, cv2.CC_STAT_AREA] >= _LEAST_PX):
            found.append(Blob(name, centres[i], int(stats[i, cv2.CC_STAT_AREA]), parts == i))
    return sorted(found, key=lambda blob: -blob.area)
