"""Times as ISO 8601 text: integer nanoseconds since the Unix epoch to UTC and back."""

import datetime
import re
from collections.abc import Sequence

import numpy as np

from arena_robot.core.errors import DataError

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


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
        found = datetime.datetime.fromisoformat(_as_python_310(text))
    except ValueError as error:
        raise DataError(f'{text!r:.40} is not a time such as 2026-03-01T09:30:00+00:00') from error
    since = found.replace(tzinfo=found.tzinfo or datetime.timezone.utc) - EPOCH
    return since // datetime.timedelta(microseconds=1) * 1000


def _as_python_310(text: str) -> str:
    """Return a time as Python 3.10 reads it: a zone in numbers, a fraction of six digits."""
    text = re.sub(r'[Zz]$', '+00:00', text)
    return re.sub(r'\.(\d+)', lambda found: f'.{found[1][:6]:0<6}', text, count=1)
