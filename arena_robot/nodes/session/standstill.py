"""Ends a rollout early when audit_node sees no progress for long, where the station says so."""

import logging
import threading
import time
from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import Float64

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import ArenaError
from arena_robot.nodes import qos
from arena_robot.session.loop.stagnation import Stagnation

log = logging.getLogger(__name__)


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
