"""The routes of the slots that are in use: found one by one, renewed by one query for all."""

import asyncio
import dataclasses
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, PolicyUnavailable, Unauthorised
from arena_robot.server.base import PolicyRecord, SessionState
from arena_robot.server.batched_work import BatchedWork
from arena_robot.server.blind_errors import SENTENCES
from arena_robot.server.known_policies import KNOWN_S, KnownPolicies, KnownPolicy
from arena_robot.server.relay_route import Route
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.slots import SlotRow, Slots
from arena_robot.server.target import PolicyTarget

log = logging.getLogger(__name__)

# How old a route may be, and from when on it is renewed while it is still used.
ROUTE_S, RENEW_S = 2.0, 1.0
LASTS_S = ROUTE_S - KNOWN_S    # what is known of a policy is as old as KNOWN_S already


@dataclass
class _Known:
    """A route until ``until_s``, its policies, and whether it was used since the last renewal."""

    route: Route
    pair: dict[Slot, int]
    until_s: float
    used: bool = True


class RelayRoutes:
    """
    Routes by slot token, for one event loop; none is used that is older than ``ROUTE_S``.

    Every control step of every slot asks for its route. A query of the database for each of them
    would cost more than the relay itself, so the first call after ``RENEW_S`` has all routes
    renewed that were used since the last time. ``threads`` read the database; ``reachable``
    returns where a policy may be called now.
    """

    def __init__(self, slots: Slots, policies: Policies, threads: Executor,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._slots, self._threads = slots, threads
        self._reads: BatchedWork[str, _Known] = BatchedWork(self._read, threads)
        self._policies = KnownPolicies(policies, reachable)
        self._known: dict[str, _Known] = {}
        self._renewal: asyncio.Future[Any] | None = None
        self._dropped_s = time.monotonic()

    async def find(self, token: str) -> Route:
        """Return the route of a slot; Unauthorised, Conflict or PolicyUnavailable."""
        known, now_s = self._known.get(token), time.monotonic()
        if known is None or known.until_s < now_s:
            self._drop_ended(now_s)
            known = await self._reads.ask(token)
            self._known[token] = known
        known.used = True
        if known.until_s - now_s < LASTS_S - RENEW_S and (
                self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.ensure_future(self._renew())
        return known.route

    def close(self) -> None:
        """Read and renew nothing more."""
        self._reads.close()
        if self._renewal is not None:
            self._renewal.cancel()

    def _drop_ended(self, now_s: float) -> None:
        """Forget routes that ended, at most once in ROUTE_S; short rollouts renew nothing."""
        if now_s - self._dropped_s < ROUTE_S:
            return
        self._dropped_s = now_s
        self._known = {token: one for token, one in self._known.items()
                       if one.until_s > now_s}

    async def _renew(self) -> None:
        began_s = time.monotonic()
        self._known = {token: one for token, one in self._known.items()
                       if one.used or one.until_s > began_s}
        used = {token: one for token, one in self._known.items() if one.used}
        for one in used.values():
            one.used = False
        try:
            routes = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._read_again, list(used.values()))
        except Exception:    # the routes end in time, and who asks then is told why
            log.exception('the routes of the relay were not renewed')
            return
        for (token, one), route in zip(used.items(), routes, strict=True):
            if route is not None:
                one.route, one.until_s = route, began_s + LASTS_S
            elif self._known.get(token) is one:    # its next call is told why
                del self._known[token]

    def _read(self, tokens: Sequence[str]) -> list[_Known | Exception]:
        """Return what is known of each token, or why it has no route."""
        began_s = time.monotonic()
        found = self._slots.of_tokens(tokens)
        return [self._made(found.get(token), began_s) for token in tokens]

    def _made(self, row: SlotRow | None, began_s: float) -> _Known | Exception:
        if row is None:
            return Unauthorised('this slot token is not known here')
        if row.state is not SessionState.RUNNING:
            return Conflict(f'the session is {row.state.value}; start a new one')
        episode = hashlib.sha256(f'{row.nonce}:{row.slot.value}'.encode()).hexdigest()[:32]
        pair = dict(zip(Slot, row.pair, strict=True))
        route = Route(row.session_id, row.slot, {}, episode, row.equal_latency_s)
        try:
            return _Known(_to(route, pair, self._policies.of_all(row.pair)), pair,
                          began_s + LASTS_S)
        except DataError as error:    # its text names the address
            log.warning('session %s slot %s: %s', row.session_id, row.slot.value, error)
            return PolicyUnavailable(SENTENCES[PolicyUnavailable])

    def _read_again(self, used: list[_Known]) -> list[Route | None]:
        """Return the routes as they are now; None for one that ended."""
        found = self._slots.as_they_are({one.route.session_id for one in used})
        policies = self._policies.of_all(
            number for one in used for number in one.pair.values())

        def again(one: _Known) -> Route | None:
            state, equal_s = found.get(one.route.session_id, (None, None))
            if state is not SessionState.RUNNING:
                return None
            try:
                route = one.route if equal_s == one.route.equal_s else dataclasses.replace(
                    one.route, equal_s=equal_s)
                return _to(route, one.pair, policies)
            except DataError:
                return None
        return [again(one) for one in used]


def _to(route: Route, pair: dict[Slot, int], policies: dict[int, KnownPolicy]) -> Route:
    """Return a route with the policies that it calls; DataError when one may not be called."""
    known = {slot: policies[number] for slot, number in pair.items()}
    specs = {slot: one.spec for slot, one in known.items()}
    # The other policy is called only to prepare it.
    both = route.equal_s is not None or any(spec and spec.warm_up for spec in specs.values())
    targets = {slot: one.target for slot, one in known.items() if both or slot is route.slot}
    if (targets, specs) == (route.pair, route.specs):
        return route
    return dataclasses.replace(route, specs=specs, pair=targets)
