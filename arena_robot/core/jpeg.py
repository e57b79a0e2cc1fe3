"""RGB pixels to JPEG and depth to PNG, and back: the only place that encodes or decodes them."""

import io
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import PIL.Image
from numpy.typing import NDArray

from arena_robot.core.errors import DataError
from arena_robot.core.observation import Millimetres, Pixels

QUALITY = 90          # of streams
# Of a CompressedImage with depth: its format, and 12 bytes before the PNG that say nothing of it.
DEPTH_FORMAT, DEPTH_HEADER = '16UC1; compressedDepth png', bytes(12)
PHOTO_QUALITY = 95    # of start photographs, which people and the match of the scene compare


def to_jpeg(pixels: Pixels, quality: int = QUALITY) -> bytes:
    """Return ``pixels`` (H, W, 3) RGB as JPEG of ``quality`` 1 to 100. Raises DataError."""
    if not 1 <= quality <= 100:
        raise DataError(f'the quality of a JPEG is 1 to 100, found {quality}')
    if pixels.ndim != 3 or pixels.shape[2] != 3:
        raise _not_encoded(pixels)
    try:
        bgr = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2BGR)
        good, data = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    except cv2.error as error:
        raise _not_encoded(pixels) from error
    if not good:
        raise _not_encoded(pixels)
    return data.tobytes()


def from_jpeg(data: 'bytes | Sequence[int] | NDArray[Any]', most_pixels: int = 0) -> Pixels:
    """
    Return the (H, W, 3) RGB pixels of a JPEG (or PNG) file.

    Raises DataError when it is none, or its header says that it has more than ``most_pixels``,
    which belong to bytes of an unknown sender; 0: as many as it likes.
    """
    raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.asarray(data, np.uint8)
    if most_pixels:
        _check_header(raw, most_pixels)
    rgb = cv2.imdecode(raw, cv2.IMREAD_COLOR_RGB) if raw.size else None
    if rgb is None:
        raise DataError(f'{raw.size} bytes are not a picture that can be read')
    return np.asarray(rgb, np.uint8)


def to_png(millimetres: Millimetres) -> bytes:
    """Return depth (H, W) as a PNG of 16 bits, without loss. Raises DataError."""
    if millimetres.ndim != 2 or millimetres.dtype != np.uint16 or not millimetres.size:
        raise DataError(f'depth of shape {millimetres.shape} and type {millimetres.dtype} cannot '
                        'be encoded as PNG; it takes (height, width) of uint16')
    # The fastest level: a higher one takes five times as long for a tenth of the size.
    return cv2.imencode('.png', millimetres, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()


def from_png(data: 'bytes | Sequence[int] | NDArray[Any]', most_pixels: int = 0) -> Millimetres:
    """Return the depth (H, W) of a PNG of 16 bits. Raises DataError as :func:`from_jpeg`."""
    raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.asarray(data, np.uint8)
    if most_pixels:
        _check_header(raw, most_pixels)
    depth = cv2.imdecode(raw, cv2.IMREAD_UNCHANGED) if raw.size else None
    if depth is None or depth.ndim != 2 or depth.dtype != np.uint16:
        raise DataError(f'{raw.size} bytes are not depth that can be read: a PNG of 16 bits')
    return np.asarray(depth, np.uint16)


def from_depth_message(data: 'bytes | Sequence[int] | NDArray[Any]', form: str,
                       most_pixels: int = 0) -> Millimetres:
    """Return the depth (H, W) of a CompressedImage's data and format. Raises DataError."""
    if not form.startswith('16UC1') or 'rvl' in form:
        raise DataError(f"its depth is '{form}', usable is '{DEPTH_FORMAT}'")
    return from_png(data[len(DEPTH_HEADER):], most_pixels)


def thumbnail_of_jpeg(data: bytes) -> Pixels:
    """
    Return :func:`thumbnail` of a JPEG. Raises DataError.

    All of it is decoded: an eighth of a height that eight does not divide shifts every part.
    """
    grey = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    if grey is None:
        raise DataError(f'{len(data)} bytes are not a picture that can be read')
    return thumbnail(np.asarray(grey, np.uint8))


def thumbnail(pixels: Pixels) -> Pixels:
    """Return the mean brightness (8, 8) of the parts of a picture, RGB or grey."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.ndim == 3 else pixels
    return np.asarray(cv2.resize(grey, (8, 8), interpolation=cv2.INTER_AREA), np.uint8)


def _check_header(raw: 'NDArray[np.uint8]', most_pixels: int) -> None:
    try:
        with PIL.Image.open(io.BytesIO(raw.tobytes())) as picture:
            width, height = picture.size
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise DataError(f'{raw.size} bytes are not a picture that can be read') from error
    if width * height > most_pixels:
        raise DataError(f'a picture has {width} by {height} pixels, at most {most_pixels} are '
                        'read')


def _not_encoded(pixels: Pixels) -> DataError:
    return DataError(f'an image of shape {pixels.shape} cannot be encoded as JPEG; '
                     'it takes (height, width, 3) bytes in RGB')
