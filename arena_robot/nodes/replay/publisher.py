"""Publishes recorded messages under other names than the live ones."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile

from arena_robot.core.errors import ConfigError, RecordingError
from arena_robot.nodes.endpoints import owner
from arena_robot.nodes.recorder.qos import to_profile
from arena_robot.nodes.recorder.topics import message_class
from arena_robot.recording.bag.base import Message, Qos, Topic

CLOCK = '/clock'


@dataclass(frozen=True)
class ReplayNames:
    """
    How recorded topics are published.

    Below ``/<prefix>``, or under the names that ``remap`` gives by recorded name. ``qos`` are
    profiles by recorded name, in the place of the recorded ones. Raises ConfigError.
    """

    prefix: str = 'replay'
    remap: Mapping[str, str] = field(default_factory=dict)
    qos: Mapping[str, QoSProfile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.prefix.strip('/'):
            raise ConfigError('a replay needs a prefix, so that nothing recorded reaches a live '
                              "robot; the usual one is 'replay'")

    def of(self, topic: str) -> str:
        """Return the name under which a recorded topic is published."""
        return self.remap.get(topic, f"/{self.prefix.strip('/')}{topic}")


def remap_rules(rules: Sequence[str]) -> dict[str, str]:
    """Return new names by recorded ones of rules as ``/from:=/to``. Raises ConfigError."""
    out = {}
    for rule in rules:
        old, sign, new = rule.partition(':=')
        if not (sign and old.startswith('/') and new.startswith('/') and len(new) > 1):
            raise ConfigError(f"a remap is /recorded:=/new, with whole names; found '{rule}'")
        out[old] = new
    return out


def require_free(node: Node, topics: Sequence[str]) -> None:
    """
    Raise ConfigError for a topic that belongs to a running node or is published already.

    The topics below a node's own name are its own, such as its commands.
    """
    mine = node.get_fully_qualified_name()
    nodes = {f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces()}
    for topic in topics:
        owners = [name for name in nodes if name != mine and topic.startswith(f'{name}/')]
        there = [owner(info) for info in node.get_publishers_info_by_topic(topic)]
        others = sorted({*owners, *(name for name in there if name != mine)})
        if others:
            raise ConfigError(f"{topic} is in use by {', '.join(others)}: a recording is never "
                              'played into a running node; choose another name')


class ReplayPublisher:
    """
    Publishes raw messages of ``topics`` under ``names``, with their recorded QoS.

    Topics whose types are not installed are left out; ``left_out`` says why.
    """

    def __init__(self, node: Node, topics: Sequence[Topic], names: ReplayNames) -> None:
        self.names = names
        self.left_out: list[str] = []
        self._node = node
        self._publishers: dict[str, Publisher] = {}
        unknown = set(names.remap) - {topic.name for topic in topics}
        if unknown:
            raise ConfigError(f"remap: {', '.join(sorted(unknown))} is not among the topics that "
                              f"are played: {', '.join(topic.name for topic in topics)}")
        # A remapped topic could be a live one; what is below the prefix is not.
        require_free(node, list(names.remap.values()))
        for topic in topics:
            try:
                kind = message_class(topic.type)
            except RecordingError as error:
                self.left_out.append(str(error))
                continue
            profile = names.qos.get(topic.name) or to_profile(topic.qos[0] if topic.qos else Qos())
            self._publishers[topic.name] = node.create_publisher(
                kind, names.of(topic.name), profile)

    def wait_for_listeners(self, timeout_s: float, stop: threading.Event,
                           everyone: bool = False) -> bool:
        """
        Return True once a topic, or with ``everyone`` each topic, has a subscriber.

        False after ``timeout_s``, or when ``stop`` is set.
        """
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s and not stop.is_set():
            heard = [p.get_subscription_count() > 0 for p in self._publishers.values()]
            if heard and (all(heard) if everyone else any(heard)):
                return True
            stop.wait(0.02)
        return False

    def publish(self, message: Message) -> None:
        """Publish a message as it was recorded; those of left-out topics are dropped."""
        publisher = self._publishers.get(message.topic)
        if publisher is not None:
            publisher.publish(message.data)
