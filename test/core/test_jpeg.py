"""Pixels to JPEG and back."""

from array import array

import cv2
import numpy as np
import pytest

from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import QUALITY, from_jpeg, thumbnail, thumbnail_of_jpeg, to_jpeg


def picture(height=48, width=64):
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    return np.stack([np.tile(ramp, (height, 1)), np.full((height, width), 40, np.uint8),
                     np.tile(ramp[::-1], (height, 1))], axis=2)


@pytest.mark.parametrize('make', [bytes, bytearray, lambda d: array('B', d),
                                  lambda d: np.frombuffer(d, np.uint8), list])
def test_colours_survive_in_whatever_holds_the_bytes(make):
    pixels = picture()
    decoded = from_jpeg(make(to_jpeg(pixels)))
    assert decoded.dtype == np.uint8
    assert decoded.shape == pixels.shape
    assert np.abs(decoded.astype(int) - pixels).mean() < 4.0


def test_the_default_quality_is_the_one_of_the_module():
    assert to_jpeg(picture()) == to_jpeg(picture(), QUALITY)
    assert len(to_jpeg(picture(), 20)) < len(to_jpeg(picture()))


def test_pixels_need_not_be_contiguous():
    assert to_jpeg(picture()[:, ::-1]) == to_jpeg(np.ascontiguousarray(picture()[:, ::-1]))


@pytest.mark.parametrize('data', [b'', b'not a picture', to_jpeg(picture())[:20]])
def test_other_bytes_are_refused(data):
    with pytest.raises(DataError, match=f'{len(data)} bytes are not a picture'):
        from_jpeg(data)


@pytest.mark.parametrize('pixels', [np.zeros((0, 4, 3), np.uint8), np.zeros((4, 4), np.uint8),
                                    np.zeros((2, 70_000, 3), np.uint8)])
def test_pixels_that_are_no_picture_are_refused_with_their_shape(pixels):
    with pytest.raises(DataError, match='cannot be encoded as JPEG'):
        to_jpeg(pixels)


@pytest.mark.parametrize('quality', [0, 101])
def test_the_quality_has_a_range(quality):
    with pytest.raises(DataError, match='1 to 100'):
        to_jpeg(picture(), quality)


@pytest.mark.parametrize('size', [(180, 320), (224, 224), (126, 224), (288, 512), (100, 75)])
def test_the_thumbnail_of_a_jpeg_is_that_of_its_picture(size):
    coarse = np.random.default_rng(3).integers(0, 256, (6, 9, 3), np.uint8)
    pixels = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_NEAREST)
    far = thumbnail_of_jpeg(to_jpeg(pixels)).astype(int) - thumbnail(pixels)
    assert abs(far).max() <= 3
