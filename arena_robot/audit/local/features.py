"""
Features of frames: a frozen network's, and where the colours of the instruction are.

Only the part of a picture that shows the table is looked at. The network is EfficientNet-lite0 up
to stride 8 (40 channels) and 16 (112 channels), trained on ImageNet by others and never changed
here; see ``trunk.md``. OpenCV runs it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Pixels

Features = NDArray[np.float32]

WIDTH, HEIGHT = 144, 112    # two views of eight frames take 50 ms on one core
COARSE, FINE = 112, 40      # channels at stride 16 and 8
ROWS, COLUMNS = HEIGHT // 16, WIDTH // 16
CELLS = ROWS * COLUMNS      # at stride 16; four times as many at stride 8
_MAP_SIZE = (128, 72)
# By view, as shares of the picture (left, top, right, bottom): x .32 to .75 m, y ±.36 m and up to
# .22 m over the table, seen by the station's cameras. Of other views all is looked at.
CROPS: Mapping[str, tuple[float, float, float, float]] = {
    'left': (0.206, 0.322, 0.663, 0.944), 'right': (0.4375, 0.322, 0.9625, 0.989)}
COLOUR_SLOTS = 2
COLOURS: Mapping[str, tuple[int, int, int]] = {
    'red': (204, 33, 31), 'green': (41, 140, 56), 'blue': (31, 77, 191),
    'yellow': (237, 196, 31), 'orange': (237, 117, 26), 'purple': (115, 56, 153),
    'white': (235, 235, 230), 'black': (31, 31, 33), 'pink': (230, 128, 153),
    'brown': (107, 66, 38), 'grey': (128, 128, 128), 'gray': (128, 128, 128)}
_SPREAD = 22.0
# Colours of things, and not of the table, the robot or shadows.
_THINGS = ('red', 'green', 'blue', 'yellow', 'orange', 'purple', 'pink')
_ALIKE = frozenset({'cube', 'block'})    # there are several on a table
_LIKE, _LEAST_PIXELS = 0.6, 12    # a cube far away has 30 pixels
_STEEPEST = 60.0
_MEAN, _SCALE = 127.0, 1.0 / 128.0


@cache
def _trunk() -> Any:
    data = resources.files('arena_robot.audit.local').joinpath('trunk.onnx').read_bytes()
    return cv2.dnn.readNetFromONNX(np.frombuffer(data, np.uint8))


def trunk_features(pictures: Sequence[Pixels]) -> tuple[Features, Features]:
    """Return (n, 63, 112) and (n, 252, 40) of RGB pictures of the network's size."""
    blob = np.stack(pictures).astype(np.float32)
    net, count = _trunk(), len(pictures)
    coarse = np.empty((count, CELLS, COARSE), np.float32)
    fine = np.empty((count, 4 * CELLS, FINE), np.float32)
    for begin in range(0, count, 8):
        part = (blob[begin:begin + 8] - _MEAN) * _SCALE
        net.setInput(np.ascontiguousarray(part.transpose(0, 3, 1, 2)))
        for out, seen in zip((coarse, fine), net.forward(['features', 'fine']), strict=True):
            out[begin:begin + 8] = seen.reshape(len(part), out.shape[2], -1).transpose(0, 2, 1)
    return coarse, fine


def table(picture: Pixels, view: str) -> Pixels:
    """Return the part of a view's picture that shows the table, at the network's size."""
    rows, columns = picture.shape[:2]
    left, top, right, bottom = CROPS.get(view, (0.0, 0.0, 1.0, 1.0))
    part = picture[round(top * rows):round(bottom * rows),
                   round(left * columns):round(right * columns)]
    shrinks = part.shape[1] > WIDTH
    return np.asarray(cv2.resize(part, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA if shrinks
                                 else cv2.INTER_LINEAR), np.uint8)


def backdrop(picture: Pixels) -> Features:
    """Return the edges of a picture (72 * 128,), mean 0 and norm 1, to compare backgrounds."""
    grey = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), _MAP_SIZE,
                      interpolation=cv2.INTER_AREA).astype(np.float32)
    steep = np.hypot(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    edges = np.minimum(steep, _STEEPEST).ravel()
    edges = edges - edges.mean()
    return np.asarray(edges / max(float(np.linalg.norm(edges)), 1e-6), np.float32)


def colours_in(instruction: str) -> list[str]:
    """Return the colours that an instruction names, in order, each once."""
    words = re.findall(r'[a-z]+', instruction.lower())
    return list(dict.fromkeys(word for word in words if word in COLOURS))


def names_one_of_alike(instruction: str) -> bool:
    """Return whether a colour tells which of several things is meant, such as two cubes."""
    named, found = colours_in(instruction), re.findall(r'[a-z]+', instruction.lower())
    return any(colour in named and thing in _ALIKE for colour, thing in pairwise(found))


def colour_maps(pictures: Sequence[Pixels], instruction: str) -> Features:
    """Return (n, 252, 2): how much of the first and the second colour named is where."""
    maps = np.zeros((len(pictures), 4 * CELLS, COLOUR_SLOTS), np.float32)
    named = colours_in(instruction)[:COLOUR_SLOTS]
    if not named:
        return maps
    for row, picture in enumerate(pictures):
        for slot, like in enumerate(_likeness(picture, named)):
            maps[row, :, slot] = cv2.resize(like, (2 * COLUMNS, 2 * ROWS),
                                            interpolation=cv2.INTER_AREA).ravel()
    return maps


def _likeness(picture: Pixels, names: Sequence[str]) -> list[Features]:
    """Return for each colour how much of it each pixel has, 0 to 1."""
    wanted = cv2.cvtColor(np.array([[COLOURS[name] for name in names]], np.uint8),
                          cv2.COLOR_RGB2LAB)[0].astype(np.float32)
    gaps = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB).astype(np.float32) - wanted[:, None, None]
    gaps[..., 0] *= 0.4
    return list(np.exp(-(gaps ** 2).sum(axis=3) / (2 * _SPREAD ** 2)))


def counterfactual(instruction: str, start: Pixels) -> str:
    """
    Return the instruction with other colours: it asks for what was not done.

    Two colours of cubes change places; one becomes another that ``start``, a picture of the table,
    shows. Empty where there is none, and where a colour is named twice or of anything else: of a
    single book or cup it tells nothing apart.
    """
    named, words = colours_in(instruction), re.findall(r'[a-z]+', instruction.lower())
    things = {word for colour, word in pairwise(words) if colour in named}
    if not things <= _ALIKE or any(words.count(name) > 1 for name in named):
        return ''
    if len(named) == 1:
        names = [*named, *(name for name in _THINGS if name not in named)]
        own, *others = _likeness(start, names)
        areas = [float(((like > _LIKE) & (own < 1.0 - _LIKE)).sum()) for like in others]
        best = int(np.argmax(areas))
        named = [*named, names[1 + best]] if areas[best] >= _LEAST_PIXELS else []
    if not named:
        return ''
    turned = dict(zip(named[:2], named[1::-1], strict=True))
    return re.sub(r'[a-z]+', lambda found: turned.get(found[0], found[0]), instruction.lower())
