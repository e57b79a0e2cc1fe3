"""The client of a policy behind the server's relay, which can be asked at every control step."""

import contextlib
import threading
from concurrent import futures
from typing import Any

import grpc

from arena_robot.core.errors import PolicyError, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec, StepQuery
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import headers
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.grpc.endpoint import spec_request, step_request
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.options import CallOptions

# How many queries may be on their way: a slow line is not filled with those that need nothing.
UNDER_WAY, DUE_UNDER_WAY = 4, 6
# A little less than the station waits, so that the relay sees a policy's silence first.
PATIENCE = 0.95


class RelayedPolicy(GrpcPolicy):
    """
    A policy behind a relay; ``at_step`` asks it without waiting.

    ``every_step`` is what the relay said. Every query carries the whole observation, so that all
    have the same size.
    """

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        super().__init__(target, secure, options)
        self.every_step = False
        self._lock = threading.Lock()
        self._under_way = 0

    def at_step(self, observation: Observation, episode: str, query: StepQuery) -> None:
        """Send a step's query; skip it while too many are on their way. Raises PolicyError."""
        with self._lock:
            if self._under_way >= (UNDER_WAY if query.answer is None else DUE_UNDER_WAY):
                return
            self._under_way += 1
        try:
            call = self._sent(observation, episode, query)
        except BaseException:
            self._landed()
            raise
        call.add_done_callback(lambda done: self._arrived(done, query))

    def _sent(self, observation: Observation, episode: str, query: StepQuery) -> Any:
        stub = self._stub    # another thread may close meanwhile
        if stub is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        limit_s = self._options.infer_timeout_s
        data = wire.observation_to_bytes(observation, self.spec.jpeg_quality)
        try:
            return stub.Infer.future(
                step_request(data, episode, query, PATIENCE * limit_s), timeout=limit_s,
                metadata=headers(self._options))
        except ValueError as error:
            raise PolicyUnavailable(f'{self.address}: the connection was closed') from error

    def _landed(self) -> None:
        with self._lock:
            self._under_way -= 1

    def _arrived(self, done: Any, query: StepQuery) -> None:
        self._landed()
        if query.answer is None:
            return
        try:
            resolve(query, done.result(), self.spec)
        except grpc.FutureCancelledError:
            _fail(query.answer, PolicyUnavailable(f'{self.address}: the connection was closed'))
        except grpc.RpcError as error:
            _fail(query.answer, error_of(error, 'Infer', self.address))

    def _ask_spec(self) -> PolicySpec:
        message = self._call('GetSpec', spec_request(), self._options.connect_timeout_s)
        self.every_step = bool(message.every_step)
        return wire.spec_from_wire(message, self.address)


def resolve(query: StepQuery, reply: Any, spec: PolicySpec) -> None:
    """Give the answer of a query the chunk of a relay's reply, when that has it."""
    if query.answer is None or not reply.rows or reply.chunk != query.chunk:
        return
    try:
        chunk = wire.chunk_from_wire(reply, spec)
    except PolicyError as error:
        _fail(query.answer, error)
        return
    # Two replies may have it.
    with contextlib.suppress(futures.InvalidStateError):
        query.answer.set_result(chunk)


def _fail(answer: 'futures.Future[Any]', error: PolicyError) -> None:
    with contextlib.suppress(futures.InvalidStateError):
        answer.set_exception(error)
