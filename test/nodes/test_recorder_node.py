"""recorder_node keeps what is published, counts what is not there, and survives being ended."""

import json
import os
import signal
import time
import uuid
from array import array

import pytest
import rosbags.rosbag2
from rclpy.node import Node
from rclpy.qos import QoSDurabilityPolicy, QoSProfile, QoSReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from waiting import until

from arena_msgs.msg import RecorderStatus
from arena_msgs.srv import StartRecording, StopRecording
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.recorder.topics import TopicSubscription
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import recover
from arena_robot.recording.bag.salvage import salvage

LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)
PICTURE = array('B', os.urandom(60_000))


class Rig:
    """A recorder in a process of its own, and this process's publishers and clients."""

    def __init__(self, node, namespace, processes, tmp_path, *parameters):
        self.node, self.namespace = node, namespace
        self.root = tmp_path / 'sessions'
        pairs = [w for p in (f'output_dir:={self.root}', 'min_free_disk:=0.0',
                             f"topics:=['/{namespace}/.*']", *parameters) for w in ('-p', p)]
        self.joints = node.create_publisher(JointState, 'joint_states', QoSProfile(depth=50))
        self.picture = node.create_publisher(CompressedImage, 'left/image/compressed',
                                             QoSProfile(depth=20))
        self.raw = node.create_publisher(Image, 'left/image', QoSProfile(depth=5))
        self.state = node.create_publisher(String, 'state', LATCHED)
        self.sensor = node.create_publisher(String, 'sensor', QoSProfile(
            depth=5, reliability=QoSReliabilityPolicy.BEST_EFFORT))
        self.state.publish(String(data='before the recorder'))
        self.reports = []
        self._watch = node.create_subscription(
            RecorderStatus, 'recorder_node/status', self.reports.append, 10)
        self.process = processes('-m', 'arena_robot.nodes.recorder.node', '--ros-args', '-r',
                                 f'__ns:=/{namespace}', *pairs)
        self.clients = {}

    def name(self, topic):
        return f'/{self.namespace}/{topic}'

    def call(self, kind, name, **fields):
        if name not in self.clients:
            self.clients[name] = self.node.create_client(kind, f'recorder_node/{name}')
        client = self.clients[name]
        assert client.wait_for_service(15.0), f'{name} is not there'
        for _ in range(4):  # an answer can be lost while the two are only just connected
            future = client.call_async(kind.Request(**fields))
            end_s = time.monotonic() + 4.0
            while not future.done() and time.monotonic() < end_s:
                time.sleep(0.01)
            if future.done():
                return future.result()
        raise AssertionError(f'no answer from {name}')

    def start(self, slot='A'):
        publishers = (self.joints, self.picture, self.state)
        until(lambda: all(p.get_subscription_count() for p in publishers), 'the recorder')
        until(lambda: self.sensor.get_subscription_count(), 'the recorder')
        return self.call(StartRecording, 'start', session_id='s-1', slot=slot)

    def stop(self, end_reason='done', **counted):
        return self.call(StopRecording, 'stop', end_reason=end_reason, detail='', **counted)

    def publish(self, count, rate_hz=200.0):
        """Publish joints at ``rate_hz`` and a picture with every tenth."""
        begin = time.monotonic()
        for k in range(count):
            stamp = time.time_ns()
            self.joints.publish(JointState(header=header(stamp, ''), position=[float(k)] * 7))
            if k % 10 == 0:
                self.picture.publish(CompressedImage(header=header(stamp, 'left'), format='jpeg',
                                                     data=PICTURE))
                self.raw.publish(Image(header=header(stamp, 'left'), height=32, width=32, step=96,
                                       encoding='rgb8', data=array('B', bytes(3072))))
            time.sleep(max(0.0, begin + (k + 1) / rate_hz - time.monotonic()))


@pytest.fixture
def rig(spin, processes, tmp_path):
    namespace = f'rec_{uuid.uuid4().hex[:6]}'
    node = Node('driver', namespace=namespace, context=spin.context)
    spin.add(node)
    rigs = []

    def make(*parameters):
        rigs.append(Rig(node, namespace, processes, tmp_path, *parameters))
        return rigs[-1]
    return make


def test_an_episode_is_kept_whole(rig):
    r = rig('derive:=false')
    answer = r.start()
    assert answer.success, answer.message
    r.publish(400)
    r.sensor.publish(String(data='x'))
    until(lambda: any(m.recording and len(m.topics) >= 4 for m in r.reports), 'a status')
    done = r.stop(counted_topic=r.name('joint_states'), published=400)
    assert (done.success, done.lost) == (True, 0), done.message
    assert (done.session_id, done.slot, done.counted) == ('s-1', 'A', 400)
    assert r.stop().counted == 400, 'asked again, it answers the same'
    with BagReader(r.root / 's-1' / 'A') as bag:
        counts, topics = bag.metadata.counts, bag.topics
        messages = list(bag.messages())
        custom = bag.metadata.custom
    assert done.written == sum(counts.values())
    assert counts[r.name('joint_states')] == 400
    assert counts[r.name('left/image/compressed')] == 40
    assert r.name('left/image') not in counts
    assert topics[r.name('state')].qos[0].is_latched
    assert topics[r.name('sensor')].qos[0].reliability == 'best_effort'
    assert topics[r.name('joint_states')].type_hash.startswith('RIHS01_')
    assert 'MSG: std_msgs/Header' in topics[r.name('joint_states')].definition
    state, = [m for m in messages if m.topic == r.name('state')]
    assert b'before the recorder' in state.data
    assert state.log_ns <= messages[len(messages) // 2].log_ns
    joints = [m for m in messages if m.topic == r.name('joint_states')]
    assert [m.sequence for m in joints] == list(range(joints[0].sequence,
                                                      joints[0].sequence + 400))
    assert all(0 <= m.log_ns - m.publish_ns < 10**9 for m in joints)
    assert (custom['slot'], custom['end_reason']) == ('A', 'done')
    assert json.loads(custom['statistics'])[r.name('joint_states')]['received'] == 400
    with rosbags.rosbag2.Reader(r.root / 's-1' / 'A') as other:
        assert sum(1 for _ in other.messages()) == done.written


def subscription():
    return TopicSubscription(Topic('/x', 'std_msgs/msg/String'), None, None)


def test_missing_numbers_of_one_sender_are_losses():
    subscribed = subscription()
    for number in (5, 6, 9, 10):
        subscribed.count(number)
    assert subscribed.new_losses() == 0
    subscribed.follow(1)
    assert subscribed.new_losses() == 2
    assert subscribed.new_losses() == 0
    subscribed.count(12)
    subscribed.reported = 7
    subscribed.follow(1)
    assert subscribed.new_losses() == 5


def test_the_numbers_of_two_senders_are_no_losses():
    two = subscription()
    for number in (5, 100, 6, 101):
        two.count(number)
    two.follow(2)
    for number in (7, 102, 8):
        two.count(number)
    two.follow(2)
    assert two.new_losses() == 0
    again = subscription()
    again.count(900)
    again.count(1)
    again.follow(1)
    again.count(4)
    again.count(6)
    again.follow(1)
    assert again.new_losses() == 1


def test_pause_split_and_a_second_try(rig):
    r = rig('derive:=false')
    assert not r.call(Trigger, 'split_bagfile').success
    assert 'nothing is being recorded' in r.stop().message
    assert r.start().success
    assert r.start().success
    assert 'stop it first' in r.start('B').message
    r.publish(20)
    assert r.call(Trigger, 'split_bagfile').message.endswith('A_1.mcap')
    assert r.call(Trigger, 'pause').success
    assert r.call(Trigger, 'is_paused').success
    r.publish(20)
    time.sleep(0.2)
    assert r.call(Trigger, 'resume').success
    assert not r.call(Trigger, 'is_paused').success
    r.publish(10)
    assert r.stop().success
    with BagReader(r.root / 's-1' / 'A') as bag:
        assert bag.metadata.counts[r.name('joint_states')] == 30
        assert bag.metadata.counts[r.name('state')] == 2
    assert r.start().success
    assert r.stop().success
    assert (r.root / 's-1' / 'A_earlier' / 'A_1.mcap').exists()
    refused = r.call(StartRecording, 'start', session_id='../x', slot='A')
    assert not refused.success
    assert 'letters, digits' in refused.message


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_bag(rig, number):
    r = rig('derive:=false')
    assert r.start().success
    r.publish(50)
    time.sleep(0.3)    # what the network still has at the signal is not promised
    code, took_s = r.process.end(number)
    assert code == 0, r.process.log
    assert took_s < 5.0
    with BagReader(r.root / 's-1' / 'A') as bag:
        assert bag.metadata.counts[r.name('joint_states')] == 50
        assert bag.metadata.custom['end_reason'] == 'interrupted'


def test_kill_9_loses_less_than_a_second(rig):
    r = rig('derive:=false')
    assert r.start().success
    r.publish(300)
    killed_ns = time.time_ns()
    r.process.kill()
    folder = r.root / 's-1' / 'A'
    assert not (folder / 'metadata.yaml').exists()
    saved = recover(folder)
    kept = [m for m in salvage(folder / 'A_0.mcap')
            if isinstance(m, Message) and m.topic == r.name('joint_states')]
    assert killed_ns - kept[-1].log_ns < 1e9
    first = kept[0].sequence
    assert [m.sequence for m in kept] == list(range(first, first + len(kept)))
    assert saved.messages >= len(kept)


def test_too_little_disk_is_refused(rig):
    r = rig('derive:=false', 'min_free_disk:=900000.0')
    answer = r.start()
    assert not answer.success
    assert 'GiB are free' in answer.message
    assert not (r.root / 's-1').exists()
    until(lambda: any('GiB are free' in m.message for m in r.reports), 'a status with it')


def test_what_is_recorded_can_be_chosen_and_is_derived(rig, tmp_path):
    overrides = tmp_path / 'qos.yaml'
    r = rig('images:=raw', f'qos_profile_overrides_path:={overrides}')
    overrides.write_text(f'{r.name("joint_states")}: {{reliability: best_effort, depth: 7}}\n')
    until(lambda: r.raw.get_subscription_count(), 'the recorder')
    assert r.call(StartRecording, 'start', session_id='s-1', slot='B').success
    r.publish(30)
    until(lambda: {  # what the recorder had subscribed to before it read the file has gone
        info.qos_profile.reliability
        for info in r.node.get_subscriptions_info_by_topic(r.name('joint_states'))
    } == {QoSReliabilityPolicy.BEST_EFFORT}, 'the profile of the file')
    assert r.stop().success
    with BagReader(r.root / 's-1' / 'B') as bag:
        assert r.name('left/image') in bag.topics
        assert r.name('left/image/compressed') not in bag.topics
    until(lambda: (r.root / 's-1' / 'B' / 'episode.json').exists(), 'episode.json', 20.0)


def test_a_bad_override_file_ends_the_node(rig, tmp_path):
    overrides = tmp_path / 'qos.yaml'
    overrides.write_text('/x: {reliabilty: best_effort}\n')
    r = rig(f'qos_profile_overrides_path:={overrides}')
    assert r.process.popen.wait(timeout=15) == 2
    assert "Did you mean 'reliability'" in r.process.log
