"""
TLS sockets that one thread reads while another one writes.

OpenSSL allows one of them at a time. Without a lock the first request over TLS 1.3 is lost now and
then, when it meets the tickets that a server sends after the handshake.
"""

import select
import ssl
import threading
import time
from typing import Any

POLL_S = 0.5    # how long a socket that was closed may be waited for


class SharedSslSocket(ssl.SSLSocket):
    """Waits outside of its lock, and reads and writes inside; for ``sslsocket_class``."""

    _limit_s: float | None = None
    _shared = False

    def settimeout(self, value: float | None) -> None:
        """Set how long reads and writes may take."""
        self._limit_s = value
        if not self._shared:
            super().settimeout(value)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read what is there; waits for something."""
        end_s = self._end_s()
        while True:
            with self._turn():
                try:
                    return super().recv(buflen, flags)
                except (ssl.SSLWantReadError, BlockingIOError):
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
            self._wait(event, end_s)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Write all of it."""
        end_s, rest = self._end_s(), memoryview(data).cast('B')
        while len(rest):
            with self._turn():
                try:
                    rest = rest[super().send(rest, flags):]
                    continue
                except (ssl.SSLWantWriteError, BlockingIOError):
                    event = select.POLLOUT
                except ssl.SSLWantReadError:
                    event = select.POLLIN
            self._wait(event, end_s)

    def _turn(self) -> Any:
        turn = self.__dict__.setdefault('_lock', threading.Lock())
        if not self._shared:
            with turn:
                super().settimeout(0.0)
                self._shared = True
        return turn

    def _end_s(self) -> float | None:
        return None if self._limit_s is None else time.monotonic() + self._limit_s

    def _wait(self, event: int, end_s: float | None) -> None:
        """Return when it can be tried again; TimeoutError at the end, OSError once closed."""
        left_s = POLL_S if end_s is None else min(POLL_S, end_s - time.monotonic())
        if left_s <= 0.0:
            raise TimeoutError('timed out')
        if self.fileno() < 0:
            raise OSError('the socket was closed')
        poll = select.poll()
        poll.register(self.fileno(), event)
        poll.poll(1e3 * left_s)
