"""Work in threads beside the calls: at intervals, for many calls together, one call per key."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from arena_robot.core.process import wait_until

log = logging.getLogger(__name__)
K = TypeVar('K')
T = TypeVar('T')
V = TypeVar('V')
# Questions of one query, so that a call waits for the answers to few others.
MOST_TOGETHER = 256


class Housekeeping:
    """Runs each chore periodically in one thread; a failing chore never stops the others."""

    def __init__(self, chores: dict[str, tuple[float, Callable[[], object]]],
                 failed: Callable[[str], None] = lambda name: None) -> None:
        self._chores = chores
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name='housekeeping', daemon=True)

    def open(self) -> None:
        """Start."""
        self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop after the running chore."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        left = dict.fromkeys(self._chores, 0.0)
        while not self._stop.is_set():
            for name, (period_s, chore) in self._chores.items():
                if left[name] <= 0.0 and not self._stop.is_set():
                    left[name] = period_s
                    self._do(name, chore)
            nap = max(0.01, min(left.values(), default=1.0))
            self._stop.wait(nap)
            left = {name: value - nap for name, value in left.items()}

    def _do(self, name: str, chore: Callable[[], object]) -> None:
        try:
            chore()
        except Exception:
            self._failed(name)
            log.exception('the chore %s failed; it is tried again later', name)


class BatchedWork(Generic[K, V]):
    """
    Does what is asked in a thread; what is asked meanwhile is done next, together.

    For one event loop. ``work`` returns a result for each question, in their order; an error
    among the results is raised for its question, one that ``work`` raises for all.
    """

    def __init__(self, work: Callable[[Sequence[K]], Sequence[V | Exception]],
                 threads: Executor) -> None:
        self._work = work
        self._threads = threads
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        """Return the result for a question."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
        return await future

    def close(self) -> None:
        """Do nothing more; who waits is cancelled."""
        if self._running is not None:
            self._running.cancel()
        for _, future in self._waiting:
            future.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            questions = [question for question, _ in batch]
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._work, questions)
            except asyncio.CancelledError:
                for _, future in batch:
                    future.cancel()
                raise
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():    # its call was given up
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)


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
