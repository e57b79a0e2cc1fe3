"""The simulated 2F-85: speed, object detection, force."""

import numpy as np
import pytest

from arena_robot.core.action import GripperCommand
from arena_robot.core.errors import DriverError, StaleData
from arena_robot.core.observation import ObjectStatus
from arena_robot.drivers.sim.expert import ExpertMotions
from arena_robot.drivers.sim.station import SimStation


@pytest.fixture
def station():
    with SimStation.make('lift_cube', 2, cameras=()) as station:
        yield station


@pytest.mark.parametrize(('speed', 'metres_per_s'), [(0.0, 0.02), (0.5, 0.085), (1.0, 0.15)])
def test_closes_at_the_asked_speed(station, speed, metres_per_s):
    station.gripper.command(GripperCommand(1.0, 0, speed=speed))
    station.step(0.15)
    begin = station.gripper.state().width_m
    station.step(0.2)
    rate = (begin - station.gripper.state().width_m) / 0.2
    assert rate == pytest.approx(metres_per_s, rel=0.1)


def test_detects_a_cube_and_holds_it(station):
    hands = ExpertMotions(station)
    for _ in hands.pick(station.task.target, lift=0.1):
        station.step(1 / 15)
    state = station.gripper.state()
    assert state.object_status is ObjectStatus.GRIPPED_CLOSING
    assert state.width_m == pytest.approx(0.044, abs=0.003)
    assert state.requested_position == pytest.approx(1.0)
    assert station.truth.grasped(station.task.target)
    station.step(5.0)
    assert station.truth.position(station.task.target)[2] > 0.1
    assert station.gripper.state().object_status is ObjectStatus.GRIPPED_CLOSING


def test_more_force_takes_more_current(station):
    hands = ExpertMotions(station)
    for _ in hands.pick(station.task.target, lift=0.0):
        station.step(1 / 15)
    currents = []
    for force in (0.0, 0.4):
        station.gripper.command(GripperCommand(1.0, 0, force=force))
        station.step(0.5)
        currents.append(station.gripper.state().current_a)
    assert currents[1] > 1.3 * currents[0]


def test_fingers_stay_symmetric(station):
    station.gripper.command(GripperCommand(0.6, 0, speed=1.0))
    station.step(0.15)
    left, right = (station.truth.joint(f'finger_{side}') for side in ('left', 'right'))
    assert left == pytest.approx(right, abs=2e-4)


def test_a_dead_gripper_answers_nothing(station):
    station.world.faults.dead.add('gripper')
    station.step(0.5)
    with pytest.raises(StaleData, match='powered'):
        station.gripper.state()
    with pytest.raises(DriverError, match='answer'):
        station.gripper.command(GripperCommand(1.0, 0))
    with pytest.raises(DriverError, match='answer'):
        station.gripper.activate()
    station.arm.state()
    station.world.faults.dead.clear()
    assert np.isfinite(station.gripper.state().position)
