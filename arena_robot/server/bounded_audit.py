"""The audit log with a bounded share for each caller; what is left out is counted."""

import threading

from arena_robot.server.base import TooManyCalls
from arena_robot.server.counters import Counters
from arena_robot.server.rate_limit import RateLimit
from arena_robot.server.store.audit import Audit

MOST_ACTORS = 10_000


class BoundedAudit:
    """
    Writes the lines of a caller up to its share.

    The next line that is written for the caller says before how many were left out.
    """

    def __init__(self, audit: Audit, share: RateLimit, counters: Counters) -> None:
        self._audit = audit
        self._share = share
        self._counters = counters
        self._lock = threading.Lock()
        self._omitted: dict[str, int] = {}

    def write(self, actor: str, call: str, target: str, outcome: str, detail: str = '',
              always: bool = False) -> None:
        """Append a line; ``always``: also beyond the share."""
        if not always and not self._has_share(actor):
            return
        with self._lock:
            omitted = self._omitted.pop(actor, 0)
        if omitted:
            self._audit.write(actor, 'omitted', '', 'omitted',
                              f'{omitted} lines of this caller were left out before this one')
        self._audit.write(actor, call, target, outcome, detail)
        self._counters.add('audit_lines')

    def _has_share(self, actor: str) -> bool:
        try:
            self._share.take(actor)
        except TooManyCalls:
            self._counters.add('audit_omitted')
            with self._lock:
                if actor in self._omitted or len(self._omitted) < MOST_ACTORS:
                    self._omitted[actor] = self._omitted.get(actor, 0) + 1
            return False
        return True
