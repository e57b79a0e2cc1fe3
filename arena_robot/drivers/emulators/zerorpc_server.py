"""A zerorpc server: named methods over a ZeroMQ socket, one call at a time."""

import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import zmq

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.droid_nuc.events import (
    ERROR,
    HEARTBEAT,
    MORE,
    OK,
    Event,
    EventError,
    unpacked,
)

LOOK_MS = 50        # how late the thread may notice that it is to end


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
        self._host, self.port = host, port
        self.silent = False
        self.counts: Counter[str] = Counter()    # of calls, by method
        self._drop, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def calls(self) -> int:
        """Return how many calls came."""
        return self.counts.total()

    def start(self) -> None:
        """Listen; port 0 takes a free one. Raises ConfigError when that cannot be."""
        listening = self._listen()
        self._ended.clear()
        self._thread = threading.Thread(target=self._serve, args=listening,
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

    def _listen(self) -> tuple[zmq.Context[Any], zmq.Socket[bytes]]:
        """Return a bound socket; only the end of its context waits until it is closed."""
        context: zmq.Context[Any] = zmq.Context()
        router = context.socket(zmq.ROUTER)
        router.linger = 0
        try:
            address = socket.gethostbyname(self._host)
            router.bind(f'tcp://{address}:{self.port or "*"}')
        except (OSError, zmq.ZMQError) as error:
            context.destroy()
            raise ConfigError(f'cannot listen on {self._host}:{self.port}: {error}; '
                              'choose another port') from error
        self.port = int(router.last_endpoint.decode().rsplit(':', 1)[-1])
        return context, router

    def _serve(self, context: 'zmq.Context[Any]', router: 'zmq.Socket[bytes]') -> None:
        while not self._ended.is_set():
            if self._drop.is_set():
                self._drop.clear()
                context.destroy()
                context, router = self._listen()
            if not router.poll(LOOK_MS):
                continue
            parts = router.recv_multipart()
            try:
                answer = self._answer(unpacked(parts[-1]))
            except EventError:
                continue
            if answer is not None and not self.silent:
                router.send_multipart([*parts[:-1], answer.packed()])
        context.destroy()

    def _answer(self, event: Event) -> Event | None:
        if event.name == MORE:
            return None
        if event.name == HEARTBEAT:
            return Event(HEARTBEAT, (0,), event.answers)
        self.counts[event.name] += 1
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
