"""
Selects the images that a policy requires, at the size that it requires.

The reference client shrinks every camera frame to 512x288 with Pillow's LANCZOS and then
stretches that to the policy's size with LANCZOS again. ``exact`` does just that. ``fast`` is one
low pass at the lower of the two bandwidths, taken at half or quarter resolution where the target
allows, then a cubic sampling: 35 to 50 dB from the reference on photographs, many times faster.
"""

import dataclasses
import functools
from typing import cast

import cv2
import numpy as np
import PIL.Image

from arena_robot.core.action import Chunk
from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import DEPTH, DepthImage, Image, Observation, Pixels, view
from arena_robot.policy.base import Closable, Policy, PolicySpec

MIDDLE = (288, 512)   # height, width of the reference's first step
MARGIN = 1.3          # how far above the target's bandwidth a reduced image must stay
LOBES = 3


def exact(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return (height, width, 3) by the reference's two LANCZOS steps, bit for bit."""
    image = PIL.Image.fromarray(pixels)
    for size in (MIDDLE[::-1], (width, height)):
        image = image.resize(size, PIL.Image.Resampling.LANCZOS)
    return np.asarray(image)


def fast(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return (height, width, 3) close to :func:`exact`; see the module's text for how close."""
    pixels = np.ascontiguousarray(pixels)   # a channel flip is a view that OpenCV cannot read
    band = min(height, MIDDLE[0]), min(width, MIDDLE[1])
    factor = _reduction(pixels.shape[0] / band[0], pixels.shape[1] / band[1])
    if factor > 1:
        reduced = (pixels.shape[1] // factor, pixels.shape[0] // factor)
        pixels = cast(Pixels, cv2.resize(pixels, reduced, interpolation=cv2.INTER_AREA))
    low, wide = (_low_pass(pixels.shape[axis], band[axis]) for axis in (0, 1))
    if low.size > 1 or wide.size > 1:
        pixels = cast(Pixels, cv2.sepFilter2D(pixels, -1, wide, low,
                                              borderType=cv2.BORDER_REPLICATE))
    return cast(Pixels, cv2.resize(pixels, (width, height), interpolation=cv2.INTER_CUBIC))


def within(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return (height, width, 3) with the whole picture, unstretched, as openpi pads it."""
    if pixels.shape[:2] == (height, width):
        return pixels
    scale = min(height / pixels.shape[0], width / pixels.shape[1])
    rows, columns = (max(1, int(side * scale)) for side in pixels.shape[:2])
    small = PIL.Image.fromarray(pixels).resize((columns, rows), PIL.Image.Resampling.BILINEAR)
    out = np.zeros((height, width, 3), np.uint8)
    top, left = (height - rows) // 2, (width - columns) // 2
    out[top:top + rows, left:left + columns] = np.asarray(small)
    return out


def _reduction(*ratios: float) -> int:
    return next((k for k in (8, 4, 2) if min(ratios) >= MARGIN * k), 1)


@functools.lru_cache(maxsize=64)
def _low_pass(size: int, band: int) -> np.ndarray:
    """Return the taps of a LANCZOS low pass that leaves ``band`` samples' worth of ``size``."""
    if band >= size:
        return np.ones(1, np.float32)
    scale = size / band
    reach = int(np.ceil(LOBES * scale))
    x = np.arange(-reach, reach + 1) / scale
    taps = np.where(np.abs(x) < LOBES, np.sinc(x) * np.sinc(x / LOBES), 0.0)
    out: np.ndarray = (taps / taps.sum()).astype(np.float32)
    return out


METHODS = {'fast': fast, 'exact': exact}


def shown(observation: Observation, spec: PolicySpec, whole: bool = True) -> Observation:
    """
    Return ``observation`` with the images ``spec`` wants, under its keys and at its size.

    With one external camera ``observation.third_person`` says which; its key is ``left`` then.
    Images that fit already are not touched. Where the station has no such camera PolicyRefused is
    raised, or without ``whole`` that image is left out.
    """
    images = {}
    for name in spec.views():
        role, eye = name.split('_')
        outside = spec.external_cameras == 1 and role == 'left'
        source = view(observation.third_person, eye) if outside else name
        if source not in observation.images:
            if not whole:
                continue
            raise PolicyRefused(f"the policy wants camera view '{source}', this station shows "
                                f"{', '.join(observation.images) or 'none'}")
        images[name] = _fitted(observation.images[source], spec)
    chosen = 'left' if spec.external_cameras == 1 else observation.third_person
    return dataclasses.replace(observation, images=images, third_person=chosen,
                               depths=_shown_depths(observation, spec, whole))


def _shown_depths(observation: Observation, spec: PolicySpec,
                  whole: bool) -> dict[str, DepthImage]:
    depths = {}
    for name in spec.depths():
        outside = spec.external_cameras == 1 and name == view('left', DEPTH)
        source = view(observation.third_person, DEPTH) if outside else name
        depth = observation.depths.get(source)
        if depth is None and whole:
            raise PolicyRefused(f"the policy wants the depth '{source}', this station shows "
                                f"{', '.join(observation.depths) or 'none'}")
        if depth is not None:
            depths[name] = fitted_depth(depth, spec)
    return depths


def fitted_depth(depth: DepthImage, spec: PolicySpec) -> DepthImage:
    """Return depth at the size that ``spec`` wants, by nearest neighbour."""
    size = spec.image_size
    if size is None or depth.millimetres.shape == tuple(size):
        return depth
    # Between two depths there is nothing.
    return DepthImage(np.asarray(cv2.resize(
        depth.millimetres, size[::-1], interpolation=cv2.INTER_NEAREST), np.uint16),
        depth.stamp_ns)


def _fitted(image: Image, spec: PolicySpec) -> Image:
    if spec.image_size is None or image.pixels.shape[:2] == tuple(spec.image_size):
        return image
    return Image(METHODS[spec.resize](image.pixels, *spec.image_size), image.stamp_ns)


class Resizing:
    """A policy that takes whole camera frames and passes on what the inner one requires."""

    def __init__(self, policy: Policy, whole: bool = True) -> None:
        self._policy = policy
        self._whole = whole

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Select, resize, query."""
        return self._policy.infer(
            shown(observation, self._policy.spec, self._whole), episode)

    def reset(self, episode: str = '') -> None:
        """Pass on."""
        self._policy.reset(episode)

    def close(self) -> None:
        """Close the inner policy, if it holds something."""
        if isinstance(self._policy, Closable):
            self._policy.close()
