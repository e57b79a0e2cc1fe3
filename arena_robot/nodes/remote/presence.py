"""Whether another node is there, from the publisher of a topic that only it publishes."""

import time

from rclpy.node import Node

LOOK_S = 0.5


class Presence:
    """Tells for how long ``topic`` has had no publisher; a look at the graph each half second."""

    def __init__(self, node: Node, topic: str) -> None:
        self._node, self._topic = node, topic
        self._seen_s = self._looked_s = time.monotonic()

    def gone_s(self) -> float:
        """Return for how long nobody has published the topic; 0 while somebody does."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            if self._node.count_publishers(self._topic):
                self._seen_s = now_s
        return max(self._looked_s - self._seen_s, 0.0)
