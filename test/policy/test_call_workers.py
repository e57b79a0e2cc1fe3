"""Few threads for short calls; more when calls are long; nothing is left waiting."""

import threading
import time

import pytest
from waiting import until

from arena_robot.policy.grpc import server
from arena_robot.policy.grpc.server import CallWorkers


@pytest.fixture
def patient(monkeypatch):
    """No third thread begins within a test."""
    monkeypatch.setattr(server, 'PATIENCE_S', 60.0)


@pytest.fixture
def made():
    """A function that makes workers, which are shut down at the end."""
    every = []

    def make(most=16):
        every.append(CallWorkers(most))
        return every[-1]
    yield make
    for workers in every:
        workers.shutdown()


class Counted:
    """Calls that count how many of them run at once."""

    def __init__(self, lasts_s=0.0):
        self.lock, self.lasts_s = threading.Lock(), lasts_s
        self.now = self.most = 0

    def __call__(self, value):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.lasts_s)
        with self.lock:
            self.now -= 1
        return value


def test_short_calls_of_many_callers_have_two_threads(patient, made):
    pool, call = made(), Counted(0.001)
    results = [[] for _ in range(8)]

    def caller(k):
        for n in range(25):
            results[k].append(pool.submit(call, (k, n)).result(20.0))

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert results == [[(k, n) for n in range(25)] for k in range(8)]
    assert call.most == 2


def test_calls_that_are_held_up_keep_no_other_waiting(made):
    pool, go_on = made(), threading.Event()
    held = [pool.submit(go_on.wait, 20.0) for _ in range(7)]
    assert pool.submit(lambda: 'health').result(10.0) == 'health'
    assert not any(future.done() for future in held)
    go_on.set()
    assert [future.result(10.0) for future in held] == [True] * 7


def test_after_long_calls_short_ones_have_two_threads_again(made, monkeypatch):
    pool, go_on, call = made(), threading.Event(), Counted(0.001)
    held = [pool.submit(go_on.wait, 20.0) for _ in range(6)]
    pool.submit(lambda: None).result(10.0)
    monkeypatch.setattr(server, 'PATIENCE_S', 60.0)
    go_on.set()
    assert [future.result(10.0) for future in held] == [True] * 6
    short = [pool.submit(call, n) for n in range(50)]
    assert [future.result(10.0) for future in short] == list(range(50))
    assert call.most <= 2


@pytest.mark.parametrize('most', [1, 2, 4])
def test_there_are_at_most_as_many_threads_as_were_allowed(made, most):
    pool, call = made(most), Counted(0.05)
    assert [*pool.map(call, range(12), timeout=20.0)] == [*range(12)]
    assert call.most <= most


def test_an_error_goes_to_who_asked_and_the_thread_goes_on(patient, made):
    pool = made(1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(10.0)
    assert pool.submit(lambda: 'next').result(10.0) == 'next'


def test_what_waits_at_the_end_is_cancelled_and_no_thread_stays(patient, made):
    before = set(threading.enumerate())
    pool, go_on, begun = made(1), threading.Event(), threading.Event()
    running = pool.submit(lambda: (begun.set(), go_on.wait(20.0))[1])
    waiting = pool.submit(lambda: 'never')
    assert begun.wait(10.0)
    pool.shutdown()
    pool.shutdown()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match='shut down'):
        pool.submit(lambda: None)
    go_on.set()
    assert running.result(10.0) is True
    until(lambda: not set(threading.enumerate()) - before, 'the end of every thread')
