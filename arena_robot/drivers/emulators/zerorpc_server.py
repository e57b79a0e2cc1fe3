"""A zerorpc server: named methods over ZeroMQ's transport, one call at a time."""

import contextlib
import selectors
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.droid_nuc import zmtp
from arena_robot.drivers.droid_nuc.events import ERROR, HEARTBEAT, MORE, OK, Event, unpacked

LOOK_S = 0.05
SEND_S = 1.0


class _Peer:
    """One connection."""

    def __init__(self, line: socket.socket) -> None:
        line.settimeout(SEND_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line, self.incoming = line, zmtp.Incoming()
        self.answered_ready = False


class ZerorpcServer:
    """
    Answers calls of ``methods`` in a thread, in the order in which they come.

    As zerorpc does, a call that takes long keeps all clients waiting. ``silent`` makes it hear and
    not answer; ``drop_clients`` closes what is connected.
    """

    def __init__(self, methods: Mapping[str, Callable[..., Any]], host: str, port: int,
                 name: str = 'server') -> None:
        listed = list(methods)
        self._methods: dict[str, Callable[..., Any]] = {
            **methods, '_zerorpc_list': lambda: listed, '_zerorpc_name': lambda: name,
            '_zerorpc_ping': lambda: ['pong', name]}
        self._address = (host, port)
        self.port = port
        self.silent = False
        self.calls = 0
        self._drop, self._ended = threading.Event(), threading.Event()
        self._peers: list[_Peer] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen; port 0 takes a free one. Raises ConfigError when that cannot be."""
        try:
            listener = socket.create_server(self._address)
        except (OSError, OverflowError) as error:
            raise ConfigError(f'cannot listen on {self._address[0]}:{self._address[1]}: {error}; '
                              'choose another port') from error
        self.port = listener.getsockname()[1]
        self._address = (self._address[0], self.port)
        self._ended.clear()
        self._thread = threading.Thread(target=self._serve, args=(listener,),
                                        name='zerorpc server', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close every connection; can be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None

    def drop_clients(self) -> None:
        """Close every connection."""
        self._drop.set()

    def _serve(self, listener: socket.socket) -> None:
        with listener, selectors.DefaultSelector() as waiting:
            listener.setblocking(False)
            waiting.register(listener, selectors.EVENT_READ)
            while not self._ended.is_set():
                for key, _ in waiting.select(LOOK_S):
                    if key.data is None:
                        self._accept(listener, waiting)
                    elif not self._read(key.data):
                        self._part_from(key.data, waiting)
                if self._drop.is_set():
                    self._drop.clear()
                    for peer in list(self._peers):
                        self._part_from(peer, waiting)
            for peer in list(self._peers):
                self._part_from(peer, waiting)

    def _accept(self, listener: socket.socket, waiting: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError):
            peer = _Peer(listener.accept()[0])
            self._peers.append(peer)
            waiting.register(peer.line, selectors.EVENT_READ, peer)
            peer.line.sendall(zmtp.GREETING)

    def _part_from(self, peer: _Peer, waiting: selectors.BaseSelector) -> None:
        self._peers.remove(peer)
        waiting.unregister(peer.line)
        peer.line.close()

    def _read(self, peer: _Peer) -> bool:
        """Answer what has come; return whether the peer is still there."""
        try:
            received = peer.line.recv(1 << 16)
            if not received:
                return False
            messages = peer.incoming.feed(received)
            if peer.incoming.greeted and not peer.answered_ready:
                peer.answered_ready = True
                peer.line.sendall(zmtp.ready('ROUTER'))
            for parts in messages:
                answer = self._answer(unpacked(parts[-1]))
                if answer is not None and not self.silent:
                    peer.line.sendall(zmtp.message([*parts[:-1], answer.packed()]))
        except (OSError, zmtp.WireError):
            return False
        return True

    def _answer(self, event: Event) -> Event | None:
        if event.name == MORE:
            return None
        if event.name == HEARTBEAT:
            return Event(HEARTBEAT, (0,), event.answers)
        self.calls += 1
        if self.silent:
            return None
        try:
            if event.name not in self._methods:
                raise NameError(event.name)
            answer = Event(OK, (self._methods[event.name](*event.args),), event.identity)
            answer.packed()
        except Exception as error:  # every one goes to the caller, as zerorpc does
            words = (type(error).__name__, str(error), traceback.format_exc())
            return Event(ERROR, words, event.identity)
        return answer
