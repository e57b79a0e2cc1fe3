"""replay_node: publishes a recorded bag under a prefix, never on live topics."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

from arena_robot.core.errors import ArenaError, ConfigError
from arena_robot.nodes.lib.answers import answering
from arena_robot.nodes.lib.parameters import declare, refuse_unknown
from arena_robot.nodes.lib.spin import Spin, run_with
from arena_robot.nodes.replay.params import ReplayParams
from arena_robot.nodes.replay.publisher import RecordedClock, ReplayPublisher, Tempo, require_free
from arena_robot.recording.bag.base import Message
from arena_robot.recording.bag.playback import PausablePace, TimingReport, chosen_topics, play
from arena_robot.recording.bag.reader import BagReader

_LAST_S = 0.2
GRAPH_S = 2.0  # until the nodes of a running station are known


class ReplayNode(Node):
    """Plays the episode that its parameters name; pauses and goes on by its services."""

    def __init__(self, name: str = 'replay_node', **options: Any) -> None:
        super().__init__(name, **options)
        self.params = declare(self, ReplayParams())
        refuse_unknown(self)
        if not self.params.folder:
            raise ConfigError(f'{self.get_fully_qualified_name()} needs the parameter folder: '
                              'an episode to play')
        self.pace = PausablePace(self.params.start_paused)
        offer_services(self, self.pace)


def offer_services(node: Node, pace: PausablePace) -> None:
    """Offer pause, resume, toggle_paused and play_next, as rosbag2's player has them."""
    def next_one() -> str:
        if not pace.play_next():
            raise ArenaError('play_next needs a pause: call ~/pause first')
        return 'one more message'

    def paused() -> str:
        return 'paused' if pace.paused else 'playing'

    def serve(name: str, work: Callable[[], str | None]) -> None:
        node.create_service(Trigger, f'~/{name}',
                            answering(name, lambda *_: work() or paused()))
    for name, work in (('pause', pace.pause), ('resume', pace.resume),
                       ('toggle_paused', pace.toggle), ('play_next', next_one)):
        serve(name, work)


@dataclass(frozen=True)
class Replayed:
    """Result of a replay: timing, topics left out and why, and whether all had subscribers."""

    report: TimingReport
    left_out: tuple[str, ...]
    everyone_listened: bool


def replay(bag: BagReader, params: ReplayParams, hold: Callable[[Message], bool] | None = None,
           pace: PausablePace | None = None) -> Replayed:
    """
    Publish a bag below ``/<prefix>`` until it ends or a signal comes; for the main thread.

    Waits up to ``wait`` for a subscriber of each topic. ``hold`` can delay messages; see
    :func:`arena_robot.recording.bag.playback.play`. ``pace`` can pause it.
    """
    with Spin() as spin:
        spin.catch_signals()
        node = Node('replay', context=spin.context)
        pace = pace or PausablePace(params.start_paused)
        offer_services(node, pace)
        spin.add(node, threads=1)
        return _publish(spin, node, bag, params, pace, hold)


def _publish(spin: Spin, node: Node, bag: BagReader, params: ReplayParams, pace: PausablePace,
             hold: Callable[[Message], bool] | None = None) -> Replayed:
    names, playing = params.names(), params.playing()
    if names.remap or params.clock:
        spin.wait(GRAPH_S)
    publisher = ReplayPublisher(node, chosen_topics(bag, playing), names)
    end_ns = bag.metadata.start_ns + bag.metadata.duration_ns
    clock = RecordedClock(node, pace, Tempo(params.rate, params.clock, end_ns), spin.stopped) \
        if params.clock else None
    threading.Thread(target=_end_with, args=(spin, pace), daemon=True).start()
    heard = publisher.wait_for_listeners(params.wait, spin.stopped, everyone=True)
    require_free(node, list(names.remap.values()))  # what was discovered meanwhile
    if clock:
        clock.start()
    try:
        report = play(bag, playing, publisher.publish, hold, pace, spin.stopped,
                      clock.at if clock else None)
        time.sleep(_LAST_S)
    finally:
        if clock:
            clock.end()
    return Replayed(report, tuple(publisher.left_out), heard)


def _end_with(spin: Spin, pace: PausablePace) -> None:
    spin.wait()
    pace.end()


def compose(spin: Spin) -> None:
    """Play the episode that the node's parameters name, then end."""
    node = ReplayNode(context=spin.context)
    spin.add(node, threads=1)
    with BagReader(Path(node.params.folder).expanduser()) as bag:
        done = _publish(spin, node, bag, node.params, node.pace)
    for line in done.left_out:
        node.get_logger().warning(f'left out: {line}')
    node.get_logger().info(f'{sum(done.report.counts.values())} messages played')
    spin.stop()


def main(args: Sequence[str] | None = None) -> int:
    """Play an episode to its end, or until it is interrupted."""
    return run_with(compose, args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
