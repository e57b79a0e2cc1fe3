"""Stale commands, halts and the end of a stream; thresholds of collision."""

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import PANDA
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import limits_for
from arena_robot.safety.reflexes import CollisionThresholds
from arena_robot.safety.watchdog import CommandWatchdog, StopOwner

MS = 1_000_000
SEVEN, SIX = (10.0,) * 7, (10.0,) * 6


@pytest.fixture
def clock():
    return ManualClock(10_000 * MS)


@pytest.fixture
def watchdog(clock):
    return CommandWatchdog(clock, timeout_s=0.2, max_age_s=0.1)


def test_a_fresh_stream_passes(watchdog, clock):
    for _ in range(5):
        watchdog.accept(clock.now_ns())
        clock.advance_ns(66 * MS)
    assert not watchdog.ceased()


def test_a_stream_that_ceases_is_noticed_once(watchdog, clock):
    assert not watchdog.ceased()
    watchdog.accept(clock.now_ns())
    clock.advance_ns(199 * MS)
    assert not watchdog.ceased()
    clock.advance_ns(2 * MS)
    assert watchdog.ceased()
    assert not watchdog.ceased()


@pytest.mark.parametrize(('offset_ms', 'message'), [(-101, 'old'), (51, 'in the future')])
def test_a_command_of_another_time_is_refused(watchdog, clock, offset_ms, message):
    with pytest.raises(SafetyError, match=message):
        watchdog.accept(clock.now_ns() + offset_ms * MS)
    assert not watchdog.ceased()


def test_commands_pass_in_order_only(watchdog, clock):
    watchdog.accept(clock.now_ns())
    with pytest.raises(SafetyError, match='already accepted'):
        watchdog.accept(clock.now_ns() - MS)


def test_after_a_halt_only_resume_opens(watchdog, clock):
    watchdog.accept(clock.now_ns())
    watchdog.halt('the evaluator pressed stop')
    clock.advance_ns(1000 * MS)
    with pytest.raises(SafetyError, match='evaluator pressed stop'):
        watchdog.accept(clock.now_ns())
    before = clock.now_ns()
    clock.advance_ns(MS)
    watchdog.resume()
    with pytest.raises(SafetyError, match='before the last stop'):
        watchdog.accept(before)
    watchdog.accept(clock.now_ns())


@pytest.mark.parametrize('first', StopOwner)
def test_each_owner_releases_its_own_halt_alone(watchdog, clock, first):
    second = next(owner for owner in StopOwner if owner is not first)
    watchdog.halt('the lab stopped it', StopOwner.LAB)
    watchdog.halt('STOP in a session', StopOwner.SESSION)
    assert watchdog.halted == 'the lab stopped it; STOP in a session'
    watchdog.resume(first)
    with pytest.raises(SafetyError, match='halted'):
        watchdog.accept(clock.now_ns())
    watchdog.resume(second)
    watchdog.accept(clock.now_ns())


def test_a_drop_refuses_what_was_asked_before(watchdog, clock):
    asked = clock.now_ns()
    clock.advance_ns(MS)
    watchdog.drop()
    with pytest.raises(SafetyError, match='before the last stop'):
        watchdog.accept(asked)
    assert watchdog.halted == ''


@pytest.mark.parametrize(('given', 'text'), [
    ({}, 'no thresholds'),
    ({'upper_torque': SEVEN}, 'lower_torque_thresholds_nominal needs 7 numbers, found 0'),
    ({'lower_torque': SEVEN[:6], 'upper_torque': SEVEN}, 'found 6'),
    ({'lower_torque': (20.0,) * 7, 'upper_torque': SEVEN}, 'found 20 and 10'),
    ({'lower_torque': (0.0,) * 7, 'upper_torque': SEVEN}, 'found 0 and 10'),
    ({'lower_torque': SEVEN, 'upper_torque': (float('nan'),) * 7}, 'nan'),
    ({'lower_torque': SEVEN, 'upper_torque': (1000.0,) * 7}, 'at most 100'),
    ({'lower_force': SIX, 'upper_force': (50.0,) * 6}, 'number 4'),
])
def test_thresholds_that_no_arm_can_have_are_refused(given, text):
    with pytest.raises(SafetyError, match=text):
        CollisionThresholds(**given).checked()


def test_the_simulated_arm_stops_above_its_thresholds():
    with SimStation.make(cameras=()) as station:
        clock = station.clock
        guard = GuardedArm(station.arm, Safety(limits_for('panda'), clock),
                           CommandWatchdog(clock, 0.5, 0.2), PANDA)
        pressed = station.arm.state().q + 0.0
        with pytest.raises(DriverError, match='torques of joints only'):
            guard.set_collision_behavior(CollisionThresholds((), (), SIX, SIX))
        tight = (0.5,) * 7
        guard.set_collision_behavior(CollisionThresholds(tight, tight))
        for _ in range(150):  # down, until the table is in the way
            pressed = pressed + np.array([0, 0.02, 0, -0.02, 0, 0, 0])
            try:
                station.arm.command(ArmCommand(pressed, clock.now_ns()))
            except DriverError:
                break
            station.step(0.05)
        state = station.arm.state()
    assert state.mode is RobotMode.REFLEX
    assert 'collision' in state.errors[0]
    assert np.max(np.abs(state.tau_ext)) < 40.0


def test_an_arm_without_thresholds_says_so():
    class Plain:
        pass
    guard = GuardedArm(Plain(), None, None, PANDA)
    with pytest.raises(DriverError, match='Plain has no thresholds'):
        guard.set_collision_behavior(CollisionThresholds(SEVEN, SEVEN))
