"""A stop over joint_trajectory_controller, in a model stepped by hand."""

import numpy as np
import pytest
from jtc_model import stopped

from arena_robot.nodes.vendor.controllers import braking
from arena_robot.robots.arms import FR3, PANDA


@pytest.mark.parametrize('robot', [PANDA, FR3])
@pytest.mark.parametrize('speed', [0.2, 0.7, 1.0])
def test_it_is_at_rest_in_150_ms(robot, speed):
    took_s, on_rad = stopped(robot, 0, speed, braking)
    assert took_s < 0.150
    assert on_rad < 0.5 * speed * 0.15


def test_a_stop_at_the_measured_place_takes_longer():
    """It is what was sent before: back to where the arm was, in 0.15 s."""
    old_s, _ = stopped(FR3, 0, 0.7, lambda q, dq, robot: (q, 0.15))
    new_s, _ = stopped(FR3, 0, 0.7, braking)
    assert old_s > 0.18 > 1.5 * new_s


def test_it_brakes_no_joint_harder_than_the_maker_allows():
    q, dq = np.zeros(7), np.array([1.0, -2.0, 0.1, 0.0, 0.0, 0.0, 2.5])
    for robot in (PANDA, FR3):
        ahead, time_s = braking(q, dq, robot)
        assert np.all(np.abs(dq) / time_s <= np.array(robot.joint_acceleration) + 1e-9)
        np.testing.assert_allclose(ahead, 0.5 * time_s * dq)
