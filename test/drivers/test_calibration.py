"""A camera's pose from rendered pictures of a board, with the truth known."""

import numpy as np
import pytest
from calibration_scene import BOARD, TRUTH, K, scene
from scipy.spatial.transform import Rotation

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.drivers.calibration import BoardView, CharucoBoard, calibrate
from arena_robot.safety.urdf import matrix_of


def views_of(shots):
    return [BoardView(flange, *BOARD.find(picture)) for flange, picture in shots]


@pytest.mark.parametrize('on_flange', [True, False], ids=['wrist', 'external'])
def test_the_truth_is_found_to_a_millimetre(on_flange):
    result = calibrate(views_of(scene(on_flange, 10)), K, on_flange)
    truth, mine = matrix_of(TRUTH[on_flange]), matrix_of(result.pose)
    apart = np.linalg.inv(truth) @ mine
    assert 1e3 * np.linalg.norm(apart[:3, 3]) <= 1.0
    assert np.degrees(Rotation.from_matrix(apart[:3, :3]).magnitude()) <= 0.2
    assert result.error_px < 0.5
    assert len(result.errors_px) == 10
    assert result.place_mm < 1.0


def test_a_pose_of_another_moment_shows_in_its_picture():
    shots = scene(True, 10)
    moved = shots[3][0] @ matrix_of((0.01, 0, 0, 0, 0, 0.03))
    shots[3] = (moved, shots[3][1])
    result = calibrate(views_of(shots), K, True)
    assert int(np.argmax(result.errors_px)) == 3
    assert result.errors_px[3] > 3 * np.median(result.errors_px)


def test_poses_that_say_too_little_are_refused():
    with pytest.raises(DataError, match='in 5 pictures, 6 are needed'):
        calibrate(views_of(scene(True, 5)), K, True)
    still = views_of(scene(True, 8, turn=0.01))
    with pytest.raises(DataError, match='tilt it about two axes'):
        calibrate(still, K, True)


def test_a_picture_without_the_board_has_no_corners():
    assert BOARD.find(np.full((90, 160, 3), 128, np.uint8)) is None


@pytest.mark.parametrize(('given', 'text'), [
    ({'columns': 2}, '3 x 3'), ({'marker_m': 0.05}, 'smaller than squares'),
    ({'dictionary': 'DICT_5X5_10'}, "Did you mean 'DICT_5X5_1"),
])
def test_boards_that_cannot_be_are_refused(given, text):
    with pytest.raises(ConfigError, match=text):
        CharucoBoard(**given)
