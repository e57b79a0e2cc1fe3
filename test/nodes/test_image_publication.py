"""What a camera_node does so that a picture is published soon."""

import tracemalloc

import numpy as np

from arena_robot.nodes.camera.node import image_message


def test_a_picture_is_copied_once_for_its_message():
    pixels = np.zeros((720, 1280, 3), np.uint8)
    tracemalloc.start()
    try:
        message = image_message(pixels, 0, 'eye', 'rgb8')
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(message.data) == pixels.size
    assert most < 1.5 * pixels.size
