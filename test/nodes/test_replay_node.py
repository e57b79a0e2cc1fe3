"""What was recorded, played by ``arena episode replay`` and recorded again, is as it was."""

import re
import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sample_episodes import SampleEpisode, SampleMaker
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from std_srvs.srv import Trigger
from waiting import until

from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.lib.convert import stamp_of
from arena_robot.nodes.recorder.topics import Choice, TopicSubscriptions
from arena_robot.nodes.replay import ReplayNames, ReplayPublisher, remap_rules
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.recording.bag.base import REQUERY, Topic, share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader


@pytest.fixture(scope='module')
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp('replay') / 'A'
    SampleMaker(SampleEpisode(width=160, height=90), share_folders()).write(folder)
    return folder


class Listener:
    """Takes everything below a prefix, as the recorder does."""

    def __init__(self, spin, prefix):
        self.messages = []
        self._guard = threading.Lock()
        self.node = Node('listener', context=spin.context)
        self.topics = TopicSubscriptions(self.node, Choice((f'/{prefix}/.*',), ()), None, self.add,
                              lambda topic: None, lambda topic, count: None)
        self.topics.open()

    def add(self, message):
        with self._guard:
            self.messages.append(message)

    def close(self):
        self.topics.drain()
        self.topics.close()
        self.node.destroy_node()


def as_sent(data):
    """Return serialised data as DDS sends it between participants: in whole words of 4 bytes."""
    return data + bytes(-len(data) % 4)


@pytest.mark.alone
def test_a_bag_comes_back_with_its_counts_and_its_timing(spin, recorded, capsys):
    prefix = f'again_{uuid.uuid4().hex[:6]}'
    listener = Listener(spin, prefix)
    try:
        assert main(['episode', 'replay', str(recorded), '--prefix', prefix, '--wait', '10']) == 0
    finally:
        listener.close()
    printed = capsys.readouterr().out
    assert 'median' in printed
    assert 'not every topic' not in printed
    with BagReader(recorded) as bag:
        before = list(bag.messages())
    live = {m.topic for m in listener.messages if not m.topic.startswith(f'/{prefix}/')}
    assert not live
    assert Counter(m.topic for m in listener.messages) \
        == Counter(f'/{prefix}{m.topic}' for m in before)
    shifts = []
    for name in {m.topic for m in before}:
        old = np.array([m.log_ns for m in before if m.topic == name])
        new = np.array([m.log_ns for m in listener.messages if m.topic == f'/{prefix}{name}'])
        shifts.append((new - old) * 1e-6)
    apart = np.concatenate(shifts)
    assert np.median(np.abs(apart - np.median(apart))) < 5.0
    assert sorted(m.data for m in listener.messages) == sorted(as_sent(m.data) for m in before)


def test_the_executable_plays_what_its_parameters_name(spin, recorded):
    prefix = f'node_{uuid.uuid4().hex[:6]}'
    listener = Listener(spin, prefix)
    try:
        done = subprocess.run(
            [sys.executable, '-m', MODULES['replay_node'], '--ros-args', '-p',
             f'folder:={recorded}', '-p', f'prefix:={prefix}', '-p', 'wait:=10.0', '-p',
             'rate:=4'], timeout=60, capture_output=True, text=True, check=False)
    finally:
        listener.close()
    assert done.returncode == 0, done.stderr
    with BagReader(recorded) as bag:
        sent = sum(1 for _ in bag.messages())
    assert len(listener.messages) == sent, done.stderr


def test_the_executable_says_what_it_lacks():
    done = subprocess.run([sys.executable, '-m', MODULES['replay_node']], timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'needs the parameter folder' in done.stderr


@pytest.mark.parametrize('prefix', ['', '/', '//'])
def test_nothing_is_ever_played_onto_live_topics(spin, prefix):
    with pytest.raises(ConfigError, match='needs a prefix'):
        ReplayNames(prefix)


def test_unknown_types_are_left_out_and_named(spin):
    node = Node('poor', context=spin.context)
    publisher = ReplayPublisher(node, [Topic('/x', 'nobody_msgs/msg/Thing')], ReplayNames())
    node.destroy_node()
    assert 'install nobody_msgs' in publisher.left_out[0]


@pytest.mark.parametrize('rule', ['joint_states:=/x', '/joint_states', '/joint_states:=x',
                                  '/joint_states:=/'])
def test_a_remap_has_two_whole_names(rule):
    with pytest.raises(ConfigError, match='a remap is'):
        remap_rules([rule])


def test_a_remap_never_reaches_a_running_node(spin, recorded):
    """Neither a topic of its own nor one that it publishes elsewhere."""
    live = Node('arm_node', namespace='live_remap', context=spin.context)
    live.create_subscription(Float64, '~/target', lambda m: None, 1)
    live.create_publisher(JointState, 'joint_states', 1)
    try:
        for target in ('/live_remap/arm_node/target', '/live_remap/joint_states'):
            done = subprocess.run(
                [sys.executable, '-m', MODULES['replay_node'], '--ros-args', '-p',
                 f'folder:={recorded}', '-p', f"remap:=['/joint_states:={target}']"],
                timeout=60, capture_output=True, text=True, check=False)
            assert done.returncode == 2, done.stderr
            assert f'{target} is in use by /live_remap/arm_node' in done.stderr
    finally:
        live.destroy_node()


class Clocks:
    """The recorded time that a replay publishes."""

    def __init__(self, node):
        self.stamps = []
        self.subscription = qos.subscription(
            node, Clock, '/clock', lambda m: self.stamps.append(stamp_of(m.clock)))


def seek_and_slow_down(calls, heard, clocks, first_ns):
    """Set rate and start of a paused replay; the rest of it is played from there."""
    assert all(answer.successful for answer in calls.call('set_parameters', SetParameters.Request(
        parameters=[Parameter(key, value=value).to_parameter_msg()
                    for key, value in (('rate', 0.5), ('start', 1.0))]), 10.0).results)
    assert calls.call('pause', Trigger.Request(), 10.0).message == (
        'paused at 1.0 s, 0.5 times the recorded speed')
    assert not calls.call('set_parameters', SetParameters.Request(parameters=[
        Parameter('loop', value=False).to_parameter_msg()]), 10.0).results[0].successful
    until(lambda: clocks.stamps[-1] == first_ns + 10**9)
    heard.clear()
    calls.call('resume', Trigger.Request(), 10.0)
    until(lambda: heard)
    assert stamp_of(heard[0].header.stamp) >= first_ns + 0.95e9


def test_a_replay_pauses_loops_and_keeps_the_recorded_time(spin, recorded, processes, tmp_path):
    name = f'player_{uuid.uuid4().hex[:6]}'
    overrides = tmp_path / 'qos.yaml'
    overrides.write_text('/joint_states: {reliability: best_effort, depth: 3}\n')
    node = Node('watcher', context=spin.context)
    heard, clocks = [], Clocks(node)
    qos.subscription(node, JointState, f'/{name}/joints', heard.append)
    spin.add(node, threads=1)
    calls = ServiceClients(node, name, {
        **dict.fromkeys(('resume', 'pause', 'play_next'), Trigger),
        'set_parameters': SetParameters})
    play = processes(
        '-m', MODULES['replay_node'], '--ros-args', '-r', f'__node:={name}',
        *(word for value in (
            f'folder:={recorded}', 'start_paused:=true', 'loop:=true', 'rate:=10.0',
            'clock:=100.0', f"remap:=['/joint_states:=/{name}/joints']",
            f'qos_profile_overrides_path:={overrides}', 'wait:=0.0', "topics:=['/joint_states']")
          for word in ('-p', value)))

    with BagReader(recorded) as bag:
        first_ns, last_ns = bag.metadata.start_ns, bag.metadata.start_ns + bag.metadata.duration_ns
        count = sum(1 for _ in bag.messages(['/joint_states']))
    until(lambda: len(clocks.stamps) > 20)
    assert not heard
    assert set(clocks.stamps) == {first_ns}
    calls.call('play_next', Trigger.Request(), 10.0)
    until(lambda: len(heard) == 1)
    calls.call('resume', Trigger.Request(), 10.0)
    until(lambda: len(heard) > 2 * count)
    assert first_ns <= min(clocks.stamps) <= max(clocks.stamps) <= last_ns + 200_000_000
    calls.call('pause', Trigger.Request(), 10.0)
    seek_and_slow_down(calls, heard, clocks, first_ns)
    info = node.get_publishers_info_by_topic(f'/{name}/joints')[0].qos_profile
    assert info.reliability is QoSReliabilityPolicy.BEST_EFFORT
    code, took_s = play.end()
    assert code == 0, play.log
    assert took_s < 5.0


class Still:
    """Answers the arm's own joints, three times over."""

    spec = PolicySpec(image_size=(45, 80), external_cameras=2)

    def infer(self, observation, episode=''):
        action = [*observation.arm.q, observation.gripper.position]
        return Chunk(np.array([action] * 3, np.float32), ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        pass


def test_a_policy_is_asked_again_over_the_wire(recorded, capsys, tmp_path):
    with GrpcPolicyServer(Still(), ServeOptions(host='127.0.0.1', port=0)) as server:
        plot = tmp_path / 'plot.png'
        address = f'grpc://127.0.0.1:{server.port}'
        both = tmp_path / 'both'
        assert main(['episode', 'replay', str(recorded), '--policy', address, '--plot',
                     str(plot), '--bag', str(both)]) == 0
    printed = capsys.readouterr().out
    assert '4 inferences' in printed
    assert Path(plot).exists()
    assert f'bag: {both}' in printed
    beside_each_other(recorded, next(both.glob('*.mcap')))
    assert main(['episode', 'replay', str(recorded), '--bag', str(both)]) == 2
    assert '--bag writes the answers of a policy: name one with --policy' in \
        capsys.readouterr().err


def beside_each_other(recorded, file):
    """See with mcap's own reader that the recorded rollout and the answers have one timeline."""
    messages, codec = {}, Codec()
    with file.open('rb') as stream:
        for schema, channel, message in make_reader(stream, validate_crcs=True).iter_messages():
            value = codec.decode(Topic(channel.topic, schema.name, schema.data.decode()),
                                 message.data)
            messages.setdefault(channel.topic, []).append((message, value))
    with BagReader(recorded) as bag:
        assert Counter(m.topic for m in bag.messages()) == {
            topic: len(rows) for topic, rows in messages.items() if topic in bag.topics}
        assert set(messages) - set(bag.topics) == {f'{REQUERY}/session_node/{name}'
                                                   for name in ('step', 'action_chunk')}
    steps = {value.index: (message, value) for message, value in messages['/session_node/step']}
    asked = messages[f'{REQUERY}/session_node/step']
    assert 0 < len(asked) < len(steps)          # three actions where the recorded chunks had more
    arms = dict.fromkeys(steps)
    for message, value in asked:
        before, was = steps[value.index]
        assert message.log_time == before.log_time
        assert value.header.stamp.nanosec == was.header.stamp.nanosec
        assert (value.slot, value.chunk_index, value.chunk_step) == (
            was.slot, was.chunk_index, was.chunk_step)
        assert value.chunk_step < 3
        assert list(value.q_sent) == []         # nothing was sent
        arms[value.index] = list(value.requested)
        assert arms[value.index] == arms[value.index - value.chunk_step]    # Still's answer
    layout_finds(messages)


def layout_finds(messages):
    """See that each number that the layout draws of the session is in these messages."""
    layout = (Path(__file__).parents[2] / 'config' / 'foxglove_layout.json').read_text()
    paths = re.findall(
        r'"((?:/requery)?/(?:session|arm|gripper)_node/[\w/]+)\.(\w+)(?:\[(\d)\])?"', layout)
    assert {topic for topic, *_ in paths} >= {'/session_node/step', '/requery/session_node/step'}
    for topic, field, number in paths:
        value = getattr(messages[topic][0][1], field)
        assert not number or len(value) > int(number), (topic, field)
