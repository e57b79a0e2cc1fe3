"""Whole programs: bad configuration, Ctrl-C, two stations at once, speed, and real launch."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
import yaml
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros_tools import environment, need_ros_tools, ros2
from rosgraph_msgs.msg import Clock
from station_programs import ROOT, SIM, at_rest_at, sim_command, states_until
from std_srvs.srv import Trigger
from waiting import until

from arena_robot.cli.main import main
from arena_robot.core.config import read_yaml
from arena_robot.core.errors import DriverError
from arena_robot.nodes import camera, gripper
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.nodes.simulation import node as simulation

LAB = ROOT / 'config' / 'stations' / 'example_lab.yaml'
LAUNCH = ROOT / 'launch' / 'station.launch.py'
SMALL = {'image_width': 64, 'image_height': 36}
PACE_NS = 1_000_000_000    # of real time, in which a pace is measured


@pytest.mark.parametrize(('node', 'parameters', 'message'), [
    ('arm_node', {'command_timeout': 99.0}, 'command_timeout = 99.0'),
    ('arm_node', {'limits.velocity': [1.0, 2.0]}, 'velocity needs 7 numbers, found 2'),
    ('sim_station', {'task': 'cube_in_bowll'}, "Did you mean 'cube_in_bowl'"),
    ('sim_station', {'cameras': ['left', 'wirst']}, "Did you mean 'wrist'"),
    ('sim_station', {'real_time_factor': 3.0}, 'needs publish_clock'),
])
def test_a_wrong_parameter_is_named_with_what_is_possible(node, parameters, message, caplog):
    assert simulation.main(sim_command('bad', {node: parameters})[1:]) == 2
    assert message in caplog.text


def test_a_program_with_a_wrong_parameter_ends_with_2():
    command = sim_command('bad', {'arm_node': {'comand_timeout': 0.5}})
    done = subprocess.run([sys.executable, *command], cwd=ROOT, text=True, timeout=30,
                          capture_output=True, check=False)
    assert done.returncode == 2
    assert "Did you mean 'command_timeout'" in done.stderr


@pytest.mark.parametrize(('node', 'parameter', 'message'), [
    (camera, 'role:=wirst', "Did you mean 'wrist'"),
    (gripper, 'backend:=robotik', "no gripper backend 'robotik'"),
    (camera, 'backend:=replay', 'needs replay.folder'),
])
def test_a_wrong_backend_or_role_is_named(node, parameter, message, caplog):
    assert node.main(['test', '--ros-args', '-p', parameter]) == 2
    assert message in caplog.text


@pytest.mark.parametrize(('text', 'message'), [
    ('[1, 2', 'not valid YAML'),
    ('/**/arm_nod:\n  ros__parameters: {}\n', 'names no node'),
    ('/**/arm_node:\n  backend: sim\n', "must hold 'ros__parameters:'"),
    ('', 'describes no node'),
])
def test_an_unreadable_station_file_is_refused(tmp_path, capsys, text, message):
    path = tmp_path / 'lab.yaml'
    path.write_text(text)
    assert main(['station', '--config', str(path)]) == 2
    assert message in capsys.readouterr().err


def wait_for(process, condition, timeout_s=25.0):
    until(lambda: process.popen.poll() is not None or condition(), 'the condition', timeout_s)
    assert process.popen.poll() is None, process.end()


def seen(spin_node, topic):
    return spin_node.count_publishers(topic) > 0


@pytest.fixture
def watcher(spin):
    node = Node(f'watcher_{uuid.uuid4().hex[:6]}', context=spin.context)
    yield node
    node.destroy_node()


# Ctrl-C ends the station in which a node was killed, below.
@pytest.mark.alone
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_station_cleanly(processes, watcher, number):
    name = f'end_{uuid.uuid4().hex[:6]}'
    signal.signal(signal.SIGHUP, signal.SIG_DFL)    # a station keeps nohup's, and goes on
    station = processes('-m', 'arena_robot.cli.main', 'station', '--sim', '--namespace', name,
                        '--log-level', 'warn')
    wait_for(station, lambda: seen(watcher, f'/{name}/joint_states'))
    code, took_s = station.end(number)
    assert code == 0, station.log
    assert took_s < 3.0
    assert 'Traceback' not in station.log


def test_ctrl_c_in_a_rollout_records_its_end(processes, tmp_path):
    program = processes('-m', 'arena_robot.cli.main', 'session', '--sim', '--auto', '--data',
                        str(tmp_path), '--namespace', f'end_{uuid.uuid4().hex[:6]}')

    def moves():
        return [json.loads(line) for path in tmp_path.glob('sessions/*/journal.jsonl')
                for line in path.read_text().splitlines()]
    wait_for(program, lambda: any(entry['move'] == 'ticked' for entry in moves()), 60.0)
    code, _ = program.end()
    assert code == 130, program.log
    for fault in ('Traceback', 'did not end', 'killed'):
        assert fault not in program.log
    last = moves()[-1]
    assert (last['move'], last['data'].get('end')) == ('ended', 'interrupted'), program.log
    assert last['data']['detail'] == 'the station was ended'


@pytest.mark.alone
def test_two_stations_run_side_by_side(processes, spin):
    names = [f'{side}_{uuid.uuid4().hex[:6]}' for side in ('left', 'right')]
    stations = [processes(*sim_command(name, {'sim_station': SMALL})) for name in names]
    arms = []
    for name in names:
        node = Listening('two', namespace=name, context=spin.context)
        spin.add(node, threads=3)
        arms.append(RemoteArm(node, timeout_s=25.0))
    with arms[0] as left, arms[1] as right:
        goal = left.wait_state(10.0).q.copy()
        goal[0] += 0.2
        left.move_to(goal, 1.0)
        states_until(left, lambda state: at_rest_at(goal, state), 30.0)
        assert right.wait_state(10.0).q[0] == pytest.approx(0.0, abs=0.02)
    for station in stations:
        code, took_s = station.end()
        assert code == 0, station.log
        assert took_s < 3.0


def test_a_simulation_that_was_killed_restores_the_start_that_it_saved(processes, spin, tmp_path):
    name = f'kept_{uuid.uuid4().hex[:6]}'
    command = sim_command(name, {'sim_station': {
        **SMALL, 'cameras': ['left'], 'start_file': str(tmp_path / 'start.json')}})
    node = Node('asks', namespace=name, context=spin.context)
    spin.add(node)
    scene = ServiceClients(node, 'sim_station', dict.fromkeys(
        ('save_start', 'restore_start', 'reset_scene'), Trigger), find_s=30.0)

    def answered(service):
        end_s = time.monotonic() + 60.0
        while True:     # what is asked of the killed one is not answered
            try:
                return scene.call(service, Trigger.Request(), 5.0)
            except DriverError:
                assert time.monotonic() < end_s, service

    first = processes(*command)
    assert answered('save_start').success
    first.kill()
    processes(*command)
    restored = answered('restore_start')
    assert restored.success, restored.message
    assert answered('reset_scene').success
    assert 'no start was saved' in answered('restore_start').message


def pace(ticks):
    """Return how fast a clock went lately; a busy machine may hold it up for a while."""
    lately = [tick for tick in ticks[:] if ticks[-1][1] - tick[1] < PACE_NS]
    (first, wall_first), (last, wall_last) = lately[0], lately[-1]
    return (last - first) / max(wall_last - wall_first, PACE_NS // 2)


def test_a_faster_station_publishes_its_clock(processes, spin):
    name = f'fast_{uuid.uuid4().hex[:6]}'
    station = processes(*sim_command(name, {'sim_station': {
        **SMALL, 'real_time_factor': 2.0, 'publish_clock': True}}))
    node = Listening('fast', namespace=name, context=spin.context,
                     parameter_overrides=[Parameter('use_sim_time', value=True)])
    spin.add(node, threads=3)
    ticks = []
    qos.subscription(node, Clock, '/clock',
                     lambda m: ticks.append((convert.stamp_of(m.clock), time.time_ns())))
    with RemoteArm(node, timeout_s=25.0) as arm:
        until(lambda: ticks and pace(ticks) == pytest.approx(2.0, rel=0.2),
              lambda: f'the clock went {pace(ticks)} times as fast')
        goal = arm.wait_state(10.0).q.copy()
        goal[0] += 0.2
        took_s = arm.move_to(goal, 1.0)
        begin_ns = node.get_clock().now().nanoseconds
        until(lambda: (node.get_clock().now().nanoseconds - begin_ns) * 1e-9 > took_s + 0.3)
        assert arm.wait_state(5.0).q[0] == pytest.approx(0.2, abs=0.05)
    assert station.end()[0] == 0


@pytest.mark.alone
def test_a_lab_station_restarts_a_killed_node(processes, watcher, tmp_path):
    whole = read_yaml(LAB)
    part = tmp_path / 'lab.yaml'
    part.write_text(yaml.safe_dump({key: whole[key] for key in (
        '/**/arm_node', '/**/gripper_node', '/**/wrist_camera')}))
    name = f'lab_{uuid.uuid4().hex[:6]}'
    station = processes('-m', 'arena_robot.cli.main', 'station', '--config', str(part), '--fake',
                        '--namespace', name, '--log-level', 'warn')
    topics = [f'/{name}/{topic}' for topic in (
        'joint_states', 'gripper_node/gripper_state', 'wrist_camera/right/color/rect/image')]
    wait_for(station, lambda: all(seen(watcher, topic) for topic in topics), 40.0)
    victim = int(subprocess.run(['pgrep', '-f', f'gripper_node.*{name}'], text=True, check=True,
                                capture_output=True).stdout.split()[0])
    os.kill(victim, signal.SIGKILL)
    wait_for(station, lambda: _other_process(victim, name), 15.0)
    assert seen(watcher, topics[0])
    code, took_s = station.end()
    assert code == 0, station.log
    assert took_s < 3.0
    assert 'starting it again' in station.log


def _other_process(victim, name):
    pids = subprocess.run(['pgrep', '-f', f'gripper_node.*{name}'], text=True, check=False,
                          capture_output=True).stdout.split()
    return any(int(pid) != victim for pid in pids)


def test_the_launch_file_lists_its_arguments():
    need_ros_tools()
    done = subprocess.run([*ros2(), 'launch', str(LAUNCH), '--show-args'], text=True, timeout=60,
                          check=False, capture_output=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ('namespace', 'robot_ip', 'robot_type', 'use_fake_hardware', 'use_mock_hardware',
                 'arm_prefix', 'load_gripper', 'use_rviz', 'joint_state_rate', 'ee_frame',
                 'params_file', 'autostart', 'use_respawn', 'respawn_delay', 'log_level',
                 'use_sim_time', 'record', 'session', 'session_file', 'console'):
        assert f"'{name}'" in done.stdout


def test_the_launch_file_starts_the_station(watcher):
    need_ros_tools()
    name = f'launched_{uuid.uuid4().hex[:6]}'
    program = subprocess.Popen(
        [*ros2(), 'launch', str(LAUNCH), f'namespace:={name}', f'params_file:={SIM}',
         'log_level:=warn'], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment())
    try:
        until(lambda: program.poll() is not None or seen(watcher, f'/{name}/joint_states'),
              'the station', 25.0)
    finally:
        program.send_signal(signal.SIGINT)
        text = program.communicate(timeout=15.0)[0]
    assert 'finished cleanly' in text
