"""A camera whose images another package's node publishes: the backend ``ros`` of camera_node."""

import time

from rclpy.node import Node

from arena_robot.core.errors import NotConnected
from arena_robot.nodes.camera.params import eyes_of
from arena_robot.nodes.remote.camera import RemoteCamera
from arena_robot.nodes.vendor.params import RosCameraParams


class RosCamera(RemoteCamera):
    """The images and the geometry of both eyes of another node."""

    def __init__(self, node: Node, params: RosCameraParams, serial: str = '') -> None:
        super().__init__(node, params.node, params.open_timeout, params.topic_style,
                         eyes_of(params.topic_style), serial, params.transport)

    def open(self) -> None:
        """Connect, and wait for the first frame and the geometry. Raises NotConnected."""
        super().open()
        end_s = time.monotonic() + self._timeout_s
        while not set(self._eyes) <= set(self.info()):
            if time.monotonic() > end_s:
                self.close()
                raise NotConnected(f'{self._name} sends images, and no camera_info of each eye')
            time.sleep(0.01)
