"""Runs the evaluator console in a thread: on this machine only, unless an address is given."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import uvicorn

from arena_robot.core.errors import NotConnected
from arena_robot.core.openable import Openable
from arena_robot.core.tuning import switch_threads_soon
from arena_robot.session.evaluator.desk import Desk
from arena_robot.web.bounds import BodyLimit, bounded_http
from arena_robot.web.console.app import LOCAL, create_app

START_S = 10.0    # uvicorn listens within a second, on a busy machine within some
# The longest words of a verdict fit in. A browser holds up to six connections, beside STOP's.
BODY_BYTES = 1 << 20
PER_ADDRESS = 256
HANDSHAKE_S = 3.0
LOOPBACK = ('127.0.0.1', 'localhost', '::1')


class ConsoleServer(Openable):
    """
    Serves a desk at ``http://host:port``; ``port`` 0 uses a free one.

    On any host but this machine's own a token is required: ``token``, or a random one. ``names``
    are further names under which the page may be opened, such as the station's. ``audits`` returns
    the audits of finished sessions, as audit_node publishes them.
    """

    def __init__(self, desk: Desk, host: str = '127.0.0.1', port: int = 8600, token: str = '',
                 names: tuple[str, ...] = (),
                 audits: Callable[[], Sequence[Mapping[str, Any]]] = tuple) -> None:
        self._host = host
        local = host in LOOPBACK
        self._token = token or ('' if local else secrets.token_urlsafe(12))
        hosts = (*LOCAL, host, *names) if local or names else ('*',)
        app = BodyLimit(create_app(desk, self._token, hosts, audits), BODY_BYTES)
        config = uvicorn.Config(app, host=host, port=port, log_level='warning',
                                http=bounded_http(PER_ADDRESS, HANDSHAKE_S),
                                timeout_graceful_shutdown=3, server_header=False,
                                ws='websockets-sansio', ws_max_size=4096)
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the page's address, with the token if one is required."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        host = 'localhost' if self._host in ('0.0.0.0', *LOOPBACK) else self._host
        return f'http://{host}:{port}/' + (f'?token={self._token}' if self._token else '')

    def open(self) -> None:
        """Start serving; NotConnected when the address is in use."""
        switch_threads_soon()    # STOP passes several
        self._thread = threading.Thread(target=self._serve, name='console', daemon=True)
        self._thread.start()
        deadline_s = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline_s:
                raise NotConnected(f'the console cannot listen on {self._host}: is the port in '
                                   'use? Choose another with --port')
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
