"""
A websocket connection whose own thread answers each message.

The library's connection has a thread that reads; a second one, the handler's, would be woken for
every message, and both would wait for the interpreter's lock. Here the thread that has read a
message also answers it. While a policy thinks for long, somebody else reads what comes meanwhile,
so that a caller's pings are answered: see ``tend``.
"""

import logging
import select
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from websockets.frames import CTRL_OPCODES, CloseCode, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.sync.server import Server, ServerConnection

logger = logging.getLogger(__name__)

Message = bytes | bytearray | str
Answer = Callable[[Message], bytes | str]
PATIENCE_S = 1.0      # how long an answer may take before somebody else reads
READ_S = 0.05         # how long that one waits for the rest of what has begun to come
START_S = 10.0
MEANWHILE = 16        # frames that are kept while an answer takes long


class Counting:
    """A protocol that counts what one read brought and is not processed: it comes first."""

    def __init__(self, protocol: Any) -> None:
        self.protocol, self.left = protocol, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.protocol, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ('protocol', 'left'):
            object.__setattr__(self, name, value)
        else:
            setattr(self.protocol, name, value)

    def events_received(self) -> list[Any]:
        """Return what a read brought."""
        events: list[Any] = self.protocol.events_received()
        self.left += len(events)
        return events


class AnsweringConnection(ServerConnection):
    """Calls ``answer`` with each message in the thread that reads, and sends what it returns."""

    recv_bufsize = 1 << 19    # a query with two pictures in one read or two

    def __init__(self, line: Any, protocol: Any, *args: Any, **kwargs: Any) -> None:
        self._answer: Answer | None = None
        self._ready = threading.Event()
        self._parts = bytearray()
        self._text = False
        self._busy_since_s: float | None = None
        self._meanwhile: list[Any] = []
        super().__init__(line, cast(Any, Counting(protocol)), *args, **kwargs)

    def answer_with(self, answer: Answer) -> None:
        """Answer messages from now on, and return when the connection is closed."""
        self._answer = answer
        self._ready.set()
        self.wait_closed()

    def process_event(self, event: Any) -> None:
        """Answer a message when its last frame has come."""
        self._counting.left -= 1
        if isinstance(event, Request) or event.opcode in CTRL_OPCODES:
            super().process_event(event)
            return
        self._begin()
        frames = [event]
        while frames:
            for frame in frames:
                self._take(frame)
            frames = self._finish()

    def tend(self) -> None:
        """Read what comes while an answer takes long: answer pings, keep the rest for later."""
        begun_s = self._busy_since_s
        if begun_s is None or time.monotonic() - begun_s < PATIENCE_S:
            return
        if not self.protocol_mutex.acquire(blocking=False):    # somebody writes
            return
        try:
            busy = self._busy_since_s == begun_s and len(self._meanwhile) < MEANWHILE
            control = self._read_meanwhile() if busy else []
        finally:
            self.protocol_mutex.release()
        for event in control:
            super().process_event(event)

    @property
    def _counting(self) -> 'Counting':
        return cast(Counting, self.protocol)

    def _begin(self) -> None:
        with self.protocol_mutex:
            self._busy_since_s = time.monotonic()

    def _finish(self) -> list[Any]:
        """Return what came meanwhile; without it, read again."""
        with self.protocol_mutex:
            if self._counting.left > 0:
                return []
            frames, self._meanwhile = self._meanwhile, []
            self._busy_since_s = time.monotonic() if frames else None
        return frames

    def _read_meanwhile(self) -> list[Any]:
        """Return the control frames that came; keep the others."""
        poll = select.poll()
        try:
            poll.register(self.socket, select.POLLIN)
            if not poll.poll(0):
                return []
            self.socket.settimeout(READ_S)
            try:
                data = self.socket.recv(self.recv_bufsize)
            finally:
                self.socket.settimeout(None)
        except (OSError, ValueError) as error:    # the thread that reads will find it too
            logger.debug('nothing could be read: %s', error)
            return []
        if not data:
            return []
        self.protocol.receive_data(data)
        events: list[Any] = self._counting.protocol.events_received()
        self._send()
        self._meanwhile += [event for event in events if event.opcode not in CTRL_OPCODES]
        return [event for event in events if event.opcode in CTRL_OPCODES]

    def _take(self, frame: Any) -> None:
        """Add a frame to its message, and answer that when it is whole."""
        if frame.opcode is not Opcode.CONT:
            self._text = frame.opcode is Opcode.TEXT
        if not frame.fin or self._parts:
            self._parts += frame.data
        if not frame.fin:
            return
        whole, self._parts = self._parts or frame.data, bytearray()
        message = bytes(whole).decode('utf-8', 'replace') if self._text else whole
        if self._ready.wait(START_S) and self._answer is not None:
            self._reply(self._answer, message)

    def _reply(self, answer: Answer, message: Message) -> None:
        reply: bytes | str | None = None
        try:
            reply = answer(message)
        except Exception:
            logger.exception('a message could not be answered')
        with self.protocol_mutex:
            if self.protocol.state is not State.OPEN:
                return
            if reply is None:
                self.protocol.fail(CloseCode.INTERNAL_ERROR)
            elif isinstance(reply, str):
                self.protocol.send_text(reply.encode())
            else:
                self.protocol.send_binary(reply)
            self._send()

    def _send(self) -> None:
        """Send what is to be sent; the lock is held. A broken line ends the reading."""
        try:
            self.send_data()
        except OSError as error:
            self.set_connection_exc(error)
            self.close_socket()


class Tender:
    """Tends the connections of a server that are busy, until it stops."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='openpi-tender', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop tending."""
        self._stopping.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stopping.wait(PATIENCE_S):
            with self._server.lock:
                lines = list(self._server.all_connections)
            for line in lines:
                if isinstance(line, AnsweringConnection):
                    line.tend()
