"""Runs a page's application in a thread: on this machine only, unless an address is given."""

import secrets
import threading
import time
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from arena_robot.core.errors import NotConnected
from arena_robot.core.openable import Openable
from arena_robot.web.bounds import BodyLimit, bounded_http

START_S = 10.0    # uvicorn listens within a second, on a busy machine within some
# The longest words of a verdict fit in. A browser holds up to six connections, beside STOP's.
BODY_BYTES = 1 << 20
PER_ADDRESS = 256
HANDSHAKE_S = 3.0
LOOPBACK = ('127.0.0.1', 'localhost', '::1')
LOCAL = ('localhost', '127.0.0.1', '[::1]', '::1')


class PageServer(Openable):
    """
    Serves an application at ``http://host:port``; ``port`` 0 uses a free one.

    On any host but this machine's own a token is required: ``token``, or a random one.
    ``make_app`` gets the token and the names under which the page may be opened; ``names`` are
    further ones. ``what`` names the page in messages, ``option`` what sets its port.
    """

    def __init__(self, make_app: Callable[[str, tuple[str, ...]], ASGIApp], host: str, port: int,
                 token: str = '', names: tuple[str, ...] = (), what: str = 'page',
                 option: str = '--port') -> None:
        self._host, self._what, self._option = host, what, option
        local = host in LOOPBACK
        self._token = token or ('' if local else secrets.token_urlsafe(12))
        hosts = (*LOCAL, host, *names) if local or names else ('*',)
        config = uvicorn.Config(BodyLimit(make_app(self._token, hosts), BODY_BYTES), host=host,
                                port=port, log_level='warning',
                                http=bounded_http(PER_ADDRESS, HANDSHAKE_S),
                                timeout_graceful_shutdown=3, server_header=False,
                                ws='websockets-sansio', ws_max_size=4096)
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the page's address, with the token if one is required."""
        host = 'localhost' if self._host in ('0.0.0.0', *LOOPBACK) else self._host
        return self.url_at(host)

    def url_at(self, host: str) -> str:
        """Return the page's address under another name of this machine."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f'http://{host}:{port}/' + (f'?token={self._token}' if self._token else '')

    def open(self) -> None:
        """Start serving; NotConnected when the address is in use."""
        self._thread = threading.Thread(target=self._serve, name=self._what, daemon=True)
        self._thread.start()
        deadline_s = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline_s:
                raise NotConnected(f'the {self._what} cannot listen on {self._host}: is the port '
                                   f'in use? Choose another with {self._option}')
            time.sleep(0.02)

    def close(self) -> None:
        """Stop serving; can be called twice."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _serve(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            # uvicorn exits like this when it cannot bind; open() raises the error.
            self._server.should_exit = True
