"""The recorder takes every stream that a session uses, and proves that it arrives."""

import threading
import time
import uuid

import pytest
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, Image
from station_programs import Process
from test_recorder_node import Rig
from waiting import until

from arena_msgs.srv import CheckStreams, StartRecording
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.recorder.streams import RequiredStreams
from arena_robot.nodes.recorder.topics import Choice
from arena_robot.nodes.remote.recorder import RemoteRecorder
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.views import IMAGE, JPEG


@pytest.fixture(scope='module')
def rig(spin, tmp_path_factory):
    """Return one recorder for all tests of this file, which use topics of their own."""
    namespace = f'rec_{uuid.uuid4().hex[:6]}'
    node = Node('driver', namespace=namespace, context=spin.context)
    spin.add(node)
    rig = Rig(node, namespace, Process, tmp_path_factory.mktemp('streams'))
    yield rig
    rig.process.end()
    rig.process.close()


@pytest.fixture(scope='module')
def flowing(rig):
    """Publish the rig's streams, and a raw one without JPEGs, until the last test ends."""
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
    until(lambda: wanted[2] in {t.topic for t in rig.reports[-1].topics if t.written},
             'the raw stream in the bag')
    assert rig.stop().success
    with BagReader(rig.root / 's-1' / 'A') as bag:
        counts, types = bag.metadata.counts, {n: t.type for n, t in bag.topics.items()}
    assert folder.endswith('s-1/A')
    assert types[wanted[2]] == IMAGE
    assert counts[wanted[2]] > 0
    assert types[f'{wanted[1]}/compressed'] == JPEG
    assert wanted[1] not in types


def test_the_stations_check_names_a_stream_that_does_not_reach_the_recorder(rig, flowing):
    there, absent = rig.name('left/image'), rig.name('right/image')
    assert rig.call(CheckStreams, 'check_streams', topics=[there], timeout_s=10.0).success
    good = RemoteRecorder(rig.node, streams=[there]).check_streams()
    assert (good.ok, good.detail) == (True, '1 arrive at recorder_node')
    bad = RemoteRecorder(rig.node, streams=[there, absent]).check_streams()
    assert not bad.ok
    assert absent in bad.detail
    assert there not in bad.detail


class Offer:
    def __init__(self, topic_type=JPEG):
        self.topic_type = topic_type


def test_raw_images_are_taken_only_where_the_jpegs_are_missing():
    offers = {'/a/image/compressed': [Offer()], '/a/image': [Offer(IMAGE)]}
    streams = RequiredStreams('jpeg', lambda topic: offers.get(topic, []))
    streams.require(['/a/image'])
    assert streams.takes('/a/image/compressed', JPEG)
    assert not streams.takes('/a/image', IMAGE)
    assert not streams.takes('/b/image', IMAGE)
    assert streams.missing(['/a/image'], 0.05) == ['/a/image']
    assert streams.takes('/a/image', IMAGE), 'its JPEGs are published, and none arrives'
    assert not streams.releases('/a/image', IMAGE)
    streams.count('/a/image/compressed')
    assert not streams.takes('/a/image', IMAGE), 'its JPEGs arrive'
    assert streams.releases('/a/image', IMAGE)
    assert not streams.releases('/a/image/compressed', JPEG)
    assert RequiredStreams('none', lambda topic: []).missing([], 0.0) == []


def test_depth_is_taken_as_png_where_that_is_published():
    offers = {'/a/depth/compressedDepth': [Offer()], '/a/depth': [Offer(IMAGE)]}
    streams = RequiredStreams('jpeg', lambda topic: offers.get(topic, []))
    streams.require(['/a/depth'])
    assert streams.takes('/a/depth/compressedDepth', JPEG)
    assert not streams.takes('/a/depth', IMAGE)
    streams.count('/a/depth/compressedDepth')
    assert streams.releases('/a/depth', IMAGE)


def test_a_camera_that_is_still_starting_is_not_taken_raw():
    offers = {'/a/image/compressed': [Offer()]}
    streams = RequiredStreams('jpeg', lambda topic: offers.get(topic, []))
    assert streams.missing(['/a/image'], 0.05) == ['/a/image']
    offers['/a/image'] = [Offer(IMAGE)]
    assert not streams.takes('/a/image', IMAGE)


def test_raw_images_end_when_the_jpegs_come_back(rig):
    raw, jpegs = rig.name('top/image'), rig.name('top/image/compressed')
    camera = rig.node.create_publisher(Image, raw, QoSProfile(depth=5))
    packed = rig.node.create_publisher(CompressedImage, jpegs, QoSProfile(depth=5))
    assert not rig.call(CheckStreams, 'check_streams', topics=[raw], timeout_s=0.2).success
    until(camera.get_subscription_count, 'raw images are taken: no JPEG arrives')

    def gone():
        packed.publish(CompressedImage(format='jpeg', data=[1]))
        return not camera.get_subscription_count()
    until(gone, 'the end of the raw images')
    assert packed.get_subscription_count() == 1


def test_an_exclusion_holds_for_what_a_session_uses_too():
    choice = Choice(('/arm.*',), ('/left/.*',))
    assert choice.allows('/wrist/image')
    assert not choice.allows('/left/image')
