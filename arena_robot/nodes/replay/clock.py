"""The recorded time on /clock, for nodes with use_sim_time."""

import threading
from dataclasses import dataclass

from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from arena_robot.nodes import convert, qos
from arena_robot.nodes.replay.publisher import CLOCK, require_free
from arena_robot.recording.bag.playback import PausablePace


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
