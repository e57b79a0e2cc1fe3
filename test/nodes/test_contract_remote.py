"""The drivers' contracts on parts that stand behind topics."""

import time
import uuid

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from driver_contract import ArmContract, CameraContract, GripperContract, Rig
from lifecycle_msgs.msg import State
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.observation import RobotMode
from arena_robot.nodes import diagnostics
from arena_robot.nodes.camera.node import CameraNode
from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera, RemoteGripper
from arena_robot.nodes.simulation.node import compose
from arena_robot.nodes.spin import Spin
from arena_robot.nodes.supervisor import overrides_file

# How old a reading may be and how long a change may take to be seen, on a busy machine.
PATIENCE_S = 5.0


@pytest.fixture(scope='module')
def composed():
    """Return a simulated station in this process and a node that sees it over topics."""
    path = overrides_file({'sim_station': {'task': 'do_not_move', 'image_width': 96,
                                           'image_height': 54}})
    namespace = f'contract_{uuid.uuid4().hex[:6]}'
    args = ['test', '--ros-args', '--params-file', str(path), '-r', f'__ns:=/{namespace}',
            '--log-level', 'warn']
    with Spin(args) as spin:
        owner = compose(spin)
        node = Node('client', context=spin.context)
        spin.add(node, threads=3)
        yield owner.station, node, owner.station.save()
    path.unlink()


class PatientArm(RemoteArm):
    """An arm whose readings may be late, unless an age is asked for."""

    def state(self, max_age_s=PATIENCE_S):
        return super().state(max_age_s)


class PatientGripper(RemoteGripper):
    """A gripper whose readings may be late, unless an age is asked for."""

    def state(self, max_age_s=PATIENCE_S):
        return super().state(max_age_s)


def rig_of(composed, part, name, trip=None):
    station, _, start = composed
    station.world.faults.dead.clear()
    station.restore(start)
    return Rig(part, SystemClock(), lambda: station.world.faults.dead.add(name), time.sleep,
               trip, rate_hz=2.0 / PATIENCE_S)


def seen(part, condition):
    """Return the first new state that fulfils a condition."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition(state := part.wait_state(PATIENCE_S)):
        assert time.monotonic() < end_s, state
    return state


class TestRemoteArm(ArmContract):
    @pytest.fixture
    def rig(self, composed):
        arm = PatientArm(composed[1])

        def trip():
            composed[0].arm.inject(RobotMode.REFLEX)
            seen(arm, lambda state: state.recovery_required)
        yield rig_of(composed, arm, 'arm', trip)
        arm.close()

    def read(self, part, max_age_s=PATIENCE_S):
        return super().read(part, max_age_s)

    def test_a_command_returns_what_is_tracked(self, rig):
        with rig.part as arm:
            asked = ArmCommand(arm.state(1.0).q + 0.05, rig.clock.now_ns())
            sent = arm.command(asked)
            assert sent.stamp_ns == asked.stamp_ns
            seen(arm, lambda state: np.allclose(state.q_desired, sent.q, rtol=0.0, atol=1e-12))

    def test_what_is_out_of_reach_is_bounded_by_the_node(self, rig):
        with rig.part as arm:
            before = arm.state().q_desired
            arm.command(ArmCommand(np.full(7, 50.0), rig.clock.now_ns()))
            state = seen(arm, lambda state: not np.allclose(state.q_desired, before))
            assert np.max(np.abs(state.q_desired - state.q)) < 0.5


class TestRemoteGripper(GripperContract):
    @pytest.fixture
    def rig(self, composed):
        gripper = PatientGripper(composed[1])

        def trip():
            composed[0].gripper.inject(8)
            seen(gripper, lambda state: state.fault)
        yield rig_of(composed, gripper, 'gripper', trip)
        gripper.close()

    def read(self, part, max_age_s=PATIENCE_S):
        return super().read(part, max_age_s)


class TestRemoteCamera(CameraContract):
    @pytest.fixture
    def rig(self, composed):
        camera = RemoteCamera(composed[1], 'left_camera')
        yield rig_of(composed, camera, 'left')
        camera.close()

    def read(self, part, max_age_s=PATIENCE_S):
        return super().read(part, max_age_s)


def test_a_dead_camera_is_named_and_the_others_go_on(composed, spoken):
    station, node, start = composed
    station.restore(start)
    station.world.faults.dead = {'left'}
    said = spoken('left_camera: images', lambda s: s.level == diagnostics.ERROR)
    assert 'connected' in said.message
    with RemoteArm(node) as arm, RemoteCamera(node, 'right_camera') as right:
        assert right.wait_frame(PATIENCE_S).left.pixels.size
        arm.move_to(arm.wait_state(PATIENCE_S).q + 0.05)
    station.world.faults.dead = set()
    assert spoken('left_camera: images', lambda s: s.level != diagnostics.ERROR)


def test_a_camera_with_another_serial_number_stays_unconfigured(composed, spoken):
    station, client, _ = composed
    wrong = CameraNode('shelf_camera', make_part=lambda: station.cameras['right'],
                       context=client.context, parameter_overrides=[
                           Parameter('role', value='right'), Parameter('autostart', value=False),
                           Parameter('serial_number', value='4711')])
    assert wrong.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert wrong.state_id() == State.PRIMARY_STATE_UNCONFIGURED
    wrong.destroy_node()
    station.cameras['right'].open()


@pytest.fixture
def spoken(composed):
    """Return a function that waits for a diagnostic status and returns it."""
    node, seen = composed[1], []
    subscription = node.create_subscription(DiagnosticArray, '/diagnostics',
                                            lambda m: seen.extend(m.status), 10)

    def wait_for(name, condition, timeout_s=20.0):
        seen.clear()
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            for status in list(seen):
                if status.name == name and condition(status):
                    return status
            time.sleep(0.02)
        raise AssertionError([(s.name, s.level, s.message) for s in seen])
    yield wait_for
    node.destroy_subscription(subscription)
