"""Runs the site of a server on its own port, in a thread of the server's process."""

import socket
import threading
import time
from functools import partial

import uvicorn

from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, ServerError
from arena_robot.core.openable import Openable
from arena_robot.server.app import ArenaServer
from arena_robot.server.store.browse import Browse, rollout_notes
from arena_robot.server.store.categories import Categories
from arena_robot.server.store.reports import CitationChecks, Reports
from arena_robot.web.bounds import BodyLimit, bounded_http
from arena_robot.web.site.app import SiteParts, site
from arena_robot.web.site.example_data import is_example
from arena_robot.web.site.history import MethodChanges

START_S = 10.0           # uvicorn listens within a second, on a busy machine within some
BODY_BYTES = 16 << 10    # of a request: forms; nothing is uploaded here


def site_parts(arena: ArenaServer) -> SiteParts:
    """Return what the site shows of a server; DataError for a broken list of methods."""
    methods = MethodChanges(arena.config.data, SystemClock())
    methods.open()
    return SiteParts(arena.results, Browse(arena.database), arena.blobs, arena.accounts.caller,
                     arena.pool.visible, arena.ledger.balance, arena.log, arena.rules,
                     partial(rollout_notes, arena.database), methods,
                     Categories(arena.database, SystemClock()),
                     Reports(arena.database, SystemClock()),
                     CitationChecks(arena.database, SystemClock()), arena.maintenance,
                     arena.config, arena.reviews.of, arena.site_calls, is_example(arena))


class SiteServer(Openable):
    """Serves a server's site; ``port`` 0 uses a free one; ``address`` is the address in use."""

    def __init__(self, server: ArenaServer, host: str, port: int) -> None:
        self._arena = server
        self._host = host
        self._port = port
        self._web: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.address = ''

    def open(self) -> None:
        """Listen; ConfigError when the port is taken."""
        arena = self._arena
        tls, limits = arena.config.tls, arena.config.limits
        try:
            listener = socket.create_server((self._host, self._port))
        except OSError as error:
            raise ConfigError(f'cannot serve the site on {self._host}:{self._port}: '
                              f'{error.strerror}; choose another with --site-port') from error
        # asyncio leaves it to us: a page's last packet would wait 40 ms for the reader's answer.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = (f"http{'s' if tls else ''}://{self._host}:"
                        f'{listener.getsockname()[1]}')
        app = site(site_parts(arena))
        self._web = uvicorn.Server(uvicorn.Config(
            BodyLimit(app, BODY_BYTES), log_level='warning', lifespan='off', ws='none',
            http=bounded_http(limits.connections_per_address, limits.handshake_s),
            ssl_certfile=tls.certificate if tls else None, ssl_keyfile=tls.key if tls else None,
            timeout_graceful_shutdown=3))
        self._thread = threading.Thread(target=self._web.run, args=([listener],), name='site',
                                        daemon=True)
        arena.results.open()
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._web.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise ServerError(f'the site did not start within {START_S:g} s')
            time.sleep(0.02)

    def close(self) -> None:
        """Stop; can be called twice."""
        web, thread = self._web, self._thread
        if web is not None and thread is not None:
            web.should_exit = True
            thread.join(START_S)
            self._arena.results.close()
