"""
How often a caller may call: a bucket each, and how many calls run at once.

Several servers of one database count them together.
"""

import hashlib
import logging
import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ServerError
from arena_robot.server.base import TooManyCalls
from arena_robot.server.config import ServerLimits
from arena_robot.server.store.audit import CallerKey, CountKey, RateCounts
from arena_robot.server.threads import Housekeeping

BUCKETS = 10_000    # callers of one rate in memory, a few MB
TOLD_FROM = 0.25    # of the burst: what a caller took in all is told to other servers from here on
log = logging.getLogger(__name__)
EXCHANGE_S = 1.0    # for so long a caller has its burst at each server
MOST_TOLD = 200     # callers of one rate that are told in one exchange
MOST_ROWS = 5000    # with as many in the database, each server counts for itself


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
        taken: dict[str, int] = {}
        with self._lock:
            for key in list(self._to_tell)[:most]:
                del self._to_tell[key]
                bucket = self._filled(key)
                if bucket.untold:
                    taken[key] = bucket.untold
                bucket.untold = 0
        return taken

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


@dataclass(frozen=True)
class Rates:
    """
    The buckets of one server.

    By token: ``calls``, and ``relay_calls`` of a slot. By address: ``unknown_tokens``,
    ``wrong_tokens``, ``open_calls``. By account or station: ``audit_lines``.
    """

    calls: RateLimit
    relay_calls: RateLimit
    unknown_tokens: RateLimit
    wrong_tokens: RateLimit
    open_calls: RateLimit
    audit_lines: RateLimit


def rates_of(limits: ServerLimits, clock: Clock) -> Rates:
    """Return full buckets of the configured rates."""
    return Rates(
        RateLimit(clock, limits.calls_per_s, limits.burst),
        RateLimit(clock, limits.relay_calls_per_s, limits.burst),
        RateLimit(clock, limits.unknown_tokens_per_s, limits.burst),
        RateLimit(clock, limits.wrong_tokens_per_s, limits.wrong_tokens_burst),
        RateLimit(clock, limits.open_calls_per_s, limits.burst),
        RateLimit(clock, limits.audit_lines_per_s, limits.audit_burst))


class SharedRates:
    """
    Takes from the buckets of this server what callers took at the others, once a second.

    A call waits for none of it: its own server's bucket decides. While the database does not
    answer, each server counts for itself, and what it counted then is not told later.
    """

    def __init__(self, rates: Rates, counts: RateCounts) -> None:
        self._limits: dict[str, RateLimit] = dict(vars(rates))
        self._counts = counts
        self._seen: dict[CountKey, int] = {}
        self._works = True
        self._loop = Housekeeping({'shared rates': (EXCHANGE_S, self.step)})

    def open(self) -> None:
        """Start the exchange, where several servers can be."""
        if self._counts.shared:
            self._loop.open()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop it; can be called twice, and without ``open``."""
        self._loop.close(timeout_s)

    def clean(self) -> None:
        """Remove old counts from the database."""
        if self._counts.shared:
            self._counts.clean()

    def step(self) -> None:
        """Exchange once; a database that fails is a line in the log."""
        taken = {(kind, caller): count for kind, limit in self._limits.items()
                 for caller, count in limit.take_untold(MOST_TOLD).items()}
        if len(self._seen) >= MOST_ROWS:
            taken = {}
        try:
            counted, period = self._counts.exchange(taken)
        except ServerError as error:
            if self._works:
                log.warning('rates are counted by this server alone, until the database answers: '
                            '%s', error)
            self._works = False
            return
        if not self._works:
            log.info('rates are counted together with other servers again')
        self._works = True
        self._charge(counted, taken, period)

    def _charge(self, counted: dict[CountKey, int], taken: dict[CallerKey, int],
                period: int) -> None:
        elsewhere: dict[str, dict[str, int]] = defaultdict(dict)
        for (kind, caller, its), count in counted.items():
            own = taken.get((kind, caller), 0) if its == period else 0
            more = count - self._seen.get((kind, caller, its), 0) - own
            if more > 0:
                counts = elsewhere[kind]
                counts[caller] = counts.get(caller, 0) + more
        self._seen = counted
        for kind, counts in elsewhere.items():
            if kind in self._limits:    # a newer server may count more kinds
                self._limits[kind].charge(counts)
