"""Selection of the recorded topics, their serialized messages, and the known losses of each."""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from arena_robot.core.clock import Clock
from arena_robot.core.errors import RecordingError
from arena_robot.nodes.lib.endpoints import message_class
from arena_robot.nodes.lib.listener import Unspun, take_events
from arena_robot.nodes.lib.qos import offered, wanted
from arena_robot.nodes.recorder.streams import RequiredStreams
from arena_robot.recording.bag.base import (
    IMAGE_TYPES,
    Message,
    Topic,
    read_definition,
    share_folders,
)

log = logging.getLogger(__name__)

POLL_S = 0.005         # between two rounds over all topics: the queues hold far more
GRAPH_LOOK_S = 0.25    # how soon a new topic is recorded
RENEW_S = 1.0          # between two looks at publishers and losses, which take longer
IMAGES = {'jpeg': {'sensor_msgs/msg/Image'}, 'raw': {'sensor_msgs/msg/CompressedImage'},
          'both': set(), 'none': set(IMAGE_TYPES)}


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
    returned: int = 0

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
        fresh, self.returned = lost - self.returned, lost
        return fresh


@dataclass(frozen=True)
class Choice:
    """
    Selection of topics: those that match any of ``include`` and none of ``exclude``.

    Patterns are regular expressions over whole names. ``images`` picks a key of ``IMAGES``. What
    a session requires is recorded too, see RequiredStreams.
    """

    include: tuple[str, ...] = ('.*',)
    exclude: tuple[str, ...] = ('/parameter_events', r'.*/replay/.*', r'/replay/.*',
                                r'.*/audit_node/.*')
    images: str = 'jpeg'

    def takes(self, topic: str, message_type: str) -> bool:
        """Whether a topic is to be recorded; hidden ones never are."""
        if '/_' in topic or message_type in IMAGES[self.images]:
            return False
        return any(re.fullmatch(p, topic) for p in self.include) and self.allows(topic)

    def allows(self, topic: str) -> bool:
        """Whether a topic is not excluded."""
        return not any(re.fullmatch(p, topic) for p in self.exclude)


class TopicSubscriptions:
    """
    Finds topics, subscribes to them raw, and passes every message to ``sink``.

    ``announce`` is called before the first message of a topic, ``losses`` with each new loss.
    One thread does it all; ``overrides`` replace profiles by topic.
    """

    def __init__(self, node: Node, choice: Choice, clock: Clock, sink: Callable[[Message], None],
                 announce: Callable[[Topic], None], losses: Callable[[str, int], None],
                 overrides: dict[str, QoSProfile] | None = None) -> None:
        self.problems: dict[str, str] = {}
        self._node = node
        self.choice = choice
        self._clock = clock
        self._sink = sink
        self._announce = announce
        self._losses = losses
        self._overrides = overrides or {}
        self.required = RequiredStreams(choice.images, node.get_publishers_info_by_topic)
        self._group = Unspun()
        self._topics: dict[str, TopicSubscription] = {}
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._idle = threading.Condition()
        self._rounds = 0
        self._thread: threading.Thread | None = None
        self._wall_time = not node.get_parameter('use_sim_time').value

    @property
    def topics(self) -> list[Topic]:
        """Return the topics found so far."""
        return [subscribed.topic for subscribed in list(self._topics.values())]

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name='recorder topics', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; may be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
            self._thread = None

    def drain(self, timeout_s: float = 2.0) -> bool:
        """Return when all messages that arrived before the call were passed on."""
        self._hurry.set()
        with self._idle:
            target = self._rounds + 2
            return self._idle.wait_for(lambda: self._rounds >= target or self._stop.is_set(),
                                       timeout_s)

    def _run(self) -> None:
        look_at = renew_at = 0.0
        while not self._stop.wait(POLL_S):
            now = time.monotonic()
            try:
                if now >= look_at:
                    self._look()
                    look_at = now + GRAPH_LOOK_S
                self._take_all()
                if now >= renew_at or self._hurry.is_set():
                    self._hurry.clear()
                    self._renew()
                    self._look_for_losses()
                    renew_at = now + RENEW_S
            except InvalidHandle:
                if self._stop.is_set():
                    return
            with self._idle:
                self._rounds += 1
                self._idle.notify_all()

    def _take_all(self) -> None:
        for subscribed in self._topics.values():
            handle, kind = subscribed.subscription.handle, subscribed.subscription.msg_type
            with handle:
                while (taken := handle.take_message(kind, True)) is not None:
                    self._hand_on(subscribed, taken[0], taken[1])

    def _hand_on(self, subscribed: TopicSubscription, data: bytes, info: dict[str, Any]) -> None:
        sequence = int(info['publication_sequence_number'] or 0)
        subscribed.count(sequence)
        self.required.count(subscribed.topic.name)
        if self._wall_time:
            log_ns = int(info['received_timestamp']) or self._clock.now_ns()
            publish_ns = int(info['source_timestamp']) or log_ns
        else:
            log_ns = publish_ns = self._clock.now_ns()
        self._sink(Message(subscribed.topic.name, log_ns, max(publish_ns, 0), sequence, data))

    def _look(self) -> None:
        for name, types in self._node.get_topic_names_and_types():
            if name in self._topics or name in self.problems or not types:
                continue
            if self.choice.takes(name, types[0]) or (
                    self.choice.allows(name) and self.required.takes(name, types[0])):
                if len(types) > 1:
                    self.problems[name] = f"{name} has several types: {', '.join(types)}"
                else:
                    self._subscribe(name, types[0])

    def _subscribe(self, name: str, message_type: str) -> None:
        senders = self._node.get_publishers_info_by_topic(name)
        if not senders:
            return
        offers = tuple(offered(s.qos_profile) for s in senders)
        try:
            definition = read_definition(message_type, share_folders())
            kind = message_class(message_type)
        except RecordingError as error:
            self.problems[name] = f'{name} is not recorded: {error}'
            log.warning('%s', self.problems[name])
            return
        type_hash = str(senders[0].topic_type_hash)
        topic = Topic(name, message_type, definition,
                      type_hash if type_hash.startswith('RIHS') else '', offers)
        self._announce(topic)
        self._topics[name] = self._subscription(topic, kind, len(senders))

    def _subscription(self, topic: Topic, kind: Any, senders: int) -> TopicSubscription:
        profile = self._overrides.get(topic.name) or wanted(
            topic.qos, 60 if topic.is_image else 1000)
        callbacks = SubscriptionEventCallbacks(
            message_lost=lambda status: self._on_lost(topic.name, status),
            use_default_callbacks=False)
        subscription = self._node.create_subscription(
            kind, topic.name, lambda message: None, profile, callback_group=self._group,
            event_callbacks=callbacks, raw=True)
        return TopicSubscription(topic, subscription, profile, senders=senders)

    def _on_lost(self, name: str, status: Any) -> None:
        if name in self._topics:
            self._topics[name].reported = int(status.total_count)

    def _look_for_losses(self) -> None:
        """Request the losses that the middleware reports, and pass on new ones."""
        events: list[Any] = []
        for subscribed in self._topics.values():
            events += subscribed.subscription.event_handlers  # type: ignore[arg-type]
        take_events(self._node.context, events)
        for subscribed in self._topics.values():
            fresh = subscribed.new_losses()
            if fresh > 0:
                self._losses(subscribed.topic.name, fresh)

    def _renew(self) -> None:
        """
        Follow changes of publishers; subscribe again when their QoS changes.

        Raw images that were taken for want of JPEGs end once the JPEGs arrive.
        """
        for name, subscribed in list(self._topics.items()):
            if not self.choice.takes(name, subscribed.topic.type) and self.required.releases(
                    name, subscribed.topic.type):
                log.info('%s: its JPEGs arrive, so raw images are not recorded', name)
                self._node.destroy_subscription(subscribed.subscription)
                del self._topics[name]
                continue
            senders = self._node.get_publishers_info_by_topic(name)
            subscribed.follow(len(senders))
            offers = tuple(offered(s.qos_profile) for s in senders)
            if not offers or name in self._overrides or _served(subscribed.profile, offers):
                continue
            log.warning('%s: its publishers changed their QoS; subscribing anew', name)
            kind = subscribed.subscription.msg_type
            self._node.destroy_subscription(subscribed.subscription)
            topic = replace(subscribed.topic, qos=offers)
            self._topics[name] = self._subscription(topic, kind, len(senders))


def _served(profile: QoSProfile, offers: Sequence[Any]) -> bool:
    fit = wanted(offers, profile.depth)
    return (int(profile.reliability) >= int(fit.reliability)
            and int(profile.durability) >= int(fit.durability))
