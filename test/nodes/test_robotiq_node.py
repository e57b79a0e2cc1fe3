"""gripper_node with the driver of the Robotiq gripper, on an emulated one."""

import uuid

import pytest

from arena_robot.core.action import GripperCommand
from arena_robot.core.errors import DriverError
from arena_robot.drivers.emulators.robotiq import RobotiqEmulator
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.robot import RemoteGripper
from arena_robot.nodes.station.processes import overrides_file

pytest.importorskip('serial', reason='pyserial is missing: make setup')

BUSY_S = 10.0


@pytest.fixture
def emulator(tmp_path):
    with RobotiqEmulator(link=tmp_path / 'robotiq') as made:
        yield made


@pytest.fixture
def gripper(emulator, tmp_path):
    path = overrides_file({'gripper_node': {
        'backend': 'robotiq', 'driver.com_port': str(tmp_path / 'robotiq')}})
    args = ['test', '--ros-args', '--params-file', str(path), '-r',
            f'__ns:=/robotiq_{uuid.uuid4().hex[:6]}', '--log-level', 'error']
    with Spin(args) as spin:
        spin.add(GripperNode('gripper_node', context=spin.context), threads=4)
        client = Listening('client', context=spin.context)
        spin.add(client, threads=2)
        with RemoteGripper(client, timeout_s=BUSY_S) as gripper:
            yield gripper
    path.unlink()


def until(gripper, condition):
    for _ in range(500):
        state = gripper.wait_state(2.0)
        if condition(state):
            return state
    raise AssertionError(state)


def test_the_node_activates_moves_and_tells_when_the_cable_is_pulled(emulator, gripper):
    assert until(gripper, lambda state: True).fault == 7
    with pytest.raises(DriverError, match='activate'):
        gripper.command(GripperCommand(1.0, 0))
    gripper.activate()
    until(gripper, lambda state: not state.fault)
    gripper.command(GripperCommand(0.5, 0, speed=1.0))
    until(gripper, lambda state: not state.is_moving and abs(state.position - 0.5) < 0.01)
    emulator.unplug()
    with pytest.raises(DriverError):
        until(gripper, lambda state: False)
    emulator.start()
    until(gripper, lambda state: abs(state.position - 0.5) < 0.01)
