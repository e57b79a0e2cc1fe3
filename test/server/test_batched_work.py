"""What many calls need at once is done together, and one timer bounds all their waits."""

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from arena_robot.core.errors import DataError
from arena_robot.server.access.admission import MessageDeadlines
from arena_robot.server.relay.service import Relay
from arena_robot.server.threads import BatchedWork


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
