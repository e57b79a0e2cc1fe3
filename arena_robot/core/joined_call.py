"""Calls that share runs of one function: however many wait for it, it takes few threads."""

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar('T')
U = TypeVar('U')

log = logging.getLogger(__name__)


class JoinedCall(Generic[T]):
    """
    Runs ``work`` in a thread of its own, one run at a time.

    Calls during a run share the next one, so each gets the result of a run that began after it.
    A call that comes ``again_s`` after the newest run began does not wait for that run: it begins
    one beside it, up to ``most`` at the same time. Where no thread can be started, the caller
    runs the work.
    """

    def __init__(self, name: str, work: Callable[[], T], again_s: float = math.inf,
                 most: int = 1) -> None:
        self._name = name
        self._work = work
        self._again_s, self._most = again_s, most
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._running = 0
        self._begun_s = 0.0

    def ask(self) -> 'Future[T]':
        """Return the future of a run that begins after this call; does not wait."""
        with self._lock:
            future = self._next = self._next or Future()
            now_s = time.monotonic()
            late = now_s - self._begun_s >= self._again_s and self._running < self._most
            if self._running and not late:
                return future
            self._running += 1
            self._begun_s = now_s
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError as error:
            log.warning('%s runs in the thread that asks for it: %s', self._name, error)
            self._run()
        return future

    def _run(self) -> None:
        while (future := self._taken()) is not None:
            heard = future.set_running_or_notify_cancel()
            try:
                result = self._work()
            except BaseException as error:  # raised again where the result is waited for
                if heard:
                    future.set_exception(error)
            else:
                if heard:
                    future.set_result(result)

    def _taken(self) -> 'Future[T] | None':
        with self._lock:
            future, self._next = self._next, None
            if future is None:
                self._running -= 1
            else:
                self._begun_s = time.monotonic()
            return future


def done(result: T) -> 'Future[T]':
    """Return a future that is done."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


def then(first: 'Future[T]', following: Callable[[], 'Future[U]']) -> 'Future[U]':
    """Return the future of ``following``, which is called once ``first`` is done; or its error."""
    whole: Future[U] = Future()

    def passed_on(ended: 'Future[U]') -> None:
        error = ended.exception()
        if error is not None:
            whole.set_exception(error)
        else:
            whole.set_result(ended.result())

    def go_on(ended: 'Future[T]') -> None:
        error = ended.exception()
        if error is not None:
            whole.set_exception(error)
        else:
            following().add_done_callback(passed_on)

    first.add_done_callback(go_on)
    return whole
