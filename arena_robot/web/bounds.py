"""
Bounds on web requests: connections of an address, time until a request, size of a body.

HEAD is answered as GET.
"""

import asyncio
from typing import Any, ClassVar

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

BODY_S = 20.0    # until the whole body of a request is here
SEND_S = 60.0    # until a piece of an answer is taken

FORM_BYTES = 4096       # of a form with one field and its token


class BodyLimit:
    """
    ASGI middleware that reads the body of a request, up to ``max_bytes``, before it is handled.

    A larger one is refused by its header, or as soon as more has arrived; a slow one after
    ``BODY_S``. An answer that nobody takes ends after ``SEND_S``.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, body_s: float = BODY_S) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused, pass on the others."""
        if scope['type'] != 'http':
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        has_body = 'transfer-encoding' in headers or headers.get('content-length', '0') != '0'
        body, status = b'', 0
        if self._too_large(headers.get('content-length', '')):
            status = 413
        elif has_body:
            try:
                body, status = await asyncio.wait_for(self._read(receive), self._body_s)
            except asyncio.TimeoutError:
                status = 408
        if status:
            await self._refuse(status, scope, receive, send)
            return
        await self._app(scope, _again(body, receive) if has_body else receive, _in_time(send))

    def _too_large(self, length: str) -> bool:
        return length.isdigit() and int(length[:20]) > self._max_bytes

    async def _read(self, receive: Receive) -> tuple[bytes, int]:
        """Return the body and 0, or the status with which the request is refused."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message['type'] == 'http.disconnect':
                return b'', 400
            parts.append(message.get('body', b''))
            size += len(parts[-1])
            if size > self._max_bytes:
                return b'', 413
            more = message.get('more_body', False)
        return b''.join(parts), 0

    async def _refuse(self, status: int, scope: Scope, receive: Receive, send: Send) -> None:
        text = (f'a request has up to {self._max_bytes} bytes' if status == 413
                else f'the request did not arrive within {self._body_s:g} s')
        await PlainTextResponse(text, status, headers={'Connection': 'close'})(
            scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that begins with a body that was read before."""
    left: list[Message] = [{'type': 'http.request', 'body': body, 'more_body': False}]

    async def receiving() -> Message:
        return left.pop() if left else await receive()
    return receiving


def _in_time(send: Send) -> Send:
    async def sending(message: Message) -> None:
        await asyncio.wait_for(send(message), SEND_S)
    return sending


def _host_of(connection: object) -> str:
    if isinstance(connection, H11Protocol | WebSocketsSansIOProtocol) and connection.client:
        return connection.client[0]
    return ''


class _BoundedHttp(H11Protocol):
    """See :func:`bounded_http`."""

    per_address: ClassVar[int]
    handshake_s: ClassVar[float]

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any],
                 _loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._idle_since_s = self.loop.time()

    @property
    def waits(self) -> bool:
        """Whether the server waits for the rest of a request, or for the next one."""
        return (self.cycle is None or self.cycle.response_complete
                or repr(self.conn.their_state) == 'SEND_BODY')

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = _host_of(self)
        from_host = [c for c in self.connections if _host_of(c) == host
                     and c is not self and not c.transport.is_closing()]
        if len(from_host) >= self.per_address:
            idle = [c for c in from_host if isinstance(c, _BoundedHttp) and c.waits]
            if not idle:
                transport.abort()
                return
            min(idle, key=lambda c: c._idle_since_s).transport.abort()
        self._look_later(self.handshake_s)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._idle_since_s = self.loop.time()

    def _look_later(self, seconds: float) -> None:
        self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        if self.transport.is_closing() or self not in self.connections:
            return    # closed, or a websocket now
        answering = self.cycle is not None and not self.cycle.response_complete
        idle_s = 0.0 if answering else self.loop.time() - self._idle_since_s
        if idle_s >= self.handshake_s:
            self.transport.abort()
        else:
            self._look_later(max(0.05, self.handshake_s - idle_s))


def bounded_http(per_address: int, handshake_s: float) -> type[H11Protocol]:
    """
    Return uvicorn's HTTP protocol with bounds on connections.

    One that has sent no whole request header ``handshake_s`` after it began, or after the last
    answer, is closed. An IP address has ``per_address``: for one more, the one that has kept the
    server waiting for a request longest is closed, so that those who ask nothing keep nobody out;
    the new one, where all are being answered.
    """
    return type('BoundedHttp', (_BoundedHttp,),
                {'per_address': per_address, 'handshake_s': handshake_s})


class HeadAsGet:
    """Hands a HEAD request on as GET; the server behind it leaves the body out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope['type'] == 'http' and scope['method'] == 'HEAD':
            scope = {**scope, 'method': 'GET'}
        await self._app(scope, receive, send)
