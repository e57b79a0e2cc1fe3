"""The asyncio client: the same calls, awaited."""

from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from arena_robot.core.action import Chunk
from arena_robot.core.errors import PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import headers, open_aio_channel
from arena_robot.policy.grpc.endpoint import (
    PolicyEndpoint,
    infer_request,
    query_request,
    reset_request,
    spec_request,
)
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc


class AsyncGrpcPolicy(PolicyEndpoint):
    """
    A remote policy for asyncio programs, such as a relay: ``async with`` it.

    As :class:`GrpcPolicy`, with ``await`` before every call.
    """

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        super().__init__(target, secure, options)
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None

    async def open(self) -> 'AsyncGrpcPolicy':
        """Connect; raises PolicyError when no server answers or the spec is invalid."""
        self._channel = open_aio_channel(self._target, self._secure, self._options)
        self._stub = pb_grpc.PolicyServiceStub(self._channel)
        try:
            reply = await self._call('GetSpec', self._options.connect_timeout_s, spec_request())
            self._spec = wire.spec_from_wire(reply, self.address)
        except BaseException:
            await self.close()
            raise
        return self

    async def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Send the observation with all of its images; return the checked chunk."""
        reply = await self._call('Infer', self._options.infer_timeout_s,
                                 query_request(observation, episode, self.spec))
        return wire.chunk_from_wire(reply, self.spec)

    async def infer_bytes(self, observation: bytes, episode: str,
                          timeout_s: float | None = None, step: int = 0) -> pb.InferReply:
        """Send an observation that is already serialized, as a relay does; no checks."""
        out: pb.InferReply = await self._call(
            'Infer', timeout_s or self._options.infer_timeout_s,
            infer_request(observation, episode, step))
        return out

    async def reset(self, episode: str = '') -> None:
        """Clear the state of an episode."""
        await self._call('Reset', self._options.reset_timeout_s, reset_request(episode))

    async def close(self) -> None:
        """Close the connection; can be called twice."""
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> 'AsyncGrpcPolicy':
        """Open, unless it is."""
        return self if self._channel is not None else await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        """Close."""
        await self.close()

    async def _call(self, method: str, timeout_s: float, request: Any) -> Any:
        if self._stub is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        try:
            return await getattr(self._stub, method)(
                request, timeout=timeout_s, metadata=headers(self._options))
        except grpc.RpcError as error:
            raise error_of(error, method, self.address) from error
