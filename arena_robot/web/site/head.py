"""HEAD requests: what GET answers, without its body."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HeadAsGet:
    """Hands a HEAD request on as GET; the server behind it leaves the body out."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope['type'] == 'http' and scope['method'] == 'HEAD':
            scope = {**scope, 'method': 'GET'}
        await self._app(scope, receive, send)
