"""Wood, floor and wall pictures, drawn by seed and handed to MuJoCo as PNG bytes."""

import cv2
import numpy as np

from arena_robot.core.observation import Floats

_WOOD = {'oak': ((196, 158, 112), (164, 122, 78)), 'walnut': ((128, 88, 60), (92, 60, 40)),
         'white': ((214, 210, 203), (192, 186, 177)), 'grey': ((176, 172, 167), (140, 136, 132))}


def _noise(rng: np.random.Generator, height: int, width: int, fx: int, fy: int) -> Floats:
    coarse = rng.uniform(-1, 1, (fy, fx)).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), float)


def wood_png(rng: np.random.Generator, kind: str, size: int = 512) -> bytes:
    """Return planks with grain running along the first axis of the picture."""
    light, dark = (np.array(colour, float) for colour in _WOOD[kind])
    warp = _noise(rng, size, size, 4, 6) * 3 + _noise(rng, size, size, 5, 40) * 0.8
    rows = np.arange(size)[:, None] / size * 22
    grain = 0.5 + 0.5 * np.sin(rows * 2 * np.pi / 3 + warp)
    grain = 0.45 * grain + 0.55 * (0.5 + 0.5 * _noise(rng, size, size, 8, size // 3))
    picture = dark + (light - dark) * grain[..., None]
    planks = rng.uniform(0.93, 1.05, 4)[np.arange(size) * 4 // size]
    picture = picture * planks[:, None, None]
    picture[np.arange(0, size, size // 4)] *= 0.75
    return _png(picture)


def floor_png(rng: np.random.Generator, colour: tuple[float, float, float],
              size: int = 256) -> bytes:
    """Return speckled concrete."""
    picture = np.array(colour) * 255 * np.ones((size, size, 1))
    picture = picture * (1 + 0.05 * _noise(rng, size, size, 9, 9)[..., None]
                         + 0.05 * rng.uniform(-1, 1, (size, size, 1)))
    return _png(picture)


def _png(rgb: Floats) -> bytes:
    pixels = np.clip(rgb, 0, 255).astype(np.uint8)
    _, data = cv2.imencode('.png', pixels[..., ::-1])
    return bytes(data.tobytes())
