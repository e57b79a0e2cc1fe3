"""`arena station`: options, processes, emulators of the devices in a station file."""

import os
import signal
import sys

import pytest

from arena_robot.cli.main import main
from arena_robot.cli.station import station
from arena_robot.cli.station.emulated import emulated
from arena_robot.core.config import read_yaml, shipped
from arena_robot.core.process import Process, birth, wait_until
from arena_robot.drivers.emulators import zed
from arena_robot.drivers.uvc import UvcCamera
from arena_robot.nodes.station.processes import write_parameters


@pytest.mark.parametrize(('words', 'problem'), [
    (('--console',), '--console needs --session'),
    (('--data', 'd'), '--data needs --session'),
    (('--max-steps', '9'), '--max-steps needs --session'),
    (('--session', '--port', '0'), '--port needs --console'),
    (('--session', '--speed', '0'), '--speed is 0.1 to 20 with sessions, got 0'),
    (('--session', '--policies', 'no_such_file'), 'no file no_such_file'),
    (('--session', '--session-config', 'no_such_file'), 'no file no_such_file'),
])
def test_options_that_do_not_go_together(words, problem, capsys):
    assert main(['station', *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_real_station_without_settings_of_its_session(tmp_path, capsys):
    lab = write_parameters(tmp_path / 'lab.yaml', {'arm_node': {}})
    assert main(['station', '--config', str(lab), '--session']) == 2
    assert 'config/session.yaml' in capsys.readouterr().err


@pytest.fixture
def started(monkeypatch):
    """Return the processes that would be started."""
    kept = []
    monkeypatch.setattr(station, 'supervise',
                        lambda processes, *_: kept.extend(processes) or 0)
    return kept


def test_one_verb_starts_everything_of_the_simulated_station(started, capsys):
    assert main(['station', '--sim', '--session', '--console', '--port', '0',
                 '--namespace', 'left']) == 0
    assert [process.name for process in started] == [
        'sim_station', 'recorder_node', 'session_node', 'console']
    assert all('__ns:=/left' in ' '.join(process.command()) for process in started[:3])
    assert {'--namespace', 'left', '--port', '0'} <= set(started[3].command())
    assert 'starting sim_station, recorder_node' in capsys.readouterr().out


def test_sessions_in_a_faster_simulation_get_its_clock_and_longer_limits(started, monkeypatch):
    read = []
    monkeypatch.setattr(station, 'supervise', lambda processes, *_: read.extend(
        last_file(process) for process in processes) or 0)
    assert main(['station', '--sim', '--session', '--speed', '2', '--task', 'lift_cube']) == 0
    sim, recorder, session = read
    assert sim['/**/sim_station'] == {'real_time_factor': 2.0, 'publish_clock': True,
                                      'clock_rate': 84.0, 'task': 'lift_cube'}
    assert sim['/**/arm_node']['max_command_age'] == 0.4
    assert recorder['/**/recorder_node']['use_sim_time'] is True
    assert session['/**/session_node'] == {'use_sim_time': True, 'max_image_age': 0.4}


def last_file(process):
    """Return the parameters by node in the last parameter file of a process."""
    words = process.command()
    at = len(words) - 1 - words[::-1].index('--params-file')
    return {key: values['ros__parameters'] for key, values in read_yaml(words[at + 1]).items()}


def test_one_verb_starts_everything_of_a_lab(started, tmp_path, capsys):
    lab = write_parameters(tmp_path / 'lab.yaml', {
        'arm_node': {}, 'gripper_node': {}, 'wrist_camera': {},
        'session_node': {'arena_file': 'pool.yaml'}})
    assert main(['station', '--config', str(lab), '--session', '--fake']) == 0
    assert [process.name for process in started] == ['arm_node', 'gripper_node', 'wrist_camera',
                                                     'recorder_node', 'session_node']
    fake = ['use_fake_hardware:=true' in process.command() for process in started]
    assert fake == [True, True, True, False, False]
    assert 'run a session in another terminal: arena session ' in capsys.readouterr().out


def test_options_of_the_scene_win_over_a_section_with_the_nodes_full_name(started, tmp_path,
                                                                         monkeypatch):
    pytest.importorskip('rclpy', reason='ROS 2 is not installed')
    lab = tmp_path / 'sim.yaml'
    lab.write_text('/sim_station:\n  ros__parameters: {task: lift_cube, seed: 1}\n')
    heard = []
    monkeypatch.setattr('arena_robot.nodes.simulation.node.main',
                        lambda words: heard.append(parameters(words[1:])) or 0)
    monkeypatch.setattr(station, 'supervise',
                        lambda processes, *_: heard.append(parameters(
                            ('--ros-args', *processes[0].arguments))) or 0)
    words = ['station', '--config', str(lab), '--task', 'do_not_move', '--seed', '7']
    assert main(words) == main([*words, '--session']) == 0
    assert [(reset['task'], reset['seed']) for reset in heard] == [('do_not_move', 7)] * 2


def parameters(words):
    """Return what a node called sim_station gets from ROS arguments."""
    from rclpy.node import Node

    from arena_robot.nodes.lib.spin import Spin
    with Spin(['test', *words]) as spin:
        node = Node('sim_station', context=spin.context, start_parameter_services=False,
                    automatically_declare_parameters_from_overrides=True)
        values = {name: parameter.value
                  for name, parameter in node.get_parameters_by_prefix('').items()}
        node.destroy_node()
    return values


SUPERVISING = """
import signal, sys
from arena_robot.cli.station import station
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class Node:
    name = 'node'

    def command(self):
        return [sys.executable, '-c', 'import os, time; print("node", os.getpid(), flush=True); '
                'time.sleep(600)']

sys.exit(station.supervise([Node()], True))
"""


@pytest.mark.parametrize('number', [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_no_node_outlives_the_station(number, tmp_path):
    process = Process('station', [sys.executable, '-c', SUPERVISING], tmp_path / 'log')
    process.start()
    node = 0
    try:
        node = int(process.wait_for('node ').split()[1])
        os.kill(process.pid, number)
        assert wait_until(lambda: process.code is not None and not birth(node), 10.0)
        assert process.code == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    finally:
        process.kill()
        if node and birth(node):
            os.kill(node, signal.SIGKILL)


@pytest.fixture(autouse=True)
def pattern(monkeypatch):
    """The cameras' scene is not rendered."""
    monkeypatch.setattr('arena_robot.cli.station.emulated.SCENE', '')


def emulators(path):
    with emulated(path) as started:
        return ([' '.join(process.arguments) for process in started],
                os.environ.get('PYTHONPATH', ''))


def test_the_shipped_files_name_their_emulators(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '/before')
    robot = 'fr3 --host 127.0.0.1 --port 1337 --robot fr3'
    gripper = 'robotiq --link /tmp/robotiq --activated'
    with emulated(shipped('config/stations/franka_rs.yaml')) as started:
        assert [' '.join(emulator.arguments) for emulator in started] == [robot, gripper]
        assert started[0].command()[-len(robot.split()) - 1:] == ['emulate', *robot.split()]
        folder, before = os.environ['PYTHONPATH'].split(os.pathsep)
        assert set(zed.Cameras(zed.Path(folder)).plugged_in()) == {
            '20000001', '20000002', '10000003'}
        assert before == '/before'
    assert os.environ['PYTHONPATH'] == '/before'
    assert emulators(shipped('config/stations/droid_nuc.yaml')) == (
        ['droid-nuc --host 127.0.0.1 --port 4242'], '/before')


def test_a_camera_without_sdk_reads_a_file_that_is_written_for_it(tmp_path):
    frames = tmp_path / 'cameras' / 'left.yuyv'
    driver_values = {'resolution': 'VGA', 'device': str(frames), 'focal': 0.4, 'baseline_m': 0.12}
    lab = write_parameters(tmp_path / 'lab.yaml', {'left_camera': {
        'role': 'left', 'backend': 'uvc', 'serial_number': '7', 'driver': driver_values}})
    assert emulators(lab) == ([], os.environ.get('PYTHONPATH', ''))
    with UvcCamera('7', **driver_values) as camera:
        frame = camera.wait_frame(30.0)
    assert frame.left.pixels.shape == (376, 672, 3)
    assert abs(int(frame.left.pixels.mean()) - int(frame.right.pixels.mean())) < 5
    assert frame.left.pixels.std() > 20


@pytest.mark.parametrize(('node', 'values', 'problem'), [
    ('arm_node', {'backend': 'franka_rs', 'robot_ip': '172.16.0.2'}, "'172.16.0.2' could be"),
    ('arm_node', {'backend': 'libfranka'}, "'' could be a real robot"),
    ('gripper_node', {'backend': 'droid_nuc', 'driver.robot_ip': 'nuc'}, "'nuc' could be"),
    ('gripper_node', {'backend': 'robotiq', 'driver.com_port': '/dev/ttyUSB0'},
     'a real gripper'),
    ('left_camera', {'backend': 'uvc', 'role': 'left'}, 'could be a real camera'),
    ('arm_node', {'backend': 'sim'}, 'names no device that can be emulated'),
])
def test_what_could_be_a_real_device_is_refused(node, values, problem, tmp_path, capsys,
                                                monkeypatch):
    monkeypatch.setattr(station, 'supervise', lambda *_: pytest.fail('something was emulators'))
    lab = write_parameters(tmp_path / 'lab.yaml', {node: values})
    assert main(['station', '--config', str(lab), '--emulate']) == 2
    assert problem in capsys.readouterr().err


def test_emulators_need_a_station_file(capsys):
    assert main(['station', '--sim', '--emulate']) == 2
    assert 'leave it out with --sim or --fake' in capsys.readouterr().err
