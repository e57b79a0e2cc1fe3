"""A thread that makes calls for callers who do not want to wait for ever."""

import queue
import threading
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

T = TypeVar('T')


class CallThread:
    """
    Makes calls one after the other on a daemon thread.

    A call that hangs keeps neither its caller nor the end of the process waiting.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name='policy', daemon=True).start()

    def submit(self, call: Callable[[], T]) -> 'futures.Future[T]':
        """Have ``call`` made after those before it; return its result to be."""
        future: futures.Future[T] = futures.Future()

        def make() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # raised again where the result is waited for
                    future.set_exception(error)

        self._calls.put(make)
        return future

    def end(self) -> None:
        """End the thread after the calls so far."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
