"""
What every Arm, Gripper and Camera must do, whatever stands behind it.

A test class inherits a contract and provides the fixture ``rig``: an object with ``part`` (not
yet open), its ``clock``, ``silence()`` (from now on the part gives no new readings) and
``advance(seconds)``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import DriverError, NotConnected, ReadTimeout, SafetyError, StaleData
from arena_robot.core.observation import ObjectStatus, RobotMode


@dataclass
class Rig:
    part: Any
    clock: Any
    silence: Callable[[], None]
    advance: Callable[[float], None]
    trip: Callable[[], None] | None = None
    rate_hz: float = 15.0
    own_rate: bool = True  # of a camera; else it takes its pictures when asked


class PartContract:
    def test_reading_before_open_says_what_to_do(self, rig):
        with pytest.raises(NotConnected, match='open'):
            self.read(rig.part)

    def test_opens_and_closes_twice(self, rig):
        for _ in range(2):
            with rig.part:
                self.read(rig.part)
            rig.part.close()
        with pytest.raises(NotConnected):
            self.read(rig.part)

    def test_waiting_gives_newer_readings(self, rig):
        with rig.part as part:
            stamps = [self.stamp(self.wait(part, 2.0)) for _ in range(4)]
        assert np.all(np.diff(stamps) > 0)

    def test_newest_reading_is_of_now(self, rig):
        with rig.part as part:
            self.wait(part, 2.0)
            age_ns = rig.clock.now_ns() - self.stamp(self.read(part))
        assert 0 <= age_ns <= 2e9 / rig.rate_hz

    def test_a_silent_part_is_stale_then_times_out(self, rig):
        with rig.part as part:
            self.read(part)
            rig.silence()
            rig.advance(0.3)
            with pytest.raises(StaleData, match='old'):
                self.read(part, 0.2)
            begun = time.monotonic()
            with pytest.raises(ReadTimeout, match=r'0\.1'):
                self.wait(part, 0.1)
            assert time.monotonic() - begun < 2.0


class StateReader:
    def read(self, part, max_age_s=0.2):
        return part.state(max_age_s)

    def wait(self, part, timeout_s):
        return part.wait_state(timeout_s)

    def stamp(self, reading):
        return reading.stamp_ns


class ArmContract(StateReader, PartContract):
    def test_state_has_its_shapes(self, rig):
        with rig.part as arm:
            state = arm.state()
        for name, size in (('q', 7), ('dq', 7), ('tau', 7), ('tau_ext', 7), ('q_desired', 7),
                           ('pose', 6)):
            values = getattr(state, name)
            assert values.shape == (size,), name
            assert np.all(np.isfinite(values)), name

    def test_states_do_not_share_memory(self, rig):
        with rig.part as arm:
            state = arm.state()
            state.q[:] = 99.0
            assert np.all(arm.state().q < 10.0)

    @pytest.mark.parametrize('q', [np.zeros(6), np.full(7, np.nan), np.full(7, np.inf)])
    def test_bad_targets_are_refused(self, rig, q):
        with rig.part as arm:
            with pytest.raises(SafetyError, match='7'):
                arm.command(ArmCommand(q, 0))
            with pytest.raises(SafetyError, match='7'):
                arm.move_to(q)

    def test_a_command_returns_what_is_tracked(self, rig):
        with rig.part as arm:
            asked = ArmCommand(np.full(7, 50.0), 1234)
            sent = arm.command(asked)
            assert sent.stamp_ns == 1234
            assert np.all(np.abs(sent.q) < 5.0)
            np.testing.assert_array_equal(arm.state().q_desired, sent.q)

    def test_stop_always_works(self, rig):
        rig.part.stop()
        with rig.part as arm:
            arm.stop()
            rig.advance(0.2)
            assert np.max(np.abs(arm.state().dq)) < 0.2



class MovingArmContract(ArmContract):
    """For backends where something moves; the rig also has ``trip()``."""

    def test_tracks_a_stream(self, rig):
        with rig.part as arm:
            goal = arm.state().q + 0.1
            for _ in range(30):
                arm.command(ArmCommand(goal, rig.clock.now_ns()))
                rig.advance(1 / 15)
            assert arm.state().mode is RobotMode.MOVE
            np.testing.assert_allclose(arm.state().q, goal, atol=0.01)

    def test_moves_and_says_how_long_it_takes(self, rig):
        with rig.part as arm:
            goal = arm.state().q + 0.2
            assert arm.move_to(goal) == pytest.approx(1.0)
            assert arm.move_to(goal, 0.8) == 0.8
            rig.advance(1.2)
            np.testing.assert_allclose(arm.state().q, goal, atol=0.005)
            assert arm.state().mode is RobotMode.IDLE

    def test_a_tripped_arm_wants_recovery(self, rig):
        with rig.part as arm:
            rig.trip()
            assert arm.state().recovery_required
            assert arm.state().errors
            with pytest.raises(DriverError, match='recover'):
                arm.command(ArmCommand(arm.state().q, 0))
            with pytest.raises(DriverError, match='recover'):
                arm.move_to(arm.state().q)
            arm.recover()
            assert not arm.state().recovery_required
            arm.command(ArmCommand(arm.state().q, 0))


class GripperContract(StateReader, PartContract):
    def test_state_is_in_range(self, rig):
        with rig.part as gripper:
            state = gripper.state()
        assert 0.0 <= state.position <= 1.0
        assert state.width_m == pytest.approx(0.085 * (1.0 - state.position), abs=1e-3)

    def test_a_command_is_clipped_and_returned(self, rig):
        with rig.part as gripper:
            sent = gripper.command(GripperCommand(1.7, 55, speed=-1.0, force=0.5))
        assert sent == GripperCommand(1.0, 55, 0.0, 0.5)

    def test_nan_is_refused(self, rig):
        with rig.part as gripper, pytest.raises(SafetyError, match='finite'):
            gripper.command(GripperCommand(float('nan'), 0))



class MovingGripperContract(GripperContract):
    """For backends where something moves; the rig also has ``trip()``."""

    def test_closes_and_opens(self, rig):
        with rig.part as gripper:
            for goal in (1.0, 0.0, 0.4):
                gripper.command(GripperCommand(goal, 0, speed=0.3))
                rig.advance(0.1)
                assert gripper.state().is_moving
                rig.advance(1.7)
                state = gripper.state()
                assert state.position == pytest.approx(goal, abs=0.03)
                assert state.object_status is ObjectStatus.AT_REQUESTED
                assert not state.is_moving

    def test_stops_half_way(self, rig):
        with rig.part as gripper:
            gripper.command(GripperCommand(1.0, 0, speed=0.2))
            rig.advance(0.7)
            gripper.stop()
            held = gripper.state().position
            rig.advance(0.5)
            assert 0.1 < held < 0.9
            assert gripper.state().position == pytest.approx(held, abs=0.05)

    def test_a_fault_wants_activation(self, rig):
        with rig.part as gripper:
            rig.trip()
            assert gripper.state().fault
            with pytest.raises(DriverError, match='activate'):
                gripper.command(GripperCommand(1.0, 0))
            gripper.activate()
            assert not gripper.state().fault
            gripper.command(GripperCommand(1.0, 0))


class CameraContract(PartContract):
    def read(self, part, max_age_s=0.2):
        return part.frame(max_age_s)

    def wait(self, part, timeout_s):
        return part.wait_frame(timeout_s)

    def stamp(self, reading):
        return reading.left.stamp_ns

    def test_both_eyes_have_one_stamp_and_the_promised_size(self, rig):
        with rig.part as camera:
            frame, info = camera.wait_frame(2.0), camera.info()
        assert frame.left.stamp_ns == frame.right.stamp_ns
        for eye, image in (('left', frame.left), ('right', frame.right)):
            assert image.pixels.shape == (info[eye].height, info[eye].width, 3)
            assert image.pixels.dtype == np.uint8

    def test_eyes_differ_by_the_baseline(self, rig):
        with rig.part as camera:
            frame, info = camera.wait_frame(2.0), camera.info()
        assert not np.array_equal(frame.left.pixels, frame.right.pixels)
        assert info['left'].baseline_m == 0.0
        assert info['right'].baseline_m > 0.05
        assert info['right'].p()[0, 3] == pytest.approx(
            -info['right'].k[0, 0] * info['right'].baseline_m)

    def test_sequence_counts_up(self, rig):
        with rig.part as camera:
            numbers = [camera.wait_frame(2.0).sequence for _ in range(3)]
        assert np.all(np.diff(numbers) >= 1)

    def test_tells_when_its_frames_came(self, rig):
        with rig.part as camera:
            stamps = [camera.wait_frame(2.0).left.stamp_ns for _ in range(4)]
            pairs = camera.arrivals()
        if rig.own_rate:
            assert {*stamps[:-1]} <= {stamp for stamp, _ in pairs}
        else:
            assert not pairs
        assert all(0 <= came - stamp < 1e9 for stamp, came in pairs)
        assert np.all(np.diff([stamp for stamp, _ in pairs]) > 0)

    def test_has_a_serial(self, rig):
        assert isinstance(rig.part.serial, str)
        assert rig.part.serial
