"""The contracts on the simulated parts, stepped by hand and running in real time."""

import pytest

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.arm import tripped_arm_wants_recovery
from arena_robot.drivers.conformance.pytest_suite import (
    ArmConformance,
    CameraConformance,
    GripperConformance,
)
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.sim.station import SimStation


@pytest.fixture(params=['stepped', 'running'])
def station(request):
    station = SimStation.make('do_not_move', 1, size=(96, 54))
    if request.param == 'running':
        station.world.start()
    yield station
    station.close()


def hurried(station):
    """Parts without pictures keep up with more than real time; tests end sooner."""
    if station.world.running:
        station.world.stop()
        station.world.start(3.0)
    return station


def rig_of(kind, station, part, name, **options):
    return kind(part, station.clock, silence=lambda: station.world.faults.dead.add(name),
                harmless=True, **options)


def arm_rig(station, mode):
    return rig_of(ArmRig, hurried(station), station.arm, 'arm',
                  trip=lambda: station.arm.inject(mode))


class TestSimArm(ArmConformance):
    @pytest.fixture
    def rig(self, station):
        return arm_rig(station, RobotMode.REFLEX)


def test_a_user_stop_wants_recovery_as_a_reflex_does(station):
    assert tripped_arm_wants_recovery(arm_rig(station, RobotMode.USER_STOPPED)) == 'recovered'


class TestSimGripper(GripperConformance):
    @pytest.fixture
    def rig(self, station):
        return rig_of(GripperRig, hurried(station), station.gripper, 'gripper',
                      trip=lambda: station.gripper.inject(8))


class TestSimCamera(CameraConformance):
    @pytest.fixture(params=['left', 'wrist'])
    def rig(self, station, request):
        return rig_of(CameraRig, station, station.cameras[request.param], request.param,
                      own_rate=station.world.running)
