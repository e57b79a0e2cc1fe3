"""
Features of frames: a frozen network's, and where the colours of the instruction are.

The network is EfficientNet-lite0 up to stride 16 (112 channels), trained on ImageNet by others
and never changed here; see ``trunk.md``. OpenCV runs it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Pixels

Features = NDArray[np.float32]

WIDTH, HEIGHT = 160, 96
CHANNELS, ROWS, COLUMNS = 112, HEIGHT // 16, WIDTH // 16
MAP_ROWS, MAP_COLUMNS = 9, 16
_MAP_SIZE = (128, 72)
COLOUR_SLOTS = 2
COLOURS: Mapping[str, tuple[int, int, int]] = {
    'red': (204, 33, 31), 'green': (41, 140, 56), 'blue': (31, 77, 191),
    'yellow': (237, 196, 31), 'orange': (237, 117, 26), 'purple': (115, 56, 153),
    'white': (235, 235, 230), 'black': (31, 31, 33), 'pink': (230, 128, 153),
    'brown': (107, 66, 38), 'grey': (128, 128, 128), 'gray': (128, 128, 128)}
_SPREAD = 22.0
_STEEPEST = 60.0
_MEAN, _SCALE = 127.0, 1.0 / 128.0


@cache
def _trunk() -> Any:
    data = resources.files('arena_robot.audit.local').joinpath('trunk.onnx').read_bytes()
    return cv2.dnn.readNetFromONNX(np.frombuffer(data, np.uint8))


def trunk_features(pictures: Sequence[Pixels]) -> Features:
    """Return (n, 112, 6, 10) of RGB pictures of any size."""
    blob = np.stack([small(picture) for picture in pictures]).astype(np.float32)
    net = _trunk()
    features = np.empty((len(pictures), CHANNELS, ROWS, COLUMNS), np.float32)
    for begin in range(0, len(pictures), 8):
        part = (blob[begin:begin + 8] - _MEAN) * _SCALE
        net.setInput(np.ascontiguousarray(part.transpose(0, 3, 1, 2)))
        features[begin:begin + 8] = net.forward()
    return features


def small(picture: Pixels) -> Pixels:
    """Return a picture at the network's size."""
    if picture.shape[:2] == (HEIGHT, WIDTH):
        return picture
    return np.asarray(cv2.resize(picture, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), np.uint8)


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


def colour_maps(pictures: Sequence[Pixels], instruction: str) -> Features:
    """Return (n, 2, 9, 16): how much of the first and the second colour named is where."""
    maps = np.zeros((len(pictures), COLOUR_SLOTS, MAP_ROWS, MAP_COLUMNS), np.float32)
    named = colours_in(instruction)[:COLOUR_SLOTS]
    if not named:
        return maps
    wanted = cv2.cvtColor(np.array([[COLOURS[name] for name in named]], np.uint8),
                          cv2.COLOR_RGB2LAB)[0].astype(np.float32)
    for row, picture in enumerate(pictures):
        tiny = cv2.resize(picture, _MAP_SIZE, interpolation=cv2.INTER_AREA)
        lab = cv2.cvtColor(tiny, cv2.COLOR_RGB2LAB).astype(np.float32)
        for slot, colour in enumerate(wanted):
            gap = lab - colour
            gap[..., 0] *= 0.4
            like = np.exp(-(gap ** 2).sum(axis=2) / (2 * _SPREAD ** 2))
            maps[row, slot] = cv2.resize(like, (MAP_COLUMNS, MAP_ROWS),
                                         interpolation=cv2.INTER_AREA)
    return maps
