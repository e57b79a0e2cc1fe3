"""Buckets of callers who call no more take no memory, and nobody gains calls by that."""

import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.server.access import rates
from arena_robot.server.access.rates import RateLimit
from arena_robot.server.base import TooManyCalls


def test_buckets_that_are_full_again_are_not_kept():
    clock = ManualClock()
    limit = RateLimit(clock, rate=1.0, burst=4)
    for k in range(1000):
        limit.take(f'session {k}')
        clock.advance_ns(10**9)
    assert len(limit._buckets) <= 3
    assert len(limit._to_tell) <= 3


def test_who_used_the_burst_waits_whoever_else_calls():
    clock = ManualClock()
    limit = RateLimit(clock, rate=1.0, burst=4)
    for _ in range(4):
        limit.take('busy')
    for k in range(100):
        limit.take(f'other {k}')
    with pytest.raises(TooManyCalls):
        limit.take('busy')
    clock.advance_ns(2 * 10**9)
    limit.take('busy')
    limit.take('busy')
    with pytest.raises(TooManyCalls):
        limit.take('busy')


def test_there_are_at_most_so_many_buckets(monkeypatch):
    monkeypatch.setattr(rates, 'BUCKETS', 10)
    limit = RateLimit(ManualClock(), rate=1.0, burst=4)
    for k in range(50):
        limit.take(f'address {k}')
    assert len(limit._buckets) == 10
