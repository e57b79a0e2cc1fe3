"""
Around every call: the caller's roles, the audit line, the status of an error.

A caller has a bounded share of the audit log, and what is left out is counted. A request that is
no message is refused with a sentence.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar

import grpc

from arena_robot.core.errors import ArenaError, DataError, ServerError, Unauthorised
from arena_robot.server.access.rates import RateLimit
from arena_robot.server.base import Caller, Role, TooManyCalls
from arena_robot.server.counters import Counters
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.audit import Audit
from arena_robot.server.wire import headers_of, status_of

log = logging.getLogger(__name__)
T = TypeVar('T')

_STATIONS = frozenset({Role.STATION})
MOST_ACTORS = 10_000    # whose omitted lines are counted: strangers may invent any number
Handler = Any


class BoundedAudit:
    """
    Writes the lines of a caller up to its share.

    The next line that is written for the caller says before how many were left out.
    """

    def __init__(self, audit: Audit, share: RateLimit, counters: Counters) -> None:
        self._audit = audit
        self._share = share
        self._counters = counters
        self._lock = threading.Lock()
        self._omitted: dict[str, int] = {}

    def write(self, actor: str, call: str, target: str, outcome: str, detail: str = '',
              always: bool = False) -> None:
        """Append a line; ``always``: also beyond the share."""
        if not always and not self._has_share(actor):
            return
        with self._lock:
            omitted = self._omitted.pop(actor, 0)
        if omitted:
            self._audit.write(actor, 'omitted', '', 'omitted',
                              f'{omitted} lines of this caller were left out before this one')
        self._audit.write(actor, call, target, outcome, detail)
        self._counters.add('audit_lines')

    def _has_share(self, actor: str) -> bool:
        try:
            self._share.take(actor)
        except TooManyCalls:
            self._counters.add('audit_omitted')
            with self._lock:
                if actor in self._omitted or len(self._omitted) < MOST_ACTORS:
                    self._omitted[actor] = self._omitted.get(actor, 0) + 1
            return False
        return True


class CallGuard:
    """Runs a call that was let in, in a thread: checks its roles, writes the audit line."""

    def __init__(self, accounts: Accounts, audit: BoundedAudit, people: Executor,
                 stations: Executor) -> None:
        self._accounts = accounts
        self._audit = audit
        self._people = people
        self._stations = stations

    async def call(self, context: Any, name: str, target: str, work: Callable[[Caller], T],
                   roles: frozenset[Role] | None = None, audited: bool = True) -> T:
        """
        Return ``work(caller)``; errors end the call with a status, a code and a sentence.

        ``roles`` are those that may call (None: any valid token); ``target`` goes to the audit.
        """
        def run() -> T:
            actor, maintains = 'unknown', False
            try:
                # Read anew: the token may have been revoked since it was let in.
                caller = self._accounts.caller(bearer(context))
                actor, maintains = caller.actor, Role.MAINTAINER in caller.roles
                if roles is not None and not roles & caller.roles:
                    needed = ' or '.join(sorted(r.value for r in roles))
                    raise Unauthorised(f'{name} is for {needed}; this token is not')
                result = work(caller)
            except ArenaError as error:
                self._audit.write(actor, name, target, error.code, str(error))
                raise
            if audited:
                self._audit.write(actor, name, target, 'ok', always=maintains)
            return result

        return await self.work(context, run, self._stations if roles == _STATIONS else
                               self._people)

    async def work(self, context: Any, work: Callable[[], T],
                   threads: Executor | None = None) -> T:
        """Return ``work()``, run in a thread (default: of the stations); errors end the call."""
        return await guarded(context, lambda: asyncio.get_running_loop().run_in_executor(
            threads or self._stations, work))


async def guarded(context: Any, work: Callable[[], Awaitable[T]]) -> T:
    """Return what ``work`` returns; an error becomes the call's status, and no traceback."""
    try:
        return await work()
    except ArenaError as error:
        await refuse(context, error)
    except asyncio.CancelledError:
        raise
    except grpc.aio.AbortError:
        raise
    except Exception:
        log.exception('a call failed')
        await refuse(context, ServerError('the server failed; its log says why'))


async def refuse(context: Any, error: ArenaError) -> NoReturn:
    """End a call with the status, code and text of ``error``."""
    await context.abort(status_of(error), str(error), headers_of(error))
    raise AssertionError('abort always raises')


def bearer(context: Any) -> str:
    """Return the token of a call; empty when it carries none."""
    for key, value in context.invocation_metadata() or ():
        if key == 'authorization' and value.startswith('Bearer '):
            return str(value[len('Bearer '):])
    return ''


def address_of(context: Any) -> str:
    """Return the address of a caller, without its port."""
    return str(context.peer()).rsplit(':', 1)[0]


class _Malformed:
    """Stands for bytes that could not be read as the message of a call."""


class MalformedRequests(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Ends calls whose bytes are not the call's message with INVALID_ARGUMENT."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Handler]],
                                details: Any) -> Handler:
        """Return the call's handler with a reader of requests that never raises."""
        handler = await continuation(details)
        if handler is None or handler.request_deserializer is None:
            return handler
        read = handler.request_deserializer
        changed: dict[str, Callable[..., Any]] = {
            'request_deserializer': lambda data: _read(read, data)}
        if handler.unary_unary is not None:
            changed['unary_unary'] = _one(handler.unary_unary)
        elif handler.stream_unary is not None:
            changed['stream_unary'] = _many(handler.stream_unary)
        elif handler.stream_stream is not None:
            changed['stream_stream'] = _many_to_many(handler.stream_stream)
        else:
            return handler
        return handler._replace(**changed)


def _read(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except Exception:  # protobuf's own error, and whatever else odd bytes lead to
        return _Malformed()


async def _refuse(context: Any) -> None:
    await refuse(context, DataError('the request is not the message of this call'))


def _one(call: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def checked(request: Any, context: Any) -> Any:
        if isinstance(request, _Malformed):
            await _refuse(context)
        return await call(request, context)
    return checked


async def _checked(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, _Malformed):
            await _refuse(context)
        yield request


def _many(call: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def checked(requests: Any, context: Any) -> Any:
        return await call(_checked(requests, context), context)
    return checked


def _many_to_many(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def checked(requests: Any, context: Any) -> AsyncIterator[Any]:
        async for reply in call(_checked(requests, context), context):
            yield reply
    return checked
