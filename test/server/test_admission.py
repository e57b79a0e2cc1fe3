"""The message of a call that was let in: it comes in time, or the call is over."""

import asyncio
import time
from types import SimpleNamespace

import grpc
import pytest

from arena_robot.core.errors import DataError
from arena_robot.server.access import admission
from arena_robot.server.access.admission import Admission


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
