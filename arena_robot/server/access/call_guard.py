"""
Around every call: the caller's roles, the audit line, the status of an error.

A caller has a bounded share of the audit log, and what is left out is counted. A request that is
no message is refused with a sentence. Calls of people who signed in on the site pass the same.
"""

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import grpc

from arena_robot.core.errors import ArenaError, DataError, ServerError, Unauthorised
from arena_robot.server.access.rates import RateLimit, Rates
from arena_robot.server.base import Account, Caller, PolicyRecord, Role, TooManyCalls
from arena_robot.server.config import SignIn
from arena_robot.server.counters import Counters
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.policies import NewPolicy
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
            # Read anew: the token may have been revoked since it was let in.
            return self.run(lambda: self._accounts.caller(bearer(context)), name, target, work,
                            roles, audited)

        return await self.work(context, run, self._stations if roles == _STATIONS else
                               self._people)

    def run(self, find: Callable[[], Caller], name: str, target: str, work: Callable[[Caller], T],
            roles: frozenset[Role] | None = None, audited: bool = True) -> T:
        """Return ``work(find())``: the roles are checked, and the audit line is written."""
        actor, maintains = 'unknown', False
        try:
            caller = find()
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

    async def work(self, context: Any, work: Callable[[], T],
                   threads: Executor | None = None) -> T:
        """Return ``work()``, run in a thread (default: of the stations); errors end the call."""
        return await guarded(context, lambda: asyncio.get_running_loop().run_in_executor(
            threads or self._stations, work))


@dataclass(frozen=True)
class Confirmed:
    """Who a provider says somebody is; ``email`` is empty unless the provider verified it."""

    provider: str
    subject: str
    handle: str
    email: str = ''


class SiteCalls:
    """
    What people do who signed in on the site, with the rates and the guard of calls by token.

    ``number`` is the account's. ``submit`` and ``visible`` are those of the pool; the cookies
    of the site are signed with ``secret``.
    """

    def __init__(self, guard: CallGuard, accounts: Accounts, rates: Rates,
                 submit: Callable[[Caller, NewPolicy, str], PolicyRecord],
                 visible: Callable[[Caller], list[PolicyRecord]], config: SignIn | None,
                 secret: Callable[[], str]) -> None:
        self._guard, self._accounts, self._rates = guard, accounts, rates
        self._submit, self._visible = submit, visible
        self.config, self.secret = config, secret
        self._lock = threading.Lock()

    def stranger(self, address: str) -> None:
        """Count a step of a sign-in; TooManyCalls when the address takes too many."""
        self._rates.unknown_tokens.take(address)

    def enter(self, who: Confirmed) -> int:
        """Return the number of the account of who is confirmed; it is made the first time."""
        if not re.fullmatch('[!-~]{1,150}', who.subject):
            self.refuse(who.provider, f'{who.provider} gave no usable number of the person')
        return self._guard.run(lambda: self._entered(who), 'sign_in',
                               f'{who.provider}:{who.subject}', lambda caller: caller.id)

    def refuse(self, provider: str, why: str) -> NoReturn:
        """Write down that somebody was not confirmed; raises Unauthorised."""
        def nobody() -> Caller:
            raise Unauthorised(why)
        self._guard.run(nobody, 'sign_in', provider, lambda caller: None)
        raise AssertionError('nobody always raises')

    def who(self, number: int) -> Caller:
        """Return who signed in; Unauthorised where that person is barred by now."""
        return self._allowed(self._accounts.account_by_id(number))

    def mine(self, number: int) -> list[PolicyRecord]:
        """Return the policies of who signed in."""
        return self._visible(self.who(number))

    def submit(self, number: int, new: NewPolicy, token: str) -> PolicyRecord:
        """Submit a policy; ``token`` is the one that the policy asks for."""
        return self._call(number, 'register_policy', new.name,
                          lambda caller: self._submit(caller, new, token))

    def new_token(self, number: int) -> str:
        """Return a new token for machines; those that the account had end."""
        return self._call(number, 'rotate_token', '', lambda caller: self._accounts.rotate(
            self._accounts.account_by_id(number)))

    def _call(self, number: int, name: str, target: str, work: Callable[[Caller], T]) -> T:
        self._rates.calls.take(f'site:{number}')
        return self._guard.run(lambda: self.who(number), name, target, work,
                               frozenset({Role.OWNER}))

    def _entered(self, who: Confirmed) -> Caller:
        config, domain = self.config, who.email.rpartition('@')[2].casefold()
        assert config is not None, 'nobody signs in at a server without a provider'
        by_provider = {one.name: one.institution for one in config.providers}
        handle = re.sub('[^A-Za-z0-9._-]', '', who.handle.partition('@')[0])[:60] or 'person'
        person = f'{who.provider}:{who.subject}'
        if person in config.barred:
            raise Unauthorised(f'{person} is barred from this arena')
        with self._lock:
            return self._allowed(self._accounts.signed_in(
                person, f'{handle}@{who.provider}',
                by_provider[who.provider] or config.email_institutions.get(domain, '')))

    def _allowed(self, account: Account) -> Caller:
        if self.config is None or account.person in self.config.barred:
            raise Unauthorised(f'{account.person} is barred from this arena')
        if Role.MAINTAINER in account.roles:
            raise Unauthorised("a maintainer's account is used with its token, not by signing in")
        return Caller(account.id, account.name, account.institution, account.roles)


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
