"""The rates that a server bounds, and how several servers of one database count them together."""

import logging
from collections import defaultdict
from dataclasses import dataclass

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ServerError
from arena_robot.server.config import ServerLimits
from arena_robot.server.housekeeping import Housekeeping
from arena_robot.server.rate_limit import RateLimit
from arena_robot.server.store.rate_counts import CallerKey, CountKey, RateCounts

log = logging.getLogger(__name__)

EXCHANGE_S = 1.0
MOST_TOLD = 200     # callers of one rate that are told in one exchange
MOST_ROWS = 5000    # with as many in the database, each server counts for itself


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
            found, period = self._counts.exchange(taken)
        except ServerError as error:
            if self._works:
                log.warning('rates are counted by this server alone, until the database answers: '
                            '%s', error)
            self._works = False
            return
        if not self._works:
            log.info('rates are counted together with other servers again')
        self._works = True
        self._charge(found, taken, period)

    def _charge(self, found: dict[CountKey, int], taken: dict[CallerKey, int],
                period: int) -> None:
        elsewhere: dict[str, dict[str, int]] = defaultdict(dict)
        for (kind, caller, its), count in found.items():
            own = taken.get((kind, caller), 0) if its == period else 0
            more = count - self._seen.get((kind, caller, its), 0) - own
            if more > 0:
                counts = elsewhere[kind]
                counts[caller] = counts.get(caller, 0) + more
        self._seen = found
        for kind, counts in elsewhere.items():
            if kind in self._limits:    # a newer server may count more kinds
                self._limits[kind].charge(counts)
