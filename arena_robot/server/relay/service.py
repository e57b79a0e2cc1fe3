"""
The only way from a station to a policy: ``arena.policy.v1``, with a slot token instead of a name.

A policy sees an episode token that is the relay's own, so it learns neither the session, nor the
slot, nor who asks. A station sees actions and a few fixed sentences: no server name, no headers,
no texts, no timings of the policy. How long an answer takes and how many actions it has is not
hidden from a station's network.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar

from arena_robot.core.errors import (
    ArenaError,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
)
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import infer_request
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.server.access.call_guard import bearer
from arena_robot.server.access.rates import RateLimit
from arena_robot.server.base import PolicyRecord, PolicyState, PolicyTarget, of_json
from arena_robot.server.relay.record import RelayRecord
from arena_robot.server.relay.routes import (
    RelayRoutes,
    Route,
    canonical,
    fitted,
    is_looked_at,
    is_wanted,
    needs_resizing,
    observation_of,
    thumbnails,
    turned,
)
from arena_robot.server.relay.upstreams import (
    OpenUpstreams,
    Preparing,
    Upstream,
    blind,
    blinded,
    checked,
    executable,
    known_spec,
    sentence,
    upstream,
)
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.sessions import Slots
from arena_robot.server.threads import BatchedWork

log = logging.getLogger(__name__)
T = TypeVar('T')

COUNTED = 10_000    # the most rollouts that are kept in memory
MAX_CALL_S = 60.0
# A station that waits shorter than this for an answer proves nothing about the policy.
PATIENCE_S = 5.0


class Relay:
    """
    Serves every running session's slots as policies; errors are raised to Admission.

    ``threads`` read the database, ``calling`` wait for policies. ``reachable`` returns where a
    policy may be called now.
    """

    def __init__(self, slots: Slots, policies: Policies, record: RelayRecord,
                 limit: RateLimit, threads: Executor, calling: Executor,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._record = record
        self._slots, self._policies = slots, policies
        self._rollouts: BatchedWork[str, None] = BatchedWork(self._count_all, threads)
        self._limit = limit
        self._threads = threads
        self._routes = RelayRoutes(slots, policies, threads, reachable)
        self._upstreams = OpenUpstreams(lambda target: upstream(target, calling))
        self._preparing = Preparing(self._upstreams.find)
        self._counted: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def GetSpec(self, request: pb.GetSpecRequest, context: Any) -> pb.Spec:
        """Return the spec of the slot's policy."""
        async def spec() -> pb.Spec:
            wire.check_version(request.protocol_version)
            route = await self._route(context)
            wait_s = _left(context)
            await self._least_s(route)
            # Its server is asked only to see whether it is there.
            spec_now = await self._watched(route, None, wait_s, lambda way: way.spec(wait_s))
            admitted = route.specs.get(route.slot) or wire.spec_from_wire(spec_now, 'the policy')
            pool = await asyncio.get_running_loop().run_in_executor(self._threads, self._pool)
            return wire.spec_to_wire(replace(canonical(
                admitted.action_space, [admitted, *pool]), layout=admitted.layout))
        return await blind(spec)

    async def Infer(self, request: pb.InferRequest, context: Any) -> pb.InferReply:
        """Return the slot's next chunk."""
        try:
            return await self._infer(await self._route(context), request, _left(context))
        except PolicyError as error:
            raise blinded(error) from None

    async def Reset(self, request: pb.ResetRequest, context: Any) -> pb.ResetReply:
        """Reset the slot's policy after its rollout."""
        async def reset() -> pb.ResetReply:
            route = await self._route(context)
            await self._reset(route, _left(context))
            return pb.ResetReply()
        return await blind(reset)

    async def Stream(self, requests: AsyncIterator[pb.StreamRequest],
                     context: Any) -> AsyncIterator[pb.StreamReply]:
        """Answer infer and reset on one long stream."""
        async for request in requests:
            yield await self._stream_reply(request, context)

    async def _stream_reply(self, request: pb.StreamRequest, context: Any) -> pb.StreamReply:
        reply = pb.StreamReply(id=request.id)
        wait_s = min(request.timeout_s or MAX_CALL_S, MAX_CALL_S)

        async def work() -> None:
            route = await self._route(context)
            if request.HasField('infer'):
                reply.infer.CopyFrom(await self._infer(route, request.infer, wait_s))
            else:
                await self._reset(route, wait_s)
                reply.reset.SetInParent()

        try:
            await blind(work)
        except ArenaError as error:
            reply.error.code, reply.error.message = error.code, str(error)
        return reply

    async def close(self) -> None:
        """Close the connections to all policies."""
        self._routes.close()
        self._rollouts.close()
        self._preparing.close()
        await self._upstreams.close()

    async def _infer(self, route: Route, request: pb.InferRequest,
                     wait_s: float) -> pb.InferReply:
        wire.check_version(request.protocol_version)
        step = request.step
        await self._count(route)
        least_s, started_s = await self._least_s(route), time.monotonic()

        kept: dict[str, str] = {}
        observation = request.observation    # protobuf copies it for each access

        async def ask(way: Upstream) -> tuple[PolicySpec, pb.InferReply]:
            spec = route.specs.get(route.slot) or await known_spec(way, wait_s)
            left = request.left_over if spec.real_time_chunking and request.HasField(
                'left_over') else None
            seen = observation_of(observation)
            if is_looked_at(step):
                kept.update(await asyncio.to_thread(thumbnails, seen))
            passed = infer_request(await self._fitted(observation, seen, spec),
                                   route.episode, step, seed_of(route.episode), left)
            return spec, checked(await way.infer(passed, wait_s), spec)

        spec, reply = await self._watched(route, step, wait_s, ask)
        if least_s > 0.0:
            await asyncio.sleep(least_s - (time.monotonic() - started_s))
        took_s, (count, proof) = time.monotonic() - started_s, executable(reply, spec)
        self._record.answered(route.key, step, took_s, count, proof._replace(
            observation_sha256=sha256(observation).hexdigest(), pictures=kept))
        return reply

    async def _fitted(self, observation: bytes, seen: pb.Observation,
                      spec: PolicySpec) -> bytes:
        """Return an observation with the pictures of a policy; large work in another thread."""
        if not turned(seen, spec) and is_wanted(seen, spec):
            return observation
        if needs_resizing(seen, spec):
            return await asyncio.to_thread(fitted, seen, spec)
        return fitted(seen, spec)

    def _pool(self) -> list[PolicySpec]:
        """Return the specs of all policies that may be drawn."""
        specs = (of_json(record.spec) for record in self._policies.list(
            PolicyState.POOL, PolicyState.PROBATION))
        return [spec for spec in specs if spec is not None]

    async def _least_s(self, route: Route) -> float:
        """Return how long an answer takes at least, once the pair is prepared."""
        equal = route.equal_s is not None
        if not equal and not route.warms_up:
            return 0.0
        least_s = await self._preparing.ready(
            route.session_id, [(target, route.specs.get(slot)) for slot, target
                               in route.pair.items()], equal, route.equal_s or 0.0)
        if equal and not route.equal_s:
            await asyncio.get_running_loop().run_in_executor(
                self._threads, self._slots.keep_latency, route.session_id, least_s)
        return least_s

    async def _watched(self, route: Route, step: int | None, wait_s: float,
                       call: Callable[[Upstream], Awaitable[T]]) -> T:
        """Return what ``call`` returns; note whose fault it is when it fails."""
        try:
            return await self._ask(route, call)
        except PolicyRefused:
            self._record.refused(route.key, step)
            raise
        except PolicyTimeout as error:
            if wait_s >= PATIENCE_S:
                self._record.failed(route.key, step, sentence(error))
            else:
                self._record.cut(route.key)
            raise
        except PolicyError as error:
            self._record.failed(route.key, step, sentence(error))
            raise
        except asyncio.CancelledError:
            self._record.cut(route.key)
            raise

    async def _reset(self, route: Route, wait_s: float) -> None:
        await asyncio.get_running_loop().run_in_executor(
            self._threads, self._record.flush, route.session_id)
        await self._ask(route, lambda u: u.reset(route.episode, wait_s))

    async def _ask(self, route: Route, call: Callable[[Upstream], Awaitable[T]]) -> T:
        way = await self._upstreams.find(route.target)
        try:
            return await call(way)
        except PolicyError as error:
            log.warning('session %s slot %s: %s: %s', route.session_id, route.slot.value,
                        error.code, error)
            raise

    async def _route(self, context: Any) -> Route:
        token = bearer(context)
        route = await self._routes.find(token)
        self._limit.take(token[:16])
        return route

    async def _count(self, route: Route) -> None:
        if route.key not in self._counted:
            self._counted[route.key] = None
            if len(self._counted) > COUNTED:
                self._counted.popitem(last=False)
            try:
                await self._rollouts.ask(route.session_id)
            except Exception:
                self._counted.pop(route.key, None)    # its next query counts it
                raise

    def _count_all(self, ids: Sequence[str]) -> list[Exception | None]:
        self._slots.count_rollouts(ids)
        return [None] * len(ids)


def _left(context: Any) -> float:
    left = context.time_remaining()
    # A little less than the station waits, so that a policy's silence is seen before the cut.
    return MAX_CALL_S if left is None else max(0.0, min(0.95 * left, MAX_CALL_S))
