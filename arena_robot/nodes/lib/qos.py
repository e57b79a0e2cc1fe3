"""
Quality of service: publishers reliable, subscribers of sensor streams best effort (REP 2003).

Every endpoint made here can be overridden in a parameter file, by keys such as
``qos_overrides./station/joint_states.publisher.reliability``.
"""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    QoSDurabilityPolicy,
    QoSProfile,
    QoSReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

STREAM = QoSProfile(depth=10)
STATE = QoSProfile(depth=5)
LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)
COMMAND = QoSProfile(depth=1)
COMMAND_SENT = QoSProfile(depth=1, lifespan=Duration(nanoseconds=100_000_000))
CLOCK = QoSProfile(depth=1, reliability=QoSReliabilityPolicy.BEST_EFFORT)
SENSOR = qos_profile_sensor_data


def publisher(node: Node, kind: type, topic: str, qos: QoSProfile = STREAM) -> Publisher:
    """Return a publisher whose QoS a parameter file may override."""
    return node.create_publisher(
        kind, topic, qos,
        qos_overriding_options=QoSOverridingOptions.with_default_policies())


def subscription(node: Node, kind: type, topic: str, callback: Callable[[Any], None],
                 qos: QoSProfile = SENSOR, group: CallbackGroup | None = None) -> Subscription:
    """Return a subscription whose QoS a parameter file may override."""
    return node.create_subscription(
        kind, topic, callback, qos, callback_group=group,
        qos_overriding_options=QoSOverridingOptions.with_default_policies())
