"""
Clock interface: all code that reads or waits for time gets a Clock as an argument.

Two times: ``now_ns`` is a label for records and is compared with the stamps of other processes; it
can jump when somebody sets the clock. ``steady_ns`` never jumps; pacing and time-outs use it.
As text a time is ISO 8601 in UTC, of integer nanoseconds since the Unix epoch.
"""

import datetime
import re
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from arena_robot.core.errors import DataError

JUMP_S = 0.5    # a time server slews the clock by less between two looks
DAY_S, DAY_NS = 86_400.0, 86_400 * 10**9

# How often a loop looks at what cannot wake it: soon enough for a person, and no load.
LOOK_S = 0.02
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Clock(Protocol):
    """A source of time; stamps are integer nanoseconds since its epoch."""

    def now_ns(self) -> int:
        """Return the current time in nanoseconds; it jumps when the clock is set."""

    def steady_ns(self) -> int:
        """Return nanoseconds since some start; they never jump."""

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once ``now_ns() >= stamp_ns``; at once when that is in the past."""

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Return once ``steady_ns() >= stamp_ns``; at once when that is in the past."""


class SystemClock:
    """Wall time for stamps; waits are not affected by jumps of wall time."""

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Sleep until wall time reaches ``stamp_ns`` (jumps during the wait are ignored)."""
        self.sleep_until_steady_ns(time.monotonic_ns() + stamp_ns - time.time_ns())

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Sleep until monotonic time reaches ``stamp_ns``."""
        wait_s = (stamp_ns - time.monotonic_ns()) * 1e-9
        if wait_s > 0.0:
            time.sleep(wait_s)


class ManualClock:
    """
    A clock that its caller advances; for simulation and tests.

    Stamps and steady time are the same.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._moved = threading.Condition()

    def now_ns(self) -> int:
        """Return the time last set."""
        return self._now_ns

    def steady_ns(self) -> int:
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

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Wait for another thread to advance the clock to ``stamp_ns``."""
        self.sleep_until_ns(stamp_ns)


class JumpDetector:
    """Finds jumps of wall time by comparing it with the steady time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ns = clock.now_ns() - clock.steady_ns()

    def jump_s(self) -> float:
        """Return by how much the clock was set since the last call; 0 below half a second."""
        offset_ns = self._clock.now_ns() - self._clock.steady_ns()
        jump_s = (offset_ns - self._offset_ns) * 1e-9
        if abs(jump_s) < JUMP_S:
            return 0.0
        self._offset_ns = offset_ns
        return jump_s


def to_utc(stamp_ns: int) -> datetime.datetime:
    """Return the time in UTC, to the microsecond."""
    return EPOCH + datetime.timedelta(microseconds=stamp_ns // 1000)


def to_iso(stamp_ns: int) -> str:
    """Return ``2026-03-01T09:30:00.250+00:00``."""
    return to_utc(stamp_ns).isoformat(timespec='milliseconds')


def to_iso_each(stamps_ns: Sequence[int]) -> list[str]:
    """Return :func:`to_iso` of many times, in a third of the time."""
    times = np.array(stamps_ns, dtype='datetime64[ns]')
    return [f'{text}+00:00' for text in np.datetime_as_string(times, unit='ms').tolist()]


def to_table_time(stamp_ns: int) -> str:
    """Return ``2026-03-01 09:30:00.250000``, as in RoboArena's tables: in UTC, without a zone."""
    return to_utc(stamp_ns).replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')


def from_iso(text: str) -> int:
    """Return the nanoseconds of a time; one without a zone is UTC. Raises DataError."""
    try:
        moment = datetime.datetime.fromisoformat(_as_python_310(text))
    except ValueError as error:
        raise DataError(f'{text!r:.40} is not a time such as 2026-03-01T09:30:00+00:00') from error
    since = moment.replace(tzinfo=moment.tzinfo or datetime.timezone.utc) - EPOCH
    return since // datetime.timedelta(microseconds=1) * 1000


def _as_python_310(text: str) -> str:
    """Return a time as Python 3.10 reads it: a zone in numbers, a fraction of six digits."""
    text = re.sub(r'[Zz]$', '+00:00', text)
    return re.sub(r'\.(\d+)', lambda fraction: f'.{fraction[1][:6]:0<6}', text, count=1)
