"""A client of a zerorpc server for one thread: every call has a timeout, nothing is kept."""

import contextlib
import socket
import time
from typing import Any

from arena_robot.core.errors import DriverError
from arena_robot.drivers.droid_nuc import zmtp
from arena_robot.drivers.droid_nuc.events import ERROR, HEARTBEAT, MORE, OK, Event, unpacked

CONNECT_S, CALL_S = 1.0, 1.0


class ServerLost(DriverError):
    """No server answers there; the connection is closed."""


class RemoteError(DriverError):
    """The server's method raised: ``name`` and ``words`` are those of its exception."""

    def __init__(self, method: str, name: str, words: str) -> None:
        super().__init__(f'{method} failed on the server: {name}: {words}')
        self.name, self.words = name, words


class ZerorpcClient:
    """
    One connection to a zerorpc server.

    A call that is not answered in time closes the connection: a late reply is never taken for that
    of another call, and nothing is sent again by itself. Raises ServerLost or RemoteError.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = f'{host}:{port}'
        self._peer = (host, port)
        self._socket: socket.socket | None = None
        self._incoming = zmtp.Incoming()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection, as far as known."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect and shake hands."""
        self.close()
        end_s = time.monotonic() + CONNECT_S
        try:
            self._socket = socket.create_connection(self._peer, CONNECT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ServerLost(f'no connection to {self.address}: {_why(error)}') from error
        self._send(zmtp.GREETING, end_s)
        what = 'the ZeroMQ handshake'
        while not self._incoming.greeted:
            self._receive(end_s, what)
        self._send(zmtp.ready('DEALER'), end_s)
        while not self._incoming.is_ready:
            self._receive(end_s, what)

    def close(self) -> None:
        """Close the connection; can be called twice."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket, self._incoming = None, zmtp.Incoming()

    def interrupt(self) -> None:
        """End a call that another thread waits in; the connection is lost for it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def call(self, method: str, *args: Any, timeout_s: float | None = None) -> Any:
        """Call a method with what msgpack can hold, and return what it returns."""
        timeout_s = CALL_S if timeout_s is None else timeout_s
        if self._socket is None:
            raise ServerLost(f'there is no connection to {self.address}')
        end_s = time.monotonic() + timeout_s
        request = Event(method, args)
        self._emit(request, end_s)
        what = f'an answer to {method} within {timeout_s:g} s'
        while True:
            for parts in self._receive(end_s, what):
                reply = self._event(parts[-1])
                if reply.answers != request.identity or reply.name == MORE:
                    continue
                if reply.name == HEARTBEAT:
                    self._emit(Event(HEARTBEAT, (0,), request.identity), end_s)
                elif reply.name == OK and len(reply.args) == 1:
                    return reply.args[0]
                elif reply.name == ERROR and reply.args:
                    raise _remote_error(method, reply)
                else:
                    self.close()
                    raise ServerLost(f'{self.address} answered {method} with {reply.name!r:.40}, '
                                     'which this client does not know')

    def _event(self, blob: bytes) -> Event:
        try:
            return unpacked(blob)
        except zmtp.WireError as error:
            raise self._lost(error) from error

    def _emit(self, event: Event, end_s: float) -> None:
        self._send(zmtp.message([b'', event.packed()]), end_s)

    def _send(self, data: bytes, end_s: float) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(max(0.001, end_s - time.monotonic()))
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self, end_s: float, what: str) -> list[list[bytes]]:
        """Wait for bytes and return the messages that they complete."""
        assert self._socket is not None
        left_s = end_s - time.monotonic()
        try:
            if left_s <= 0.0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            received = self._socket.recv(1 << 16)
            if received:
                return self._incoming.feed(received)
        except TimeoutError as error:
            self.close()
            raise ServerLost(f'{self.address} did not give {what}: it is silent or busy'
                             ) from error
        except (OSError, zmtp.WireError) as error:
            raise self._lost(error) from error
        self.close()
        raise ServerLost(f'{self.address} closed the connection: the server has ended')

    def _lost(self, error: Exception) -> ServerLost:
        self.close()
        why = _why(error) if isinstance(error, OSError) else str(error)
        return ServerLost(f'the connection to {self.address} is lost: {why}')


def _remote_error(method: str, reply: Event) -> RemoteError:
    """Return the error of an ERR event: name, words and traceback, or only a repr before v2."""
    words = [str(one) for one in reply.args]
    if len(words) == 1:
        words = ['error', *words]
    return RemoteError(method, words[0], words[1])


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return 'nothing answers there'
    return error.strerror or str(error)
