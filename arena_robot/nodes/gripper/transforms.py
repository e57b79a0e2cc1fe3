"""The transform of the finger that the gripper's joint state is about."""

import math

from geometry_msgs.msg import TransformStamped
from rclpy.publisher import Publisher
from tf2_msgs.msg import TFMessage

from arena_robot.nodes import convert, qos
from arena_robot.nodes.gripper.params import GripperParams
from arena_robot.nodes.part_node import PartNode
from arena_robot.robots.grippers import GripperModel, prefixed


class FingerTransform:
    """Publishes the finger's pose in the gripper's base link on ``tf``."""

    def __init__(self, node: PartNode[GripperParams], model: GripperModel) -> None:
        self._model, self._prefix = model, node.params.arm_prefix
        self._tf: Publisher | None = None
        if node.params.publish_tf:
            self._tf = node.keep(qos.publisher(node, TFMessage, 'tf', qos.STREAM))

    def publish(self, angle_rad: float, stamp_ns: int) -> None:
        """Publish the pose for the finger joint's position, while somebody listens."""
        if self._tf and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(transforms=[
                finger_transform(self._model, self._prefix, angle_rad, stamp_ns)]))


def finger_transform(model: GripperModel, prefix: str, angle_rad: float,
                     stamp_ns: int) -> TransformStamped:
    """Return the finger's pose in the gripper's base link: turned about the negative y axis."""
    out = TransformStamped(
        header=convert.header(stamp_ns, prefixed(model.base_link, prefix)),
        child_frame_id=prefixed(model.finger_link, prefix))
    place, rotation = out.transform.translation, out.transform.rotation
    place.x, place.y, place.z = model.joint_at
    rotation.y, rotation.w = -math.sin(angle_rad / 2), math.cos(angle_rad / 2)
    return out
