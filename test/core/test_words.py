import inspect

import numpy as np
import pytest

from arena_robot.core import errors
from arena_robot.core.action import ActionSpace
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
    assert ActionSpace(space).size == size
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
