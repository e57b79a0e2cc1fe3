"""How often a caller may call: a bucket each, and how many calls run at once."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator

from arena_robot.core.clock import Clock
from arena_robot.server.base import TooManyCalls

BUCKETS = 10_000


class RateLimit:
    """A token bucket per caller: ``rate`` calls a second on average, ``burst`` at once."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a call; TooManyCalls when the caller's bucket is empty."""
        with self._lock:
            level = self._level(caller)
            self._buckets[caller] = (level - 1.0 if level >= 1.0 else level,
                                     self._clock.steady_ns())
            self._buckets.move_to_end(caller)
            if len(self._buckets) > BUCKETS:
                self._buckets.popitem(last=False)
        self._refuse(level)

    def _level(self, caller: str) -> float:
        now = self._clock.steady_ns()
        level, then = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, level + max(0, now - then) * 1e-9 * self._rate)

    def _refuse(self, level: float) -> None:
        if level < 1.0:
            raise TooManyCalls(f'more than {self._rate:g} calls a second; slow down and repeat')


class AtOnce:
    """Bounds how many calls of one caller run at the same time; for one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    @contextlib.contextmanager
    def slot(self, caller: str) -> Iterator[None]:
        """Hold a place while a call runs; TooManyCalls when all are taken."""
        count = self._running.get(caller, 0)
        if count >= self._most:
            raise TooManyCalls(f'{count} calls of this token are running; wait for one to end')
        self._running[caller] = count + 1
        try:
            yield
        finally:
            left = self._running[caller] - 1
            if left:
                self._running[caller] = left
            else:
                del self._running[caller]
