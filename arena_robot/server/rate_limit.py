"""How often a caller may call: a bucket each, and how many calls run at once."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from arena_robot.core.clock import Clock
from arena_robot.server.base import TooManyCalls

BUCKETS = 10_000
TOLD_FROM = 0.25    # of the burst: what a caller took in all is told to other servers from here on


@dataclass
class _Bucket:
    """What is left of a caller's burst, when that was so, and what was taken and not told yet."""

    level: float
    at_ns: int
    untold: int = 0


class RateLimit:
    """
    A token bucket per caller: ``rate`` calls a second on average, ``burst`` at once.

    Callers are kept by a hash, which ``take_untold`` and ``charge`` share with other servers.
    """

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._to_tell: dict[str, None] = {}
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a call; TooManyCalls when the caller's bucket is empty."""
        key = _key(caller)
        with self._lock:
            bucket = self._filled(key)
            allowed = bucket.level >= 1.0
            if allowed:
                bucket.level -= 1.0
                bucket.untold += 1
                if bucket.level <= self._burst * (1.0 - TOLD_FROM):
                    self._to_tell[key] = None
        if not allowed:
            raise TooManyCalls(f'more than {self._rate:g} calls a second; slow down and repeat')

    def take_untold(self, most: int) -> dict[str, int]:
        """
        Return what callers took here and no other server was told, of ``most`` callers at most.

        Callers who used little of their burst are left out until they used more; what their
        bucket has got back meanwhile is not told.
        """
        told: dict[str, int] = {}
        with self._lock:
            for key in list(self._to_tell)[:most]:
                del self._to_tell[key]
                bucket = self._filled(key)
                if bucket.untold:
                    told[key] = bucket.untold
                bucket.untold = 0
        return told

    def charge(self, counts: Mapping[str, int]) -> None:
        """Take what other servers counted; a caller owes at most one burst."""
        with self._lock:
            for key, count in counts.items():
                bucket = self._filled(key)
                bucket.level = max(-self._burst, bucket.level - count)

    def _filled(self, key: str) -> _Bucket:
        """Return the bucket of a caller as it is now; for a new one others go."""
        now = self._clock.steady_ns()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._drop_oldest(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        self._fill(bucket, now)
        self._buckets.move_to_end(key)
        return bucket

    def _fill(self, bucket: _Bucket, now: int) -> None:
        bucket.level = min(self._burst,
                           bucket.level + max(0, now - bucket.at_ns) * 1e-9 * self._rate)
        bucket.untold = min(bucket.untold, math.ceil(self._burst - bucket.level))
        bucket.at_ns = now

    def _drop_oldest(self, now: int) -> None:
        """Drop the two used longest ago if they are full; at BUCKETS one goes in any case."""
        for _ in range(2):
            key = next(iter(self._buckets), '')
            if not key:
                return
            self._fill(self._buckets[key], now)
            if self._buckets[key].level < self._burst and len(self._buckets) < BUCKETS:
                return
            del self._buckets[key]
            self._to_tell.pop(key, None)


class AtOnce:
    """Bounds how many calls of one caller run at the same time; for one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    def begin(self, caller: str) -> None:
        """Take a place, until ``end``; TooManyCalls when all are taken."""
        count = self._running.get(caller, 0)
        if count >= self._most:
            raise TooManyCalls(f'{count} calls of this token are running; wait for one to end')
        self._running[caller] = count + 1

    def end(self, caller: str) -> None:
        """Give a place back."""
        left = self._running[caller] - 1
        if left:
            self._running[caller] = left
        else:
            del self._running[caller]


@lru_cache(BUCKETS)
def _key(caller: str) -> str:
    return hashlib.sha256(caller.encode('utf-8', 'surrogateescape')).hexdigest()[:32]
