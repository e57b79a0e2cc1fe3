"""Drivers of other packages behind nodes, from a parameter file; a robot of LeRobot is one."""

import json
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from installed_package import install
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from waiting import until

from arena_robot.core.action import Action, ActionSpace, GripperCommand
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.suite import driver_rig
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder
from arena_robot.nodes.camera import CameraNode
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.part_params import RosCameraParams
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import ShiftedTime
from arena_robot.nodes.remote.camera import RosCamera
from arena_robot.nodes.remote.robot import RemoteArm, RemoteGripper
from arena_robot.nodes.station.files import nodes_in
from arena_robot.nodes.station.processes import overrides_file
from arena_robot.robots.arms import RESET_JOINTS

DRIVERS = Path(__file__).parents[1] / 'drivers'
sys.path.insert(0, str(DRIVERS))

from lab_drivers import panda_like, stand_in_plugin  # noqa: E402

BUSY_S = 20.0

GRIPPER = """
from arena_robot.core.observation import GripperState
from arena_robot.drivers.part import Opened

class LabGripper(Opened):
    def __init__(self, clock, com_port, stroke_mm=85.0):
        self.clock, self.com_port, self.stroke_mm = clock, com_port, stroke_mm
    def state(self, max_age_s=0.2):
        return GripperState(self.clock.now_ns(), 0.0, self.stroke_mm / 1000.0, 0.0)
    def wait_state(self, timeout_s):
        return self.state()
    def command(self, command):
        return command
    def stop(self): pass
    def activate(self): pass

class Handless(Opened):
    def __init__(self, clock): pass

class Loose(LabGripper):
    def __init__(self, clock, com_port, **more): super().__init__(clock, com_port)

class Odd(LabGripper):
    def __init__(self, clock, com_port, table={'a': 1}): super().__init__(clock, com_port)

class Needy(LabGripper):
    def __init__(self, clock, com_port, stroke_mm, note=None, marks=[1.0, 2.0]):
        super().__init__(clock, com_port, stroke_mm)
        self.note, self.marks = note, marks
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch, 'lab_grippers', {'lab_grippers.py': GRIPPER},
                   '[arena_robot.drivers.gripper]\nlab = lab_grippers:LabGripper\n')


def gripper_node(values):
    """Return the node's driver, made as its parameter file says."""
    values = {**values, 'driver': {'com_port': '/dev/lab', **values.get('driver', {})}}
    path = overrides_file({'gripper_node': {'autostart': False, **values}})
    args = ['test', '--ros-args', '--params-file', str(path),
            '-r', f'__ns:=/backend_{uuid.uuid4().hex[:6]}']
    try:
        with Spin(args) as spin:
            node = GripperNode('gripper_node', context=spin.context)
            try:
                return node.build_part()
            finally:
                node.destroy_node()
    finally:
        path.unlink()


@pytest.mark.parametrize('backend', ['lab_grippers:LabGripper', 'lab'])
def test_a_parameter_file_names_a_driver_of_another_package(lab, backend):
    part = gripper_node({'backend': backend, 'driver': {'stroke_mm': 140.0}})
    assert type(part).__name__ == 'LabGripper'
    assert (part.com_port, part.stroke_mm) == ('/dev/lab', 140.0)
    with part:
        assert part.state().width_m == 0.14


def test_what_a_driver_lacks_is_said_before_anything_opens(lab):
    with pytest.raises(ConfigError, match=r'Handless does not keep the protocol Gripper of '
                                          'arena_robot.drivers.base; it lacks activate'):
        gripper_node({'backend': 'lab_grippers:Handless'})
    with pytest.raises(ConfigError, match=r"gripper_node: no gripper backend 'lap'. Did you mean"):
        gripper_node({'backend': 'lap'})


def by_check(values, backend):
    """Return the driver as `arena driver check` makes it."""
    with driver_rig('gripper', backend, {'com_port': '/dev/lab', **values}) as rig:
        return rig.part


def by_node(values, backend):
    return gripper_node({'backend': backend, 'driver': values} if values
                        else {'backend': backend})


BOTH = pytest.mark.parametrize('made', [by_check, by_node])


@BOTH
@pytest.mark.parametrize(('backend', 'values', 'words'), [
    ('lab_grippers:Loose', {}, r'Loose takes \*\*more, which no parameter can set'),
    ('lab_grippers:Odd', {}, r"Odd: table=\{'a': 1\} cannot be a parameter; a default is None"),
    ('lab_grippers:Needy', {}, 'Needy needs stroke_mm: '),
    ('lab_grippers:LabGripper', {'stroke_mm': 'wide'}, 'stroke_mm must be a float, found str')])
def test_check_and_node_refuse_the_same_drivers_with_the_same_words(lab, made, backend, values,
                                                                    words):
    with pytest.raises(ConfigError, match=words):
        made(values, backend)


@BOTH
def test_check_and_node_make_the_same_driver(lab, made):
    part = made({'stroke_mm': 140.0, 'note': 'left bench', 'marks': [3, 4]}, 'lab_grippers:Needy')
    assert (part.stroke_mm, part.note, part.marks) == (140.0, 'left bench', (3.0, 4.0))
    part = made({'stroke_mm': 140.0}, 'lab_grippers:Needy')
    assert (part.note, part.marks) in ((None, (1.0, 2.0)), (None, [1.0, 2.0]))


@pytest.fixture
def zed_node(tmp_path, monkeypatch):
    """Return the node of an emulated ZED."""
    make_folder(tmp_path / 'zed', {'7': EmulatedZed()})
    monkeypatch.syspath_prepend(str(tmp_path / 'zed'))
    given = {'autostart': False, 'backend': 'zed', 'driver.resolution': 'VGA', 'driver.fps': 30}
    with Spin() as spin:
        node = CameraNode(context=spin.context, parameter_overrides=[
            Parameter(name, value=value) for name, value in given.items()])
        yield node
        node.close()
        node.destroy_node()


def test_exposure_is_a_parameter_that_changes_while_the_camera_streams(zed_node):
    def brightness():
        return zed_node.part.wait_frame(20.0).left.pixels[8:].mean()

    def change(**values):
        return zed_node.set_parameters_atomically(
            [Parameter(f'driver.{name}', value=value) for name, value in values.items()])

    about = zed_node.describe_parameter('driver.exposure')
    assert (about.integer_range[0].from_value, about.integer_range[0].to_value) == (-1, 100)
    assert about.description.startswith('share of the frame time, 0 to 100; -1: automatic')
    assert about.additional_constraints == 'may change while running'
    assert zed_node.describe_parameter('driver.fps').read_only
    assert change(exposure=50, gain=50).successful          # before it is open
    assert zed_node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    bright = brightness()
    assert change(exposure=20).successful
    until(lambda: brightness() == pytest.approx(0.4 * bright, rel=0.02))
    refused = change(exposure=101).reason, change(white_balance=2700).reason
    assert 'driver.exposure out of range. Min: -1, Max: 100' in refused[0]
    assert refused[1] == 'white_balance 2700: a ZED has 2800 to 6500, or -1 for automatic'
    assert brightness() == pytest.approx(0.4 * bright, rel=0.02)
    assert zed_node.get_parameter('driver.white_balance').value == -1
    assert change(exposure=-1, gain=-1).successful
    until(lambda: brightness() == pytest.approx(bright, rel=0.02))


def test_a_part_that_is_simulated_alone_is_in_the_time_of_its_world():
    with Spin() as spin:
        node = GripperNode(context=spin.context,
                           parameter_overrides=[Parameter('autostart', value=False)])
        try:
            before = node.timeline
            assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
            assert isinstance(node.timeline, ShiftedTime)
            assert node.timeline is not before
            state = node.gripper.state(5.0)
            assert state.stamp_ns <= node.timeline.part.now_ns()
        finally:
            node.close()
            node.destroy_node()
        assert node.part is None


@pytest.mark.parametrize(('style', 'eyes', 'deep'), [
    ('zed4', {'left', 'right'}, False), ('mono', {'left'}, False),
    ('realsense', {'left', 'depth'}, True)])
def test_a_camera_simulated_alone_has_what_its_topics_are_for(style, eyes, deep):
    with Spin() as spin:
        node = CameraNode(context=spin.context, parameter_overrides=[
            Parameter('autostart', value=False), Parameter('topic_style', value=style)])
        try:
            assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
            frame = node.camera.wait_frame(BUSY_S)
            assert set(node.eyes) == eyes
            assert (frame.depth is not None, bool(frame.right.pixels.size)) == (
                deep, 'right' in eyes)
        finally:
            node.close()
            node.destroy_node()


LAB_STATION = """
/**/arm_node: {{ros__parameters: {{backend: 'lerobot:lab_drivers:LabRobot', driver:
  {{mapping: {mapping}}}}}}}
/**/gripper_node: {{ros__parameters: {{backend: 'lerobot:lab_drivers:LabRobot', driver:
  {{mapping: {mapping}}}}}}}
/**/wrist_camera: {{ros__parameters: {{backend: 'lerobot:lab_drivers:LabRobot', driver:
  {{mapping: {mapping}}}, role: wrist, topic_style: mono, pub_frame_rate: 30.0}}}}
"""


@pytest.fixture
def lerobot_station(tmp_path, processes):
    """Return a station whose parts are one robot of LeRobot, a node, and what the robot gets."""
    log = tmp_path / 'sent.jsonl'
    log.touch()
    path = tmp_path / 'station.yaml'
    path.write_text(LAB_STATION.format(mapping=panda_like(tmp_path, log=str(log))))
    assert nodes_in(path) == [('part_nodes', 'arm_node,gripper_node,wrist_camera')]
    space = f'lerobot_{uuid.uuid4().hex[:6]}'
    station = processes('-m', 'arena_robot.cli.main', 'station', '--config', str(path),
                        '--namespace', space, PYTHONPATH=str(DRIVERS))
    with Spin() as spin:
        node = Listening('client', namespace=space, context=spin.context)
        spin.add(node, threads=3)
        yield station, node, lambda: [json.loads(line) for line in log.open()]


def test_one_robot_of_lerobot_is_a_stations_arm_gripper_and_camera(lerobot_station):
    station, node, sent = lerobot_station
    view = RosCameraParams(node='wrist_camera', topic_style='mono', open_timeout=BUSY_S)
    with (RemoteArm(node, timeout_s=BUSY_S) as arm,
          RemoteGripper(node, timeout_s=BUSY_S) as gripper, RosCamera(node, view, '') as camera):
        assert np.array_equal(camera.wait_frame(BUSY_S).left.pixels[0, 0], (200, 100, 50))
        assert not sent(), 'opening moves nothing'
        start = arm.wait_state(BUSY_S).q
        assert start == pytest.approx(RESET_JOINTS)

        def act(joint, by):
            values = np.append(start + by * np.eye(7)[joint], 0.0)
            return arm.act(Action(values, ActionSpace.JOINT_POSITION), time.time_ns()).result(
                BUSY_S)
        safe = act(0, 0.1)
        until(lambda: np.allclose(arm.wait_state(BUSY_S).q, safe.q, atol=0.01), 'the target')
        assert sent()[-1]['panda_joint1.pos'] == pytest.approx(np.degrees(safe.q[0]), abs=0.6)
        far = act(0, 2.0)
        assert 0.1 < far.q[0] < 0.6, 'the safety layer brought it near'
        assert far.clamps
        arm.halt()
        at = arm.wait_state(BUSY_S).q[0]
        with pytest.raises(SafetyError, match='halted'):
            act(0, 0.0)
        assert arm.wait_state(BUSY_S).q[0] == pytest.approx(at, abs=0.1)
        arm.resume()
        gripper.command(GripperCommand(1.0, time.time_ns(), speed=1.0))
        until(lambda: gripper.wait_state(BUSY_S).position > 0.99, 'the closed gripper')
        act(1, 0.1)
        until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE, 'rest without commands')
    assert station.end()[0] == 0, station.log


def test_lerobot_drives_a_station_that_runs(lerobot_station, monkeypatch):
    """Where that station's parts are a robot of LeRobot themselves, which gets the degrees."""
    station, node, sent = lerobot_station
    plugin = stand_in_plugin(monkeypatch)

    def robot(**size):
        return plugin.ArenaRosStation(plugin.ArenaRosStationConfig(
            namespace=node.get_namespace(), roles=['wrist'], topic_style='mono', **size))
    with pytest.raises(ConfigError, match=r'set --robot\.width=64 --robot\.height=48'):
        robot().connect()
    arm = robot(width=64, height=48)
    arm.connect()
    seen = arm.get_observation()
    assert list(seen) == list(arm.observation_features)
    assert [seen[name] for name in list(seen)[:7]] == pytest.approx(RESET_JOINTS, abs=1e-6)
    assert seen['wrist'].shape == (48, 64, 3)
    asked = {name: seen[name] for name in arm.action_features} | {
        'joint_1': seen['joint_1'] + 2.0, 'gripper': 1.0}
    accepted = arm.send_action(asked)
    assert 0.1 < accepted['joint_1'] < 0.6, 'the safety layer of arm_node brought it near'
    until(lambda: sent() and sent()[-1]['gripper.pos'] < 1.0, 'the closed gripper')
    assert sent()[-1]['panda_joint1.pos'] > 5.0
    arm.disconnect()
    with pytest.raises(plugin.DeviceNotConnectedError):
        arm.send_action(asked)
    assert station.end()[0] == 0, station.log
