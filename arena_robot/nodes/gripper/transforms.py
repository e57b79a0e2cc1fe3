"""The transform of the finger that the gripper's joint state is about."""

import math

from geometry_msgs.msg import TransformStamped
from rclpy.publisher import Publisher
from tf2_msgs.msg import TFMessage

from arena_robot.nodes import convert, qos
from arena_robot.nodes.gripper.params import GripperParams
from arena_robot.nodes.part_node import PartNode
from arena_robot.safety.urdf import KNUCKLE_PLACE

KNUCKLE_LINK = 'robotiq_85_left_knuckle_link'


class KnuckleTransform:
    """Publishes the knuckle's pose in the gripper's base link ``base`` on ``tf``."""

    def __init__(self, node: PartNode[GripperParams], base: str) -> None:
        prefix = node.params.arm_prefix
        self._base = base
        self._link = f'{prefix}_{KNUCKLE_LINK}' if prefix else KNUCKLE_LINK
        self._tf: Publisher | None = None
        if node.params.publish_tf:
            self._tf = node.keep(qos.publisher(node, TFMessage, 'tf', qos.STREAM))

    def publish(self, angle_rad: float, stamp_ns: int) -> None:
        """Publish the pose for the knuckle joint's position, while somebody listens."""
        if self._tf and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(transforms=[
                knuckle_transform(self._base, self._link, angle_rad, stamp_ns)]))


def knuckle_transform(base: str, link: str, angle_rad: float, stamp_ns: int) -> TransformStamped:
    """Return the knuckle's pose in the gripper's base link: turned about the negative y axis."""
    out = TransformStamped(header=convert.header(stamp_ns, base), child_frame_id=link)
    place, rotation = out.transform.translation, out.transform.rotation
    place.x, place.y, place.z = KNUCKLE_PLACE
    rotation.y, rotation.w = -math.sin(angle_rad / 2), math.cos(angle_rad / 2)
    return out
