"""A camera's frames on tf_static."""

from collections.abc import Mapping

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.publisher import Publisher
from tf2_msgs.msg import TFMessage

from arena_robot.nodes import convert, qos
from arena_robot.nodes.camera.params import CameraParams
from arena_robot.nodes.part_node import PartNode
from arena_robot.safety.urdf import CameraMount, FixedFrame, camera_frames


class CameraTransforms:
    """
    Publishes the frames of one camera, latched, by REP 103 and REP 105.

    ``optical`` are the optical frames by eye. Without a mount the frames hang on nothing.
    """

    def __init__(self, node: PartNode[CameraParams], optical: Mapping[str, str],
                 baseline_m: float) -> None:
        self._node, self._optical, self._baseline_m = node, optical, baseline_m
        self._sent: list[FixedFrame] = []
        self._static: Publisher | None = None
        if node.params.publish_tf:
            self._static = node.keep(qos.publisher(node, TFMessage, 'tf_static', qos.LATCHED))

    def publish(self, mount: CameraMount | None) -> None:
        """Publish the frames where they are others than before."""
        frames = camera_frames(self._node.params.frame_name, mount, self._optical,
                               self._baseline_m)
        if self._static is None or frames == self._sent:
            return
        self._sent = frames
        stamp_ns = self._node.get_clock().now().nanoseconds
        self._static.publish(TFMessage(transforms=[fixed(one, stamp_ns) for one in frames]))


def fixed(frame: FixedFrame, stamp_ns: int) -> TransformStamped:
    """Return the message of a fixed frame."""
    pose = convert.pose_message(np.asarray(frame.pose, np.float64))
    out = TransformStamped(header=convert.header(stamp_ns, frame.parent),
                           child_frame_id=frame.child)
    where = out.transform.translation
    where.x, where.y, where.z = pose.position.x, pose.position.y, pose.position.z
    out.transform.rotation = pose.orientation
    return out
