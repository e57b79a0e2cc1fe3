"""What happens around every call: token, rate limit, audit line, status of an error."""

import asyncio
import logging
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
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.audit import Audit

log = logging.getLogger(__name__)
T = TypeVar('T')

_BUCKETS = 10_000


class RateLimit:
    """A token bucket per caller: ``rate`` calls a second on average, ``burst`` at once."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count a call; TooManyCalls when the caller's bucket is empty."""
        now = self._clock.steady_ns()
        level, then = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + max(0, now - then) * 1e-9 * self._rate)
        self._buckets[caller] = (max(level - 1.0, 0.0) if level >= 1.0 else level, now)
        if len(self._buckets) > _BUCKETS:
            self._buckets.popitem(last=False)
        if level < 1.0:
            raise TooManyCalls(f'more than {self._rate:g} calls a second; slow down and repeat')


class CallGuard:
    """Runs a call in a thread: checks token, roles and rate, writes the audit line."""

    def __init__(self, accounts: Accounts, audit: Audit, limit: RateLimit,
                 threads: Executor) -> None:
        self._accounts = accounts
        self._audit = audit
        self._limit = limit
        self._threads = threads

    async def call(self, context: Any, name: str, target: str, work: Callable[[Caller], T],
                   roles: frozenset[Role] | None = None, audited: bool = True) -> T:
        """
        Return ``work(caller)``; errors end the call with a status, a code and a sentence.

        ``roles`` are those that may call (None: any valid token); ``target`` goes to the audit.
        """
        def run() -> T:
            actor = 'unknown'
            try:
                token = bearer(context)
                # Wrong tokens share a bucket of their peer, so that they cannot be guessed fast.
                self._limit.take(context.peer().rsplit(':', 1)[0] if not token else token[:16])
                caller = self._accounts.caller(token)
                actor = caller.actor
                if roles is not None and not roles & caller.roles:
                    needed = ' or '.join(sorted(r.value for r in roles))
                    raise Unauthorised(f'{name} is for {needed}; this token is not')
                result = work(caller)
            except ArenaError as error:
                self._audit.write(actor, name, target, error.code, str(error))
                raise
            if audited:
                self._audit.write(actor, name, target, 'ok')
            return result

        return await self.work(context, run)

    async def work(self, context: Any, work: Callable[[], T]) -> T:
        """Return ``work()``, run in a thread; errors end the call."""
        return await guarded(context, lambda: asyncio.get_running_loop().run_in_executor(
            self._threads, work))


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
