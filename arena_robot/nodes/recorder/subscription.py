"""One subscribed topic of the recorder, and its known losses."""

from dataclasses import dataclass

from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from arena_robot.recording.bag.base import Topic


@dataclass
class TopicSubscription:
    """
    One subscribed topic; losses are the larger of the middleware's count and missing numbers.

    Missing numbers count only with a single publisher: a repeated number, or a second publisher in
    the ROS graph, means that there are several, and gaps not yet reported are dropped.
    """

    topic: Topic
    subscription: Subscription
    profile: QoSProfile
    senders: int = 1
    last_sequence: int = 0
    pending: int = 0
    missing: int = 0
    reported: int = 0
    told: int = 0

    def count(self, sequence: int) -> None:
        """Count missing numbers."""
        if 0 < self.last_sequence < sequence:
            self.pending += sequence - self.last_sequence - 1
        elif sequence <= self.last_sequence:
            self.senders = 0
        self.last_sequence = sequence

    def follow(self, senders: int) -> None:
        """Take note of how many publishers the graph shows now."""
        if self.senders == senders == 1:
            self.missing += self.pending
        else:
            self.last_sequence = 0
        self.pending, self.senders = 0, senders

    def new_losses(self) -> int:
        """Return the losses that were not yet returned; call it after :meth:`follow`."""
        lost = max(self.missing, self.reported)
        fresh, self.told = lost - self.told, lost
        return fresh
