"""Timelines, trajectories, rates and station files, without a running station."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from station_programs import ROOT, SIM
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, DriverError, NotConnected, SafetyError
from arena_robot.drivers.part import Opened
from arena_robot.nodes.arm.node import ArmNode
from arena_robot.nodes.arm.trajectory import trajectory
from arena_robot.nodes.camera import CameraNode
from arena_robot.nodes.gripper import GripperNode
from arena_robot.nodes.lib import diagnostics, part_node
from arena_robot.nodes.lib.convert import time_of
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import ArmParams, CameraParams, GripperParams, PartParams
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import RosClock, ShiftedTime
from arena_robot.nodes.station.files import nodes_in
from arena_robot.nodes.station.processes import NodeProcess, Supervisor, overrides_file
from arena_robot.robots.arms import PANDA

MS = 1_000_000
NAMES = PANDA.joint_names()
Q = np.zeros(7)


class Unplugged(Opened):
    """A part that opens once, then fails in other ways, and is back at its fourth opening."""

    def __init__(self):
        self.opened = 0

    def open(self):
        self.opened += 1
        if self.opened in (2, 3):
            raise (RuntimeError, NotConnected)[self.opened - 2]('the cable')
        super().open()


class Plugged(PartNode):
    """A node of that part; ``read`` is set once it reads again."""

    def __init__(self, **options):
        self.read = threading.Event()
        super().__init__('plugged', PartParams(), **options)

    def build_part(self):
        return Unplugged()

    def stream_once(self):
        self.part._require_open('it')
        if self.part.opened == 1:
            raise DriverError('unplugged')
        self.read.set()
        time.sleep(0.01)


def test_a_part_is_opened_again_whatever_the_last_attempt_raised(monkeypatch):
    monkeypatch.setattr(part_node, 'RETRY_S', 0.02)
    with Spin() as spin:
        node = Plugged(context=spin.context)
        spin.add(node)
        node.start()
        assert node.read.wait(10.0)
        assert node.part.opened == 4


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 60)), min_size=1, max_size=80))
def test_shifted_stamps_never_go_back(steps):
    part, ros = ManualClock(5 * MS), ManualClock(1_000 * MS)
    line = ShiftedTime(part, ros)
    before = line.to_ros(part.now_ns())
    for part_ms, ros_ms in steps:
        part.advance_ns(part_ms * MS)
        ros.advance_ns(ros_ms * MS)
        line.tick()
        now = line.to_ros(part.now_ns())
        assert now > before or part_ms == 0
        before = now


def test_a_world_that_catches_up_after_a_stall_stamps_nothing_in_the_future():
    part, ros = ManualClock(0), ManualClock(1_000 * MS)
    line = ShiftedTime(part, ros)
    ros.advance_ns(250 * MS)
    for _ in range(62):     # what was missed, in fast ticks
        part.advance_ns(4 * MS)
        ros.advance_ns(MS // 10)
        before_ns = line.to_ros(part.now_ns() - 4 * MS)
        line.tick()
        assert before_ns < line.to_ros(part.now_ns()) <= ros.now_ns()


def test_an_even_clock_keeps_its_shift_and_a_late_one_jumps():
    part, ros = ManualClock(0), ManualClock(1_000 * MS)
    line = ShiftedTime(part, ros)
    for _ in range(10):
        part.advance_ns(4 * MS)
        ros.advance_ns(4 * MS)
        line.tick()
        assert line.to_ros(part.now_ns()) == ros.now_ns()
    early = part.now_ns()
    ros.advance_ns(40 * MS)
    part.advance_ns(4 * MS)
    line.tick()
    assert line.to_ros(part.now_ns()) == ros.now_ns()
    assert line.to_ros(early) == 1_040 * MS
    assert line.to_part(ros.now_ns() - 7 * MS) == part.now_ns() - 7 * MS


def message(*points, names=NAMES, velocities=()):
    out = JointTrajectory(joint_names=names)
    for i, (seconds, q) in enumerate(points):
        point = JointTrajectoryPoint(positions=[float(v) for v in q])
        if velocities:
            point.velocities = [float(v) for v in velocities[i]]
        point.time_from_start.sec = int(seconds)
        point.time_from_start.nanosec = round((seconds % 1) * 1e9)
        out.points.append(point)
    return out


def test_a_trajectory_begins_where_the_arm_is_and_passes_its_points():
    path = trajectory(message((1.0, Q + 1.0), (3.0, Q)), NAMES, Q)
    assert path.duration_s == 3.0
    for seconds, value in ((-1.0, 0.0), (0.5, 0.5), (1.0, 1.0), (2.0, 0.5), (9.0, 0.0)):
        assert path.at(seconds)[0] == pytest.approx(value)


def test_velocities_make_it_smooth():
    path = trajectory(message((1.0, Q + 1.0), velocities=[Q]), NAMES, Q)
    assert path.at(0.5)[0] == pytest.approx(0.5)
    assert path.at(0.1)[0] == pytest.approx(3 * 0.01 - 2 * 0.001)


def test_joints_are_ordered_by_name():
    path = trajectory(message((0.0, range(7)), names=NAMES[::-1]), NAMES, Q)
    assert list(path.points[0]) == [6, 5, 4, 3, 2, 1, 0]
    assert path.duration_s == 0.0


@pytest.mark.parametrize(('bad', 'text'), [
    (message((1.0, Q[:6])), 'must have 7'),
    (message((1.0, Q * np.nan)), 'finite'),
    (message((2.0, Q), (1.0, Q)), 'must increase'),
    (message((1.0, Q), names=NAMES[:6]), 'the joints are'),
    (message((1.0, Q), names=[*NAMES[:6], 'joint8']), 'the joints are'),
])
def test_a_trajectory_without_meaning_is_refused(bad, text):
    with pytest.raises(SafetyError, match=text):
        trajectory(bad, NAMES, Q)


def test_a_rate_is_measured_in_the_time_it_is_given():
    rate = diagnostics.Rate(lambda: 10.0)
    rate.measure(0)
    for _ in range(8):
        rate.tick()
    assert rate.measure(1_000 * MS) == pytest.approx(8.0)
    assert rate.too_slow
    assert rate.values()['Minimum acceptable frequency (Hz)'] == '9.00'


def test_the_shipped_station_files_describe_their_nodes():
    assert nodes_in(SIM) == [('sim_station', 'sim_station')]
    lab = nodes_in(ROOT / 'config' / 'stations' / 'example_lab.yaml')
    assert lab == [('arm_node', 'arm_node'), ('gripper_node', 'gripper_node'),
                   *(('camera_node', f'{role}_camera') for role in ('left', 'right', 'wrist'))]


def test_the_nodes_accept_every_key_of_the_example():
    made = {'arm_node': ArmNode, 'gripper_node': GripperNode, 'camera_node': CameraNode}
    path = ROOT / 'config' / 'stations' / 'example_lab.yaml'
    with Spin(['test', '--ros-args', '--params-file', str(path)]) as spin:
        for executable, name in nodes_in(path):
            node = made[executable](name, context=spin.context)
            assert node.params.backend == 'sim'
            node.destroy_node()


def test_overrides_are_a_station_file():
    path = overrides_file({'arm_node': {'robot_ip': '10.0.0.1'}})
    assert nodes_in(path) == [('arm_node', 'arm_node')]
    path.unlink()


def test_other_nodes_may_have_their_section_in_a_station_file(tmp_path):
    path = tmp_path / 'lab.yaml'
    path.write_text('/**/recorder_node: {ros__parameters: {}}\n'
                    '/**/arm_node: {ros__parameters: {}}\n')
    assert nodes_in(path) == [('arm_node', 'arm_node')]


def test_a_missing_station_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match='cannot read'):
        nodes_in(tmp_path / 'none.yaml')


class Fake(NodeProcess):
    def command(self):
        return [sys.executable, '-c', self.name]


def test_bad_configuration_of_a_process_ends_all_with_its_code():
    goes_on = Fake('y', 'import time; time.sleep(600)')
    supervisor = Supervisor([goes_on, Fake('x', 'raise SystemExit(2)')], respawn_delay_s=0.0)
    assert supervisor.run() == 2


def test_a_node_whose_packages_are_missing_says_what_to_install(tmp_path):
    (tmp_path / 'mcap.py').write_text(
        "raise ModuleNotFoundError(\"No module named 'mcap'\", name='mcap')\n")
    done = subprocess.run(NodeProcess('recorder_node', 'recorder_node').command(), timeout=60,
                          env={**os.environ, 'PYTHONPATH': str(tmp_path)}, text=True,
                          capture_output=True, check=False)
    assert (done.returncode, done.stderr.count('\n')) == (2, 1), done.stderr
    assert "recorder_node needs a package: No module named 'mcap'" in done.stderr
    assert "pip install --constraint requirements-station.txt '.[lab]'" in done.stderr


@pytest.mark.parametrize('kind', [ArmParams, GripperParams, CameraParams])
def test_a_prefix_that_no_frame_can_begin_with_is_refused(kind):
    assert kind(arm_prefix='left').arm_prefix == 'left'
    with pytest.raises(ConfigError, match="arm_prefix 'left/' cannot begin"):
        kind(arm_prefix='left/')


def test_the_supervisor_starts_a_dead_process_again(tmp_path):
    mark = tmp_path / 'mark'
    code = (f'import pathlib, sys; p = pathlib.Path({str(mark)!r}); seen = p.exists(); '
            'p.touch(); sys.exit(0 if seen else 3)')
    assert Supervisor([Fake('x', code)], respawn_delay_s=0.0).run() == 3
    assert mark.exists()


@pytest.fixture
def clocks():
    """Return a node's RosClock and a function that sets its simulated time."""
    with Spin() as spin:
        node = Node('sleeper', context=spin.context,
                    parameter_overrides=[Parameter('use_sim_time', value=True)])
        spin.add(node)
        publisher = node.create_publisher(Clock, '/clock', 10)

        def set_ms(milliseconds):
            publisher.publish(Clock(clock=time_of(milliseconds * MS)))
        yield RosClock(node.get_clock(), spin.context), set_ms


def test_a_ros_clock_sleeps_in_simulated_time(clocks):
    clock, set_ms = clocks
    woken = threading.Event()
    sleeper = threading.Thread(target=lambda: (clock.sleep_until_ns(900 * MS), woken.set()))
    sleeper.start()
    for milliseconds in (100, 500, 800):
        set_ms(milliseconds)
        assert not woken.wait(0.1)
    end_s = time.monotonic() + 5.0
    while not woken.wait(0.02):
        set_ms(950)
        assert time.monotonic() < end_s
    sleeper.join()
    assert clock.now_ns() == 950 * MS


def test_a_ros_clock_sleeps_in_wall_time():
    with Spin() as spin:
        node = Node('sleeper', context=spin.context)
        clock = RosClock(node.get_clock(), spin.context)
        begin_ns = clock.now_ns()
        clock.sleep_until_ns(begin_ns + 30 * MS)
        assert 30 * MS <= clock.now_ns() - begin_ns < 500 * MS
        clock.sleep_until_ns(begin_ns)
        node.destroy_node()


def test_a_shutdown_ends_a_sleep(clocks):
    clock, _ = clocks
    sleeper = threading.Thread(target=lambda: clock.sleep_until_ns(10**15))
    sleeper.start()
    clock._context.try_shutdown()
    sleeper.join(2.0)
    assert not sleeper.is_alive()
