"""Photographs of the start and of the reset, kept beside the journal."""

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from arena_robot.core.errors import SessionError
from arena_robot.core.observation import Pixels

QUALITY = 95


def keep_photos(folder: Path, images: Mapping[str, Pixels]) -> dict[str, Pixels]:
    """
    Write one ``<view>.jpg`` per RGB image and return them as they will be read back.

    Raises SessionError when they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in images.items():
        path = folder / f'{name}.jpg'
        if not cv2.imwrite(str(path), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR),
                           [cv2.IMWRITE_JPEG_QUALITY, QUALITY]):
            raise SessionError(f'cannot write the photograph {path}; is the disk full?')
    return read_photos(folder)


def read_photos(folder: Path) -> dict[str, Pixels]:
    """Return the photographs in ``folder`` as RGB by view; none where there are none."""
    found = {}
    for path in sorted(folder.glob('*.jpg')):
        pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if pixels is not None:
            found[path.stem] = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)
    return found


def jpeg(pixels: Pixels, quality: int = 80) -> bytes:
    """Return an RGB image (H, W, 3) as a JPEG file."""
    _, data = cv2.imencode('.jpg', cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR),
                           [cv2.IMWRITE_JPEG_QUALITY, quality])
    return bytes(data)
