"""Clock interface: all code that reads or waits for time gets a Clock as an argument."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time; stamps are integer nanoseconds since its epoch."""

    def now_ns(self) -> int:
        """Return the current time in nanoseconds."""

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once ``now_ns() >= stamp_ns``; at once when that is in the past."""


class SystemClock:
    """Wall time for stamps; waits are not affected by jumps of wall time."""

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        return time.time_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Sleep until wall time reaches ``stamp_ns`` (jumps during the wait are ignored)."""
        wait_s = (stamp_ns - time.time_ns()) * 1e-9
        if wait_s > 0.0:
            time.sleep(wait_s)


class ManualClock:
    """A clock that is advanced by its caller; for simulation and tests."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._moved = threading.Condition()

    def now_ns(self) -> int:
        """Return the time last set."""
        return self._now_ns

    def advance_ns(self, delta_ns: int) -> None:
        """Move forward by ``delta_ns`` (never backward) and wake the waiters."""
        if delta_ns < 0:
            raise ValueError(f'a clock moves forward only, got {delta_ns} ns')
        with self._moved:
            self._now_ns += delta_ns
            self._moved.notify_all()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Wait for another thread to advance the clock to ``stamp_ns``."""
        with self._moved:
            self._moved.wait_for(lambda: self._now_ns >= stamp_ns)
