"""The drivers' contracts on parts that stand behind topics."""

import sys
import time
import uuid
from contextlib import suppress

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import State
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from waiting import until

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import NotConnected, ReadTimeout
from arena_robot.core.tuning import switch_threads_soon
from arena_robot.drivers.conformance import any_part
from arena_robot.drivers.conformance import camera as camera_checks
from arena_robot.drivers.conformance.arm import far_target_is_clipped
from arena_robot.drivers.conformance.pytest_suite import (
    ArmConformance,
    CameraConformance,
    GripperConformance,
)
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.conformance.suite import ARM, GRIPPER
from arena_robot.nodes.camera import CameraNode
from arena_robot.nodes.lib import diagnostics
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.part_params import RosCameraParams
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.camera import RosCamera
from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera, RemoteGripper
from arena_robot.nodes.simulation.node import compose
from arena_robot.nodes.station.processes import overrides_file

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
    before_s = sys.getswitchinterval()
    switch_threads_soon()       # as every process of a station does
    with Spin(args) as spin:
        owner = compose(spin)
        node = Listening('client', context=spin.context)
        spin.add(node, threads=3)
        yield owner.station, node, owner.station.save()
    sys.setswitchinterval(before_s)
    path.unlink()


def rig_of(kind, composed, part, name):
    station, _, start = composed
    station.world.faults.dead.clear()
    station.restore(start)

    def silence():
        station.world.faults.dead.add(name)
        until_silent(part.wait_frame if kind is CameraRig else part.wait_state)

    return kind(part, SystemClock(), silence=silence,
                sleep=time.sleep, rate_hz=2.0 / PATIENCE_S, max_age_s=PATIENCE_S,
                latency_s=PATIENCE_S, harmless=True)


def until_silent(wait):
    """Return once what is under way through ROS has arrived."""
    end_s = time.monotonic() + PATIENCE_S
    with suppress(ReadTimeout):
        while time.monotonic() < end_s:
            wait(0.5)


def seen(part, condition):
    """Return the first new state that fulfils a condition."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition(state := part.wait_state(PATIENCE_S)):
        assert time.monotonic() < end_s, state
    return state


class TestRemoteArm(ArmConformance):
    checks = (*ARM.still, *(check for check in ARM.commands if check is not far_target_is_clipped))

    @pytest.fixture
    def rig(self, composed):
        arm = RemoteArm(composed[1])
        yield rig_of(ArmRig, composed, arm, 'arm')
        arm.close()

    def test_what_is_out_of_reach_is_bounded_by_the_node(self, rig):
        with rig.part as arm:
            before = arm.state(PATIENCE_S).q_desired

            def follows(state):
                # Sent as a stream: what was sent before the test before has let go is refused.
                arm.command(ArmCommand(np.full(7, 50.0), rig.clock.now_ns()))
                return not np.allclose(state.q_desired, before)

            state = seen(arm, follows)
            assert np.max(np.abs(state.q_desired - state.q)) < 0.5


class TestRemoteGripper(GripperConformance):
    checks = (*GRIPPER.still, *GRIPPER.commands)

    @pytest.fixture
    def rig(self, composed):
        gripper = RemoteGripper(composed[1])
        yield rig_of(GripperRig, composed, gripper, 'gripper')
        gripper.close()


class TestRemoteCamera(CameraConformance):
    @pytest.fixture
    def rig(self, composed):
        camera = RemoteCamera(composed[1], 'left_camera')
        yield rig_of(CameraRig, composed, camera, 'left')
        camera.close()


class TestRosCamera(CameraConformance):
    """The backend ros, which uses the images of any node; what both share is checked above."""

    checks = camera_checks.STILL[len(any_part.CHECKS):]

    @pytest.fixture
    def rig(self, composed):
        camera = RosCamera(composed[1], RosCameraParams(node='left_camera'), '20000001')
        yield rig_of(CameraRig, composed, camera, 'left')
        camera.close()

    def test_the_geometry_has_come_when_it_is_open(self, rig):
        with rig.part as camera:
            assert set(camera.info()) == {'left', 'right'}
            assert camera.serial == '20000001'

    def test_a_node_without_images_is_named(self, composed):
        camera = RosCamera(composed[1], RosCameraParams(node='shelf', open_timeout=0.2))
        with pytest.raises(NotConnected, match='shelf'):
            camera.open()


def test_a_dead_camera_is_named_and_the_others_go_on(composed, spoken):
    station, node, start = composed
    station.restore(start)
    station.world.faults.dead = {'left'}
    name = f"{node.get_namespace().strip('/')}/left_camera: images"
    said = spoken(name, lambda s: s.level == diagnostics.ERROR)
    assert 'frame of the left camera (20000001)' in said.message     # what the driver says
    assert 'is it switched on' in said.message
    with RemoteArm(node) as arm, RemoteCamera(node, 'right_camera') as right:
        assert right.wait_frame(PATIENCE_S).left.pixels.size
        arm.move_to(arm.wait_state(PATIENCE_S).q + 0.05)
    station.world.faults.dead = set()
    assert spoken(name, lambda s: s.level != diagnostics.ERROR)


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
        return until(lambda: next((status for status in list(seen)
                                   if status.name == name and condition(status)), None),
                     lambda: [(s.name, s.level, s.message) for s in seen], timeout_s)
    yield wait_for
    node.destroy_subscription(subscription)
