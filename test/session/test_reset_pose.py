"""The way to the reset pose, on made-up parts."""

import numpy as np
import pytest
from fake_station import FakeArm, FakeGripper, LoopClock

from arena_robot.core.errors import DriverError
from arena_robot.session.loop.parts import Parts, move_to_reset

RESET = [0, -np.pi / 5, 0, -4 * np.pi / 5, 0, 3 * np.pi / 5, 0]


@pytest.fixture
def parts():
    clock = LoopClock()
    return Parts(FakeArm(clock), FakeGripper(clock), {})


def test_the_arm_goes_to_its_reset_pose(parts):
    move_to_reset(parts, parts.arm.clock)
    kind, goal = parts.arm.log[0]
    assert kind == 'move'
    np.testing.assert_allclose(goal, RESET)
    assert parts.gripper.log == [0.0]


def test_an_arm_close_to_its_reset_pose_is_moved_to_it_all_the_same(parts):
    arm, clock = parts.arm, parts.arm.clock
    arm.q = np.array(RESET) + 0.04
    begin_ns = clock.steady_ns()

    def arrives_in_the_end(max_age_s=0.1):
        if clock.steady_ns() - begin_ns >= 1_900_000_000:
            arm.q = np.array(RESET)
        return FakeArm.state(arm)
    arm.move_to = lambda q, duration_s=None: 2.0
    arm.state = arrives_in_the_end
    move_to_reset(parts, clock)
    np.testing.assert_allclose(arm.q, RESET)


def test_an_arm_that_is_held_back_is_told(parts):
    parts.arm.move_to = lambda q, duration_s=None: 1.0
    with pytest.raises(DriverError, match='did not reach its reset pose'):
        move_to_reset(parts, parts.arm.clock)
    assert parts.arm.log[-1][0] == 'stop'
