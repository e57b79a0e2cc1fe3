"""Publishes recorded messages under other names than the live ones, and their time on /clock."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock

from arena_robot.core.errors import ConfigError, RecordingError
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.endpoints import owner
from arena_robot.nodes.recorder.qos import to_profile
from arena_robot.nodes.recorder.topics import message_class
from arena_robot.recording.bag.base import Message, Qos, Topic
from arena_robot.recording.bag.playback import PausablePace

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


@dataclass(frozen=True)
class Tempo:
    """Recorded per real second, messages per real second, and the last recorded time."""

    speed: float
    rate_hz: float
    end_ns: int


class RecordedClock:
    """
    Publishes the recorded time; it stands still in a pause and at the end.

    Raises ConfigError where another node publishes /clock: its station would jump in time.
    """

    def __init__(self, node: Node, pace: PausablePace, tempo: Tempo,
                 stop: threading.Event) -> None:
        require_free(node, [CLOCK])
        self._pace, self._tempo, self._stop = pace, tempo, stop
        self._relation: tuple[int, int] | None = None
        self._ticks = qos.publisher(node, Clock, CLOCK, qos.CLOCK)
        self._thread = threading.Thread(target=self._run, daemon=True, name='recorded clock')
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to publish once :meth:`at` was called."""
        self._thread.start()

    def at(self, pace_ns: int, recorded_ns: int) -> None:
        """Store a time of the pace and the recorded time that belongs to it."""
        self._relation = (pace_ns, recorded_ns)

    def end(self) -> None:
        """Publish nothing more."""
        self._over.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not (self._over.wait(1.0 / self._tempo.rate_hz) or self._stop.is_set()):
            if self._relation is not None:
                pace_ns, recorded_ns = self._relation
                elapsed_ns = max(0, self._pace.now_ns() - pace_ns)
                now_ns = recorded_ns + round(elapsed_ns * self._tempo.speed)
                self._ticks.publish(Clock(clock=convert.time_of(min(now_ns, self._tempo.end_ns))))
