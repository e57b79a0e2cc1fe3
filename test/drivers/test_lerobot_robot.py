"""
The simulated station as a robot of LeRobot, and a robot of LeRobot as parts of a station.

By stand-ins, and by LeRobot where that is.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from lab_drivers import PLUGIN, LabRobot, panda_like, so101, stand_in_plugin
from two_gantries import NAMES, REST, two_arms
from waiting import until

from arena_robot.core.action import Action, ActionSpace, ArmCommand, GripperCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    DriverError,
    NotConnected,
    SafetyError,
    StaleData,
)
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.pytest_suite import (
    ArmConformance,
    CameraConformance,
    GripperConformance,
)
from arena_robot.drivers.conformance.suite import driver_rig
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.lerobot_parts import (
    LONGEST_S,
    LeRobotArm,
    LeRobotCamera,
    LeRobotGripper,
)
from arena_robot.drivers.lerobot_robot import SharedRobot
from arena_robot.robots.action_spaces import JOINT_NUMBERS
from arena_robot.robots.arms import PANDA
from arena_robot.safety.limits import robot_of

ROOT = Path(__file__).parents[2]
STATE = [*JOINT_NUMBERS, 'gripper']
# LeRobot's own way from a robot's type to the features of a dataset, an episode of it, and back.
REAL = """
import json
import sys
from pathlib import Path
from lerobot.datasets.utils import build_dataset_frame, hw_to_dataset_features
from lerobot.robots.config import RobotConfig
from lerobot.robots.utils import make_robot_from_config
from lerobot.utils.import_utils import register_third_party_plugins

register_third_party_plugins()
robot = make_robot_from_config(RobotConfig.get_choice_class('arena_station')(
    id='test', seed=3, calibration_dir=Path(sys.argv[1])))
features = hw_to_dataset_features(robot.observation_features, 'observation')
with robot:
    first = build_dataset_frame(features, robot.get_observation(), 'observation')
    goal = dict(zip(robot.action_features, first['observation.state'].tolist()))
    goal |= {'joint_1': goal['joint_1'] + 0.1, 'gripper': 1.0}
    sent = [robot.send_action(goal) for _ in range(15)][-1]
    last = build_dataset_frame(features, robot.get_observation(), 'observation')
    shapes = {name: list(value.shape) for name, value in last.items()}
print(json.dumps([features['observation.state']['names'], shapes, goal, sent,
                  last['observation.state'].tolist(), robot.is_connected]))
"""

# The same robot, made by LeRobot, as the parts of a station of ours.
OURS = """
import json
import sys
import time
from pathlib import Path
import numpy as np
from arena_robot.core.action import Action, ActionSpace, ArmCommand, GripperCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import NotConnected
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.lerobot_parts import LeRobotArm, LeRobotCamera, LeRobotGripper
from arena_robot.robots.arms import PANDA

mapping, kind = str(Path(sys.argv[1], 'mapping.yaml')), 'lerobot:arena_station'
arm, gripper = LeRobotArm(kind, mapping), LeRobotGripper(kind, mapping)
with arm, gripper, LeRobotCamera(kind, mapping, 'wrist') as camera:
    guard = guarded(arm, PANDA, SystemClock())
    start = guard.state(5.0).q
    goal = Action(np.append(start + 0.1 * np.eye(7)[0], 0.0), ActionSpace.JOINT_POSITION)
    arm.wait_state(5.0)
    safe = guard.decide(goal, time.time_ns())
    gripper.command(GripperCommand(1.0, 0, speed=1.0))
    for _ in range(30):
        arm.command(ArmCommand(safe.q, 0))
        state = arm.wait_state(5.0)
    said = [float(state.q[0] - start[0]), [clamp.detail for clamp in safe.clamps],
            gripper.state(5.0).position, list(camera.frame(5.0).left.pixels.shape)]
try:
    LeRobotArm('lerobot:arena_statio', mapping).open()
except NotConnected as error:
    said.append(str(error))
print(json.dumps(said))
"""

# LeRobot's own SO-101 over a bus whose motors are at once where they are sent.
SO101 = """
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
import numpy as np
from lerobot.robots.so_follower import so_follower
from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.drivers.lerobot_parts import LeRobotArm, LeRobotGripper


class Bus:
    is_connected, is_calibrated, told = False, True, []

    def __init__(self, port, motors, calibration):
        self.motors, self.port = motors, port
        self.at, Bus.made = dict.fromkeys(motors, 20.0), self

    def connect(self):
        self.is_connected = True

    def disconnect(self, disable_torque):
        self.is_connected = False

    def sync_read(self, name):
        return dict(self.at)

    def sync_write(self, name, goals):
        self.at.update(goals)

    def write(self, name, motor, value):
        self.told.append((name, motor))

    def torque_disabled(self):
        return nullcontext()

    def configure_motors(self):
        pass


so_follower.FeetechMotorsBus = Bus
mapping, arm_file = (str(Path(sys.argv[1], name)) for name in ('mapping.yaml', 'so101.yaml'))
kind = 'lerobot:so101_follower'
with LeRobotArm(kind, mapping, arm_file) as arm, LeRobotGripper(kind, mapping) as gripper:
    start = arm.state(5.0).q
    arm.command(ArmCommand(start + 0.1, 0))
    gripper.command(GripperCommand(1.0, 0, speed=1.0))
    end_s = time.monotonic() + 20.0
    while time.monotonic() < end_s and (
            np.max(np.abs(arm.state(5.0).q - start - 0.1)) > 1e-6
            or gripper.state(5.0).position < 1.0):
        arm.command(ArmCommand(start + 0.1, 0))
        arm.wait_state(5.0)
    bus = Bus.made
    print(json.dumps([start.tolist(), bus.at, bus.port, bus.is_connected, len(bus.told)]))
"""


@pytest.fixture
def plugin(monkeypatch):
    """Return the plugin's module, over what it takes from LeRobot."""
    return stand_in_plugin(monkeypatch)


def made(plugin, **config):
    return plugin.ArenaStation(plugin.ArenaStationConfig(**config))


def test_a_second_of_velocities_moves_the_arm_as_at_a_station(plugin):
    robot = made(plugin, roles=[], action_space='joint_velocity', seed=2)
    assert list(robot.action_features) == list(robot.observation_features) == STATE
    robot.connect()
    before = robot.get_observation()
    assert list(before) == STATE
    action = dict.fromkeys(STATE, 0.0) | {'joint_1': 0.2, 'gripper': 0.6}
    for _ in range(15):
        assert robot.send_action(action) == action
    after = robot.get_observation()
    assert robot.station.clock.now_ns() == pytest.approx(1e9, abs=2e6), 'of 15 steps'
    moved = {name: after[name] - before[name] for name in STATE}
    assert moved['joint_1'] > 0.1
    assert moved['gripper'] > 0.5
    assert max(abs(moved[name]) for name in JOINT_NUMBERS if name != 'joint_1') < 0.05
    robot.disconnect()


def test_of_joint_targets_it_returns_what_was_accepted(plugin):
    robot = made(plugin, roles=[])
    robot.connect()
    seen = robot.get_observation()
    far = seen | {'joint_1': seen['joint_1'] + 2.0}
    sent = robot.send_action(far)
    assert seen['joint_1'] < sent['joint_1'] < far['joint_1'] - 1.0
    with pytest.raises(SafetyError):
        robot.send_action(far | {'joint_1': np.nan})
    robot.disconnect()


def test_it_says_that_it_is_not_connected_or_already(plugin):
    robot = made(plugin, roles=[])
    for call in (robot.get_observation, robot.disconnect, lambda: robot.send_action({})):
        with pytest.raises(plugin.DeviceNotConnectedError):
            call()
    robot.connect()
    with pytest.raises(plugin.DeviceAlreadyConnectedError):
        robot.connect()
    robot.disconnect()
    assert not robot.is_connected


@pytest.fixture
def lerobot(tmp_path):
    """Return a function that runs a program where LeRobot and the plugin are installed."""
    python = os.environ.get('ARENA_LEROBOT')
    if not python or subprocess.run([python, '-c', 'import lerobot, mujoco'], check=False,
                                    capture_output=True, timeout=60).returncode:
        pytest.skip('ARENA_LEROBOT names no Python that has lerobot and mujoco')
    project = dict(line.split(' = ', 1) for line in (PLUGIN / 'pyproject.toml').read_text(
        ).split('[project]')[1].split('\n[')[0].strip().splitlines())
    name = yaml.safe_load(project['name'])
    info = tmp_path / f'{name}-0.1.0.dist-info'    # as pip makes it of the project
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n')

    def run(text):
        done = subprocess.run(
            [python, '-c', text, str(tmp_path)], check=False, timeout=240, capture_output=True,
            text=True, env={**os.environ, 'HF_HUB_OFFLINE': '1', 'MUJOCO_GL': 'egl',
                            'PYTHONPATH': os.pathsep.join(map(str, (tmp_path, PLUGIN, ROOT)))})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
    return run


@pytest.mark.timeout(300)
def test_lerobot_finds_it_and_drives_it(lerobot):
    names, shapes, goal, sent, last, connected = lerobot(REAL)
    assert names == STATE
    assert shapes == {'observation.state': [8], 'observation.images.left': [180, 320, 3],
                      'observation.images.wrist': [180, 320, 3]}
    assert sent == pytest.approx(goal, abs=1e-6)
    assert last[0] == pytest.approx(goal['joint_1'], abs=0.01)
    assert last[7] > 0.5
    assert not connected


@pytest.mark.timeout(300)
def test_a_robot_that_lerobot_makes_is_a_stations_parts(lerobot, tmp_path):
    (tmp_path / 'mapping.yaml').write_text(yaml.safe_dump({
        'robot': {'roles': ['wrist'], 'id': 'test', 'calibration_dir': str(tmp_path)},
        'rate': 15.0, 'gripper': {'name': 'gripper', 'open': 0.0, 'closed': 1.0},
        'joints': {name: {'name': own, 'unit': 'radians'} for name, own in zip(
            PANDA.joint_names(), JOINT_NUMBERS, strict=True)},
        'cameras': {'wrist': {'name': 'wrist', 'focal': 0.8}}}), encoding='utf-8')
    reached, clamps, closed, shape, unknown = lerobot(OURS)
    assert reached == pytest.approx(0.1, abs=0.02)
    assert clamps == []
    assert closed > 0.5
    assert shape == [180, 320, 3]
    assert "LeRobot knows no robot 'arena_statio'. Did you mean 'arena_station'?" in unknown


@pytest.mark.timeout(300)
def test_lerobots_own_so101_gets_accepted_targets_in_its_degrees(lerobot, tmp_path):
    _, mapping = so101(tmp_path, port='/dev/ttyACM0', id='a', calibration_dir=str(tmp_path))
    path = Path(mapping)
    path.write_text(path.read_text().replace('radians', 'degrees').replace(
        'normalised', 'degrees').partition('cameras')[0], encoding='utf-8')
    start, at, port, connected, told = lerobot(SO101)
    assert start == pytest.approx(np.radians([20.0, -20.0, 15.0, 20.0, 20.0]))
    more = np.degrees(0.1)
    assert at == pytest.approx({
        'shoulder_pan': 20 + more, 'shoulder_lift': 20 - more, 'elbow_flex': 20 + more,
        'wrist_flex': 20 + more, 'wrist_roll': 20 + more, 'gripper': 0.0}, abs=1e-4)
    assert (port, connected) == ('/dev/ttyACM0', True)
    assert told, 'LeRobot configured its motors'


LAB = 'lerobot:lab_drivers:LabRobot'


@pytest.fixture
def rig(request, tmp_path):
    """Return the rig of a part of a robot that stands where a Panda rests."""
    options = {'arm': {'robot_type': 'panda'}, 'camera': {'role': 'wrist'}}
    mapping = {'mapping': panda_like(tmp_path, speed=200.0)}
    part = request.cls.part
    with driver_rig(part, LAB, {**mapping, **options.get(part, {})}) as rig:
        rig.silence = lambda: setattr(LabRobot.made[-1], 'broken', True)
        yield rig


class TestLeRobotArm(ArmConformance):
    part = 'arm'


class TestLeRobotGripper(GripperConformance):
    part = 'gripper'


class TestLeRobotCamera(CameraConformance):
    part = 'camera'


@pytest.fixture
def parts(tmp_path):
    """Return arm, gripper and camera of an SO-101, and the file with what was sent."""
    log = tmp_path / 'sent.jsonl'
    log.touch()
    robot_type, mapping = so101(tmp_path, log=str(log))
    arm = LeRobotArm(LAB, mapping, robot_type)
    with arm, LeRobotGripper(LAB, mapping) as gripper, LeRobotCamera(LAB, mapping) as camera:
        yield arm, gripper, camera, lambda: sent(log)


def sent(log):
    """Return the numbers that were sent; a line that is being written is left out."""
    return [json.loads(line) for line in log.read_text().rpartition('\n')[0].splitlines()]


def test_an_accepted_target_arrives_in_the_robots_own_numbers(parts):
    arm, gripper, camera, sent = parts
    guard = guarded(arm, robot_of(str(arm._path.with_name('so101.yaml'))), SystemClock())
    before = guard.state().q
    assert before[:4] == pytest.approx([np.radians(1), -np.radians(1), np.radians(-4), 1.0])
    half = np.radians(160)      # of the range of the last joint, whose middle is at 3 degrees
    assert before[4] == pytest.approx(np.radians(3) + 0.01 * half)
    assert not sent(), 'opening moves nothing'
    goal = before + np.array([0.1, 0.1, -0.1, 0.1, 0.1])
    safe = guard.decide(Action(np.append(goal, 1.0), ActionSpace.JOINT_POSITION),
                        SystemClock().now_ns())
    gripper.command(GripperCommand(1.0, 0, speed=1.0))
    until(lambda: np.max(np.abs(arm.state(5.0).q - safe.q)) < 1e-3, 'the target')
    until(lambda: gripper.state(5.0).position == pytest.approx(1.0), 'the closed gripper')
    assert safe.q == pytest.approx(goal)
    degrees = np.degrees(0.1)
    assert sent()[-1] == pytest.approx({
        'shoulder_pan.pos': 1 + degrees, 'shoulder_lift.pos': 1 - degrees,
        'elbow_flex.pos': 1 - degrees, 'wrist_flex.pos': 1.1,
        'wrist_roll.pos': 1 + 100 * 0.1 / half, 'gripper.pos': 0.0}, abs=1e-3)
    assert np.array_equal(camera.frame().left.pixels[0, 0], (200, 100, 50))
    assert camera.serial == 'lab_drivers:LabRobot:front'


def test_targets_go_no_faster_than_the_joints_may(parts):
    arm, _, _, sent = parts
    q = arm.state().q
    arm.command(ArmCommand(q + np.array([1.0, 0, 0, 0, 0]), 0))
    until(lambda: len(sent()) > 12, 'a dozen targets')
    places = [line['shoulder_pan.pos'] for line in sent()]
    assert max(np.diff([1.0, *places])) <= np.degrees(2.0 * LONGEST_S) + 1e-6
    assert places[0] < 1.0 + np.degrees(2.0 * LONGEST_S) + 1e-6


def test_a_hand_of_two_arms_goes_on_holding_while_the_arms_stop(tmp_path):
    start = {f'{name}.pos': value for name, value in zip(NAMES, REST, strict=True)} | {
        'l_near.pos': 70.0}     # of -0.1 to 0.1 m: 0.04
    mapping = tmp_path / 'mapping.yaml'
    mapping.write_text(yaml.safe_dump({
        'robot': {'joints': NAMES, 'start': start, 'log': str(tmp_path / 'log')}, 'rate': 50.0,
        'joints': {name: {'name': f'{name}.pos', 'unit': 'radians'} for name in NAMES} | {
            'l_near': {'name': 'l_near.pos', 'unit': 'percent'}},
        'gripper': {'name': 'gripper.pos'}}))
    finger, moving, log = NAMES.index('l_near'), NAMES.index('r_y'), tmp_path / 'log'
    with LeRobotArm(LAB, str(mapping), two_arms(tmp_path), command_timeout=30.0) as arm:
        q = arm.state().q
        assert q == pytest.approx(REST)
        goal = q.copy()
        goal[finger], goal[moving] = 0.0, 5.0
        arm.command(ArmCommand(goal, 0))
        until(lambda: arm.state().q[moving] > q[moving] + 0.1, 'a moving arm')
        LabRobot.made[-1].speed = 0.0       # something is between the fingers
        arm.stop()
        until(lambda: arm.state().mode is RobotMode.IDLE, 'a stop')
        held = arm.state().q
        until(lambda: sent(log)[-1]['l_near.pos'] == pytest.approx(50.0), 'a firm hand')
        assert sent(log)[-1]['r_y.pos'] == pytest.approx(held[moving])
        assert held[finger] > 0.0


def test_the_parts_share_one_robot_which_the_last_lets_go(tmp_path):
    robot_type, mapping = so101(tmp_path)
    count = len(LabRobot.made)
    with LeRobotGripper(LAB, mapping) as gripper:
        with LeRobotArm(LAB, mapping, robot_type) as arm:
            assert len(LabRobot.made) == count + 1
            assert arm.wait_state(1.0).stamp_ns
        assert LabRobot.made[-1].is_connected
        assert gripper.wait_state(1.0).position == 0.0
    assert not LabRobot.made[-1].is_connected


def test_a_lost_robot_is_connected_again_and_does_not_go_on(parts):
    arm, _, _, sent = parts
    start = arm.state(5.0).q
    arm.move_to(start + 0.5, 3.0)
    until(lambda: arm.state(5.0).q[0] - start[0] > 0.02, 'the motion')
    LabRobot.made[-1].broken = True
    until(lambda: arm._trouble(), 'the loss')
    with pytest.raises(DriverError, match='no status packet'):
        arm.command(ArmCommand(start, 0))
    with pytest.raises(StaleData, match='ConnectionError: no status packet'):
        until(lambda: arm.state(0.1) is None, 'a stale state')
    until(lambda: not arm._trouble(), 'the robot')
    told = len(sent())
    assert arm.wait_state(1.0).mode is RobotMode.IDLE
    arm.wait_state(1.0)
    assert len(sent()) == told, 'nothing is sent until somebody commands it again'


@pytest.mark.parametrize(('change', 'why'), [
    (('  roll: {name: wrist_roll.pos, unit: normalised}\n', ''), 'missing or unknown: roll'),
    (('  roll:', '  rol:'), 'missing or unknown: rol, roll'),
    (('shoulder_pan.pos', 'shoulder_pann.pos'), "Did you mean 'shoulder_pan.pos'"),
    (('gripper: {name: gripper.pos}', ''), 'lacks gripper.pos of lerobot:lab_drivers:LabRobot'),
    (('unit: radians', 'unit: degree'), 'degrees'),
    (('sign: -1', 'sign: 2'), 'sign must be 1 or -1, found 2'),
    (('rate: 50', 'rate: 0'), 'rate must be 1 to 200 Hz, found 0'),
    (('joints:', 'joint:'), "Did you mean 'joints'"),
    (('{}', '{"calibrated": false}'), 'not calibrated: run lerobot-calibrate'),
])
def test_a_mapping_that_does_not_fit_is_refused(tmp_path, change, why):
    robot_type, mapping = so101(tmp_path)
    path = Path(mapping)
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    arm = LeRobotArm(LAB, mapping, robot_type)
    with pytest.raises(ArenaError, match=re.escape(why)):
        arm.open()
    assert not SharedRobot._all


def test_a_part_that_the_mapping_lacks_is_named(tmp_path):
    _, mapping = so101(tmp_path)
    with pytest.raises(ConfigError, match='has no camera wrist: give its name and focal'):
        LeRobotCamera(LAB, mapping, 'wrist').open()
    Path(mapping).write_text(Path(mapping).read_text().replace('gripper: {', 'gripper: #{'))
    with pytest.raises(ConfigError, match='has no gripper: give its name'):
        LeRobotGripper(LAB, mapping).open()


def test_without_lerobot_a_type_of_its_own_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'draccus', None)
    robot_type, mapping = so101(tmp_path)
    with pytest.raises(NotConnected, match='needs LeRobot where the nodes run: pip install'):
        LeRobotArm('lerobot:so101_follower', mapping, robot_type).open()
