"""Calls that share runs of one function."""

import threading

import pytest

from arena_robot.core.errors import DriverError
from arena_robot.core.joined_call import JoinedCall, done, then


class Work:
    """Counts its runs; each waits until it is released."""

    def __init__(self):
        self.runs, self.threads = 0, set()
        self.begun, self.released = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self):
        self.runs += 1
        self.threads.add(threading.get_ident())
        run = self.runs
        self.begun.release()
        assert self.released.acquire(timeout=10.0)
        return run


def test_calls_during_a_run_share_the_next_one():
    work = Work()
    call = JoinedCall('work', work)
    first = call.ask()
    assert work.begun.acquire(timeout=10.0)
    later = [call.ask() for _ in range(20)]
    assert not any(call.done() for call in (first, *later))
    work.released.release(2)
    assert first.result(10.0) == 1
    assert {call.result(10.0) for call in later} == {2}
    assert (work.runs, len(work.threads)) == (2, 1)


def test_a_call_after_the_last_run_runs_again():
    call = JoinedCall('count', iter(range(9)).__next__)
    assert [call.ask().result(10.0) for _ in range(3)] == [0, 1, 2]


def test_an_error_reaches_everybody_who_shares_the_run():
    work = Work()
    call = JoinedCall('work', lambda: work() and 1 / 0)
    futures = [call.ask()]
    assert work.begun.acquire(timeout=10.0)
    futures += [call.ask(), call.ask()]
    work.released.release(2)
    for future in futures:
        with pytest.raises(ZeroDivisionError):
            future.result(10.0)


def test_what_follows_is_begun_once_the_first_is_done_and_not_after_an_error():
    first, begun = done('first').__class__(), []
    whole = then(first, lambda: begun.append(1) or done('second'))
    assert not begun
    first.set_result(None)
    assert whole.result(0) == 'second'
    failed = first.__class__()
    failed.set_exception(DriverError('no answer'))
    with pytest.raises(DriverError, match='no answer'):
        then(failed, lambda: begun.append(2) or done('second')).result(0)
    with pytest.raises(DriverError, match='moves'):
        then(done(None), lambda: failed_with(DriverError('moves'))).result(0)
    assert begun == [1]


def failed_with(error):
    future = done(None).__class__()
    future.set_exception(error)
    return future


def test_where_no_thread_can_be_started_the_caller_runs_the_work(monkeypatch):
    call = JoinedCall('work', iter(range(9)).__next__)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, 'start', no_thread)
        assert [call.ask().result(0), call.ask().result(0)] == [0, 1]
    assert call.ask().result(10.0) == 2


def no_thread(thread):
    raise RuntimeError("can't start new thread")


def test_a_call_long_after_an_unanswered_run_began_begins_one_beside_it(monkeypatch):
    now = [0.0]
    monkeypatch.setattr('arena_robot.core.joined_call.time.monotonic', lambda: now[0])
    work = Work()
    call = JoinedCall('work', work, again_s=0.3, most=3)
    futures = []
    for at_s in (0.0, 0.4, 0.8):
        now[0] = at_s
        futures.append(call.ask())
        assert work.begun.acquire(timeout=10.0)
    now[0] = 1.2
    futures += [call.ask(), call.ask()]
    assert work.runs == 3, 'no more than three at a time'
    work.released.release(4)
    assert sorted(future.result(10.0) for future in futures) == [1, 2, 3, 4, 4]


def test_a_waiter_that_gave_up_does_not_end_the_next_calls():
    work = Work()
    call = JoinedCall('work', work)
    call.ask()
    assert work.begun.acquire(timeout=10.0)
    assert call.ask().cancel()
    work.released.release(3)
    assert work.begun.acquire(timeout=10.0)
    assert call.ask().result(10.0) == 3
