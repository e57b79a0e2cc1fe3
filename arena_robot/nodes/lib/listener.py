"""
Subscriptions processed by one thread per node, in the order of arrival.

An rclpy executor builds the lists of all entities of a node twice for every message. In a node
with services this takes a millisecond of processor time: at the rates of a station most of a core.
With several threads, a newer command can also be processed before an older one. Here a wait set
with only subscriptions is built once, and the executor handles only services, actions and timers.
"""

import logging
import math
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.subscription import Subscription

log = logging.getLogger(__name__)

LOOK_NS = 250_000_000    # a wait without messages, after which the end of the node is seen
EVENTS_S = 1.0           # between two looks at middleware events
AT_ONCE = 32             # messages of one subscription, before the others have their turn
JOIN_S = 2.0             # a callback returns within milliseconds
# Fast DDS looks into its port by itself so often, a third of healthy_check_timeout_ms, and as
# exactly; messages that came closer together are of one look.
LOOK_S, NEAR_S, TOGETHER_S = 1.0 / 3.0, 0.02, 0.05
LATE_LOOKS, LATE_MESSAGES = 9, 3


class Unspun(CallbackGroup):
    """Callback group of entities that the executor must not process."""

    def can_execute(self, entity: Any) -> bool:
        """Return False: nothing is executed."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Return False: nothing is executed."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Do nothing: nothing is locked."""


class Wakes:
    """
    Tells a port of Fast DDS in shared memory in which nobody rings any more.

    A process that is killed while it writes into the port can leave it marked as never empty
    (seen with Fast DDS 2.14). Later writers ring only where it was empty, so its owner finds what
    has come only when it looks by itself, every third of a second, for ever: ``late`` is True once
    LATE_LOOKS looks in a row found LATE_MESSAGES or more of one topic and nothing came between.
    """

    def __init__(self) -> None:
        self.late = False
        self._begin_s = -math.inf
        self._most = self._looks = 0

    def heard(self, now_s: float, messages: int) -> None:
        """Note that one topic gave so many messages at once at ``now_s``."""
        gap_s = now_s - self._begin_s
        if gap_s < TOGETHER_S:
            self._most = max(self._most, messages)
            return
        many, in_step = self._most >= LATE_MESSAGES, abs(gap_s - LOOK_S) < NEAR_S
        self._looks = self._looks + 1 if many and in_step else 0
        self.late = self._looks >= LATE_LOOKS
        self._begin_s, self._most = now_s, messages


class Listening(Node):
    """
    A node whose subscriptions are processed by its own thread, started by :meth:`listen`.

    A callback must return quickly, and must not wait for another message. A subscription that is
    created with a callback group is processed by the executor.
    """

    _listener: threading.Thread | None = None
    _news: Any = None
    _deaf = False
    _wakes: Wakes | None = None

    @property
    def late(self) -> bool:
        """Whether every message comes up to LOOK_S late, until this process is started again."""
        return self._wakes is not None and self._wakes.late

    def create_subscription(self, msg_type: Any, topic: str, callback: Any, qos_profile: Any, *,
                            callback_group: CallbackGroup | None = None,
                            **options: Any) -> Subscription:
        """Subscribe; see the class for the thread of the callback."""
        if callback_group is None:
            callback_group = self.__dict__.setdefault('_unspun', Unspun())
        made = super().create_subscription(msg_type, topic, callback, qos_profile,
                                           callback_group=callback_group, **options)
        self._tell()
        return made

    def destroy_subscription(self, subscription: Subscription) -> bool:
        """Unsubscribe; a message may still be on its way to the callback."""
        gone = super().destroy_subscription(subscription)
        self._tell()
        return bool(gone)

    def listen(self) -> None:
        """Start calling the callbacks."""
        self._news = _rclpy.GuardCondition(self.context.handle)
        self._listener = threading.Thread(target=self._listen, daemon=True,
                                          name=f'listen {self.get_name()}')
        self._listener.start()

    def wind_down(self) -> None:
        """Stop starting new work; :meth:`close` follows."""

    def close(self) -> None:
        """Free what does not belong to rclpy; the node is destroyed next."""

    def destroy_node(self) -> None:
        """Stop the thread and destroy the node."""
        self._deaf = True
        self._tell()
        if self._listener is not None:
            self._listener.join(JOIN_S)
            self._listener = None
        if self._news is not None:
            self._news, news = None, self._news
            news.destroy_when_not_in_use()
        super().destroy_node()

    def _tell(self) -> None:
        """Wake the thread: the subscriptions have changed."""
        news = self._news
        if news is not None:
            with suppress(InvalidHandle), news:
                news.trigger_guard_condition()

    def _listen(self) -> None:
        wakes = self._wakes = Wakes()
        while not self._deaf and self.context.ok():
            subscriptions = self._unspun_subscriptions()
            try:
                with ExitStack() as handles:
                    for handle in (self.context.handle, self._news,
                                   *(subscription.handle for subscription in subscriptions)):
                        handles.enter_context(handle)
                    self._serve(subscriptions, wakes)
                    for subscription in subscriptions:
                        take_events(self.context, list(subscription.event_handlers))  # type: ignore[call-overload]
            except (InvalidHandle, AttributeError):
                continue  # one was destroyed meanwhile: build the list again

    def _unspun_subscriptions(self) -> list[Subscription]:
        group = self.__dict__.get('_unspun')
        return [subscription for subscription in self.subscriptions
                if subscription.callback_group is group]

    def _serve(self, subscriptions: list[Subscription], wakes: Wakes) -> None:
        """Take messages until the subscriptions change, or events are due."""
        waits = _rclpy.WaitSet(len(subscriptions), 1, 0, 0, 0, 0, self.context.handle)
        by_pointer = {subscription.handle.pointer: subscription for subscription in subscriptions}
        end_s = time.monotonic() + EVENTS_S
        while not self._deaf and self.context.ok() and time.monotonic() < end_s:
            waits.clear_entities()
            for subscription in subscriptions:
                waits.add_subscription(subscription.handle)
            waits.add_guard_condition(self._news)
            waits.wait(LOOK_NS)
            for pointer in waits.get_ready_entities('subscription'):
                if taken := take_messages(by_pointer[pointer]):
                    wakes.heard(time.monotonic(), taken)
            if waits.get_ready_entities('guard_condition'):
                return


def take_messages(subscription: Subscription) -> int:
    """Call the callbacks of received messages, exceptions are logged; return how many."""
    for count in range(AT_ONCE):
        taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
        if taken is None:
            return count
        try:
            subscription.callback(taken[0])
        except Exception:
            log.exception('%s: a callback failed', subscription.topic)
    return AT_ONCE


def take_events(context: Any, handlers: Sequence[Any]) -> None:
    """
    Call the callbacks of middleware events, such as an incompatible QoS.

    Raises InvalidHandle when one of the handlers was destroyed before; one that another thread
    destroys meanwhile stays until the end.
    """
    if not handlers:
        return
    with ExitStack() as handles:
        for handler in handlers:
            handles.enter_context(handler)
        waits = _rclpy.WaitSet(0, 0, 0, 0, 0, len(handlers), context.handle)
        waits.clear_entities()
        for handler in handlers:
            handler.add_to_wait_set(waits)
        waits.wait(0)
        for handler in handlers:
            if handler.is_ready(waits):
                handler.callback(handler.take_data())
