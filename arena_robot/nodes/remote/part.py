"""Base of remote parts: the newest message with its age, and services with timeouts."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger

from arena_robot.core.clock import Clock
from arena_robot.core.errors import NotConnected, ReadTimeout, StaleData
from arena_robot.drivers.part import Opened
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.lib.endpoints import Way, has, problems
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.timeline import RosClock

T = TypeVar('T')
# For an evaluator, who reads it when a check or a rollout fails.
TO_DO = 'check its power and its cable; if both are in order, call the lab engineer'
SETTLE_S = 0.3    # many periods of every part's state


class Newest(Generic[T]):
    """The newest value of a topic, with waiting; ``what`` names it in errors."""

    def __init__(self, what: str, clock: Clock, stamp_of: Callable[[T], int]) -> None:
        self._what, self._clock, self.stamp_of = what, clock, stamp_of
        self._new = threading.Condition()
        self._value: T | None = None
        self._came_ns = 0
        self._count = 0

    def put(self, value: T) -> None:
        """Store a new value."""
        with self._new:
            self._value, self._came_ns = value, self._clock.steady_ns()
            self._count += 1
            self._new.notify_all()

    def get(self, max_age_s: float) -> T:
        """Return the newest value; StaleData when it is older than ``max_age_s``."""
        value = self._value
        if value is None:
            raise StaleData(f'no {self._what} has arrived yet')
        # After the clock was set back, a stamp can stay in the future: the arrival counts as well.
        age_s = max(self._clock.now_ns() - self.stamp_of(value),
                    self._clock.steady_ns() - self._came_ns) * 1e-9
        if age_s > max_age_s:
            raise StaleData(f'newest {self._what} is {age_s:.3f} s old, accepted are '
                            f'{max_age_s:g} s; {TO_DO}')
        return value

    def wait(self, timeout_s: float) -> T:
        """Return the next value; ReadTimeout when none comes within ``timeout_s`` real seconds."""
        with self._new:
            seen = self._count
            if self._new.wait_for(lambda: self._count != seen, timeout_s):
                assert self._value is not None
                return self._value
        raise ReadTimeout(f'no {self._what} within {timeout_s:g} s; {TO_DO}')


class RemotePart(Opened):
    """Base of remote parts: the node's name, and services with a timeout."""

    def __init__(self, node: Node, name: str, timeout_s: float = 5.0) -> None:
        self._node, self._name, self._timeout_s = node, name, timeout_s
        self._clock = RosClock(node.get_clock(), node.context)
        self._group = ReentrantCallbackGroup()
        self._services: ServiceClients | None = None
        self._made: list[Callable[[], object]] = []
        self._problem = ''

    def close(self) -> None:
        """Destroy topics and services."""
        super().close()
        if self._services is not None:
            self._services.close()
            self._services = None
        while self._made:
            self._made.pop()()

    def _subscribe(self, kind: type, topic: str, callback: Callable[[Any], None],
                   profile: Any = qos.SENSOR) -> None:
        group = None if isinstance(self._node, Listening) else self._group
        subscription = qos.subscription(self._node, kind, f'{self._name}/{topic}', callback,
                                        profile, group)
        self._made.append(lambda: self._node.destroy_subscription(subscription))

    def _publisher(self, kind: type, topic: str) -> Any:
        publisher = qos.publisher(self._node, kind, f'{self._name}/{topic}', qos.COMMAND_SENT)
        self._made.append(lambda: self._node.destroy_publisher(publisher))
        return publisher

    def _first(self, newest: Newest[Any]) -> None:
        """Wait for the first message; NotConnected, closed again, when none arrives."""
        try:
            newest.wait(self._timeout_s)
        except ReadTimeout as error:
            absent = problems(self._node, self._name, ())
            self._problem = absent[0] if absent else (
                self._problem or f'{self._name} sends nothing: {error}')
            self.close()
            raise NotConnected(self._problem) from error

    def _matched(self, publisher: Any) -> None:
        """Wait for the node to subscribe; NotConnected, closed again, when it does not."""
        end_s, topic = time.monotonic() + self._timeout_s, publisher.topic_name
        while not has(self._node, self._name, topic, Way.SUBSCRIBES):
            if time.monotonic() > end_s:
                self._problem = f'{self._name} does not subscribe to {topic}'
                self.close()
                raise NotConnected(self._problem)
            time.sleep(0.005)

    def _require_open(self, what: str) -> None:
        """Raise NotConnected, with the reason why opening failed where it did."""
        if not self._open and self._problem:
            raise NotConnected(self._problem)
        super()._require_open(what)

    def _settled(self, newest: Newest[Any]) -> None:
        """Wait a short time for a reading newer than this call."""
        now_ns, end_s = self._clock.now_ns(), time.monotonic() + SETTLE_S
        while time.monotonic() < end_s:
            with contextlib.suppress(ReadTimeout):
                if newest.stamp_of(newest.wait(SETTLE_S)) > now_ns:
                    return

    def _offers(self, *names: str) -> None:
        """Make clients of the node's Trigger services."""
        self._services = ServiceClients(self._node, self._name, dict.fromkeys(names, Trigger),
                                        find_s=self._timeout_s)

    def _call(self, name: str, timeout_s: float | None = None) -> str:
        """Call a Trigger service; DriverError when it fails or does not answer in time."""
        self._require_open(self._name)
        if self._services is None:
            raise NotConnected(f'{self._name} is not open')
        return self._services.trigger(name, timeout_s or self._timeout_s)
