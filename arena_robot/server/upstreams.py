"""
The policies behind the relay, by address: gRPC ones are passed bytes, others are decoded.

Both answer with the same messages and the same few errors, whatever the policy said.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

import grpc

from arena_robot.core.errors import BadReply, PolicyTimeout, PolicyUnavailable
from arena_robot.policy.base import PROTOCOL_VERSION, OpenPolicy
from arena_robot.policy.connect import connect, split, with_query
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import headers, open_aio_channel
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.options import MIB, CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc
from arena_robot.server.target import PolicyTarget

T = TypeVar('T')

MESSAGE_BYTES = 32 * MIB
IDLE_S = 600.0    # longer than any call takes
REPLY_BYTES = 4096
# A padding of this many zeros or more has a head of three bytes.
PADDING_LEAST, PADDING_HEAD = 128, 3


class Upstream(Protocol):
    """One policy server; errors are PolicyErrors."""

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""

    async def infer(self, episode: str, observation: bytes, timeout_s: float) -> pb.InferReply:
        """Return the next chunk."""

    async def reset(self, episode: str, timeout_s: float) -> None:
        """Clear an episode."""

    async def close(self) -> None:
        """Close the connection."""


class GrpcUpstream:
    """A policy served over gRPC: observations are passed on without decoding."""

    def __init__(self, target: PolicyTarget) -> None:
        self._address = target.address
        bare, options = with_query(target.address, CallOptions(
            token=target.token, max_message_bytes=MESSAGE_BYTES))
        self._headers = headers(options)
        scheme, place = split(bare)
        self._channel = open_aio_channel(place, scheme == 'grpcs', options)
        self._stub = pb_grpc.PolicyServiceStub(self._channel)

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""
        request = pb.GetSpecRequest(protocol_version=PROTOCOL_VERSION)
        try:
            out: pb.Spec = await self._stub.GetSpec(request, timeout=timeout_s,
                                                   metadata=self._headers)
            return out
        except grpc.aio.AioRpcError as error:
            raise error_of(error, 'GetSpec', self._address) from error

    async def infer(self, episode: str, observation: bytes, timeout_s: float) -> pb.InferReply:
        """Return the next chunk."""
        request = pb.InferRequest(protocol_version=PROTOCOL_VERSION, episode=episode,
                                  observation=observation)
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
    """Any other policy: observations are decoded and the policy is called in a thread."""

    def __init__(self, target: PolicyTarget, threads: Executor) -> None:
        self._target = target
        self._threads = threads
        self._policy: OpenPolicy | None = None
        self._turn = asyncio.Lock()

    async def spec(self, timeout_s: float) -> pb.Spec:
        """Return the spec of the policy."""
        return await self._run(lambda policy: wire.spec_to_wire(policy.spec), timeout_s)

    async def infer(self, episode: str, observation: bytes, timeout_s: float) -> pb.InferReply:
        """Return the next chunk."""
        def ask(policy: OpenPolicy) -> pb.InferReply:
            seen = wire.observation_from_bytes(observation)
            return wire.chunk_to_wire(policy.infer(seen, episode), 0.0, 0.0)
        return await self._run(ask, timeout_s)

    async def reset(self, episode: str, timeout_s: float) -> None:
        """Clear an episode."""
        await self._run(lambda policy: policy.reset(episode), timeout_s)

    async def close(self) -> None:
        """Close the connection."""
        policy, self._policy = self._policy, None
        if policy is not None:
            await self._in_thread(policy.close)

    async def _run(self, work: Callable[[OpenPolicy], T], timeout_s: float) -> T:
        # One websocket carries one question at a time.
        async with self._turn:
            call = functools.partial(work, await self._connected(timeout_s))
            try:
                return await asyncio.wait_for(self._in_thread(call), timeout_s)
            except asyncio.TimeoutError as error:
                await self.close()
                raise PolicyTimeout('no answer in time') from error
            except PolicyUnavailable:
                await self.close()
                raise

    async def _connected(self, timeout_s: float) -> OpenPolicy:
        policy = self._policy
        if policy is None:
            options = CallOptions(token=self._target.token, infer_timeout_s=timeout_s)
            policy = await self._in_thread(functools.partial(
                connect, self._target.address, options))
            self._policy = policy
        return policy

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


def upstream(target: PolicyTarget, threads: Executor) -> Upstream:
    """Return the way to a policy."""
    if split(target.address.partition('?')[0])[0] in ('grpc', 'grpcs'):
        return GrpcUpstream(target)
    return DecodedUpstream(target, threads)


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
        self._ways: dict[PolicyTarget, Upstream] = {}
        self._used_s: dict[PolicyTarget, float] = {}

    async def find(self, target: PolicyTarget) -> Upstream:
        """Return the way to a policy, which is opened when there is none."""
        now_s = self._now_s()
        self._used_s[target] = now_s
        if target in self._ways:
            return self._ways[target]
        way = self._ways[target] = self._make(target)
        idle = [one for one, used_s in self._used_s.items() if used_s < now_s - IDLE_S]
        for unused in [self._forget(one) for one in idle]:
            await unused.close()
        return way

    def _forget(self, target: PolicyTarget) -> Upstream:
        del self._used_s[target]
        return self._ways.pop(target)

    async def close(self) -> None:
        """Close all of them."""
        ways, self._ways, self._used_s = list(self._ways.values()), {}, {}
        for way in ways:
            await way.close()


def checked(reply: pb.InferReply) -> pb.InferReply:
    """Return a reply that has the actions only; BadReply when they are not actions."""
    rows, columns = reply.rows, reply.columns
    if not 1 <= rows <= 1024 or columns not in (7, 8) or rows * columns != len(reply.actions):
        raise BadReply(f'{rows}x{columns} actions with {len(reply.actions)} numbers')
    return pb.InferReply(actions=reply.actions, rows=rows, columns=columns,
                         action_space=reply.action_space)


def padded(reply: pb.InferReply) -> pb.InferReply:
    """
    Return a reply with zeros behind it, so that its size is a multiple of ``REPLY_BYTES``.

    Up to 120 actions have the same size on the network.
    """
    size = reply.ByteSize()
    whole = REPLY_BYTES * -(-(size + PADDING_HEAD + PADDING_LEAST) // REPLY_BYTES)
    reply.padding = bytes(whole - size - PADDING_HEAD)
    return reply
