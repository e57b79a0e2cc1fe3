"""Who may use the console: the token, the page's own origin, and what its pages may load."""

import hmac
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

COOKIE = 'arena_console'
HEADERS = {
    'X-Content-Type-Options': 'nosniff', 'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'same-origin', 'Cross-Origin-Resource-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin'}
NO_TOKEN = ('open the page with the link that the console printed at its start: it holds the '
            'token')


class ConsoleGuard:
    """
    ASGI middleware that checks every request and every WebSocket.

    A browser names the origin of the page that sends a request: pages of other origins are
    refused, also for STOP. Programs that are no browser name none. With a ``token`` it is
    required as ``?token=``, as a bearer token, or as the cookie that ``?token=`` sets.
    """

    def __init__(self, app: ASGIApp, token: str = '') -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, pass on the others."""
        if scope['type'] not in ('http', 'websocket'):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection)
        if refusal and scope['type'] == 'websocket':
            await WebSocketClose(1008, refusal[1])(scope, receive, send)
        elif refusal:
            await JSONResponse({'detail': refusal[1]}, refusal[0])(scope, receive, send)
        else:
            await self._app(scope, receive, self._sender(connection, send))

    def _refusal(self, connection: HTTPConnection) -> tuple[int, str] | None:
        origin, host = connection.headers.get('origin'), connection.headers.get('host', '')
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, (f'a page of {origin[:100]} may not use this console; open the console '
                         f'itself, http://{host[:100]}/')
        bearer = connection.headers.get('authorization', '').removeprefix('Bearer ')
        tokens = (connection.cookies.get(COOKIE), bearer, connection.query_params.get('token'))
        if self._token and not any(self._same(token) for token in tokens):
            return 401, NO_TOKEN
        return None

    def _same(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def _sender(self, connection: HTTPConnection, send: Send) -> Send:
        """Return ``send`` with the headers of every answer added."""
        host = connection.headers.get('host', '')

        async def sending(message: Message) -> None:
            if message['type'] == 'http.response.start':
                headers = MutableHeaders(scope=message)
                headers['Content-Security-Policy'] = policy(host)
                for name, value in HEADERS.items():
                    headers[name] = value
                if self._token and self._same(connection.query_params.get('token')):
                    headers.append('Set-Cookie', _cookie(self._token))
            await send(message)
        return sending


def policy(host: str) -> str:
    """Return the Content-Security-Policy: only the console's own files, no inline scripts."""
    # Older browsers do not count a WebSocket of the same host as 'self'.
    sockets = f' ws://{host} wss://{host}' if host and not set(host) & set(' ;,\'"') else ''
    return (f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
            f" media-src 'self' blob:; connect-src 'self'{sockets}; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'")


def _cookie(token: str) -> str:
    response = Response()
    response.set_cookie(COOKIE, token, httponly=True, samesite='strict')
    return response.headers['set-cookie']
