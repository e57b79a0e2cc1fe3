"""Pixels to bytes and back; nothing larger than the limit is ever decoded."""

import io

import numpy as np
import PIL.Image

from arena_robot.core.errors import DataError, PolicyRefused
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Pixels
from arena_robot.policy.base import MAX_SIDE


def from_announced_jpeg(data: bytes, height: int, width: int) -> Pixels:
    """Return (height, width, 3) RGB; raises PolicyRefused when the bytes say otherwise."""
    check_sides(height, width)
    try:
        with PIL.Image.open(io.BytesIO(data), formats=('JPEG',)) as header:
            found = header.size
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise PolicyRefused(f'an image is not a JPEG that can be read: {error}') from error
    if found != (width, height):
        raise PolicyRefused(f'a JPEG was announced as {height}x{width} (height x width) and is '
                            f'{found[1]}x{found[0]}')
    try:
        return from_jpeg(data)
    except DataError as error:
        raise PolicyRefused('an image is not a JPEG that can be read') from error


def from_rgb8(data: bytes, height: int, width: int) -> Pixels:
    """Return (height, width, 3) RGB; raises PolicyRefused when the length does not fit."""
    check_sides(height, width)
    if len(data) != height * width * 3:
        raise PolicyRefused(f'a raw image of {height}x{width} (height x width) needs '
                            f'{height * width * 3} bytes, found {len(data)}')
    out: Pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3).copy()
    return out


def check_sides(height: int, width: int) -> None:
    """Raise PolicyRefused unless both sides are 1 to MAX_SIDE pixels."""
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise PolicyRefused(f'image sides must be 1 to {MAX_SIDE} pixels, found {height}x{width}')
