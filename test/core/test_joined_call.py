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
    assert not any(one.done() for one in (first, *later))
    work.released.release(2)
    assert first.result(10.0) == 1
    assert {one.result(10.0) for one in later} == {2}
    assert (work.runs, len(work.threads)) == (2, 1)


def test_a_call_after_the_last_run_runs_again():
    call = JoinedCall('count', iter(range(9)).__next__)
    assert [call.ask().result(10.0) for _ in range(3)] == [0, 1, 2]


def test_an_error_reaches_everybody_who_shares_the_run():
    work = Work()
    call = JoinedCall('work', lambda: work() and 1 / 0)
    asked = [call.ask()]
    assert work.begun.acquire(timeout=10.0)
    asked += [call.ask(), call.ask()]
    work.released.release(2)
    for one in asked:
        with pytest.raises(ZeroDivisionError):
            one.result(10.0)


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
