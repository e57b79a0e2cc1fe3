"""
Elements of a bag: topics with their QoS, and messages as serialized bytes.

This room does not depend on the contents of messages; decoders are arguments (see :mod:`codec`).
Times are integer nanoseconds: ``log_ns`` when the recorder received a message, ``publish_ns`` when
its sender published it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

INFINITE_NS = 2**63 - 1

IMAGE_TYPES = frozenset({'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'})


@dataclass(frozen=True)
class Qos:
    """
    The QoS that a publisher offers, in rmw's terms (``reliable``, ``keep_last`` …).

    ``depth`` is 0 and ``history`` ``unknown`` when they come from the ROS graph, which does not
    report them.
    """

    reliability: str = 'reliable'
    durability: str = 'volatile'
    history: str = 'keep_last'
    depth: int = 10
    deadline_ns: int = INFINITE_NS
    lifespan_ns: int = INFINITE_NS
    liveliness: str = 'automatic'
    liveliness_lease_ns: int = INFINITE_NS
    avoid_ros_namespace_conventions: bool = False

    @property
    def is_latched(self) -> bool:
        """Whether late subscribers are sent the last message."""
        return self.durability == 'transient_local'


@dataclass(frozen=True)
class Topic:
    """
    A recorded topic.

    ``type`` such as ``sensor_msgs/msg/JointState``, ``definition`` the text of its .msg file
    followed by those it depends on, ``type_hash`` its RIHS01 hash or empty.
    """

    name: str
    type: str
    definition: str = ''
    type_hash: str = ''
    qos: tuple[Qos, ...] = ()

    @property
    def is_latched(self) -> bool:
        """Whether any publisher of the topic latches."""
        return any(qos.is_latched for qos in self.qos)

    @property
    def is_image(self) -> bool:
        """Whether its messages are images, which are stored without further compression."""
        return self.type in IMAGE_TYPES


class Message(NamedTuple):
    """One recorded message; ``data`` is complete CDR, ``sequence`` the publisher's count or 0."""

    topic: str
    log_ns: int
    publish_ns: int
    sequence: int
    data: bytes


class Decoder(Protocol):
    """Turns the raw bytes of a message into an object with the fields of its type."""

    def decode(self, topic: Topic, data: bytes) -> Any:
        """Return the decoded message. Raises DataError when the bytes do not fit the type."""


Custom = Mapping[str, str]
