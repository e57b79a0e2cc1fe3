"""A camera that was moved since the last start photographs is named before a session."""

import cv2
import numpy as np
import pytest
from test_match import SIZE, scene

from arena_robot.core.errors import NotConnected
from arena_robot.session.loop.match import compare, keep_photos, picture_shift
from arena_robot.session.loop.preflight import positions_check


def turned(pixels, degrees=0.0, shift=(0.0, 0.0), scale=1.0):
    """The picture as a camera sees it that was turned about its axis and shifted (px)."""
    matrix = cv2.getRotationMatrix2D((SIZE[0] / 2, SIZE[1] / 2), degrees, scale)
    matrix[:, 2] += shift
    return cv2.warpAffine(pixels, matrix, SIZE, borderMode=cv2.BORDER_REFLECT)


@pytest.mark.parametrize(('move', 'expected'), [
    ({'shift': (40.0, -25.0)}, np.hypot(40, 25) / 512),      # too far for the scene match
    ({'shift': (150.0, 0.0)}, 150 / 512),
    ({'degrees': 3.0}, np.hypot(512, 288) / 1024 * 2 * np.sin(np.radians(1.5))),
    ({'scale': 1.05}, 0.05 * np.hypot(512, 288) / 1024),
    ({}, 0.0),
], ids=['shifted', 'far', 'turned', 'nearer', 'as it was'])
def test_the_shift_is_measured_whatever_lies_on_the_table(move, expected):
    now = turned(scene(cube=(90, 60), seed=5, light=0.9), **move)
    assert picture_shift(scene(), now) == pytest.approx(expected, abs=0.006)


def test_at_the_reset_a_camera_that_moved_far_is_named_and_objects_are_not():
    assert compare(scene(), turned(scene(seed=2), shift=(60.0, 0.0))).camera_moved
    gone = compare(scene(), scene((2000, 2000), seed=1))
    assert not gone.camera_moved
    assert gone.far == pytest.approx(0.0, abs=0.006)


def test_pictures_that_share_nothing_say_nothing():
    noise = np.random.default_rng(1).integers(0, 255, (288, 512, 3), np.uint8)
    assert picture_shift(scene(), noise) is None
    assert picture_shift(scene(), np.full((288, 512, 3), 90, np.uint8)) is None


def test_the_moved_camera_is_named_with_what_to_do_and_the_wrist_may_move(tmp_path):
    view, away = scene(), turned(scene(seed=2), shift=(40.0, 0.0))
    assert 'no earlier' in positions_check(tmp_path, dict).detail
    keep_photos(tmp_path / 'monday' / 'start', {
        'left_left': view, 'right_left': view, 'wrist_left': view})
    check = positions_check(tmp_path, lambda: {
        'left_left': away, 'right_left': scene(seed=3), 'wrist_left': away})
    assert (check.ok, check.warning) == (True, True)
    assert check.detail.startswith('the left camera was moved since the start photographs of '
                                   'session monday')
    assert check.detail.count('camera was moved') == 1
    assert 'arena calibrate camera' in check.detail
    same = positions_check(tmp_path, lambda: {'left_left': scene(seed=4), 'right_left': view})
    assert not same.warning
    assert same.detail.startswith('left, right as in session monday')
    assert positions_check(tmp_path, lambda: {'left_left': view[:100]}).detail.startswith(
        'too little in common')


def test_a_camera_that_is_not_there_is_left_to_its_own_check(tmp_path):
    keep_photos(tmp_path / 'monday' / 'start', {'left_left': scene()})

    def gone():
        raise NotConnected('no frame of left')
    check = positions_check(tmp_path, gone)
    assert (check.ok, check.warning, check.detail) == (True, False, 'not compared: no frame of '
                                                       'left')
