"""
openpi's frames passed on as they are: a websocket server and a client for asyncio programs.

Nothing here looks into a frame, so any robot, any cameras and any actions fit. openpi's clients
and RoboArena's both speak to the server: they differ only in what the first frame tells them.
"""

import asyncio
import http
import itertools
import logging
from collections.abc import Awaitable, Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Request, Response
from websockets.protocol import State

from arena_robot.core.errors import (
    BadReply,
    ConfigError,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.policy.address import PolicyAddress
from arena_robot.policy.openpi.answering import Message
from arena_robot.policy.openpi.client import (
    LINE_LOGGER,
    TRACEBACK,
    authorization,
    refusal,
    silence,
    tls_context,
)
from arena_robot.policy.openpi.server import HEALTH_PATH
from arena_robot.policy.options import CallOptions, ServeOptions

log = logging.getLogger(__name__)

# A frame with two pictures is written and read in one piece.
WRITE_BYTES = 1 << 20
AnswerFrame = Callable[[str, Message], Awaitable[Message]]
NOT_OPENPI = ('this address speaks the websocket protocol of openpi and RoboArena; use '
              'ws://host:port there, and the gRPC address for arena.policy.v1')


class FrameServer:
    """
    Serves one port; ``answer`` gets the name of the caller's connection and each frame.

    ``first`` is the frame that every client gets first. ``left`` is called with the name of a
    connection that ended, ``stray`` with a sentence about a caller of another protocol.
    """

    def __init__(self, first: bytes, answer: AnswerFrame, left: Callable[[str], None],
                 stray: Callable[[str], None], options: ServeOptions) -> None:
        self._first, self._answer = first, answer
        self._left, self._stray = left, stray
        self._options = options
        self._numbers = itertools.count(1)
        self._server: Server | None = None
        self.port = 0

    async def open(self) -> None:
        """Start serving; ConfigError when the port cannot be used."""
        options = self._options
        try:
            self._server = await serve(
                self._converse, options.host, options.port, compression=None,
                max_size=options.max_message_bytes, process_request=self._admit,
                close_timeout=1.0, write_limit=WRITE_BYTES, logger=LINE_LOGGER)
        except OSError as error:
            raise ConfigError(f'cannot serve at {options.host}:{options.port}: {error}'
                              ) from error
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        """Close all connections and stop; can be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()

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
        """Answer health checks, and callers that do not ask for a websocket."""
        if request.path == HEALTH_PATH:
            return connection.respond(http.HTTPStatus.OK, 'OK\n')
        if request.headers.get('Upgrade', '').lower() != 'websocket':
            self._stray(f'somebody called the websocket address over HTTP: {NOT_OPENPI}')
            return connection.respond(http.HTTPStatus.UPGRADE_REQUIRED, f'{NOT_OPENPI}\n')
        return None


class FrameLine:
    """
    A connection to an openpi or RoboArena server; one exchange at a time.

    ``first`` is the server's first frame. A connection that broke fails its exchange and is made
    anew for the next one.
    """

    def __init__(self, address: PolicyAddress, options: CallOptions) -> None:
        self._address = address
        self._options = address.applied(options)
        self._turn = asyncio.Lock()
        self._socket: ClientConnection | None = None
        self.first = b''

    async def open(self) -> None:
        """Connect anew, and read the first frame; an exchange under way fails. PolicyError."""
        await self._drop()
        async with self._turn:
            await self._connected()

    async def exchange(self, frame: Message, timeout_s: float) -> Message:
        """Send a frame and return the reply, both as they are; raises PolicyError."""
        async with self._turn:
            try:
                return await asyncio.wait_for(self._exchanged(frame), timeout_s)
            except asyncio.TimeoutError as error:
                await self._drop()
                raise PolicyTimeout(f'{self._address}: no reply within {timeout_s:.3g} s'
                                    ) from error
            except (OSError, ConnectionClosed) as error:
                await self._drop()
                raise PolicyUnavailable(f'{self._address}: the connection broke: {error}'
                                        ) from error
            except asyncio.CancelledError:
                # What comes next over this connection would be the answer to this frame.
                await self._drop()
                raise

    async def close(self) -> None:
        """Close the connection; can be called twice."""
        await self._drop()

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
                first = await asyncio.wait_for(connection.recv(), self._options.connect_timeout_s)
            except (asyncio.TimeoutError, ConnectionClosed) as error:
                await connection.close()
                raise BadReply(f'{self._address} sent no metadata: {error}') from error
            if isinstance(first, str):
                await connection.close()
                raise BadReply(f'{self._address} sent a text in place of its metadata')
            self.first, self._socket = first, connection
        return self._socket

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
        return await connect(
            f'{scheme}://{self._address.target}', compression=None, proxy=None,
            max_size=options.max_message_bytes, open_timeout=options.connect_timeout_s,
            close_timeout=1.0, ping_interval=None, write_limit=WRITE_BYTES,
            additional_headers=authorization(options), logger=LINE_LOGGER,
            ssl=tls_context(options) if scheme == 'wss' else None)

    async def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.transport.abort()
            await connection.close()
