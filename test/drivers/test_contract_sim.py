"""The contracts on the simulated parts, stepped by hand and running in real time."""

import pytest
from driver_contract import CameraContract, MovingArmContract, MovingGripperContract, Rig

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.sim.station import SimStation


@pytest.fixture(params=['stepped', 'running'])
def station(request):
    made = SimStation.make('do_not_move', 1, size=(96, 54))
    if request.param == 'running':
        made.world.start()
    yield made
    made.close()


def hurried(station):
    """Parts without pictures keep up with three times real time; tests end sooner."""
    if station.world.running:
        station.world.stop()
        station.world.start(3.0)
    return station


def rig_of(station, part, name, trip=None):
    def advance(seconds):
        if station.world.running:
            station.clock.sleep_until_ns(station.clock.now_ns() + round(seconds * 1e9))
        else:
            station.step(seconds)

    return Rig(part, station.clock, lambda: station.world.faults.dead.add(name), advance, trip,
               own_rate=station.world.running)


class TestSimArm(MovingArmContract):
    @pytest.fixture(params=[RobotMode.REFLEX, RobotMode.USER_STOPPED])
    def rig(self, station, request):
        return rig_of(hurried(station), station.arm, 'arm',
                      lambda: station.arm.inject(request.param))


class TestSimGripper(MovingGripperContract):
    @pytest.fixture
    def rig(self, station):
        return rig_of(hurried(station), station.gripper, 'gripper',
                      lambda: station.gripper.inject(8))


class TestSimCamera(CameraContract):
    @pytest.fixture(params=['left', 'wrist'])
    def rig(self, station, request):
        return rig_of(station, station.cameras[request.param], request.param)
