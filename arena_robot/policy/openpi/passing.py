"""
openpi's frames passed on as they are: a websocket server and a client for asyncio programs.

Nothing here looks into a frame, so any robot, any cameras and any actions fit. openpi's clients
and RoboArena's both speak to the server: they differ only in what the first frame tells them. A
caller that speaks gRPC is connected to a gRPC server, byte for byte.
"""

import asyncio
import http
import itertools
import logging
import ssl
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Any, TypeVar, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)
from websockets.http11 import Request, Response
from websockets.protocol import State

from arena_robot.core.errors import (
    BadReply,
    ConfigError,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.policy.address import PolicyAddress
from arena_robot.policy.grpc.errors import BY_CODE
from arena_robot.policy.options import CallOptions, ServeOptions, is_one_of

log = logging.getLogger(__name__)
# At DEBUG the library logs headers, and with them the token.
LINE_LOGGER = logging.getLogger('arena_robot.policy.openpi.line')
LINE_LOGGER.setLevel(logging.INFO)
T = TypeVar('T')
Message = bytes | str

TRACEBACK = 'Traceback (most recent call last)'
HEALTH_PATH = '/healthz'
CONNECTIONS_PER_ADDRESS = 64    # so that one caller does not take all
HANDSHAKE_S = 10.0    # of TLS, as long as the library lets the opening of a websocket take
# A frame with two pictures is written and read in one piece.
WRITE_BYTES = 1 << 20
AnswerFrame = Callable[[str, Message], Awaitable[Message]]
NOT_OPENPI = ('this address speaks the websocket protocol of openpi and RoboArena; use '
              'ws://host:port there, and the gRPC address for arena.policy.v1')
HTTP2 = b'PRI '    # how every gRPC client begins
FIRST_S = 10.0     # for a caller's first request
LOCAL = '127.0.0.1'


class CallPassage(asyncio.Protocol):
    """A caller's connection to the gRPC server, which is at ``port`` of this machine."""

    def __init__(self, caller: asyncio.Transport) -> None:
        self._caller = caller
        self._early: list[bytes] | None = []    # what came before the connection was made
        self._transport: asyncio.Transport | None = None
        self.name = ''

    async def open(self, port: int) -> None:
        """Connect; the caller is let go where nothing answers."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, LOCAL, port)
        except OSError as error:
            log.warning('the gRPC server does not answer: %s', error)
            self._caller.abort()

    def send(self, data: bytes) -> None:
        """Pass on what the caller said."""
        if self._transport is None:
            assert self._early is not None
            self._early.append(data)
        else:
            self._transport.write(data)

    def end(self) -> None:
        """Let the server know that the caller left."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        """Send what has come, under the name that the server knows this connection by."""
        self._transport, early, self._early = transport, self._early, None
        self.name = f'ipv4:{LOCAL}:{transport.get_extra_info("sockname")[1]}'
        transport.writelines(early or ())
        if self._caller.is_closing():
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass on what the server said."""
        self._caller.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Let the caller go with the server."""
        self._caller.close()


class LoopThread:
    """An event loop in a thread of its own, for programs that have none."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Return what a coroutine returns that runs in the loop; raises PolicyError."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise PolicyUnavailable('the connection was closed before') from error
        try:
            return future.result(timeout_s)
        except FutureTimeout as error:
            future.cancel()
            raise PolicyTimeout(f'no answer within {timeout_s:.3g} s') from error
        except CancelledError as error:
            raise PolicyUnavailable('the connection was closed meanwhile') from error

    def close(self, timeout_s: float = 10.0) -> None:
        """End the loop, and what still runs in it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_others())
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class CountedConnection(ServerConnection):
    """Is cut at once where its address has enough others."""

    def __init__(self, counts: 'Counter[str]', *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counts = counts

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        super().connection_made(transport)
        self._host = str((transport.get_extra_info('peername') or ('',))[0])
        self._counts[self._host] += 1
        if self._counts[self._host] > CONNECTIONS_PER_ADDRESS:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        self._counts -= Counter([self._host])
        super().connection_lost(exc)


class EitherConnection(CountedConnection):
    """A caller's connection, which speaks openpi's protocol or gRPC."""

    def __init__(self, frames: 'FrameServer', *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._frames = frames
        self._passage: CallPassage | None = None
        self._silent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._silent = self.loop.call_later(FIRST_S, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Find out what the caller speaks by what it says first."""
        if self._passage is None and self.request is None and data.startswith(HTTP2):
            self._passage = self._frames.passage(self.transport)
        if self._passage is not None:
            self._passage.send(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was opened for the caller."""
        super().connection_lost(exc)
        if self._silent is not None:
            self._silent.cancel()
        if self._passage is not None:
            self._passage.end()
            self._frames.ended(self._passage)

    def _give_up(self) -> None:
        if self._passage is None and self.request is None:
            self.transport.abort()


class FrameServer:
    """
    Serves one port; ``answer`` gets the name of the caller's connection and each frame.

    ``first`` is the frame that every client gets first. ``left`` is called with the name of a
    connection that ended, ``stray`` with a sentence about a caller of another protocol. Where
    ``call_port`` is set before :meth:`open`, callers that speak gRPC are passed on to the server
    at that port of this machine.
    """

    def __init__(self, first: bytes, answer: AnswerFrame, left: Callable[[str], None],
                 stray: Callable[[str], None], options: ServeOptions) -> None:
        self._first, self._answer = first, answer
        self._left, self._stray = left, stray
        self._options = options
        self._numbers = itertools.count(1)
        self._counts: Counter[str] = Counter()
        self._server: Server | None = None
        self._passages: dict[CallPassage, asyncio.Transport] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self.port = self.call_port = 0

    async def open(self) -> None:
        """Start serving; ConfigError when the port or a TLS file cannot be used."""
        options, tls = self._options, _served_tls(self._options)
        connection = (partial(EitherConnection, self, self._counts) if self.call_port else
                      partial(CountedConnection, self._counts))
        try:
            self._server = await serve(
                self._converse, options.host, options.port, compression=None,
                max_size=options.max_message_bytes, process_request=self._admit,
                close_timeout=1.0, write_limit=WRITE_BYTES, logger=LINE_LOGGER, ssl=tls,
                ssl_handshake_timeout=HANDSHAKE_S if tls else None,
                open_timeout=None if self.call_port else FIRST_S,
                create_connection=cast(Any, connection))
        except OSError as error:
            raise ConfigError(f'cannot serve at {options.host}:{options.port}: {error}'
                              ) from error
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self, grace_s: float = 5.0) -> None:
        """Close all connections, wait ``grace_s`` for answers; can be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        for transport in self._passages.values():
            transport.abort()
        server.close()
        try:
            await asyncio.wait_for(server.wait_closed(), grace_s)
        except asyncio.TimeoutError:
            log.warning('a call is still in the policy after %.3g s; not waiting for it', grace_s)

    def passage(self, caller: asyncio.Transport) -> CallPassage:
        """Return the connection to the gRPC server for a caller that speaks it."""
        passage = CallPassage(caller)
        self._passages[passage] = caller
        task = asyncio.get_running_loop().create_task(passage.open(self.call_port))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return passage

    def ended(self, passage: CallPassage) -> None:
        """Forget a caller that spoke gRPC."""
        del self._passages[passage]
        self._left(passage.name)

    async def _converse(self, connection: ServerConnection) -> None:
        caller = f'websocket {next(self._numbers)}'
        try:
            await connection.send(self._first)
            async for frame in connection:
                await connection.send(await self._answer(caller, frame))
        except ConnectionClosed as closed:
            log.info('%s left: %s', caller, closed)
        finally:
            self._left(caller)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer health checks and who asks for no websocket; refuse who has not the token."""
        if request.path == HEALTH_PATH:
            return connection.respond(http.HTTPStatus.OK, 'OK\n')
        token, sent = self._options.token, request.headers.get('Authorization', '')
        if token and not is_one_of(sent.split(' ', 1)[-1], (token, *self._options.old_tokens)):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, 'a token is needed\n')
        if request.headers.get('Upgrade', '').lower() != 'websocket':
            self._stray(f'somebody called the websocket address over HTTP: {NOT_OPENPI}')
            return connection.respond(http.HTTPStatus.UPGRADE_REQUIRED, f'{NOT_OPENPI}\n')
        return None


def _served_tls(options: ServeOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise ConfigError('TLS needs both a certificate and a key')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:
        raise ConfigError(f'cannot use {options.tls_cert} with {options.tls_key}: {error}'
                          ) from error
    return context


class Straight(connect):
    """Opens a websocket at the address itself: a server that redirects is an error."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return the error."""
        return exc


class FrameLine:
    """
    A connection to an openpi or RoboArena server; one exchange at a time.

    ``met`` gets the server's first frame of each connection; what it raises refuses the server. A
    connection that broke fails its exchange and is made anew for the next one.
    """

    def __init__(self, address: PolicyAddress, options: CallOptions,
                 met: Callable[[bytes], object]) -> None:
        self._address = address
        self._options = address.applied(options)
        self._met = met
        self._turn = asyncio.Lock()
        self._socket: ClientConnection | None = None

    async def open(self) -> None:
        """Connect anew, and read the first frame; an exchange under way fails. PolicyError."""
        await self._drop()
        async with self._turn:
            await self._connected()

    async def exchange(self, frame: Message, timeout_s: float) -> Message:
        """Send a frame and return the reply, both as they are; raises PolicyError."""
        try:
            await asyncio.wait_for(self._turn.acquire(), timeout_s)
        except asyncio.TimeoutError as error:
            raise PolicyTimeout(f'{self._address} is busy with another call') from error
        try:
            return await asyncio.wait_for(self._exchanged(frame), timeout_s)
        except asyncio.TimeoutError as error:
            await self._drop()
            raise PolicyTimeout(f'{self._address}: no reply within {timeout_s:.3g} s') from error
        except (OSError, WebSocketException) as error:
            await self._drop()
            raise PolicyUnavailable(f'{self._address}: the connection broke: {error}') from error
        except asyncio.CancelledError:
            # What comes next over this connection would be the answer to this frame.
            await self._drop()
            raise
        finally:
            self._turn.release()

    async def close(self) -> None:
        """Close the connection; can be called twice."""
        connection, self._socket = self._socket, None
        if connection is not None:
            await connection.close()

    async def _exchanged(self, frame: Message) -> Message:
        connection = await self._connected()
        await connection.send(frame)
        reply: Message = await connection.recv()
        if isinstance(reply, str) and TRACEBACK in reply:
            await self._drop()    # the reference server then closes the connection
        return reply

    async def _connected(self) -> ClientConnection:
        if self._socket is None or self._socket.state is not State.OPEN:
            connection = await self._dialled()
            try:
                self._met(await self._first(connection))
            except BaseException:
                await connection.close()
                raise
            self._socket = connection
        return self._socket

    async def _first(self, connection: ClientConnection) -> bytes:
        limit_s = self._options.connect_timeout_s
        try:
            first = await asyncio.wait_for(connection.recv(), limit_s)
        except asyncio.TimeoutError as error:
            raise BadReply(f'{self._address} sent no metadata within {limit_s:.3g} s') from error
        except ConnectionClosed as error:
            raise PolicyUnavailable(f'{self._address} hung up before its metadata: {error}'
                                    ) from error
        if isinstance(first, str):
            raise told(str(self._address), first)
        return first

    async def _dialled(self) -> ClientConnection:
        failures = []
        for scheme in ('wss',) if self._address.secure else ('ws', 'wss'):
            try:
                return await self._dial(scheme)
            except InvalidStatus as error:
                raise refusal(error, str(self._address)) from error
            except (OSError, InvalidHandshake, EOFError, asyncio.TimeoutError) as error:
                failures.append(f'{scheme}: {error or type(error).__name__}')
        raise silence(str(self._address), failures)

    async def _dial(self, scheme: str) -> ClientConnection:
        options = self._options
        elsewhere: dict[str, Any] = {'host': options.connect_to, 'port': self._address.port}
        return await Straight(
            f'{scheme}://{self._address.target}', compression=None, proxy=None,
            max_size=options.max_message_bytes, open_timeout=options.connect_timeout_s,
            close_timeout=1.0, ping_interval=None, write_limit=WRITE_BYTES,
            additional_headers=authorization(options), logger=LINE_LOGGER,
            ssl=tls_context(options) if scheme == 'wss' else None,
            **(elsewhere if options.connect_to else {}))

    async def _drop(self) -> None:
        """Cut a connection whose next frame could belong to an exchange that was given up."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.transport.abort()
            await connection.close()


def authorization(options: CallOptions) -> dict[str, str] | None:
    """Return the headers that show a policy's token, None without one."""
    word = 'Bearer' if options.auth == 'bearer' else 'Api-Key'
    return {'Authorization': f'{word} {options.token}'} if options.token else None


def refusal(error: InvalidStatus, address: str) -> PolicyError:
    """Return the error for a server that answered without opening a websocket."""
    status = error.response.status_code
    kind = PolicyRefused if status in (401, 403) else PolicyUnavailable
    return kind(f'{address} answered HTTP {status} instead of opening a websocket')


def silence(address: str, failures: Sequence[str]) -> PolicyUnavailable:
    """Return the error for a server that no attempt could reach."""
    return PolicyUnavailable(f"{address} does not answer ({'; '.join(failures)}); is the "
                             'server running there, and does it speak websocket?')


def told(address: str, reply: str) -> PolicyError:
    """Return the error in a text that a server sent, the last line of a traceback."""
    log.debug('%s replied: %s', address, reply)
    lines = reply.strip().splitlines() or ['an empty error']
    code = code_of(lines[0])
    text = lines[0][len(code) + 2:].strip() if code else lines[-1]
    return BY_CODE.get(code, PolicyError)(f'{address}: {text}')


def code_of(reply: str) -> str:
    """Return the code in ``[code] message``, empty when it is not one of ours."""
    code = reply[1:].split(']', 1)[0] if reply.startswith('[') else ''
    return code if code in BY_CODE else ''


def tls_context(options: CallOptions) -> ssl.SSLContext:
    """Return what a connection over TLS trusts. Raises ConfigError."""
    try:
        return ssl.create_default_context(cafile=options.tls_ca,
                                          cadata=options.tls_ca_pem or None)
    except OSError as error:
        place = options.tls_ca or 'the certificate of the authority'
        raise ConfigError(f'cannot read {place}: {error}') from error
