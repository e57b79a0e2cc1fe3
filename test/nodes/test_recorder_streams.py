"""The recorder takes every stream that a session uses, and proves that it arrives."""

import threading
import time
import uuid

import pytest
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from test_recorder_node import Rig, wait_for

from arena_msgs.srv import CheckStreams, StartRecording
from arena_robot.nodes.convert import header
from arena_robot.nodes.recorder.streams import IMAGE, JPEG, RequiredStreams
from arena_robot.nodes.recorder.topics import Choice
from arena_robot.recording.bag.reader import BagReader


@pytest.fixture
def rig(spin, processes, tmp_path):
    namespace = f'rec_{uuid.uuid4().hex[:6]}'
    node = Node('driver', namespace=namespace, context=spin.context)
    spin.add(node)
    return Rig(node, namespace, processes, tmp_path)


@pytest.fixture
def flowing(rig):
    """Publish the rig's streams, and a raw one without JPEGs, until the test ends."""
    over = threading.Event()
    wrist = rig.node.create_publisher(Image, 'wrist/image', QoSProfile(depth=5))

    def flow():
        while not over.is_set():
            rig.publish(10)
            wrist.publish(Image(header=header(time.time_ns(), 'wrist'), encoding='rgb8'))
    thread = threading.Thread(target=flow)
    thread.start()
    yield
    over.set()
    thread.join()


def test_what_a_session_uses_is_recorded_raw_where_there_are_no_jpegs(rig, flowing):
    wanted = [rig.name(topic) for topic in ('joint_states', 'left/image', 'wrist/image')]
    seen = rig.call(CheckStreams, 'check_streams', topics=wanted, timeout_s=10.0)
    assert (seen.success, list(seen.missing), seen.message) == (True, [], '')
    absent = rig.name('right/image')
    seen = rig.call(CheckStreams, 'check_streams', topics=[wanted[0], absent], timeout_s=0.5)
    assert (seen.success, list(seen.missing)) == (False, [absent])
    assert absent in seen.message
    folder = rig.call(StartRecording, 'start', session_id='s-1', slot='A', topics=wanted).directory
    wait_for(lambda: wanted[2] in {t.topic for t in rig.reports[-1].topics if t.written},
             'the raw stream in the bag')
    assert rig.stop().success
    with BagReader(rig.root / 's-1' / 'A') as bag:
        counts, types = bag.metadata.counts, {n: t.type for n, t in bag.topics.items()}
    assert folder.endswith('s-1/A')
    assert types[wanted[2]] == IMAGE
    assert counts[wanted[2]] > 0
    assert types[f'{wanted[1]}/compressed'] == JPEG
    assert wanted[1] not in types


class Offer:
    topic_type = JPEG


def test_raw_images_are_taken_only_where_the_jpegs_are_missing():
    jpegs = {'/a/image/compressed': [Offer()]}
    streams = RequiredStreams('jpeg', lambda topic: jpegs.get(topic, []))
    streams.require(['/a/image'])
    assert streams.takes('/a/image/compressed', JPEG)
    assert not streams.takes('/a/image', IMAGE)
    assert not streams.takes('/b/image', IMAGE)
    assert streams.missing(['/a/image'], 0.05) == ['/a/image']
    assert streams.takes('/a/image', IMAGE), 'its JPEGs are published, and none arrives'
    assert RequiredStreams('none', lambda topic: []).missing([], 0.0) == []


def test_an_exclusion_holds_for_what_a_session_uses_too():
    choice = Choice(('/arm.*',), ('/left/.*',))
    assert choice.allows('/wrist/image')
    assert not choice.allows('/left/image')
