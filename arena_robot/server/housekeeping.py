"""Periodic work of the server: cancel silent sessions, check policies, grant credits."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Housekeeping:
    """Runs each chore periodically in one thread; a failing chore never stops the others."""

    def __init__(self, chores: dict[str, tuple[float, Callable[[], object]]],
                 failed: Callable[[str], None] = lambda name: None) -> None:
        self._chores = chores
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name='housekeeping', daemon=True)

    def open(self) -> None:
        """Start."""
        self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop after the running chore."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        left = dict.fromkeys(self._chores, 0.0)
        while not self._stop.is_set():
            for name, (period_s, chore) in self._chores.items():
                if left[name] <= 0.0 and not self._stop.is_set():
                    left[name] = period_s
                    self._do(name, chore)
            nap = max(0.01, min(left.values(), default=1.0))
            self._stop.wait(nap)
            left = {name: value - nap for name, value in left.items()}

    def _do(self, name: str, chore: Callable[[], object]) -> None:
        try:
            chore()
        except Exception:
            self._failed(name)
            log.exception('the chore %s failed; it is tried again later', name)
