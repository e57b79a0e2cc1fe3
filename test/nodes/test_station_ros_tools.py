"""Launch files, actions and the command line as a lab uses them: ros2, launch, control_msgs."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from ros_tools import ROSBAG2, environment, need_ros_tools, ros2
from station_programs import ROOT

from arena_robot.nodes.lib.spin import CHOSEN, PROFILE_VARIABLES, SAID
from arena_robot.recording.bag.reader import BagReader
from arena_robot.robots.arms import PANDA, RESET_JOINTS

LAUNCH = ROOT / 'launch'
CLIENT = Path(__file__).with_name('control_client.py')


@pytest.fixture(scope='module', autouse=True)
def tools():
    """Skip without the tools, and end the daemon that `ros2 action` starts."""
    need_ros_tools()
    yield
    run('daemon', 'stop')


class Launched:
    """A running `ros2 launch`; what it says goes to a file."""

    def __init__(self, file, *words, cwd=ROOT, home=None, prefix=None):
        folders = {'HOME': str(home), 'ROS_LOG_DIR': str(home)} if home else {}
        variables = {name: value for name, value in environment().items()
                     if name not in (*CHOSEN, *PROFILE_VARIABLES)}
        if prefix:
            variables['AMENT_PREFIX_PATH'] = (
                f"{prefix}{os.pathsep}{variables['AMENT_PREFIX_PATH']}")
        self._said = tempfile.TemporaryFile('a+')  # noqa: SIM115
        self.popen = subprocess.Popen(
            [*ros2(), 'launch', str(LAUNCH / file), *words], cwd=cwd, stdout=self._said,
            stderr=subprocess.STDOUT,
            env={**variables, **folders})

    @property
    def log(self):
        self._said.seek(0)
        return self._said.read()

    def until(self, look, timeout_s=60.0):
        end_s = time.monotonic() + timeout_s
        while not look():
            assert self.popen.poll() is None, self.log
            assert time.monotonic() < end_s, self.log
            time.sleep(0.1)

    def end(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
        self.popen.wait(40.0)
        said = self.log
        self._said.close()
        return said


def run(*words, timeout_s=60.0):
    done = subprocess.run([*ros2(), *words], text=True, capture_output=True, timeout=timeout_s,
                          check=False, env=environment(), cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope='module')
def station():
    name = f'lab_{uuid.uuid4().hex[:6]}'
    launched = Launched('station.launch.py', f'namespace:={name}', 'log_level:=warn')
    yield name, launched
    said = launched.end()
    assert 'Traceback' not in said


def follow(name, end, seconds=1):
    goal = {'trajectory': {'joint_names': PANDA.joint_names(), 'points': [
        {'positions': [round(float(q), 4) for q in end],
         'time_from_start': {'sec': seconds}}]}}
    return run('action', 'send_goal', '--feedback', f'/{name}/arm_node/follow_joint_trajectory',
               'control_msgs/action/FollowJointTrajectory', str(goal))


def test_a_trajectory_is_followed_or_refused_with_its_reason(station):
    name, _ = station
    code, said = follow(name, [*RESET_JOINTS[:6], RESET_JOINTS[6] + 0.3])
    assert code == 0, said
    assert 'Goal finished with status: SUCCEEDED' in said
    assert re.search(r'error_code: 0', said)
    assert said.count('Feedback:') > 5
    code, said = follow(name, [3.5, *RESET_JOINTS[1:]])
    assert 'Goal finished with status: ABORTED' in said
    assert re.search(r'error_code: -1', said)


def test_a_cancelled_trajectory_ends_at_rest(station):
    name, _ = station
    done = subprocess.run([sys.executable, str(CLIENT), name], text=True, capture_output=True,
                          timeout=60, check=False, env=environment(), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    match = re.search(r'canceled=True feedback=(\d+) rest_ms=(-?\d+)', done.stdout)
    assert match, done.stdout
    assert int(match[1]) > 3
    assert int(match[2]) <= 150 + 100  # and the way of the messages there and back


def joints(name):
    """Return where the arm of a station is, as `ros2 topic echo` says it."""
    code, said = run('topic', 'echo', '--once', '--no-daemon', '--field', 'q',
                     f'/{name}/arm_node/arm_state', 'arena_msgs/msg/ArmState')
    numbers = re.findall(r'-?\d+\.\d*(?:e[-+]?\d+)?', said)
    assert (code, len(numbers)) == (0, 7), said
    return [float(number) for number in numbers]


def test_what_rosbag2_records_it_plays_and_nothing_moves(station, tmp_path):
    need_ros_tools(*ROSBAG2)
    name, launched = station
    follow(name, RESET_JOINTS)
    topics = [f'/{name}/arm_node/{topic}' for topic in ('arm_state', 'target_joint')]
    goal = {'header': {'stamp': 'now'}, 'name': PANDA.joint_names(),
            'position': [*RESET_JOINTS[:6], RESET_JOINTS[6] + 0.2]}
    with (tmp_path / 'said').open('w') as said, subprocess.Popen(
            [*ros2(), 'bag', 'record', '-s', 'mcap', '-o', str(tmp_path / 'bag'), '--topics',
             *topics], stdout=said, stderr=said, env=environment()) as recording:
        try:
            code, words = run('topic', 'pub', '-r', '15', '-t', '40', '-w', '2', topics[1],
                              'sensor_msgs/msg/JointState', str(goal))
            assert code == 0, words
        finally:
            recording.send_signal(signal.SIGINT)
    assert joints(name)[6] - RESET_JOINTS[6] > 0.1, 'a live command moves the arm'
    with BagReader(tmp_path / 'bag') as bag:
        counts = bag.metadata.counts
    assert counts[topics[1]] >= 30
    code, words = run('bag', 'info', str(tmp_path / 'bag'))
    assert code == 0, words
    assert all(f'{topic} ' in words for topic in topics)
    follow(name, RESET_JOINTS)
    before = joints(name)
    code, words = run('bag', 'play', str(tmp_path / 'bag'))
    assert code == 0, words
    with subprocess.Popen([*ros2(), 'bag', 'play', '--loop', str(tmp_path / 'bag')],
                          env=environment()) as playing:
        try:
            launched.until(lambda: 'is a bag played into this station?' in launched.log)
        finally:
            playing.send_signal(signal.SIGINT)
    assert joints(name) == pytest.approx(before, abs=0.003)


def test_the_gripper_takes_the_real_action(station):
    name, _ = station
    code, said = run('action', 'send_goal', f'/{name}/gripper_node/gripper_cmd',
                     'control_msgs/action/GripperCommand',
                     '{command: {position: 0.4, max_effort: 0.0}}')
    assert code == 0, said
    assert 'reached_goal: true' in said
    assert 'Goal finished with status: SUCCEEDED' in said


def test_the_gripper_takes_jazzys_action_where_the_file_says_so(tmp_path):
    name = f'lab_{uuid.uuid4().hex[:6]}'
    path = tmp_path / 'lab.yaml'
    path.write_text('/**/gripper_node: {ros__parameters: {gripper_action: '
                    'ParallelGripperCommand}}\n')
    launched = Launched('station.launch.py', f'namespace:={name}', f'params_file:={path}')
    try:
        launched.until(lambda: 'ParallelGripperCommand' in run(
            'action', 'info', '-t', f'/{name}/gripper_node/gripper_cmd')[1])
        for goal, word in (('{command: {position: [0.4]}}', 'SUCCEEDED'),
                           ('{command: {name: [elbow], position: [0.4]}}', 'ABORTED')):
            code, said = run('action', 'send_goal', '--feedback',
                             f'/{name}/gripper_node/gripper_cmd',
                             'control_msgs/action/ParallelGripperCommand', goal)
            assert code == 0, said
            assert f'Goal finished with status: {word}' in said
            assert ('robotiq_85_left_knuckle_joint' in said) or word == 'ABORTED'
    finally:
        said = launched.end()
    assert 'of elbow' in said


@pytest.mark.parametrize('file', ['station.launch.py', 'session.launch.py'])
def test_an_unknown_launch_argument_is_refused(file):
    code, said = run('launch', str(LAUNCH / file), 'namspace:=left')
    assert code != 0
    assert "unknown launch argument 'namspace'" in said


def test_arguments_reach_the_nodes_that_they_are_for(tmp_path):
    name = f'lab_{uuid.uuid4().hex[:6]}'
    path = tmp_path / 'lab.yaml'
    path.write_text('/**/arm_node: {ros__parameters: {robot_type: fr3}}\n'
                    '/**/gripper_node: {ros__parameters: {}}\n')
    launched = Launched('station.launch.py', f'namespace:={name}', f'params_file:={path}',
                        'load_gripper:=false', 'joint_state_rate:=200', 'arm_prefix:=left',
                        'ee_frame:=left_fr3_link8')
    try:
        said = run('topic', 'echo', '--once', '--full-length', '--no-daemon',
                   '--qos-durability', 'transient_local', '--qos-reliability', 'reliable',
                   f'/{name}/robot_description', 'std_msgs/msg/String')[1]
        assert 'left_fr3_link8' in said
        assert 'robotiq' not in said
        rate = run('param', 'get', '--no-daemon', '--spin-time', '5', f'/{name}/arm_node',
                   'joint_state_rate')[1]
        assert '200.0' in rate
        assert f'/{name}/gripper_node' not in run('node', 'list', '--no-daemon')[1]
    finally:
        launched.end()


def test_rviz_is_started_with_the_names_of_the_station(tmp_path):
    said, file = tmp_path / 'said', tmp_path / 'view.rviz'
    program = tmp_path / 'lib' / 'rviz2' / 'rviz2'    # what `ros2 launch` finds in its place
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\ncp "$2" "{file}"\nprintf "%s " "$@" > "{said}"\n')
    program.chmod(0o755)
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages' / 'rviz2'
    index.parent.mkdir(parents=True)
    index.touch()
    launched = Launched('station.launch.py', 'use_rviz:=true', 'namespace:=lab',
                        'arm_prefix:=left', prefix=tmp_path)
    try:
        launched.until(said.exists)
        launched.until(said.read_text)
    finally:
        launched.end()
    words = said.read_text().split()
    assert words[0] == '-d'
    for pair in (['-r', '/tf:=tf'], ['-r', '/tf_static:=tf_static'], ['-r', '__ns:=/lab']):
        assert ' '.join(pair) in said.read_text()
    assert 'left_panda_link0' in file.read_text()
    assert '/lab/robot_description' in file.read_text()


def test_a_configuration_error_is_not_repeated(tmp_path):
    path = tmp_path / 'lab.yaml'
    path.write_text('/**/arm_node: {ros__parameters: {reset_joints: [0.0, 0.1]}}\n')
    launched = Launched('station.launch.py', f'params_file:={path}', 'respawn_delay:=0.1')
    try:
        launched.popen.wait(60.0)
    finally:
        said = launched.end()
    assert 'reset_joints needs 7 numbers, found 2' in said
    assert said.count('process started with pid') == 1
    assert launched.popen.returncode == 1


# A lab's own launch file: a program before and one after, and what they see of ours.
PARENT = """
import sys
from launch import LaunchDescription
from launch.actions import ExecuteProcess, IncludeLaunchDescription, LogInfo
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
SHOW = ("import os, time; from pathlib import Path; print('sees', sorted(n for n in os.environ if "
        "n.startswith(('ROS_AUTOMATIC', 'FAST'))), flush=True)\\n"
        "while not Path('{end}').exists(): time.sleep(0.1)\\nprint('went on', flush=True)")

def generate_launch_description():
    lab = lambda: ExecuteProcess(cmd=[sys.executable, '-c', SHOW], output='screen', name='lab')
    return LaunchDescription([
        lab(), IncludeLaunchDescription(
            PythonLaunchDescriptionSource('{launch}/station.launch.py'), launch_arguments={{
                'namespace': '{name}', 'params_file': '{file}', 'arm_prefix': 'left'}}.items()),
        LogInfo(msg=['autostart ', LaunchConfiguration('autostart', default='is not set')]),
        lab()])
"""


@pytest.mark.parametrize('wrong', [False, True])
def test_a_launch_file_that_includes_ours_keeps_its_own(tmp_path, wrong):
    end, file, parent = (tmp_path / name for name in ('end', 'lab.yaml', 'lab.launch.py'))
    name = f'lab_{uuid.uuid4().hex[:6]}'
    unknown = 'comand_timeout: 0.5' if wrong else ''
    file.write_text('/**/gripper_node: {ros__parameters: {}}\n'
                    f'/**/arm_node: {{ros__parameters: {{{unknown}}}}}\n')
    parent.write_text(PARENT.format(launch=LAUNCH, end=end, file=file, name=name))
    launched = Launched(parent)
    try:
        launched.until(lambda: launched.log.count('sees []') == 2)
        launched.until(lambda: launched.log.count('active, backend sim') == 2 if not wrong
                       else launched.log.count('process has') == 2)
        end.touch()
        if wrong:
            launched.popen.wait(60.0)
        else:
            launched.until(lambda: launched.log.count('] went on') == 2)
    finally:
        said = launched.end()
    assert SAID in said
    assert said.count('] went on') == 2
    assert 'autostart is not set' in said
    assert launched.popen.returncode == int(wrong), said
    assert ('arm_node has ended with a configuration error: the station ends' in said) == wrong


def test_a_session_starts_from_any_folder_and_records_where_the_file_says(tmp_path):
    name = f'lab_{uuid.uuid4().hex[:6]}'
    service = f'/{name}/session_node/open_session'
    launched = Launched('session.launch.py', f'namespace:={name}', cwd=tmp_path, home=tmp_path)
    try:
        launched.until(lambda: service in run('service', 'list', '--no-daemon')[1])
    finally:
        launched.end()
    path = tmp_path / 'lab.yaml'
    path.write_text('/**/gripper_node: {ros__parameters: {}}\n'
                    f'/**/recorder_node: {{ros__parameters: {{output_dir: {tmp_path}/bags}}}}\n')
    launched = Launched('station.launch.py', f'namespace:={name}', f'params_file:={path}',
                        'record:=true', home=tmp_path)
    try:
        launched.until(lambda: f'{tmp_path}/bags' in run(
            'param', 'get', '--no-daemon', f'/{name}/recorder_node', 'output_dir')[1])
    finally:
        launched.end()
