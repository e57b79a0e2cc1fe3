"""What a camera_node does so that a picture is published soon."""

from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo, Image

from arena_robot.core import observation
from arena_robot.core.errors import DataError
from arena_robot.drivers.base import StereoFrame
from arena_robot.nodes.camera import CameraNode, Eye, image_message, jpeg_message
from arena_robot.nodes.lib.images import read_depth
from arena_robot.nodes.lib.part_params import CameraParams


@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8', 'bgra8'])
@pytest.mark.parametrize('step', [1, 2])
def test_a_message_arrives_as_it_was_published(encoding, step):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)[:, ::step]
    message = image_message(pixels, 0, 'eye', encoding)
    back = deserialize_message(serialize_message(message), Image)
    shown = np.frombuffer(back.data, np.uint8).reshape(8, 12 // step, -1)
    assert np.array_equal(shown[:, :, :3], pixels if encoding == 'rgb8' else pixels[:, :, ::-1])
    assert back.step == shown.shape[1] * shown.shape[2]


@pytest.mark.parametrize('make', [lambda depth: image_message(depth, 7, 'eye', 'rgb8'),
                                  lambda depth: jpeg_message(depth, 7, 'eye', 90)])
def test_depth_arrives_without_loss(make):
    depth = np.random.default_rng(0).integers(0, 65_536, (8, 24), np.uint16)[:, ::2]
    message = make(depth)
    back = read_depth(deserialize_message(serialize_message(message), type(message)))
    assert back.stamp_ns == 7
    np.testing.assert_array_equal(back.millimetres, depth)
    if isinstance(message, Image):
        assert (message.encoding, message.step) == ('16UC1', 24)
        message.encoding = '32FC1'
    else:
        message.format = '16UC1; compressedDepth rvl'
    with pytest.raises(DataError, match=r'32FC1|rvl'):
        read_depth(message)


def test_both_pictures_are_published_before_anything_else():
    gone = []

    def publisher(name):
        return SimpleNamespace(publish=lambda _: gone.append(name),
                               get_subscription_count=lambda: 1)

    picture = observation.Image(np.zeros((4, 6, 3), np.uint8), 5)
    node = object.__new__(CameraNode)
    node._current = SimpleNamespace(values=CameraParams())
    node.size, node._next_ns = None, 0
    node.timeline = SimpleNamespace(to_ros=lambda stamp_ns: stamp_ns)
    node.rate = SimpleNamespace(tick=lambda: None)
    node.camera = SimpleNamespace(wait_frame=lambda _: StereoFrame(picture, picture, 1))
    node.eyes = {eye: Eye(eye, publisher('image'), publisher('info'), publisher('jpeg'),
                          CameraInfo()) for eye in ('left', 'right')}
    node.stream_once()
    assert gone == ['image', 'image', 'info', 'info', 'jpeg', 'jpeg']
