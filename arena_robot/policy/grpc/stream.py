"""Many calls over one gRPC stream: replies are matched to requests by number."""

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import grpc

from arena_robot.core.errors import PolicyError, PolicyTimeout, PolicyUnavailable
from arena_robot.policy.grpc.errors import error_named, error_of
from arena_robot.policy.proto import arena_policy_pb2 as pb

logger = logging.getLogger(__name__)


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


