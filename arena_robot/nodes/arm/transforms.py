"""The arm's description and transforms: robot_description, tf and tf_static."""

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.publisher import Publisher
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from arena_robot.core.observation import DOF, Floats
from arena_robot.nodes import convert, qos
from arena_robot.nodes.arm.params import ArmParams
from arena_robot.nodes.part_node import PartNode
from arena_robot.safety.robots import Robot, robot_of
from arena_robot.safety.urdf import joint_origins, urdf


class ArmTransforms:
    """
    Publishes the URDF on ``robot_description`` (latched) and the links' poses on ``tf``.

    Frames are named as the joints are: a prefix, the robot, and links 0 to 8.
    With ``publish_tf: false`` the links' poses are left to a robot_state_publisher.
    """

    def __init__(self, node: PartNode[ArmParams]) -> None:
        v = node.params
        robot = robot_of(v.robot_type)
        arm = robot.arm_name(v.arm_prefix)
        self._links = [f'{arm}_link{i}' for i in range(DOF + 2)]
        self._origins = joint_origins(robot)
        self._tf: Publisher | None = None
        self._text = node.keep(qos.publisher(node, String, 'robot_description', qos.LATCHED))
        self._text.publish(String(data=urdf(v.robot_type, v.arm_prefix)))
        if v.publish_tf:
            self._tf = node.keep(qos.publisher(node, TFMessage, 'tf', qos.STREAM))
            self._publish_static(node, robot)

    def _publish_static(self, node: PartNode[ArmParams], robot: Robot) -> None:
        v = node.params
        self._static = node.keep(qos.publisher(node, TFMessage, 'tf_static', qos.LATCHED))
        before = f'{v.arm_prefix}_' if v.arm_prefix else ''
        stamp_ns = node.get_clock().now().nanoseconds
        self._static.publish(TFMessage(transforms=[
            transform(stamp_ns, self._links[DOF], self._links[DOF + 1],
                      (0.0, 0.0, robot.flange_m), 0.0, 0.0),
            transform(stamp_ns, self._links[DOF + 1], f'{before}robotiq_85_base_link',
                      (0.0, 0.0, 0.0), 0.0, 0.0)]))

    def publish(self, q: Floats, stamp_ns: int) -> None:
        """Publish the links' poses for the joints ``q`` (7,) rad, while somebody listens."""
        if self._tf and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(transforms=[
                transform(stamp_ns, self._links[i], self._links[i + 1], place, roll, float(q[i]))
                for i, (place, roll) in enumerate(self._origins)]))


def transform(stamp_ns: int, parent: str, child: str, place: tuple[float, float, float],
              roll: float, turn: float) -> TransformStamped:
    """Return the pose of a link: moved to ``place`` (m), rolled, then turned about its z axis."""
    out = TransformStamped(header=convert.header(stamp_ns, parent), child_frame_id=child)
    x, y, z = place
    out.transform.translation.x, out.transform.translation.y = x, y
    out.transform.translation.z = z
    (cr, cz), (sr, sz) = np.cos([roll / 2, turn / 2]), np.sin([roll / 2, turn / 2])
    rotation = out.transform.rotation
    rotation.x, rotation.y = float(sr * cz), float(-sr * sz)
    rotation.z, rotation.w = float(cr * sz), float(cr * cz)
    return out
