"""What happens around every call: token, rate limit, audit line, status of an error."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar

import grpc

from arena_robot.core.clock import Clock
from arena_robot.core.errors import (
    ArenaError,
    ServerError,
    Unauthorised,
)
from arena_robot.server.base import Caller, Role, TooManyCalls
from arena_robot.server.grpc_errors import headers_of, status_of
from arena_robot.server.store.accounts import Accounts, digest
from arena_robot.server.store.audit import Audit

log = logging.getLogger(__name__)
T = TypeVar('T')

_BUCKETS = 10_000
_STATIONS = frozenset({Role.STATION})


class RateLimit:
    """A token bucket per caller: ``rate`` calls a second on average, ``burst`` at once."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a call; TooManyCalls when the caller's bucket is empty."""
        with self._lock:
            level = self._level(caller)
            self._buckets[caller] = (level - 1.0 if level >= 1.0 else level,
                                     self._clock.steady_ns())
            self._buckets.move_to_end(caller)
            if len(self._buckets) > _BUCKETS:
                self._buckets.popitem(last=False)
        self._refuse(level)

    def _level(self, caller: str) -> float:
        now = self._clock.steady_ns()
        level, then = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, level + max(0, now - then) * 1e-9 * self._rate)

    def _refuse(self, level: float) -> None:
        if level < 1.0:
            raise TooManyCalls(f'more than {self._rate:g} calls a second; slow down and repeat')


class CallGuard:
    """Runs a call in a thread: checks token, roles and rate, writes the audit line."""

    def __init__(self, accounts: Accounts, audit: Audit, limit: RateLimit, people: Executor,
                 stations: Executor, wrong: RateLimit) -> None:
        self._accounts = accounts
        self._audit = audit
        self._limit = limit
        self._people = people
        self._stations = stations
        self._wrong = wrong
        self._known: OrderedDict[str, None] = OrderedDict()
        self.refused = 0

    async def call(self, context: Any, name: str, target: str, work: Callable[[Caller], T],
                   roles: frozenset[Role] | None = None, audited: bool = True) -> T:
        """
        Return ``work(caller)``; errors end the call with a status, a code and a sentence.

        ``roles`` are those that may call (None: any valid token); ``target`` goes to the audit.
        """
        def run() -> T:
            actor = 'unknown'
            try:
                caller = self._caller(context)
                actor = caller.actor
                if roles is not None and not roles & caller.roles:
                    needed = ' or '.join(sorted(r.value for r in roles))
                    raise Unauthorised(f'{name} is for {needed}; this token is not')
                result = work(caller)
            except TooManyCalls:
                self.refused += 1    # counted, not written: there may be thousands a second
                raise
            except ArenaError as error:
                self._audit.write(actor, name, target, error.code, str(error))
                raise
            if audited:
                self._audit.write(actor, name, target, 'ok')
            return result

        return await self.work(context, run, self._stations if roles == _STATIONS else
                               self._people)

    async def work(self, context: Any, work: Callable[[], T],
                   threads: Executor | None = None) -> T:
        """Return ``work()``, run in a thread (default: of the stations); errors end the call."""
        return await guarded(context, lambda: asyncio.get_running_loop().run_in_executor(
            threads or self._stations, work))

    def _caller(self, context: Any) -> Caller:
        """
        Return who calls; wrong tokens share a bucket of their address.

        A valid token is never refused for them: behind one address may be many callers.
        """
        token, address = bearer(context), context.peer().rsplit(':', 1)[0]
        name = digest(token)
        if name in self._known:
            self._limit.take(name)
        try:
            caller = self._accounts.caller(token)
        except Unauthorised:
            self._known.pop(name, None)
            self._wrong.take(address)    # TooManyCalls, which is not written to the audit log
            raise
        if name not in self._known:
            self._limit.take(name)
        self._known[name] = None
        if len(self._known) > _BUCKETS:
            self._known.popitem(last=False)
        return caller


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
