"""The way to the reset pose, on made-up parts."""

from dataclasses import replace

import numpy as np
import pytest
from fake_station import FakeArm, FakeGripper, LoopClock

from arena_robot.core.errors import DriverError, StaleData
from arena_robot.core.observation import RobotMode
from arena_robot.session.loop.parts import OPENING_S, Parts, move_to_reset

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


def test_an_arm_that_rests_at_its_reset_pose_is_left_there(parts):
    parts.arm.q = np.array(RESET) + 0.004
    move_to_reset(parts, parts.arm.clock)
    assert parts.arm.log == []
    assert parts.gripper.log == [0.0]


def test_an_arm_that_must_be_recovered_is_asked_to_move_and_says_so(parts):
    arm = parts.arm
    arm.q = np.array(RESET)
    arm.state = lambda max_age_s=0.1: replace(FakeArm.state(arm), mode=RobotMode.REFLEX)

    def refused(q, duration_s=None):
        raise DriverError('the arm is in REFLEX')
    arm.move_to = refused
    with pytest.raises(DriverError, match='REFLEX'):
        move_to_reset(parts, arm.clock)


def test_an_arm_that_passes_its_reset_pose_is_moved_to_it(parts):
    arm = parts.arm
    arm.q, moved = np.array(RESET), []

    def moving(max_age_s=0.1):
        return replace(FakeArm.state(arm), dq=np.full(7, 0.0 if moved else 0.2))

    def move_to(q, duration_s=None):
        moved.append(q)
        return 1.0
    arm.state, arm.move_to = moving, move_to
    move_to_reset(parts, arm.clock)
    assert len(moved) == 1


@pytest.mark.parametrize(('state', 'opens'), [
    ({'position': 0.0}, False), ({'position': 0.5}, True),
    ({'position': 0.01, 'is_moving': True}, True)])
def test_only_a_gripper_that_must_open_is_waited_for(parts, state, opens):
    clock, gripper = parts.arm.clock, parts.gripper
    parts.arm.q = np.array(RESET)
    gripper.state = lambda max_age_s=0.2: replace(FakeGripper.state(gripper), **state)
    begin_ns = clock.steady_ns()
    move_to_reset(parts, clock)
    assert (clock.steady_ns() - begin_ns >= OPENING_S * 1e9) is opens
    assert gripper.log == [0.0], 'it is told to open in any case'


def test_a_gripper_that_is_silent_keeps_no_arm_from_its_reset_pose(parts):
    clock = parts.arm.clock

    def silent(max_age_s=0.2):
        raise StaleData('nothing came for a second')
    parts.gripper.state, parts.gripper.wait_state = silent, silent
    begin_ns = clock.steady_ns()
    move_to_reset(parts, clock)
    np.testing.assert_allclose(parts.arm.q, RESET)
    assert clock.steady_ns() - begin_ns >= OPENING_S * 1e9


def test_an_arm_that_is_held_back_is_told(parts):
    parts.arm.move_to = lambda q, duration_s=None: 1.0
    with pytest.raises(DriverError, match='did not reach its reset pose'):
        move_to_reset(parts, parts.arm.clock)
    assert parts.arm.log[-1][0] == 'stop'
