"""What was recorded, played by ``arena replay`` and recorded again, is the same in time."""

import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rclpy.node import Node

from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.recorder.topics import Choice, TopicSubscriptions
from arena_robot.nodes.replay.node import ReplayPublisher
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.definitions import share_folders
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.sample import SampleEpisode, SampleMaker


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


def test_a_bag_comes_back_with_its_counts_and_its_timing(spin, recorded, capsys):
    prefix = f'again_{uuid.uuid4().hex[:6]}'
    listener = Listener(spin, prefix)
    try:
        assert main(['replay', str(recorded), '--prefix', prefix, '--wait', '10']) == 0
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
    assert sorted(m.data for m in listener.messages) == sorted(m.data for m in before)


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
        ReplayPublisher(None, [], prefix)


def test_unknown_types_are_left_out_and_named(spin):
    node = Node('poor', context=spin.context)
    publisher = ReplayPublisher(node, [Topic('/x', 'nobody_msgs/msg/Thing')])
    node.destroy_node()
    assert 'install nobody_msgs' in publisher.left_out[0]


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
        assert main(['replay', str(recorded), '--policy', address, '--plot', str(plot)]) == 0
    printed = capsys.readouterr().out
    assert '4 inferences' in printed
    assert Path(plot).exists()
