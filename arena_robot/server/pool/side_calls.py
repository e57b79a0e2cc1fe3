"""Calls that wait for policies, beside each other: a slow one delays no other."""

import logging
import queue
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import TypeVar

from arena_robot.core.process import wait_until

log = logging.getLogger(__name__)
T = TypeVar('T')


class SideCalls:
    """
    Makes calls on ``threads`` daemon threads, for each key one at a time.

    A call that hangs keeps neither another key's call nor the end of the process waiting.
    ``failed`` is called after a call that raised.
    """

    def __init__(self, name: str, threads: int, failed: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._threads = threads
        self._failed = failed
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._keys: set[Hashable] = set()
        self._running = 0
        self._started = 0
        self._closed = False

    def begin(self, key: Hashable, call: Callable[[], T]) -> 'Future[T] | None':
        """Have ``call`` made soon; None when the last one of this key has not ended."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed or key in self._keys:
                return None
            self._keys.add(key)
            if self._started < self._threads and len(self._keys) > self._started:
                self._started += 1
                threading.Thread(target=self._work, daemon=True,
                                 name=f'{self._name} {self._started}').start()
        self._waiting.put(lambda: self._make(key, call, future))
        return future

    def close(self, timeout_s: float = 2.0) -> None:
        """Begin no further call; wait so long for those that are running."""
        with self._lock:
            self._closed = True
            started = self._started
        wait_until(lambda: self._running == 0, timeout_s)
        for _ in range(started):
            self._waiting.put(None)

    def _work(self) -> None:
        while (make := self._waiting.get()) is not None:
            make()

    def _make(self, key: Hashable, call: Callable[[], T], future: 'Future[T]') -> None:
        with self._lock:
            if self._closed:
                future.cancel()
                return
            self._running += 1
        try:
            future.set_result(call())
        except Exception as error:
            if not self._closed:
                self._failed()
                log.exception('the call %s of %s failed; it is tried again later', self._name, key)
            future.set_exception(error)
        finally:
            with self._lock:
                self._running -= 1
                self._keys.discard(key)
