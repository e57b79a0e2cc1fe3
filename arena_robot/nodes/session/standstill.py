"""
Ends a rollout early when a judge sees no progress for long, where the station says so.

The progress is what audit_node says.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rclpy.node import Node
from std_msgs.msg import Float64

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import ArenaError
from arena_robot.nodes.lib import qos

log = logging.getLogger(__name__)
STILL = 0.05    # of a live judge's values, whose noise is .03


class Standstill:
    """
    Hears ``topic`` while a rollout runs and calls ``stop`` once after a standstill of ``limit_s``.

    The time is real time. ``running`` returns the slot that runs, None when none does. The arm is
    stopped by a thread of its own, because a callback must not wait.
    """

    def __init__(self, node: Node, topic: str, limit_s: float, running: Callable[[], Slot | None],
                 stop: Callable[[EndReason, str], None],
                 now_s: Callable[[], float] = time.monotonic) -> None:
        self._found, self._now_s = Stagnation(limit_s), now_s
        self._running, self._stop = running, stop
        self._slot: Slot | None = None
        self._ended = False
        qos.subscription(node, Float64, topic, self._on_progress, qos.STREAM)

    def _on_progress(self, message: Float64) -> None:
        slot = self._running()
        if slot is not self._slot:
            self._slot, self._ended = slot, False
            self._found.reset()
        if slot is None or self._ended:
            return
        if self._found.add(self._now_s(), message.data):
            self._ended = True
            threading.Thread(target=self._end, name='end of a standstill', daemon=True).start()

    def _end(self) -> None:
        try:
            self._stop(EndReason.TIMEOUT, self._found.words)
        except ArenaError as error:
            log.error('the arm could not be stopped: %s', error)


@dataclass
class Stagnation:
    """
    Decides whether the progress has not changed for ``limit_s``.

    A value starts a new wait when it differs by more than .05 from the one that the wait began
    with. Values that stop coming decide nothing: only those that arrived count.
    """

    limit_s: float
    _since: tuple[float, float] | None = field(default=None, init=False)

    def reset(self) -> None:
        """Forget the values: another rollout begins."""
        self._since = None

    def add(self, time_s: float, progress: float) -> bool:
        """Take a value; return whether the standstill is long enough."""
        if self._since is None or abs(progress - self._since[1]) > STILL:
            self._since = (time_s, progress)
        return time_s - self._since[0] >= self.limit_s

    @property
    def words(self) -> str:
        """Return the sentence for the record of the rollout."""
        return (f'ended early: a judge saw no progress for {self.limit_s:g} s, and this station '
                'ends such rollouts (stagnation_end)')
