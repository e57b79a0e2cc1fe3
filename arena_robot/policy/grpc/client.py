"""
The client of a policy at a gRPC address.

A :class:`CallStream` sends many calls over one gRPC stream: replies are matched to requests by
number.
"""

import contextlib
import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Any

import grpc

from arena_robot.core.action import Chunk
from arena_robot.core.errors import PolicyError, PolicyTimeout, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import (
    PolicyEndpoint,
    headers,
    infer_request,
    open_channel,
    query_request,
    reset_request,
    spec_request,
)
from arena_robot.policy.grpc.errors import error_named, error_of
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

    def infer_bytes(self, observation: bytes, episode: str, step: int = 0) -> pb.InferReply:
        """Send an observation that is already serialized, as a relay does; no checks."""
        return self._asked(infer_request(observation, episode, step),
                           self._options.infer_timeout_s)

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
        spec = wire.spec_from_wire(
            self._call('GetSpec', spec_request(), self._options.connect_timeout_s), self.address)
        return spec if self._options.joints is None else replace(spec, joints=self._options.joints)

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


class _Link:
    """One stream from its opening until it breaks."""

    def __init__(self, call: Callable[..., Any], headers: tuple[tuple[str, str], ...],
                 address: str) -> None:
        self._address = address
        self._requests: queue.SimpleQueue[pb.StreamRequest | None] = queue.SimpleQueue()
        self._waiting: dict[int, Future[pb.StreamReply]] = {}
        self._lock = threading.Lock()
        self._error: PolicyError | None = None
        self._replies = call(iter(self._requests.get, None), metadata=headers)
        self._reader = threading.Thread(target=self._read, name='policy-stream', daemon=True)
        self._reader.start()

    @property
    def broken(self) -> bool:
        return self._error is not None

    def ask(self, request: pb.StreamRequest) -> 'Future[pb.StreamReply]':
        future: Future[pb.StreamReply] = Future()
        with self._lock:
            if self._error is not None:
                raise self._error
            self._waiting[request.id] = future
        self._requests.put(request)
        return future

    def forget(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)

    def close(self) -> None:
        self._requests.put(None)
        self._replies.cancel()
        self._reader.join(5.0)

    def _read(self) -> None:
        error: PolicyError = PolicyUnavailable(f'Stream at {self._address}: the server ended it')
        try:
            for reply in self._replies:
                with self._lock:
                    future = self._waiting.pop(reply.id, None)
                if future is not None:
                    future.set_result(reply)
        except grpc.RpcError as broken:
            error = error_of(broken, 'Stream', self._address)
        self._fail(error)

    def _fail(self, error: PolicyError) -> None:
        with self._lock:
            self._error = error
            waiting, self._waiting = list(self._waiting.values()), {}
        self._requests.put(None)
        for future in waiting:
            future.set_exception(error)


class CallStream:
    """
    Infer and Reset over a stream that is opened at the first call and again after it broke.

    A call that was under way when the stream broke fails; it is never sent twice.
    """

    def __init__(self, call: Callable[..., Any], headers: tuple[tuple[str, str], ...],
                 address: str) -> None:
        self._call = call
        self._headers = headers
        self._address = address
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._link: _Link | None = None

    def infer(self, request: pb.InferRequest, timeout_s: float) -> pb.InferReply:
        """Return the reply to one Infer; raises PolicyError."""
        return self._exchange('Infer', pb.StreamRequest(
            id=next(self._numbers), timeout_s=timeout_s, infer=request)).infer

    def reset(self, request: pb.ResetRequest, timeout_s: float) -> None:
        """Send one Reset and wait for its reply; raises PolicyError."""
        self._exchange('Reset', pb.StreamRequest(
            id=next(self._numbers), timeout_s=timeout_s, reset=request))

    def close(self) -> None:
        """End the stream."""
        with self._lock:
            if self._link is not None:
                self._link.close()
                self._link = None

    def _exchange(self, what: str, request: pb.StreamRequest) -> pb.StreamReply:
        timeout_s, link = request.timeout_s, self._current()
        try:
            reply = link.ask(request).result(timeout_s)
        except FutureTimeout as error:
            link.forget(request.id)
            raise PolicyTimeout(f'{what} at {self._address}: no reply within {timeout_s:.3g} s'
                                ) from error
        if reply.WhichOneof('result') == 'error':
            raise error_named(reply.error.code, reply.error.message, what, self._address)
        return reply

    def _current(self) -> _Link:
        with self._lock:
            if self._link is None or self._link.broken:
                self._link = _Link(self._call, self._headers, self._address)
            return self._link
