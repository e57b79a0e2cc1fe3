"""replay_node: publishes a recorded bag under a prefix, never on live topics."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher

from arena_robot.core.errors import ConfigError, RecordingError
from arena_robot.nodes.parameters import declare, refuse_unknown
from arena_robot.nodes.recorder.qos import to_profile
from arena_robot.nodes.recorder.topics import message_class
from arena_robot.nodes.replay.params import ReplayParams
from arena_robot.nodes.spin import Spin, run_with
from arena_robot.recording.bag.base import Message, Qos, Topic
from arena_robot.recording.bag.playback import Playing, TimingReport, chosen_topics, play
from arena_robot.recording.bag.reader import BagReader

_LAST_S = 0.2


class ReplayPublisher:
    """
    Publishes raw messages of ``topics`` below ``/<prefix>``, with their recorded QoS.

    Topics whose types are not installed are left out; ``left_out`` says why.
    """

    def __init__(self, node: Node, topics: Sequence[Topic], prefix: str = 'replay') -> None:
        self.prefix = prefix.strip('/')
        if not self.prefix:
            raise ConfigError('a replay needs a prefix, so that nothing recorded reaches a live '
                              "robot; the usual one is 'replay'")
        self.left_out: list[str] = []
        self._node = node
        self._publishers: dict[str, Publisher] = {}
        for topic in topics:
            try:
                kind = message_class(topic.type)
            except RecordingError as error:
                self.left_out.append(str(error))
                continue
            self._publishers[topic.name] = node.create_publisher(
                kind, self.name(topic.name), to_profile(topic.qos[0] if topic.qos else Qos()))

    def name(self, topic: str) -> str:
        """Return the name under which a recorded topic is published."""
        return f'/{self.prefix}{topic}'

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


class ReplayNode(Node):
    """Plays the episode that its parameters name, once."""

    def __init__(self, name: str = 'replay_node', **options: Any) -> None:
        super().__init__(name, **options)
        self.params = declare(self, ReplayParams())
        refuse_unknown(self)
        if not self.params.folder:
            raise ConfigError(f'{self.get_fully_qualified_name()} needs the parameter folder: '
                              'an episode to play')


@dataclass(frozen=True)
class Replayed:
    """Result of a replay: timing, topics left out and why, and whether all had subscribers."""

    report: TimingReport
    left_out: tuple[str, ...]
    everyone_listened: bool


def replay(bag: BagReader, playing: Playing, prefix: str = 'replay', wait_s: float = 2.0,
           hold: Callable[[Message], bool] | None = None) -> Replayed:
    """
    Publish a bag below ``/<prefix>`` until it ends or a signal comes; for the main thread.

    Waits up to ``wait_s`` for a subscriber of each topic. ``hold`` can delay messages; see
    :func:`arena_robot.recording.bag.playback.play`.
    """
    with Spin() as spin:
        spin.catch_signals()
        node = Node('replay', context=spin.context)
        try:
            return _publish(spin, node, bag, playing, prefix, wait_s, hold)
        finally:
            node.destroy_node()


def _publish(spin: Spin, node: Node, bag: BagReader, playing: Playing, prefix: str,
             wait_s: float, hold: Callable[[Message], bool] | None = None) -> Replayed:
    publisher = ReplayPublisher(node, chosen_topics(bag, playing), prefix)
    heard = publisher.wait_for_listeners(wait_s, spin.stopped, everyone=True)
    report = play(bag, playing, publisher.publish, hold, stop=spin.stopped)
    time.sleep(_LAST_S)
    return Replayed(report, tuple(publisher.left_out), heard)


def compose(spin: Spin) -> None:
    """Play the episode that the node's parameters name, then end."""
    node = ReplayNode(context=spin.context)
    try:
        v = node.params
        with BagReader(Path(v.folder).expanduser()) as bag:
            done = _publish(spin, node, bag, Playing(v.rate, v.start, v.topics), v.prefix, v.wait)
        for line in done.left_out:
            node.get_logger().warning(f'left out: {line}')
        node.get_logger().info(f'{sum(done.report.counts.values())} messages played')
    finally:
        node.destroy_node()
    spin.stop()


def main(args: Sequence[str] | None = None) -> int:
    """Play an episode to its end, or until it is interrupted."""
    return run_with(compose, args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
