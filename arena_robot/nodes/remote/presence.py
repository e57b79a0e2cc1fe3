"""Whether a session node is there: from the graph, and from the beats that it publishes."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from rclpy.node import Node
from std_msgs.msg import Empty

from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import LATE_S
from arena_robot.session.evaluator.desk import DeskState

LOOK_S, WATCH_S = 0.5, 0.25
SILENT_S = 1.25    # five beats; the graph shows a killed node for 20 s more
SILENT = ('The session node does not answer. The arm stops without it; until it rests, keep a '
          'hand on the hardware stop. The session is continued once the node is back.')


class Presence:
    """
    Tells for how long ``session/state`` has had no publisher; it looks each half second.

    A node that was killed or hangs is missed sooner, by ``session/alive``.
    """

    def __init__(self, node: Node, session: str) -> None:
        self._node, self._topic = node, f'{session}/state'
        self._seen_s = self._looked_s = time.monotonic()
        self._beat_s: float | None = None
        self._known: set[bytes] = set()
        qos.subscription(node, Empty, f'{session}/alive', self._on_beat)

    def gone_s(self) -> float:
        """Return for how long nobody has published the topic; 0 while somebody does."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            if self._node.count_publishers(self._topic):
                self._seen_s = now_s
        return max(self._looked_s - self._seen_s, 0.0)

    def restarts(self) -> int:
        """Return how many session nodes were seen, those that had ended included."""
        self._known |= {bytes(one.endpoint_gid)
                        for one in self._node.get_publishers_info_by_topic(self._topic)}
        return len(self._known)

    def wait(self, changed: threading.Condition, seen: Callable[[], bool],
             timeout_s: float) -> bool:
        """
        Return whether ``seen`` became true within ``timeout_s``; ``changed`` is notified then.

        Ends soon after the session node was started again: it lost what it was asked before.
        """
        end_s, restarts = time.monotonic() + timeout_s, self.restarts()
        with changed:
            while not seen():
                if time.monotonic() > end_s:
                    return False
                if self.restarts() != restarts:
                    restarts, end_s = self.restarts(), min(end_s, time.monotonic() + LATE_S)
                changed.wait(WATCH_S)
        return True

    def told(self, state: DeskState) -> DeskState:
        """Return the state, with a notice while the node is silent."""
        beat_s = self._beat_s
        if beat_s is None or time.monotonic() - beat_s < SILENT_S:
            return state
        return replace(state, notice=' '.join(filter(None, (SILENT, state.notice))))

    def _on_beat(self, _: Empty) -> None:
        self._beat_s = time.monotonic()
