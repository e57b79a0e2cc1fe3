"""Thresholds of collision: which an arm can have, and that the simulated arm keeps them."""

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import PANDA
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import limits_for
from arena_robot.safety.reflexes import CollisionThresholds
from arena_robot.safety.watchdog import CommandWatchdog

SEVEN, SIX = (10.0,) * 7, (10.0,) * 6


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
