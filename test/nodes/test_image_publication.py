"""What a camera_node does so that a picture is published soon."""

from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo, Image

from arena_robot.core import observation
from arena_robot.drivers.base import StereoFrame
from arena_robot.nodes.camera import CameraNode, Eye, image_message
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
