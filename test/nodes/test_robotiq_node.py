"""gripper_node with the driver of the Robotiq gripper, on an emulated one."""

import time
import uuid

import numpy as np
import pytest
import waiting

from arena_msgs.msg import ArmLimits, PolicyAction
from arena_robot.core.action import Action, ActionSpace, GripperCommand
from arena_robot.core.errors import DriverError
from arena_robot.drivers.emulators.robotiq import RobotiqEmulator
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib import convert, qos
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
def nodes(emulator, tmp_path):
    """Yield the gripper's node and the node of a client."""
    path = overrides_file({'gripper_node': {
        'backend': 'robotiq', 'driver.com_port': str(tmp_path / 'robotiq')}})
    args = ['test', '--ros-args', '--params-file', str(path), '-r',
            f'__ns:=/robotiq_{uuid.uuid4().hex[:6]}', '--log-level', 'error']
    with Spin(args) as spin:
        node = GripperNode('gripper_node', context=spin.context)
        spin.add(node, threads=4)
        client = Listening('client', context=spin.context)
        spin.add(client, threads=2)
        yield node, client
    path.unlink()


@pytest.fixture
def gripper(nodes):
    with RemoteGripper(nodes[1], timeout_s=BUSY_S) as gripper:
        yield gripper


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


def test_a_joint_action_of_another_length_than_the_arms_moves_no_finger(nodes, gripper):
    node, client = nodes
    limits = qos.publisher(client, ArmLimits, 'arm_node/limits', qos.LATCHED)
    limits.publish(ArmLimits(joint_names=[f'joint_{i}' for i in range(6)]))
    actions = qos.publisher(client, PolicyAction, 'arm_node/policy_action', qos.COMMAND)

    def sent(joints, wanted):
        values = np.append(np.zeros(joints), wanted)
        actions.publish(convert.action_message(
            Action(values, ActionSpace.JOINT_POSITION), time.time_ns(), '', 1))
        return gripper.wait_state(2.0)
    gripper.activate()
    waiting.until(lambda: sent(6, 1.0).requested_position == 1.0)
    waiting.until(lambda: sent(6, 0.0).requested_position == 0.0)
    node.refusal = ''
    waiting.until(lambda: sent(7, 1.0) and node.refusal)
    assert 'must have 7 numbers, found shape (8,)' in node.refusal
    assert sent(7, 1.0).requested_position == 0.0
