"""Any policy on a websocket, as openpi and RoboArena clients expect it."""

import http
import itertools
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from arena_robot.core.errors import ArenaError, ConfigError, DataError, PolicyRefused
from arena_robot.policy.base import Policy
from arena_robot.policy.openpi import wire as openpi_codec
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.openpi.answering import AnsweringConnection, Message, Tender
from arena_robot.policy.openpi.shared_tls import LastingListener, SharedSslSocket
from arena_robot.policy.options import ServeOptions, is_one_of
from arena_robot.policy.serving import Answer, ServedPolicy

logger = logging.getLogger(__name__)
# At DEBUG the library logs headers, and with them the token.
LINE_LOGGER = logging.getLogger('arena_robot.policy.openpi.server.line')
LINE_LOGGER.setLevel(logging.INFO)

HEALTH_PATH = '/healthz'
CONNECTIONS_PER_ADDRESS = 64    # so that one caller does not take all


class OpenpiCaller:
    """One connection; requests without a session id belong to an episode of its own."""

    def __init__(self, served: ServedPolicy, name: str, max_call_s: float) -> None:
        self._served = served
        self._name = name
        self._max_call_s = max_call_s
        self._used = False

    def answer(self, frame: Message) -> bytes | str:
        """Return the reply to one frame; errors are strings that begin with their code."""
        try:
            return self._answer(frame)
        except ArenaError as error:
            return f'[{error.code}] {error}'

    def leave(self) -> None:
        """Clear the episode that only this connection could continue."""
        if self._used:
            self._served.reset(self._name, self._max_call_s)
            self._used = False

    def _answer(self, frame: Message) -> bytes | str:
        request = self._request(frame)
        session = openpi_wire.session_of(request)
        endpoint = request.get('endpoint', 'infer')
        if endpoint == 'infer' and openpi_wire.is_connection_test(request):
            return self._test()
        if endpoint == 'infer':
            return self._infer(request, session)
        if endpoint == 'reset':
            self.leave()
            if session:
                self._served.reset(session, self._max_call_s)
            return 'reset successful'
        raise PolicyRefused(f"'endpoint' must be 'infer' or 'reset', found {endpoint!r}")

    def _infer(self, request: dict[Any, Any], session: str) -> bytes:
        observation = openpi_wire.observation_of(request, time.time_ns(),
                                                 self._served.spec.image_size)
        self._used = self._used or not session
        return openpi_codec.pack(_reply(self._served.infer(
            observation, session or self._name, self._max_call_s)))

    def _test(self) -> bytes:
        """Answer a request without an observation in an episode of its own, and say so."""
        logger.warning('%s sent no observation: answered as a test of the connection', self._name)
        episode = f'{self._name}-test'
        answer = self._served.infer(
            openpi_wire.test_observation(self._served.spec, time.time_ns()), episode,
            self._max_call_s)
        self._served.reset(episode, self._max_call_s)
        return openpi_codec.pack(_reply(answer) | {'connection_test': True})

    def _request(self, frame: Message) -> dict[Any, Any]:
        if isinstance(frame, str):
            raise PolicyRefused('requests are binary frames of msgpack, found text')
        try:
            request = openpi_codec.unpack(frame)
        except DataError as error:
            raise PolicyRefused(str(error)) from error
        if not isinstance(request, dict):
            raise PolicyRefused(f'a request is a map, found a {type(request).__name__}')
        return request


def _reply(answer: Answer) -> dict[str, Any]:
    return {
        'actions': answer.chunk.actions,
        'server_timing': {'infer_ms': answer.infer_s * 1e3, 'queue_ms': answer.queue_s * 1e3},
    }


class OpenpiPolicyServer:
    """
    Serves one policy on one port, with ``/healthz`` beside it.

    ``open`` binds and starts; ``close`` closes all connections and stops.
    """

    def __init__(self, policy: Policy, options: ServeOptions | None = None) -> None:
        self._policy = policy
        self._options = options or ServeOptions()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._tender: Tender | None = None
        self._numbers = itertools.count(1)
        self._served: ServedPolicy | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Where clients find it, such as ``openpi://127.0.0.1:8000``."""
        return f"openpi{'s' if self._options.tls_cert else ''}://{self._options.host}:{self.port}"

    def open(self) -> 'OpenpiPolicyServer':
        """Start serving; raises ConfigError when the port or a TLS file cannot be used."""
        options = self._options
        self._served = ServedPolicy(self._policy, options.parallel)
        try:
            self._server = serve(
                cast(Any, self._converse), options.host, options.port, compression=None,
                max_size=options.max_message_bytes, process_request=self._admit,
                ssl=_tls(options), close_timeout=1.0, logger=LINE_LOGGER,
                create_connection=AnsweringConnection)
        except OSError as error:
            raise ConfigError(f'cannot serve at {options.host}:{options.port}: {error}'
                              ) from error
        self._server.socket = cast(socket.socket, LastingListener(self._server.socket))
        self._server.handler = _few(self._server, self._server.handler)
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name='openpi-server',
                                        daemon=True)
        self._thread.start()
        self._tender = Tender(self._server)
        logger.info('serving %s at %s', type(self._policy).__name__, self.address)
        return self

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the server has stopped, or after ``timeout_s``."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self, grace_s: float = 5.0) -> None:
        """Stop accepting, close all connections, wait ``grace_s`` for running calls."""
        if self._server is None or self._thread is None:
            return
        if self._tender is not None:
            self._tender.stop()
        stopping = threading.Thread(target=self._server.shutdown, daemon=True)
        stopping.start()
        stopping.join(grace_s)
        if stopping.is_alive():
            logger.warning('a call is still in the policy after %.3g s; not waiting for it',
                           grace_s)
        self._server = self._thread = None

    def __enter__(self) -> 'OpenpiPolicyServer':
        """Open."""
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _converse(self, connection: AnsweringConnection) -> None:
        assert self._served is not None
        caller = OpenpiCaller(self._served, f'connection-{next(self._numbers)}',
                         self._options.max_call_s)
        try:
            connection.send(openpi_codec.pack(openpi_wire.metadata_of(self._served.spec)))
            connection.answer_with(caller.answer)
            logger.info('a caller left: %s', connection.close_exc)
        except ConnectionClosed as closed:
            logger.info('a caller left: %s', closed)
        finally:
            self._leave(caller)

    def _leave(self, caller: OpenpiCaller) -> None:
        try:
            caller.leave()
        except ArenaError as error:
            logger.warning('the policy did not forget a caller who left: %s', error)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer health checks, refuse callers without the token, accept the others."""
        if request.path == HEALTH_PATH:
            return connection.respond(http.HTTPStatus.OK, 'OK\n')
        sent = request.headers.get('Authorization', '').split(' ', 1)[-1]
        if self._options.token and not is_one_of(
                sent, (self._options.token, *self._options.old_tokens)):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, 'a token is needed\n')
        return None


def _few(server: Server, handle: Callable[[socket.socket, Any], None],
         ) -> Callable[[socket.socket, Any], None]:
    """Return a handler that closes all but a few connections of one address."""
    counts: Counter[str] = Counter()

    def handling(line: socket.socket, peer: Any) -> None:
        host = str(peer[0])
        with server.lock:
            counts[host] += 1
            refused = counts[host] > CONNECTIONS_PER_ADDRESS
        try:
            if refused:
                line.close()
            else:
                handle(line, peer)
        finally:
            with server.lock:
                counts[host] -= 1
                if not counts[host]:
                    del counts[host]
                server.handler_threads.discard(threading.current_thread())
    return handling


def _tls(options: ServeOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise ConfigError('TLS needs both a certificate and a key')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = SharedSslSocket
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:
        raise ConfigError(f'cannot use {options.tls_cert} with {options.tls_key}: {error}'
                          ) from error
    return context
