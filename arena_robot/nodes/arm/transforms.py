"""The arm's description and transforms: robot_description, tf and tf_static."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from geometry_msgs.msg import Point, Pose, TransformStamped
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.publisher import Publisher
from rclpy.qos import QoSDurabilityPolicy, QoSProfile
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import ArmParams, gripper_of
from arena_robot.recording.bag.base import share_folders
from arena_robot.robots.arms import HERE, Chain, Robot, matrix_of, prefixed
from arena_robot.safety.limits import robot_of
from arena_robot.safety.urdf import FixedFrame, link_names, origin_of, urdf

# Every publisher's last message is kept, so a late subscriber needs room for one of each.
STATIC = QoSProfile(depth=100, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)


class ArmTransforms:
    """
    Publishes the URDF on ``robot_description`` (latched) and the links' poses on ``tf``.

    Its shapes are Franka's meshes where the package franka_description is installed. Frames are
    named as the arm's row says. The description has the fixed
    frames of others that hang on the arm too, as their ``tf_static`` says: cameras.
    With ``publish_tf: false`` the links' poses are left to a robot_state_publisher.
    """

    def __init__(self, node: PartNode[ArmParams]) -> None:
        v = node.params
        robot = robot_of(v.robot_type)
        self._links = robot.frames(v.arm_prefix)
        self._chain = robot.limits.chain
        self._tf: Publisher | None = None
        self._params, self._description = v, ''
        self._meshes = bool(robot.mesh_folder) and any(
            (folder / robot.mesh_folder / 'visual' / 'link0.dae').is_file()
            for folder in share_folders())
        self._gripper = gripper_of(v)
        self._own = link_names(v.robot_type, v.arm_prefix, self._gripper)
        self._frames: dict[str, FixedFrame] = {}
        self._text = node.keep(qos.publisher(node, String, 'robot_description', qos.LATCHED))
        self._describe()
        node.keep(qos.subscription(node, TFMessage, 'tf_static', self._on_static, STATIC,
                                   MutuallyExclusiveCallbackGroup()))
        if v.publish_tf:
            self._tf = node.keep(qos.publisher(node, TFMessage, 'tf', qos.STREAM))
            self._publish_static(node, robot)

    def _publish_static(self, node: PartNode[ArmParams], robot: Robot) -> None:
        v = node.params
        self._static = node.keep(qos.publisher(node, TFMessage, 'tf_static', qos.LATCHED))
        stamp_ns = node.get_clock().now().nanoseconds
        fixed = [fixed_transform(stamp_ns, self._links[-2], self._links[-1], self._chain.end)]
        if self._gripper:
            fixed.append(fixed_transform(
                stamp_ns, self._links[-1], prefixed(self._gripper.base_link, v.arm_prefix), HERE))
        self._static.publish(TFMessage(transforms=fixed))

    def _on_static(self, message: TFMessage) -> None:
        """Keep others' fixed frames; describe the robot again where that makes a difference."""
        for frame in message.transforms:
            if frame.child_frame_id in self._own:
                continue
            with suppress(SafetyError):  # no rotation: another node's mistake
                self._frames[frame.child_frame_id] = FixedFrame(
                    frame.header.frame_id, frame.child_frame_id, pose_in(frame))
        self._describe()

    def _describe(self) -> None:
        v = self._params
        description = urdf(v.robot_type, v.arm_prefix, self._gripper, list(self._frames.values()),
                           self._meshes)
        if description != self._description:
            self._description = description
            self._text.publish(String(data=description))

    def publish(self, q: Floats, stamp_ns: int) -> None:
        """Publish the links' poses for the joints ``q`` (n,), while somebody listens."""
        if self._tf and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(
                transforms=link_transforms(stamp_ns, self._links, self._chain, q)))


def pose_in(message: TransformStamped) -> tuple[float, ...]:
    """Return x y z (m) roll pitch yaw (rad) of a transform."""
    place, turn = message.transform.translation, message.transform.rotation
    return tuple(convert.pose_values(Pose(
        position=Point(x=place.x, y=place.y, z=place.z), orientation=turn)).tolist())


def link_transforms(stamp_ns: int, links: Sequence[str], chain: Chain,
                    q: Floats) -> list[TransformStamped]:
    """Return the pose of each link that a joint moves, in the link that the joint hangs on."""
    out = []
    for i, (place, rpy) in enumerate(map(origin_of, chain.places)):
        axis, angle = np.array(chain.axes[i]), float(q[i])
        if chain.slides[i]:
            place, angle = place + angle * matrix_of(chain.places[i])[:3, :3] @ axis, 0.0
        half = np.array([*np.sin(angle / 2) * axis, np.cos(angle / 2)])
        out.append(convert.transform(stamp_ns, links[chain.parents[i] + 1], links[i + 1], place,
                                     _product(convert.quaternion_of(np.array(rpy)), half)))
    return out


def _product(a: Floats, b: Floats) -> Floats:
    """Return the rotation ``b`` followed by ``a``, quaternions x y z w."""
    return np.array([*(a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])),
                     a[3] * b[3] - a[:3] @ b[:3]])


def fixed_transform(stamp_ns: int, parent: str, child: str,
                    pose: tuple[float, ...]) -> TransformStamped:
    """Return the pose (12 numbers) of a frame that does not move."""
    place, rpy = origin_of(pose)
    return convert.transform(stamp_ns, parent, child, place, convert.quaternion_of(np.array(rpy)))
