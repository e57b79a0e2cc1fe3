"""Calls let in: their message comes in time or they are over; calls at once share their work."""

import asyncio
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import grpc
import pytest

from arena_robot.core.errors import DataError
from arena_robot.server.access import admission
from arena_robot.server.access.admission import Admission, MessageDeadlines
from arena_robot.server.relay.service import Relay
from arena_robot.server.threads import BatchedWork


class Call:
    """A call whose message arrives after some seconds; '' stands for none."""

    def __init__(self, seconds, message=''):
        self._seconds, self._message = seconds, message

    async def read(self):
        await asyncio.sleep(self._seconds)
        return self._message or grpc.aio.EOF


def message(call):
    return Admission({}, SimpleNamespace(), SimpleNamespace())._message(None, call)


def test_a_message_that_comes_is_returned():
    assert asyncio.run(message(Call(0.01, 'here'))) == 'here'


def test_a_call_without_its_message_is_over(monkeypatch):
    monkeypatch.setattr(admission, 'MESSAGE_S', 0.05)
    begun_s = time.monotonic()
    with pytest.raises(DataError, match=r'did not arrive within 0\.05 s'):
        asyncio.run(message(Call(5.0, 'late')))
    assert time.monotonic() - begun_s < 2.0
    with pytest.raises(DataError, match='without its message'):
        asyncio.run(message(Call(0.0)))


def test_a_call_that_the_caller_gives_up_is_cancelled_not_late():
    async def given_up():
        call = asyncio.ensure_future(message(Call(5.0, 'late')))
        await asyncio.sleep(0.02)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(given_up())


def test_the_time_of_a_message_that_came_does_not_end_the_call(monkeypatch):
    monkeypatch.setattr(admission, 'MESSAGE_S', 0.05)

    async def call():
        await message(Call(0.0, 'here'))
        await asyncio.sleep(0.2)
        return 'answered'

    assert asyncio.run(call()) == 'answered'


def test_handlers_are_made_once_and_unknown_methods_are_not_remembered():
    made = []

    async def continuation(details):
        made.append(details.method)
        return None if details.method.startswith('/no') else SimpleNamespace(
            unary_unary=None, stream_unary=None, stream_stream=lambda requests, context: None,
            _replace=lambda **changed: SimpleNamespace(**changed))

    let_in = Admission({'arena': None, 'policy': SimpleNamespace()},
                       SimpleNamespace(open_methods=()), SimpleNamespace())

    async def handlers(*methods):
        return [await let_in.intercept_service(continuation, SimpleNamespace(method=method))
                for method in methods]

    first, second, *none = asyncio.run(handlers(
        '/policy/Stream', '/policy/Stream', '/no/0', '/no/1', '/arena/Stream', '/no/0'))
    assert first is second
    assert none == [None] * 4
    assert made == ['/policy/Stream', '/no/0', '/no/1', '/arena/Stream', '/no/0']
    assert set(let_in._handlers) == {'/policy/Stream'}


def in_threads(work, ask):
    async def run():
        with ThreadPoolExecutor(2) as threads:
            batches = BatchedWork(work, threads)
            try:
                return await ask(batches)
            finally:
                batches.close()
    return asyncio.run(run())


def test_what_is_asked_meanwhile_is_done_together():
    seen, go_on = [], threading.Event()

    def work(questions):
        seen.append(list(questions))
        go_on.wait(5.0)
        return [DataError(f'no {q}') if q == 3 else q * q for q in questions]

    async def ask(batches):
        first = asyncio.ensure_future(batches.ask(1))
        while not seen:
            await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(batches.ask(k)) for k in (2, 3, 4)]
        await asyncio.sleep(0)
        others[0].cancel()    # its station gave up
        go_on.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    first, second, third, fourth = in_threads(work, ask)
    assert seen == [[1], [2, 3, 4]]
    assert (first, fourth) == (1, 16)
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, DataError)


def test_an_error_of_the_work_is_told_to_all_and_the_next_is_done():
    fails = [True]

    def work(questions):
        if fails:
            fails.pop()
            raise OSError('the database is gone')
        return list(questions)

    async def ask(batches):
        lost = await asyncio.gather(batches.ask('a'), batches.ask('b'), return_exceptions=True)
        return lost, await batches.ask('c')

    lost, answer = in_threads(work, ask)
    assert [str(error) for error in lost] == ['the database is gone'] * 2
    assert answer == 'c'


def test_who_waits_too_long_is_cut_off_and_nobody_else():
    async def run():
        deadlines = MessageDeadlines(0.2)
        never = asyncio.get_running_loop().create_future()
        slow = [asyncio.ensure_future(deadlines.wait(asyncio.shield(never))) for _ in range(2)]
        assert await deadlines.wait(asyncio.sleep(0.01, 'in time')) == 'in time'
        await asyncio.sleep(0.1)
        later = asyncio.ensure_future(deadlines.wait(asyncio.sleep(0.15, 'later')))
        given_up = asyncio.ensure_future(deadlines.wait(asyncio.shield(never)))
        await asyncio.sleep(0.01)
        given_up.cancel()
        for task in slow:
            with pytest.raises(asyncio.TimeoutError):
                await task
        assert await later == 'later'
        with pytest.raises(asyncio.CancelledError):
            await given_up
        with pytest.raises(asyncio.TimeoutError):    # the timer is set again
            await deadlines.wait(asyncio.shield(never))

    asyncio.run(asyncio.wait_for(run(), 5.0))


def test_a_rollout_that_could_not_be_counted_is_counted_at_the_next_query():
    asked = []

    async def ask(session_id):
        asked.append(session_id)
        if len(asked) == 1:
            raise OSError('the database is gone')

    async def queries():
        relay, route = Relay.__new__(Relay), SimpleNamespace(session_id='s', key=('s', 'A'))
        relay._counted, relay._rollouts = OrderedDict(), SimpleNamespace(ask=ask)
        with pytest.raises(OSError, match='gone'):
            await relay._count(route)
        for _ in range(3):
            await relay._count(route)

    asyncio.run(queries())
    assert asked == ['s', 's']
