"""Around every call: the caller's roles, the audit line, the status of an error."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar

import grpc

from arena_robot.core.errors import ArenaError, ServerError, Unauthorised
from arena_robot.server.base import Caller, Role
from arena_robot.server.bounded_audit import BoundedAudit
from arena_robot.server.grpc_errors import headers_of, status_of
from arena_robot.server.store.accounts import Accounts

log = logging.getLogger(__name__)
T = TypeVar('T')

_STATIONS = frozenset({Role.STATION})


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
