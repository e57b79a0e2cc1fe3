"""
One thread that reads the connections of a server and does what is to be done for each message.

With a thread for each connection, threads of fast policies wait for the interpreter's lock most of
the time. Here one thread reads for all, and as soon as it is held up, by a policy or by a caller
who does not read, another one goes on with the other connections.
"""

import logging
import select
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

logger = logging.getLogger(__name__)
Made = TypeVar('Made')

HELD_UP_S = 0.005      # after so long in one connection another thread reads the others
REST_S = 1.0           # after so long without messages nobody looks whether one is held up
BUFFER = 1 << 19       # a query with two pictures in one read or two
QUICK_S = 0.002        # a call that took longer is expected to be slow again
SPARE = 2              # threads that wait for their turn; more end


class Line(Protocol):
    """A connection that is read."""

    def fileno(self) -> int:
        """Return the number of its socket, below 0 once it is closed."""

    def read_once(self, buffer: bytearray) -> bool:
        """Read what is there and do what is to be done; False when nothing more will come."""


class SharedReader:
    """
    Reads lines from ``add`` until ``drop``, a line never in two threads at once.

    A thread that is held up finishes what it does in its line, which nobody else reads meanwhile,
    and then waits for its turn again. So no more threads are held up than there are lines.
    ``together``: several answers are made at once.
    """

    def __init__(self, together: bool) -> None:
        self._together, self._quick = together, False
        self._epoll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._turn = threading.Condition()
        self._reader = 0               # the thread that has the turn, 0: none
        self._at: tuple[int, Line, float] | None = None    # what it does, and since when
        self._waiting = 0
        self._busy, self._stopping = threading.Event(), threading.Event()
        for run in (self._run, self._watch):
            threading.Thread(target=run, name='openpi-reading', daemon=True).start()

    def add(self, line: Line) -> None:
        """Read this line from now on."""
        with self._turn:
            number = line.fileno()
            if number >= 0:
                self._lines[number] = line
                self._register(number)

    def drop(self, line: Line) -> None:
        """Read it no more."""
        with self._turn:
            for number in [number for number, one in self._lines.items() if one is line]:
                del self._lines[number]
                self._unregister(number)

    def made(self, call: Callable[[], Made]) -> Made:
        """Return what ``call`` returns; unless it was quick last, others are read meanwhile."""
        if not self._quick:
            with self._turn:
                if self._reader == threading.get_ident():
                    self._hand_over()
        began_s = time.monotonic()
        try:
            return call()
        finally:
            self._quick = not self._together and time.monotonic() - began_s < QUICK_S

    def stop(self) -> None:
        """Read no more; threads that are held up end when they can."""
        self._stopping.set()
        self._busy.set()
        with self._turn:
            self._turn.notify_all()

    def _run(self) -> None:
        buffer = bytearray(BUFFER)
        while self._has_turn():
            for number, _ in self._epoll.poll(REST_S):
                if not self._read(number, buffer):
                    break
        if self._reader == threading.get_ident():
            self._epoll.close()

    def _has_turn(self) -> bool:
        """Return when this thread is to read; False when it is to end."""
        me = threading.get_ident()
        with self._turn:
            if self._reader not in (0, me) and self._waiting >= SPARE:
                return False
            self._waiting += 1
            while self._reader not in (0, me) and not self._stopping.is_set():
                self._turn.wait()
            self._waiting -= 1
            if not self._stopping.is_set():
                self._reader = me
            return not self._stopping.is_set()

    def _read(self, number: int, buffer: bytearray) -> bool:
        """Read a line once; False when another thread has the turn then."""
        with self._turn:
            line = self._lines.get(number)
            if line is None:
                self._unregister(number)
                return True
            self._at = number, line, time.monotonic()
        if not self._busy.is_set():
            self._busy.set()
        more = line.read_once(buffer)
        with self._turn:
            still = self._reader == threading.get_ident()
            if still:
                self._at = None
            if self._lines.get(number) is line:
                if not more:
                    del self._lines[number]
                    self._unregister(number)
                elif not still:
                    self._register(number)
            return still

    def _hand_over(self) -> None:
        """Let another thread read, all but the line that the one with the turn is in."""
        if self._at is None:
            return
        self._unregister(self._at[0])
        self._at, self._reader = None, 0
        if self._waiting:
            self._turn.notify()
        else:
            threading.Thread(target=self._run, name='openpi-reading', daemon=True).start()

    def _watch(self) -> None:
        """Hand over when the thread with the turn is held up."""
        rest_s = 0.0
        while not self._stopping.wait(HELD_UP_S):
            at = self._at
            rest_s = 0.0 if at is not None else rest_s + HELD_UP_S
            if rest_s > REST_S:
                self._busy.clear()
                if self._at is None:    # else it began before it could see that
                    self._busy.wait()
                rest_s = 0.0
            elif at is not None and time.monotonic() - at[2] > HELD_UP_S:
                with self._turn:
                    if self._at is at:
                        self._hand_over()

    def _register(self, number: int) -> None:
        try:
            self._epoll.register(number, select.EPOLLIN)
        except FileExistsError:
            self._epoll.modify(number, select.EPOLLIN)
        except (OSError, ValueError) as error:
            logger.debug('a connection was closed already: %s', error)

    def _unregister(self, number: int) -> None:
        try:
            self._epoll.unregister(number)
        except (OSError, ValueError) as error:
            logger.debug('a connection was closed already: %s', error)
