"""
A policy on a gRPC port: ``arena.policy.v1`` with health, reflection, TLS and a token.

Of the threads for its calls two work at once, as long as calls are short.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from arena_robot.core.errors import ArenaError, ConfigError, PolicyRefused
from arena_robot.policy.base import Policy
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import SERVICE, UNCOMPRESSED
from arena_robot.policy.grpc.errors import CODE_KEY, status_of
from arena_robot.policy.options import ServeOptions, is_one_of
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.serving import ServedPolicy

logger = logging.getLogger(__name__)

HANDSHAKE_MS = 10_000    # a connection that says nothing is closed after this
Reply = TypeVar('Reply')
OPEN_TO_ALL = (f'/{health.SERVICE_NAME}/',)
AT_ONCE, PATIENCE_S = 2, 0.003


class PolicyServicer:
    """The four calls; errors become statuses, tracebacks stay in the log."""

    def __init__(self, served: ServedPolicy, max_call_s: float, streams: int) -> None:
        self._served = served
        self._max_call_s = max_call_s
        self._streams = threading.BoundedSemaphore(streams)

    def GetSpec(self, request: pb.GetSpecRequest,  # noqa: N802
                context: grpc.ServicerContext) -> pb.Spec:
        """Answer with the policy's spec."""
        return self._guarded(context, lambda: self._spec(request))

    def Infer(self, request: pb.InferRequest,  # noqa: N802
              context: grpc.ServicerContext) -> pb.InferReply:
        """Answer with the next chunk."""
        return self._guarded(context, lambda: self._infer(request, self._left_s(context)))

    def Reset(self, request: pb.ResetRequest,  # noqa: N802
              context: grpc.ServicerContext) -> pb.ResetReply:
        """Clear the state of an episode."""
        return self._guarded(context, lambda: self._reset(request, self._left_s(context)))

    def Stream(self, request_iterator: Iterator[pb.StreamRequest],  # noqa: N802
               context: grpc.ServicerContext) -> Iterator[pb.StreamReply]:
        """Answer each request in turn; a failed one does not end the stream."""
        if not self._streams.acquire(blocking=False):
            _abort(context, PolicyRefused('too many streams are open; use single calls'),
                   grpc.StatusCode.RESOURCE_EXHAUSTED)
        try:
            for request in request_iterator:
                yield self._stream_reply(request)
        finally:
            self._streams.release()

    def _spec(self, request: pb.GetSpecRequest) -> pb.Spec:
        wire.check_version(request.protocol_version)
        return wire.spec_to_wire(self._served.spec)

    def _infer(self, request: pb.InferRequest, timeout_s: float) -> pb.InferReply:
        wire.check_version(request.protocol_version)
        wire.check_size(request.observation, self._served.spec)
        observation = wire.observation_of_request(request)
        answer = self._served.infer(observation, request.episode, timeout_s)
        return wire.chunk_to_wire(answer.chunk, answer.queue_s, answer.infer_s)

    def _reset(self, request: pb.ResetRequest, timeout_s: float) -> pb.ResetReply:
        wire.check_version(request.protocol_version)
        self._served.reset(request.episode, timeout_s)
        return pb.ResetReply()

    def _stream_reply(self, request: pb.StreamRequest) -> pb.StreamReply:
        timeout_s = min(request.timeout_s or self._max_call_s, self._max_call_s)
        try:
            if request.HasField('infer'):
                return pb.StreamReply(id=request.id, infer=self._infer(request.infer, timeout_s))
            return pb.StreamReply(id=request.id, reset=self._reset(request.reset, timeout_s))
        except ArenaError as error:
            return pb.StreamReply(id=request.id, error=pb.Error(code=error.code,
                                                                message=str(error)))

    def _guarded(self, context: grpc.ServicerContext, call: Callable[[], Reply]) -> Reply:
        try:
            return call()
        except ArenaError as error:
            _abort(context, error)

    def _left_s(self, context: grpc.ServicerContext) -> float:
        left_s = context.time_remaining()
        return self._max_call_s if left_s is None else min(left_s, self._max_call_s)


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Refuses every call without the bearer token, health checks aside."""

    def __init__(self, *tokens: str) -> None:
        self._expected = [f'Bearer {token}' for token in tokens]

    def intercept_service(self, continuation: Callable[..., Any],
                          handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Pass the call on, or answer UNAUTHENTICATED in its place."""
        sent = dict(handler_call_details.invocation_metadata).get('authorization', '')
        handler = continuation(handler_call_details)
        open_to_all = handler_call_details.method.startswith(OPEN_TO_ALL)
        if handler is None or open_to_all or is_one_of(str(sent), self._expected):
            return handler
        # Handlers of streams, so that the message is not read.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(_refuse)
        return grpc.stream_unary_rpc_method_handler(_refuse)


class GrpcPolicyServer:
    """
    Serves one policy on one port.

    ``open`` binds and starts; ``close`` waits a moment for running calls and stops.
    """

    def __init__(self, policy: Policy, options: ServeOptions | None = None) -> None:
        self._policy = policy
        self._options = options or ServeOptions()
        self._server: grpc.Server | None = None
        self._health: health.HealthServicer | None = None
        self._workers: futures.Executor | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Where clients find it, such as ``grpc://127.0.0.1:8000``."""
        return f"grpc{'s' if self._options.tls_cert else ''}://{self._options.host}:{self.port}"

    def open(self) -> 'GrpcPolicyServer':
        """Start serving; raises ConfigError when the port or a TLS file cannot be used."""
        options = self._options
        served = ServedPolicy(self._policy, options.parallel)
        # A stream has a thread as long as it is open, and takes none of the calls'.
        for_streams = ThreadPoolExecutor(options.workers + options.streams, 'policy')
        self._workers = workers_for(served, options)
        server = grpc.server(
            self._workers,
            interceptors=[TokenInterceptor(options.token, *options.old_tokens)]
            if options.token else [],
            options=_channel_options(options), compression=grpc.Compression.NoCompression)
        add_policy(server, PolicyServicer(served, options.max_call_s, options.streams),
                   for_streams)
        self._health = _add_health(server)
        reflection.enable_server_reflection(
            (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        self.port = bind(server, options)
        server.start()
        self._server = server
        logger.info('serving %s at %s', type(self._policy).__name__, self.address)
        return self

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the server has stopped, or after ``timeout_s``."""
        if self._server is not None:
            self._server.wait_for_termination(timeout_s)

    def close(self, grace_s: float = 1.0) -> None:
        """Say NOT_SERVING, give running calls ``grace_s``, stop."""
        if self._server is not None and self._health is not None:
            self._health.enter_graceful_shutdown()
            self._server.stop(grace_s).wait(grace_s + 5.0)
            self._server = None
        if self._workers is not None:
            self._workers.shutdown(wait=False)

    def __enter__(self) -> 'GrpcPolicyServer':
        """Open."""
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()


def _abort(context: grpc.ServicerContext, error: ArenaError,
           status: grpc.StatusCode | None = None) -> NoReturn:
    context.set_trailing_metadata(((CODE_KEY, error.code),))
    context.abort(status or status_of(error), str(error))
    raise AssertionError('abort always raises')


def _refuse(request: object, context: grpc.ServicerContext) -> NoReturn:
    _abort(context, PolicyRefused('a bearer token is needed and none that fits was sent'),
           grpc.StatusCode.UNAUTHENTICATED)


def _channel_options(options: ServeOptions) -> list[tuple[str, int]]:
    return [
        UNCOMPRESSED,
        ('grpc.max_receive_message_length', options.max_message_bytes),
        ('grpc.max_send_message_length', options.max_message_bytes),
        ('grpc.so_reuseport', 0),
        ('grpc.server_handshake_timeout_ms', HANDSHAKE_MS),
        ('grpc.keepalive_time_ms', 20_000),
        ('grpc.keepalive_timeout_ms', 10_000),
        ('grpc.keepalive_permit_without_calls', 1),
        ('grpc.http2.min_recv_ping_interval_without_data_ms', 5_000),
        ('grpc.http2.max_ping_strikes', 5),
    ]


def _add_health(server: grpc.Server) -> health.HealthServicer:
    servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ('', SERVICE):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return servicer


def bind(server: Any, options: ServeOptions) -> int:
    """Have a server listen; return its port. Raises ConfigError."""
    where = f'{options.host}:{options.port}'
    try:
        if options.tls_cert is None and options.tls_key is None:
            return int(server.add_insecure_port(where))
        return int(server.add_secure_port(where, _credentials(options)))
    except RuntimeError as error:
        raise ConfigError(f'cannot serve at {where}: {error}; is another server there?'
                          ) from error


def _credentials(options: ServeOptions) -> grpc.ServerCredentials:
    if options.tls_cert is None or options.tls_key is None:
        raise ConfigError('TLS needs both a certificate and a key')
    return grpc.ssl_server_credentials([(_read(options.tls_key), _read(options.tls_cert))])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error


def add_policy(server: Any, servicer: Any, for_streams: ThreadPoolExecutor | None = None) -> None:
    """
    Serve the four calls; streams have the threads ``for_streams``, where these are given.

    The generated function has no threads for streams alone.
    """
    kinds = {'GetSpec': pb.GetSpecRequest, 'Infer': pb.InferRequest, 'Reset': pb.ResetRequest}
    calls = {name: grpc.unary_unary_rpc_method_handler(
        getattr(servicer, name), kind.FromString, _written) for name, kind in kinds.items()}
    stream: Any = servicer.Stream
    if for_streams is not None:
        stream = partial(stream)
        stream.experimental_thread_pool = for_streams    # as gRPC calls it
    calls['Stream'] = grpc.stream_stream_rpc_method_handler(
        stream, pb.StreamRequest.FromString, _written)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))


def _written(message: Any) -> bytes:
    return bytes(message.SerializeToString())


@dataclass(frozen=True)
class _Call:
    """A call to make, and where its result goes."""

    make: Callable[[], Any]
    future: 'futures.Future[Any]'

    def run(self) -> None:
        """Make it, unless it was cancelled."""
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.make())
            except BaseException as error:  # raised again where the result is asked for
                self.future.set_exception(error)


def workers_for(served: ServedPolicy, options: ServeOptions) -> futures.Executor:
    """Return the threads for calls of a policy."""
    return (CallWorkers(options.workers) if served.one_at_a_time
            else ThreadPoolExecutor(options.workers, 'policy'))


class CallWorkers(futures.Executor):
    """
    Makes calls on up to ``most`` threads, and on two while these get on.

    Python runs one thread at a time, and changes from one to another took a third of the time of
    a server of short calls: eight threads make fewer calls a second than two. When no call began
    for ``PATIENCE_S`` although some wait, another thread begins, and again after as long; so
    calls that are long, or wait for the policy, keep no others waiting. The threads are daemons.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: deque[_Call] = deque()
        self._idle: list[_Worker] = []
        self._threads = self._active = self._begun = 0
        self._some_wait, self._closed = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, name='policy watch', daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any,
               **kwargs: Any) -> 'futures.Future[Any]':
        """Have a call made; return its result to be."""
        call = _Call(partial(fn, *args, **kwargs), futures.Future())
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError('these workers were shut down; no call can be made')
            self._calls.append(call)
            if self._active < min(AT_ONCE, self._most):
                self._begin()
            else:
                self._some_wait.set()
        return call.future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Cancel the calls that wait; those that run go on. Can be called twice."""
        with self._lock:
            self._closed.set()
            self._some_wait.set()
            waiting, self._calls = self._calls, deque()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.wake(None)
        for call in waiting:
            call.future.cancel()

    def next_call(self, worker: '_Worker') -> _Call | None:
        """Return what to do now; None: the worker is idle until it is woken."""
        with self._lock:
            if self._calls and self._active <= AT_ONCE:
                self._begun += 1
                return self._calls.popleft()
            self._active -= 1
            if self._closed.is_set():
                worker.wake(None)
            else:
                self._idle.append(worker)
            return None

    def _begin(self) -> None:
        """Give the oldest call to another thread."""
        call = self._calls.popleft()
        self._active += 1
        self._begun += 1
        if self._idle:
            self._idle.pop().wake(call)
        else:
            self._threads += 1
            _Worker(self, f'policy {self._threads}', call)

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._some_wait.wait()
            begun = self._begun
            self._closed.wait(PATIENCE_S)
            with self._lock:
                if not self._calls:
                    self._some_wait.clear()
                elif begun == self._begun and self._active < self._most:
                    self._begin()


class _Worker:
    """A thread that makes the calls of its workers, the given one first."""

    def __init__(self, workers: CallWorkers, name: str, call: _Call) -> None:
        self._workers = workers
        self._woken = threading.Semaphore(0)
        self._given: _Call | None = call
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wake(self, call: _Call | None) -> None:
        """Make a call, and then others; None: end."""
        self._given = call
        self._woken.release()

    def _run(self) -> None:
        call = self._given
        while call is not None:
            while call is not None:
                call.run()
                call = self._workers.next_call(self)
            self._woken.acquire()
            call = self._given
