"""A clip whose pictures tell their progress."""

import numpy as np

from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.core.clip import Clip

TRUTH = [0.0, 0.2, 0.5, 0.35, 0.6, 1.0]


def frame(value):
    """Return a picture whose brightness is a progress."""
    return np.full((16, 16, 3), round(40 + 160 * value), np.uint8)


def value_of(picture):
    return (float(picture.mean()) - 40) / 160


def clip(values=TRUTH, goal=True):
    frames = [frame(v) for v in values]
    return Clip('lift the cube', np.arange(len(values)) * 0.5, {'left': frames, 'wrist': frames},
                goal={'left': frame(1.0), 'wrist': frame(1.0)} if goal else {}, name='s/A')


class Brightness:
    """A judge that reads the brightness."""

    name, capabilities = 'brightness', Capabilities()

    def progress(self, clip):
        return trace_of(clip, np.array([value_of(f) for f in next(iter(clip.frames.values()))]),
                        self.name)

    def compare(self, pair):
        return None
