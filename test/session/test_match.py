import cv2
import numpy as np
import pytest

from arena_robot.core.errors import DataError, NotConnected
from arena_robot.session.loop.match import (
    Light,
    compare,
    compare_views,
    difference,
    keep_photos,
    light,
    overall,
    picture_shift,
)
from arena_robot.session.loop.preflight import positions_check

SIZE = (512, 288)


def scene(cube=(250, 150), seed=0, light=1.0, noise=2.0, camera=(0, 0)):
    """A textured table with a cube and a bowl, 512 x 288."""
    table = np.random.default_rng(7).normal(0, 14, (288, 512))
    table = cv2.GaussianBlur(table, (0, 0), 3) * 4
    picture = np.stack([150 + table, 120 + table, 90 + table], 2)
    cv2.circle(picture, (380, 190), 34, (60, 90, 170), -1)
    x, y = cube
    cv2.rectangle(picture, (x, y), (x + 26, y + 26), (190, 40, 40), -1)
    picture = np.roll(picture, camera, (1, 0)) * light
    picture += np.random.default_rng(seed).normal(0, noise, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def test_the_same_scene_is_green_whatever_the_noise():
    for seed in range(1, 6):
        match = compare(scene(), scene(seed=seed, noise=4.0))
        assert match.score > 0.95
        assert match.light is Light.GREEN
        assert not match.camera_moved


@pytest.mark.parametrize('light', [0.85, 1.12])
def test_another_exposure_is_no_change(light):
    assert compare(scene(), scene(seed=1, light=light)).score > 0.9


def test_the_score_falls_as_the_cube_moves():
    scores = [compare(scene(), scene((250 + d, 150), seed=d)).score for d in (0, 2, 6, 14, 60)]
    assert scores == sorted(scores, reverse=True)
    assert light(scores[0]) is Light.GREEN
    assert light(scores[3]) is not Light.GREEN
    assert light(scores[4]) is Light.RED


def test_a_missing_object_is_red():
    assert compare(scene(), scene((2000, 2000), seed=1)).light is not Light.GREEN


def test_a_nudged_camera_is_told_and_does_not_hide_the_scene():
    match = compare(scene(), scene(camera=(8, 0), seed=3))
    assert match.camera_moved
    assert match.shift[0] == pytest.approx(8 / 512, abs=0.004)
    assert match.score > 0.8


def test_what_is_left_out_does_not_count():
    leave_out = np.zeros((288, 512), bool)
    leave_out[130:200, 230:360] = True
    assert compare(scene(), scene((320, 150), seed=1)).score < 0.6
    assert compare(scene(), scene((320, 150), seed=1), leave_out).score > 0.95
    assert compare(scene(), scene(), np.ones((288, 512), bool)).score == 1.0


def test_the_worst_view_decides():
    start = {'left_left': scene(), 'wrist_left': scene(seed=1)}
    now = {'left_left': scene(seed=2), 'wrist_left': scene((60, 60), seed=3)}
    matches = compare_views(start, now)
    assert overall(matches) == matches['wrist_left'].score < matches['left_left'].score
    assert np.isnan(overall({}))


def test_another_size_is_refused():
    with pytest.raises(DataError, match='replaced'):
        compare(scene(), np.zeros((10, 10, 3), np.uint8))


def test_the_difference_shows_what_left_and_what_came():
    start, now = scene(noise=0), scene((300, 150), noise=0)
    picture = difference(start, now)
    left, came = picture[160, 260].astype(int), picture[160, 320].astype(int)
    assert left[0] < left[1]    # the cube is darker than the table: it took the red away
    assert came[0] > came[1]
    np.testing.assert_array_equal(picture[20, 20, 0], picture[20, 20, 1])


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
