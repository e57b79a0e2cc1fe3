import threading
import time

import pytest

from arena_robot.core.clock import ManualClock, SystemClock


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
