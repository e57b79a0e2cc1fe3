"""replay_node: publishes a recorded bag under a prefix, never on live topics."""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger

from arena_robot.core.errors import ArenaError, ConfigError, RecordingError
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import answering
from arena_robot.nodes.lib.endpoints import message_class, owner
from arena_robot.nodes.lib.parameters import ANY, Parameters, declare, param, refuse_unknown
from arena_robot.nodes.lib.qos import read_overrides, to_profile
from arena_robot.nodes.lib.spin import Spin, run_with
from arena_robot.recording.bag.base import Message, Qos, Topic
from arena_robot.recording.bag.playback import (
    Pace,
    Playing,
    TimingReport,
    chosen_topics,
    play,
)
from arena_robot.recording.bag.reader import BagReader

_LAST_S = 0.2    # the last messages are sent before the publishers are destroyed
GRAPH_S = 2.0    # until the nodes of a running station are known
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
    own = node.get_fully_qualified_name()
    nodes = {f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces()}
    for topic in topics:
        owners = [name for name in nodes if name != own and topic.startswith(f'{name}/')]
        publishers = [owner(info) for info in node.get_publishers_info_by_topic(topic)]
        others = sorted({*owners, *(name for name in publishers if name != own)})
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
            has_listener = [p.get_subscription_count() > 0 for p in self._publishers.values()]
            if has_listener and (all(has_listener) if everyone else any(has_listener)):
                return True
            stop.wait(0.02)
        return False

    def publish(self, message: Message) -> None:
        """Publish a message as it was recorded; those of left-out topics are dropped."""
        publisher = self._publishers.get(message.topic)
        if publisher is not None:
            publisher.publish(message.data)


class RecordedClock:
    """
    Publishes the recorded time at ``rate_hz``, up to ``end_ns``; it stands still in a pause.

    Raises ConfigError where another node publishes /clock: its station would jump in time.
    """

    def __init__(self, node: Node, pace: Pace, rate_hz: float, end_ns: int,
                 stop: threading.Event) -> None:
        require_free(node, [CLOCK])
        self._pace, self._rate_hz, self._end_ns, self._stop = pace, rate_hz, end_ns, stop
        self._ticks = qos.publisher(node, Clock, CLOCK, qos.CLOCK)
        self._thread = threading.Thread(target=self._run, daemon=True, name='recorded clock')
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to publish; the pace must have begun."""
        self._thread.start()

    def end(self) -> None:
        """Publish nothing more."""
        self._over.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not (self._over.wait(1.0 / self._rate_hz) or self._stop.is_set()):
            now_ns = min(self._pace.now_ns(), self._end_ns)
            self._ticks.publish(Clock(clock=convert.time_of(now_ns)))


@dataclass(frozen=True, kw_only=True)
class ReplayParams(Parameters):
    """The parameters of replay_node, with the names of `ros2 bag play`."""

    folder: str = param('', 'episode to play, such as …/A')
    rate: float = param(1.0, 'times the recorded speed', 0.01, 100.0, live=ANY)
    start: float = param(
        0.0, 'begin this far into the episode; set while playing, it goes on from there', 0.0, 1e6,
        unit='s', live=ANY)
    topics: tuple[str, ...] = param(
        ('.*',), 'whole names of the topics to play, as regular expressions')
    prefix: str = param('replay', 'first part of the published names')
    remap: tuple[str, ...] = param(
        (), 'other names, as /recorded:=/new; a name that a running node uses is refused')
    loop: bool = param(False, 'begin again at the end, until it is stopped')
    start_paused: bool = param(False, 'begin paused; ~/resume goes on')
    clock: float = param(
        0.0, 'rate of the recorded time on /clock; 0: none', 0.0, 1000.0, unit='Hz')
    qos_profile_overrides_path: str = param(
        '', 'file with QoS profiles by recorded topic, as ros2 bag takes')
    wait: float = param(
        2.0, 'longest wait for a subscriber of each topic', 0.0, 3600.0, unit='s')

    def playing(self) -> Playing:
        """Return what is played, and how fast."""
        return Playing(self.rate, self.start, self.topics, self.loop)

    def names(self) -> ReplayNames:
        """Return under which names. Raises ConfigError."""
        return ReplayNames(self.prefix, remap_rules(self.remap),
                           read_overrides(self.qos_profile_overrides_path))


class ReplayNode(Node):
    """
    A node whose services and live parameters control the playback of a bag by ``pace``.

    rosbag2_interfaces is not on PyPI, so the services are Trigger. What rosbag2's player has as
    seek and set_rate are the parameters ``start`` and ``rate``.
    """

    def __init__(self, name: str = 'replay_node', defaults: ReplayParams | None = None,
                 pace: Pace | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.params = v = declare(self, defaults or ReplayParams())
        refuse_unknown(self)
        self.pace = pace or Pace(v.rate, v.start_paused)
        self.begin_ns = 0    # of the bag
        self.add_post_set_parameters_callback(self._on_set)
        for name, work in (('pause', self.pace.pause), ('resume', self.pace.resume),
                           ('toggle_paused', self.pace.toggle), ('play_next', self._next)):
            self.create_service(Trigger, f'~/{name}', answering(name, partial(self._serve, work)))

    def _serve(self, work: Callable[[], str | None], *_: Any) -> str:
        return work() or state_of(self.pace, self.begin_ns)

    def _on_set(self, changed: list[Parameter]) -> None:
        for parameter in changed:
            if parameter.name == 'rate':
                self.pace.set_rate(parameter.value)
            elif parameter.name == 'start':
                self.pace.seek(self.begin_ns + round(parameter.value * 1e9))

    def _next(self) -> str:
        if not self.pace.play_next():
            raise ArenaError('play_next needs a pause: call ~/pause first')
        return 'one more message'


def state_of(pace: Pace, begin_ns: int) -> str:
    """Return whether it plays, where in the bag that begins at ``begin_ns``, and how fast."""
    return (f"{'paused' if pace.paused else 'playing'} at "
            f'{max(0.0, (pace.now_ns() - begin_ns) * 1e-9):.1f} s, {pace.rate:.3g} times the '
            'recorded speed')


@dataclass(frozen=True)
class Replayed:
    """Result of a replay: timing, topics left out and why, and whether all had subscribers."""

    report: TimingReport
    left_out: tuple[str, ...]
    everyone_listened: bool


def replay(bag: BagReader, params: ReplayParams, hold: Callable[[Message], bool] | None = None,
           pace: Pace | None = None) -> Replayed:
    """
    Publish a bag below ``/<prefix>`` until it ends or a signal comes; for the main thread.

    Waits up to ``wait`` for a subscriber of each topic. ``hold`` can delay messages; see
    :func:`arena_robot.recording.bag.playback.play`. ``pace`` can pause it.
    """
    with Spin() as spin:
        spin.catch_signals()
        node = ReplayNode('replay', params, pace, context=spin.context)
        spin.add(node, threads=1)
        return _publish(spin, node, bag, hold)


def _publish(spin: Spin, node: ReplayNode, bag: BagReader,
             hold: Callable[[Message], bool] | None = None) -> Replayed:
    params, pace = node.params, node.pace
    names, playing = params.names(), params.playing()
    node.begin_ns = bag.metadata.start_ns
    pace.begin(node.begin_ns + round(params.start * 1e9))
    if names.remap or params.clock:
        spin.wait(GRAPH_S)
    publisher = ReplayPublisher(node, chosen_topics(bag, playing), names)
    end_ns = node.begin_ns + bag.metadata.duration_ns
    clock = RecordedClock(node, pace, params.clock, end_ns, spin.stopped) if params.clock else None
    threading.Thread(target=_end_with, args=(spin, pace), daemon=True).start()
    everyone_listened = publisher.wait_for_listeners(params.wait, spin.stopped, everyone=True)
    require_free(node, list(names.remap.values()))  # what was discovered meanwhile
    pace.begin(node.begin_ns + round(params.start * 1e9))
    if clock:
        clock.start()
    try:
        report = play(bag, playing, publisher.publish, hold, pace, spin.stopped)
        time.sleep(_LAST_S)
    finally:
        if clock:
            clock.end()
    return Replayed(report, tuple(publisher.left_out), everyone_listened)


def _end_with(spin: Spin, pace: Pace) -> None:
    spin.wait()
    pace.end()


def compose(spin: Spin) -> None:
    """Play the episode that the node's parameters name, then end."""
    node = ReplayNode(context=spin.context)
    if not node.params.folder:
        raise ConfigError(f'{node.get_fully_qualified_name()} needs the parameter folder: an '
                          'episode to play')
    spin.add(node, threads=1)
    with BagReader(Path(node.params.folder).expanduser()) as bag:
        done = _publish(spin, node, bag)
    for line in done.left_out:
        node.get_logger().warning(f'left out: {line}')
    node.get_logger().info(f'{sum(done.report.counts.values())} messages played')
    spin.stop()


def main(args: Sequence[str] | None = None) -> int:
    """Play an episode to its end, or until it is interrupted."""
    return run_with(compose, args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
