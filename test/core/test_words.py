"""Names of observations and errors, and pixels to JPEG and back."""

import inspect
from array import array

import cv2
import numpy as np
import pytest

from arena_robot.core import errors
from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import QUALITY, from_jpeg, thumbnail, thumbnail_of_jpeg, to_jpeg
from arena_robot.core.observation import (
    VIEWS,
    ArmState,
    CameraInfo,
    GripperState,
    Image,
    Observation,
    RobotMode,
    view,
)


def arm(stamp_ns, mode=RobotMode.IDLE):
    zero = np.zeros(7)
    return ArmState(stamp_ns, zero, zero, zero, zero, np.zeros(6), zero, mode)


def test_every_error_has_its_own_code_and_stands_in_the_tree():
    tree = [e for _, e in inspect.getmembers(errors, inspect.isclass)]
    codes = [e.code for e in tree]
    assert len(set(codes)) == len(codes)
    for error in tree:
        assert issubclass(error, errors.ArenaError)
        assert error.__name__ in errors.__doc__
        assert f"'{error.code}'" in errors.__doc__


@pytest.mark.parametrize(('space', 'size', 'velocity'), [
    ('joint_position', 8, False), ('joint_velocity', 8, True),
    ('cartesian_position', 7, False), ('cartesian_velocity', 7, True)])
def test_action_spaces(space, size, velocity):
    assert ActionSpace(space).size(7) == size
    assert ActionSpace(space).size(14) == (15 if size == 8 else 7)
    assert ActionSpace(space).is_velocity is velocity


def test_age_and_skew_are_those_of_the_worst_part():
    images = {view('left'): Image(np.zeros((2, 2, 3), np.uint8), 70),
              view('wrist'): Image(np.zeros((2, 2, 3), np.uint8), 95)}
    observation = Observation(100, arm(90), GripperState(80, 0.0, 0.085, 0.0), 'x', 0, images)
    assert observation.age_ns() == 30
    assert observation.skew_ns() == 20
    assert Observation(100, arm(90), GripperState(90, 0.0, 0.085, 0.0), 'x').skew_ns() == 0
    assert set(images) < set(VIEWS)


@pytest.mark.parametrize('mode', list(RobotMode))
def test_only_a_reflex_or_user_stop_needs_recovery(mode):
    needs = mode in (RobotMode.REFLEX, RobotMode.USER_STOPPED)
    assert arm(0, mode).recovery_required is needs


def test_the_right_eyes_projection_holds_the_baseline():
    k = np.array([[500.0, 0, 256], [0, 500.0, 144], [0, 0, 1]])
    p = CameraInfo(512, 288, k, 0.12, 'left_right_camera_frame_optical').p()
    assert p.shape == (3, 4)
    assert p[0, 3] == -60.0
    assert np.array_equal(p[:, :3], k)


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
