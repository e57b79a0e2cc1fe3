"""Ends a program that waits for a person once the session node it works with has ended."""

import signal
import threading
from types import TracebackType

from typing_extensions import Self

from arena_robot.core.errors import NotConnected
from arena_robot.core.process import end_signals
from arena_robot.session.evaluator.desk import Desk

LOOK_S = 1.0


class StationWatch:
    """
    Interrupts the main thread, also while it reads a line, when ``desk`` has no session node left.

    Raises NotConnected in the place of the interruption that it causes.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._over = threading.Event()
        self._ended: NotConnected | None = None
        self._thread = threading.Thread(target=self._look, name='station watch', daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if self._ended is not None and isinstance(error, KeyboardInterrupt):
            raise self._ended from None

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self._desk.state()
            except NotConnected as error:
                self._ended = error
                ident = threading.main_thread().ident
                if ident is not None and not self._over.is_set():
                    signal.pthread_kill(ident, signal.SIGINT)
                return


def end_by_signals() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does; for the main thread."""
    for number in end_signals():
        signal.signal(number, signal.default_int_handler)
