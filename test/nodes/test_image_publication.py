"""What a camera_node does so that a picture is published soon."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from arena_robot.nodes.camera import node as camera_node
from arena_robot.nodes.camera.node import image_message
from arena_robot.nodes.spin import PUBLICATION_VARIABLE, publish_in_background

SENDING_THREADS = """
from pathlib import Path
import rclpy
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node('sender')
node.create_publisher(String, 'words', 10).publish(String(data='word'))
names = [Path(task, 'comm').read_text() for task in Path('/proc/self/task').iterdir()]
print(sum(name.startswith('dds.asyn') for name in names))
"""


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


def sending_threads(mode):
    environment = {**os.environ, PUBLICATION_VARIABLE: mode}
    return int(subprocess.run([sys.executable, '-c', SENDING_THREADS], env=environment, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=60).stdout)


@pytest.fixture
def variable(monkeypatch):
    # Set before deleting, so that what a test writes there is taken back, too.
    monkeypatch.setenv(PUBLICATION_VARIABLE, '')
    monkeypatch.delenv(PUBLICATION_VARIABLE)
    return monkeypatch


def test_a_camera_node_leaves_the_sending_to_a_thread_of_the_middleware(variable):
    seen = []
    variable.setattr(camera_node, 'run_node', lambda make, args: seen.append(
        os.environ[PUBLICATION_VARIABLE]) or 0)
    assert camera_node.main(['camera_node']) == 0
    assert sending_threads(seen[0]) > sending_threads('SYNCHRONOUS')


def test_a_choice_in_the_environment_stays(variable):
    variable.setenv(PUBLICATION_VARIABLE, 'SYNCHRONOUS')
    publish_in_background()
    assert os.environ[PUBLICATION_VARIABLE] == 'SYNCHRONOUS'
