"""A client of a zerorpc server for one thread: every call has a timeout, nothing is kept."""

import socket
import threading
import time
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from arena_robot.core.errors import DriverError
from arena_robot.drivers.droid_nuc.events import (
    ERROR,
    HEARTBEAT,
    MORE,
    OK,
    Event,
    EventError,
    unpacked,
)

CONNECT_S, CALL_S = 1.0, 1.0    # a station's own network answers within milliseconds
LOOK_MS = 50                    # how late a call may notice that it was interrupted
MOST_BYTES = 1 << 20            # an answer of get_robot_state has about 1 kB
LOST = (zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH)


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

    ZeroMQ alone would keep a message while there is no connection and deliver it later; a target
    for an arm must not come later. So the socket never connects again by itself and drops what
    was not sent. A call that is not answered in time closes it: a late reply is never taken for
    that of another call. Raises ServerLost or RemoteError.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = f'{host}:{port}'
        self._peer = (host, port)
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._interrupted = threading.Event()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection, as far as known."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect and shake hands."""
        self.close()
        self._interrupted.clear()
        try:    # ZeroMQ does not say why it cannot connect
            socket.create_connection(self._peer, CONNECT_S).close()
        except OSError as error:
            raise ServerLost(f'no connection to {self.address}: {_why(error)}') from error
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        for option, value in ((zmq.LINGER, 0), (zmq.IMMEDIATE, 1), (zmq.RECONNECT_IVL, -1),
                              (zmq.MAXMSGSIZE, MOST_BYTES), (zmq.SNDTIMEO, 0)):
            self._socket.setsockopt(option, value)
        self._monitor = self._socket.get_monitor_socket(LOST | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._socket.connect(f'tcp://{self.address}')
        if not self._monitor.poll(round(CONNECT_S * 1e3)):
            raise self._lost(f'{self.address} did not give the ZeroMQ handshake: it is silent, '
                             'or another program')
        if recv_monitor_message(self._monitor)['event'] != zmq.EVENT_HANDSHAKE_SUCCEEDED:
            raise self._lost(f'the program at {self.address} does not speak ZeroMQ 4 without '
                             'encryption')

    def close(self) -> None:
        """Close the connection; can be called twice."""
        if self._socket is not None:
            self._socket.disable_monitor()
            self._socket.close()
        self._socket = self._monitor = None

    def interrupt(self) -> None:
        """End a call that another thread waits in; the connection is lost for it."""
        self._interrupted.set()

    def call(self, method: str, *args: Any, timeout_s: float | None = None) -> Any:
        """Call a method with what msgpack can hold, and return what it returns."""
        timeout_s = CALL_S if timeout_s is None else timeout_s
        end_s = time.monotonic() + timeout_s
        request = Event(method, args)
        self._emit(request)
        while True:
            reply = self._receive(end_s, f'an answer to {method} within {timeout_s:g} s')
            if reply.answers != request.identity or reply.name == MORE:
                continue
            if reply.name == HEARTBEAT:
                self._emit(Event(HEARTBEAT, (0,), request.identity))
            elif reply.name == OK and len(reply.args) == 1:
                return reply.args[0]
            elif reply.name == ERROR and reply.args:
                raise _remote_error(method, reply)
            else:
                raise self._lost(f'{self.address} answered {method} with {reply.name!r:.40}, '
                                 'which this client does not know')

    def _emit(self, event: Event) -> None:
        if self._socket is None:
            raise ServerLost(f'there is no connection to {self.address}')
        try:
            self._socket.send_multipart([b'', event.packed()])
        except zmq.Again as error:    # IMMEDIATE: nobody is connected
            raise self._lost() from error

    def _receive(self, end_s: float, what: str) -> Event:
        """Wait for the next event."""
        assert self._socket is not None
        assert self._monitor is not None
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        while not (ready := dict(poller.poll(LOOK_MS))):
            if time.monotonic() > end_s:
                raise self._lost(f'{self.address} did not give {what}: it is silent or busy')
            if self._interrupted.is_set():
                raise self._lost(f'the call to {self.address} was interrupted')
        if self._socket not in ready:
            raise self._lost()
        try:
            return unpacked(self._socket.recv_multipart()[-1])
        except EventError as error:
            raise self._lost(f'the connection to {self.address} is lost: {error}') from error

    def _lost(self, why: str = '') -> ServerLost:
        self.close()
        return ServerLost(why or f'{self.address} closed the connection: the server has ended')


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
