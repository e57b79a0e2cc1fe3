"""The client of a policy at a gRPC address."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Any

import grpc

from arena_robot.core.action import Chunk
from arena_robot.core.errors import PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import headers, open_channel
from arena_robot.policy.grpc.endpoint import (
    PolicyEndpoint,
    infer_request,
    query_request,
    reset_request,
    spec_request,
)
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.grpc.stream import CallStream
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc

logger = logging.getLogger(__name__)


class GrpcPolicy(PolicyEndpoint):
    """
    A remote policy: ``open`` connects and asks for the spec, then every call has a deadline.

    Images are sent as they come; see ``Resizing`` for what shrinks them first. Safe to call
    from several threads.
    """

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        super().__init__(target, secure, options)
        self._channel: grpc.Channel | None = None
        self._stream: CallStream | None = None
        self._stub: Any = None

    def open(self) -> 'GrpcPolicy':
        """Connect; raises PolicyError when no server answers or the spec is invalid."""
        self._channel = open_channel(self._target, self._secure, self._options)
        self._stub = pb_grpc.PolicyServiceStub(self._channel)
        if self._options.stream:
            self._stream = CallStream(self._stub.Stream, headers(self._options), self.address)
        try:
            self._spec = self._ask_spec()
        except BaseException:
            self.close()
            raise
        return self

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Send the observation with all of its images; return the checked chunk."""
        request = query_request(observation, episode, self.spec)
        chunk = wire.chunk_from_wire(self._asked(request, self._options.infer_timeout_s),
                                     self.spec)
        return replace(chunk, observation_sha256=sha256(request.observation).hexdigest())

    def infer_bytes(self, observation: bytes, episode: str, timeout_s: float | None = None,
                    step: int = 0) -> pb.InferReply:
        """Send an observation that is already serialized, as a relay does; no checks."""
        return self._asked(infer_request(observation, episode, step),
                           timeout_s or self._options.infer_timeout_s)

    def _asked(self, request: pb.InferRequest, limit_s: float) -> pb.InferReply:
        if self._stream is not None:
            return self._stream.infer(request, limit_s)
        out: pb.InferReply = self._call('Infer', request, limit_s)
        return out

    def reset(self, episode: str = '') -> None:
        """Clear the state of an episode."""
        request = reset_request(episode)
        if self._stream is not None:
            self._stream.reset(request, self._options.reset_timeout_s)
        else:
            self._call('Reset', request, self._options.reset_timeout_s)

    def close(self) -> None:
        """Close the connection; can be called twice."""
        if self._stream is not None:
            self._stream.close()
        if self._channel is not None:
            self._channel.close()
        self._channel = self._stub = self._stream = None

    def __enter__(self) -> 'GrpcPolicy':
        """Open, unless it is."""
        return self if self._channel is not None else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _ask_spec(self) -> PolicySpec:
        return wire.spec_from_wire(
            self._call('GetSpec', spec_request(), self._options.connect_timeout_s), self.address)

    def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        stub = self._stub    # another thread may close meanwhile
        if stub is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        with _translated(method, self.address):
            return getattr(stub, method)(
                request, timeout=timeout_s, metadata=headers(self._options))


@contextlib.contextmanager
def _translated(what: str, address: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise error_of(error, what, address) from error
    except ValueError as error:
        raise PolicyUnavailable(f'{what} at {address}: the connection was closed') from error
