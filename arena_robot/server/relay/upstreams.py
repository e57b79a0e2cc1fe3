"""
The policies behind the relay, by address: gRPC ones are passed bytes, others are decoded.

Both answer with the same messages and the same few errors, whatever the policy said.
"""

import asyncio
import functools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc

from arena_robot.core.errors import (
    ArenaError,
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.inferences import Proof, packed
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PROTOCOL_VERSION, PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import headers, open_aio_channel, query_request
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.options import MIB
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc
from arena_robot.policy.timing import MEASURED, made_up_observation, warm_episode
from arena_robot.server.base import PolicyTarget

T = TypeVar('T')

MESSAGE_BYTES = 32 * MIB
IDLE_S = 600.0    # longer than any call takes
log = logging.getLogger(__name__)
CALL_S = 20.0
KEPT = 10_000
SENTENCES: dict[type[PolicyError], str] = {
    PolicyUnavailable: 'the policy cannot be reached',
    PolicyTimeout: 'the policy did not answer in time',
    PolicyRefused: 'the policy refused the observation',
    BadReply: 'the policy answered with something that is no chunk of actions',
    PolicyError: 'the policy failed',
}


class Upstream(Protocol):
    """One policy server; raises PolicyErrors. ``known`` is ``last_spec`` as read, None before."""

    last_spec: pb.Spec | None
    known: PolicySpec | None

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""

    async def infer(self, request: pb.InferRequest, timeout_s: float) -> pb.InferReply:
        """Return the next chunk."""

    async def reset(self, episode: str, timeout_s: float) -> None:
        """Clear an episode."""

    async def close(self) -> None:
        """Close the connection."""


class GrpcUpstream:
    """A policy served over gRPC: requests are passed on as they are."""

    def __init__(self, target: PolicyTarget) -> None:
        self.last_spec: pb.Spec | None = None
        self.known: PolicySpec | None = None
        self._address = target.address
        place = parse_address(target.address)
        options = place.applied(target.options(max_message_bytes=MESSAGE_BYTES))
        self._headers = headers(options)
        self._channel = open_aio_channel(place.target, place.secure, options)
        self._stub: Any = pb_grpc.PolicyServiceStub(self._channel)

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""
        request = pb.GetSpecRequest(protocol_version=PROTOCOL_VERSION)
        try:
            out: pb.Spec = await self._stub.GetSpec(request, timeout=timeout_s,
                                                   metadata=self._headers)
            self.last_spec, self.known = out, None
            return out
        except grpc.aio.AioRpcError as error:
            raise error_of(error, 'GetSpec', self._address) from error

    async def infer(self, request: pb.InferRequest, timeout_s: float) -> pb.InferReply:
        """Return the next chunk."""
        try:
            out: pb.InferReply = await self._stub.Infer(request, timeout=timeout_s,
                                                       metadata=self._headers)
            return out
        except grpc.aio.AioRpcError as error:
            raise error_of(error, 'Infer', self._address) from error

    async def reset(self, episode: str, timeout_s: float) -> None:
        """Clear an episode."""
        request = pb.ResetRequest(protocol_version=PROTOCOL_VERSION, episode=episode)
        try:
            await self._stub.Reset(request, timeout=timeout_s, metadata=self._headers)
        except grpc.aio.AioRpcError as error:
            raise error_of(error, 'Reset', self._address) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


class DecodedUpstream:
    """A policy behind openpi's protocol: observations are decoded; it is called in a thread."""

    def __init__(self, target: PolicyTarget, threads: Executor) -> None:
        self.last_spec: pb.Spec | None = None
        self.known: PolicySpec | None = None
        self._target = target
        self._threads = threads
        self._policy: OpenpiPolicy | None = None
        self._turn = asyncio.Lock()

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""
        out = await self._run(lambda policy, _: wire.spec_to_wire(policy.spec), timeout_s)
        self.last_spec, self.known = out, None
        return out

    async def infer(self, request: pb.InferRequest, timeout_s: float) -> pb.InferReply:
        """Return the next chunk; this protocol has no field for what is left of the last one."""
        def ask(policy: OpenpiPolicy, left_s: float) -> pb.InferReply:
            seen = wire.observation_of_request(request)
            return wire.chunk_to_wire(policy.infer(seen, request.episode, left_s), 0.0, 0.0)
        return await self._run(ask, timeout_s)

    async def reset(self, episode: str, timeout_s: float) -> None:
        """Clear an episode."""
        await self._run(lambda policy, left_s: policy.reset(episode, left_s), timeout_s)

    async def close(self) -> None:
        """Close the connection."""
        policy, self._policy = self._policy, None
        if policy is not None:
            await self._in_thread(policy.close)

    async def _run(self, work: Callable[[OpenpiPolicy, float], T], timeout_s: float) -> T:
        """Return what ``work`` returns; the wait for a turn and a connection is in the time."""
        end_s = time.monotonic() + timeout_s
        try:
            return await asyncio.wait_for(self._in_turn(work, end_s), timeout_s)
        except asyncio.TimeoutError as error:
            raise PolicyTimeout('no answer in time') from error

    async def _in_turn(self, work: Callable[[OpenpiPolicy, float], T], end_s: float) -> T:
        # One websocket carries one question at a time.
        async with self._turn:
            try:
                return await self._in_thread(functools.partial(self._work, work, end_s))
            except (asyncio.CancelledError, PolicyUnavailable, PolicyTimeout):
                # What comes next over this connection could be the answer to this question.
                policy, self._policy = self._policy, None
                if policy is not None:
                    self._threads.submit(policy.close)
                raise

    def _work(self, work: Callable[[OpenpiPolicy, float], T], end_s: float) -> T:
        if self._policy is None:
            place = parse_address(self._target.address)
            self._policy = OpenpiPolicy(place.target, place.secure,
                                        place.applied(self._target.options()))
        return work(self._policy.__enter__(), max(0.001, end_s - time.monotonic()))

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


async def known_spec(way: Upstream, timeout_s: float) -> PolicySpec:
    """Return the last spec of a policy; ask the policy where there is none yet."""
    if way.known is None:
        way.known = wire.spec_from_wire(way.last_spec or await way.spec(timeout_s), 'the policy')
    return way.known


def upstream(target: PolicyTarget, threads: Executor) -> Upstream:
    """Return the way to a policy."""
    if parse_address(target.address).is_openpi:
        return DecodedUpstream(target, threads)
    return GrpcUpstream(target)


@dataclass
class _Way:
    """A way to a policy, and when it was used last."""

    upstream: Upstream
    used_s: float


class OpenUpstreams:
    """
    The ways to policies that are in use, by target, for one event loop.

    When another one is opened, those that nobody used for ``IDLE_S`` are closed: policies that
    are gone, addresses and tokens that were replaced. ``make`` opens a way.
    """

    def __init__(self, make: Callable[[PolicyTarget], Upstream],
                 now_s: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._now_s = now_s
        self._ways: dict[PolicyTarget, _Way] = {}

    async def find(self, target: PolicyTarget) -> Upstream:
        """Return the way to a policy, which is opened when there is none."""
        open_way, now_s = self._ways.get(target), self._now_s()
        if open_way is not None:
            open_way.used_s = now_s
            return open_way.upstream
        way = self._make(target)
        idle = [unused for unused, way_there in self._ways.items()
                if way_there.used_s < now_s - IDLE_S]
        self._ways[target] = _Way(way, now_s)
        for unused in [self._ways.pop(target) for target in idle]:
            await unused.upstream.close()
        return way

    async def close(self) -> None:
        """Close all of them."""
        ways, self._ways = list(self._ways.values()), {}
        for way in ways:
            await way.upstream.close()


def checked(reply: pb.InferReply, spec: PolicySpec) -> pb.InferReply:
    """
    Return a reply that has the actions, and how the policy's spec wants them executed.

    Raises BadReply when they are not what the spec says.
    """
    wire.chunk_from_wire(reply, spec)
    return pb.InferReply(actions=reply.actions, rows=reply.rows, columns=reply.columns,
                         action_space=reply.action_space,
                         open_loop_horizon=spec.open_loop_horizon, blend_steps=spec.blend_steps,
                         pipelined=spec.pipelined, real_time_chunking=spec.real_time_chunking)


def executable(reply: pb.InferReply, spec: PolicySpec) -> tuple[int, Proof]:
    """Return how many of a chunk's actions may be executed, and those that may be mixed too."""
    rows = reply.rows
    if spec.open_loop_horizon and not spec.pipelined:
        rows = min(rows, spec.open_loop_horizon)
    kept = min(reply.rows, rows + spec.blend_steps)
    return rows, Proof(packed(reply.actions[:kept * reply.columns]), reply.columns,
                       spec.blend_steps)


Find = Callable[[PolicyTarget], Awaitable[Upstream]]


class Preparing:
    """
    Prepares both policies of a session at once, so that neither shows which needs it.

    A station may ask that the policies of a pair take equally long. Then each is measured, and
    no answer of either is given earlier than the slowest of them took. One event loop.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._begun: OrderedDict[str, asyncio.Task[float]] = OrderedDict()

    async def ready(self, session_id: str,
                    targets: Sequence[tuple[PolicyTarget, PolicySpec | None]], equal: bool,
                    known_s: float = 0.0) -> float:
        """
        Return how long an answer takes at least (s), once both policies are prepared.

        Each has the spec with which it was admitted, or None in a pool that reads none.
        ``known_s`` is what was measured before, above 0.
        """
        task = self._begun.get(session_id)
        if task is None:
            task = asyncio.ensure_future(self._both(targets, equal and not known_s))
            self._begun[session_id] = task
            while len(self._begun) > KEPT:
                self._begun.popitem(last=False)
        return known_s or await asyncio.shield(task)

    def close(self) -> None:
        """Cancel what is under way."""
        for task in self._begun.values():
            task.cancel()

    async def _both(self, targets: Sequence[tuple[PolicyTarget, PolicySpec | None]],
                    equal: bool) -> float:
        return max(await asyncio.gather(*(self._one(*target, equal) for target in targets)))

    async def _one(self, target: PolicyTarget, admitted: PolicySpec | None,
                   equal: bool) -> float:
        """Return how long the slowest measured answer took; 0 when nothing was measured."""
        episode, slowest_s = warm_episode(), 0.0
        try:
            way = await self._find(target)
            spec = admitted or await known_spec(way, CALL_S)
            # Pictures take a while to make: not in the thread that serves all stations.
            request = await asyncio.to_thread(
                lambda: query_request(made_up_observation(spec), episode, spec))
            for number in range(spec.warm_up + MEASURED * equal):
                began_s = time.monotonic()
                await way.infer(request, CALL_S)
                if number >= spec.warm_up:
                    slowest_s = max(slowest_s, time.monotonic() - began_s)
            if spec.warm_up or equal:
                await way.reset(episode, CALL_S)
        except ArenaError as error:    # it fails again in its rollout, where it counts
            log.warning('a policy was not prepared: %s: %s', error.code, error)
            return 0.0
        return slowest_s


async def blind(work: Callable[[], Awaitable[T]]) -> T:
    """Return what ``work`` returns; a policy's error keeps its class and gets a fixed text."""
    try:
        return await work()
    except PolicyError as error:
        raise blinded(error) from None


def blinded(error: PolicyError) -> PolicyError:
    """
    Return an error of the same class with a fixed text.

    A policy that cannot be reached from here has ended for a station, which reaches the relay.
    """
    kind = _kind(error)
    return (PolicyEnded if kind is PolicyUnavailable else kind)(SENTENCES[kind])


def sentence(error: PolicyError) -> str:
    """Return the words for an error."""
    return SENTENCES[_kind(error)]


def _kind(error: PolicyError) -> type[PolicyError]:
    return next(kind for kind in SENTENCES if isinstance(error, kind))
