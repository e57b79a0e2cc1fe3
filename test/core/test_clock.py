import threading
import time

import pytest

from arena_robot.core.clock import (
    ManualClock,
    SystemClock,
    from_iso,
    to_iso,
    to_iso_each,
    to_table_time,
    to_utc,
)
from arena_robot.core.errors import DataError

STAMP_NS = 1_772_357_400_250_123_456


def test_the_system_clock_waits_until_the_stamp():
    clock = SystemClock()
    target = clock.now_ns() + 20_000_000
    clock.sleep_until_ns(target)
    assert clock.now_ns() >= target - 1_000_000
    started = time.monotonic()
    clock.sleep_until_ns(clock.now_ns() - 10**12)
    assert time.monotonic() - started < 5.0


def test_a_manual_clock_moves_only_forward_and_wakes_its_waiters():
    clock = ManualClock(5)
    woken = []
    waiter = threading.Thread(target=lambda: (clock.sleep_until_ns(100), woken.append(1)))
    waiter.start()
    clock.advance_ns(50)
    time.sleep(0.02)
    assert not woken
    clock.advance_ns(45)
    waiter.join(2.0)
    assert woken
    assert clock.now_ns() == 100
    with pytest.raises(ValueError, match='forward only'):
        clock.advance_ns(-1)


def test_a_time_is_written_in_utc_with_its_zone():
    assert to_iso(STAMP_NS) == '2026-03-01T09:30:00.250+00:00'
    assert to_iso(0) == '1970-01-01T00:00:00.000+00:00'


def test_many_times_are_written_as_one_is():
    stamps_ns = [0, 999_999, 1_000_000, *range(STAMP_NS, 4 * 10**18, 123_456_789_012_345)]
    assert to_iso_each(stamps_ns) == [to_iso(stamp_ns) for stamp_ns in stamps_ns]
    assert to_iso_each([]) == []


def test_tables_have_microseconds_and_no_zone():
    assert to_table_time(STAMP_NS) == '2026-03-01 09:30:00.250123'


@pytest.mark.parametrize('text', ['2026-03-01T09:30:00.250+00:00', '2026-03-01 09:30:00.250000',
                                  '2026-03-01T10:30:00.250+01:00', '2026-03-01T09:30:00.250',
                                  '2026-03-01T09:30:00.25Z', '2026-03-01T09:30:00.2500000Z'])
def test_a_time_without_a_zone_is_utc(text):
    assert from_iso(text) == 1_772_357_400_250_000_000


def test_microseconds_are_exact_both_ways():
    for stamp_ns in range(STAMP_NS, STAMP_NS + 5_000_000, 123_457):
        assert from_iso(to_table_time(stamp_ns)) == stamp_ns // 1000 * 1000
        assert to_utc(stamp_ns).microsecond == stamp_ns // 1000 % 1_000_000


@pytest.mark.parametrize('text', ['', 'yesterday', '2026-13-01'])
def test_other_text_is_refused(text):
    with pytest.raises(DataError, match='is not a time'):
        from_iso(text)
