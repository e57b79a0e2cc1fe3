"""Admission of calls by their headers; the message of a refused call is not read."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import grpc

from arena_robot.core.errors import ArenaError, DataError, Unauthorised
from arena_robot.server.access.call_guard import address_of, bearer, guarded, refuse
from arena_robot.server.access.rates import BUCKETS, AtOnce, RateLimit
from arena_robot.server.base import TooManyCalls
from arena_robot.server.counters import Counters
from arena_robot.server.store.accounts import digest

Handler = Any
MESSAGE_S = 30.0    # how long the only message of a call may take
PART_S = 60.0       # and the next part of an upload


@dataclass(frozen=True)
class TokenCheck:
    """
    What a token must be for the calls of one service.

    ``find`` raises Unauthorised or DataError when nobody has it, and is asked again after
    ``fresh_s``. ``limit`` bounds its calls, ``at_once`` those that run at the same time.
    """

    find: Callable[[str], Awaitable[object]]
    limit: RateLimit | None
    at_once: AtOnce
    fresh_s: float = math.inf


@dataclass(frozen=True)
class Strangers:
    """
    Calls without a valid token.

    ``lookups`` bounds the tokens of an address that are looked up because nobody has shown them
    before, ``wrong`` those that are wrong; ``note`` (method and error) writes them down, in
    ``threads``. ``open_calls`` bounds its calls of ``open_methods``, which need no token.
    """

    lookups: RateLimit
    wrong: RateLimit
    open_calls: RateLimit
    open_methods: frozenset[str]
    note: Callable[[str, ArenaError], None]
    threads: Executor


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """
    Looks up the token, takes from its limits, and only then lets a call's message be read.

    A call of ``open_methods`` is answered as if its message was empty; that is never read either.
    ``checks`` are by service. Each call is counted with its outcome and how long it took.
    """

    def __init__(self, checks: dict[str, TokenCheck], strangers: Strangers,
                 counters: Counters) -> None:
        self._checks = checks
        self._strangers = strangers
        self._counters = counters
        self._known: OrderedDict[str, float] = OrderedDict()
        self._deadlines = MessageDeadlines(MESSAGE_S)
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Handler]],
                                details: Any) -> Handler:
        """Return a handler that reads nothing before the call is let in."""
        method = details.method
        if method in self._handlers:
            return self._handlers[method]
        handler = self._handler(method, await continuation(details))
        if handler is not None:    # strangers may call methods without end that are not there
            self._handlers[method] = handler
        return handler

    def _handler(self, method: str, handler: Handler) -> Handler:
        if handler is None:
            return None
        if method in self._strangers.open_methods:
            return _without_reading(handler, self._open_call(method, handler))
        check = self._checks.get(method.split('/')[1])
        if check is None:
            return None
        if handler.unary_unary is not None:
            return _without_reading(handler, self._call(
                method, check, self._message, handler.unary_unary))
        if handler.stream_unary is not None:
            return handler._replace(stream_unary=self._call(
                method, check, _all_parts, handler.stream_unary))
        if handler.stream_stream is not None:
            return handler._replace(stream_stream=self._stream(method, check,
                                                               handler.stream_stream))
        return None

    def _open_call(self, method: str, handler: Handler) -> Callable[..., Any]:
        async def work(_: Any, context: Any) -> Any:
            self._strangers.open_calls.take(address_of(context))
            return await handler.unary_unary(handler.request_deserializer(b''), context)
        return self._counted(method, work)

    def _call(self, method: str, check: TokenCheck, read: Callable[[Any, Any], Awaitable[Any]],
              behaviour: Callable[..., Any]) -> Callable[..., Any]:
        async def work(requests: Any, context: Any) -> Any:
            name = await self._admitted(method, check, context)
            check.at_once.begin(name)
            try:
                return await behaviour(await read(requests, context), context)
            finally:
                check.at_once.end(name)
        return self._counted(method, work)

    def _stream(self, method: str, check: TokenCheck, behaviour: Callable[..., Any],
                ) -> Callable[..., Any]:
        async def call(requests: Any, context: Any) -> AsyncIterator[Any]:
            try:
                name = await self._admitted(method, check, context)
                check.at_once.begin(name)
            except ArenaError as error:
                await refuse(context, error)
            try:
                async for reply in behaviour(requests, context):
                    yield reply
            finally:
                check.at_once.end(name)
        return call

    async def _admitted(self, method: str, check: TokenCheck, context: Any) -> str:
        """
        Return the digest of the token; unknown tokens share buckets of their address.

        A token that was valid before is never refused for them: behind one address may be many
        callers.
        """
        token = bearer(context)
        name = digest(token)
        now_s = time.monotonic()
        looked_s = self._known.get(name)
        if looked_s is None:
            self._bound_lookups(address_of(context))
        if looked_s is None or now_s - looked_s > check.fresh_s:
            self._known.pop(name, None)
            await self._look_up(method, check, token, address_of(context))
            self._known[name] = now_s
            if len(self._known) > BUCKETS:
                self._known.popitem(last=False)
        try:
            if check.limit is not None:
                check.limit.take(name)
        except TooManyCalls:
            self._counters.add('refused', 'rate')
            raise
        return name

    def _bound_lookups(self, address: str) -> None:
        try:
            self._strangers.lookups.take(address)
        except TooManyCalls:
            self._counters.add('refused', 'unknown_token')
            raise

    async def _look_up(self, method: str, check: TokenCheck, token: str, address: str) -> None:
        try:
            await check.find(token)
        except (Unauthorised, DataError) as error:
            self._counters.add('refused', 'wrong_token')
            self._strangers.wrong.take(address)    # TooManyCalls, which is not written down
            refusal = Unauthorised(str(error))
            await asyncio.get_running_loop().run_in_executor(
                self._strangers.threads, self._strangers.note, method, refusal)
            raise refusal from error

    async def _message(self, _: Any, context: Any) -> Any:
        try:
            # Of an iterator that is not read to its end, the event loop makes one more task.
            message = await self._deadlines.wait(context.read())
        except asyncio.TimeoutError:
            raise DataError(f'the message of the call did not arrive within {MESSAGE_S:g} s'
                            ) from None
        if message is grpc.aio.EOF:
            raise DataError('the call came without its message')
        return message

    def _counted(self, method: str, work: Callable[[Any, Any], Awaitable[Any]],
                 ) -> Callable[..., Any]:
        """Return a call that does ``work``, is counted, and whose errors are statuses."""
        name = method.rpartition('/')[2]

        async def call(requests: Any, context: Any) -> Any:
            begin_s, outcome = time.perf_counter(), 'ok'
            try:
                return await guarded(context, lambda: work(requests, context))
            except BaseException:
                outcome = _outcome(context)
                raise
            finally:
                self._counters.add('calls', name, outcome)
                self._counters.took('call', name, seconds=time.perf_counter() - begin_s)
        return call


def _without_reading(handler: Handler, call: Callable[..., Any]) -> Handler:
    """Return a handler that gets its one request as a stream, so that it may leave it unread."""
    return handler._replace(request_streaming=True, unary_unary=None, stream_unary=call)


async def _all_parts(requests: Any, _: Any) -> AsyncIterator[Any]:
    return _parts(requests)


async def _parts(requests: Any) -> AsyncIterator[Any]:
    parts = aiter(requests)
    while True:
        try:
            yield await asyncio.wait_for(anext(parts), PART_S)
        except StopAsyncIteration:
            return
        except asyncio.TimeoutError:
            raise DataError(f'no part of the file arrived for {PART_S:g} s; go on where it ended'
                            ) from None


def _outcome(context: Any) -> str:
    code = context.code()
    status = next((known for known in grpc.StatusCode if code in (known, known.value[0])), None)
    return status.name.lower() if status else 'cancelled'


class MessageDeadlines:
    """
    Cuts off tasks that wait longer than ``seconds``; for one event loop.

    A timer for each call took longer than all else that is done to let it in.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_s: dict[asyncio.Task[Any], float] = {}    # the first comes first
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, work: Awaitable[Any]) -> Any:
        """Return what ``work`` returns; asyncio.TimeoutError when that takes too long."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is None:
            raise RuntimeError('only a task can wait')
        self._due_s[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._cut)
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._due_s:
                raise asyncio.TimeoutError from None
            raise
        finally:
            self._due_s.pop(task, None)

    def _cut(self) -> None:
        """Cancel those whose time is over, and come back for the next one."""
        loop, self._timer = asyncio.get_running_loop(), None
        for task, due_s in list(self._due_s.items()):
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self._cut)
                return
            del self._due_s[task]
            task.cancel()
