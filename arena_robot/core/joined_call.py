"""Calls that share runs of one function: however many wait for it, it takes one thread."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar('T')
U = TypeVar('U')


class JoinedCall(Generic[T]):
    """
    Runs ``work`` in a thread of its own, one run at a time.

    Calls during a run share the next one, so each gets the result of a run that began after it.
    """

    def __init__(self, name: str, work: Callable[[], T]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._running = False

    def ask(self) -> 'Future[T]':
        """Return the future of a run that begins after this call; does not wait."""
        with self._lock:
            self._next = self._next or Future()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            return self._next

    def _run(self) -> None:
        while (future := self._taken()) is not None:
            try:
                result = self._work()
            except BaseException as error:  # raised again where the result is waited for
                future.set_exception(error)
            else:
                future.set_result(result)

    def _taken(self) -> 'Future[T] | None':
        with self._lock:
            future, self._next = self._next, None
            self._running = future is not None
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
