"""Threads for the calls of a gRPC server, two of which work at once as long as calls are short."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from functools import partial
from typing import Any

AT_ONCE, PATIENCE_S = 2, 0.003


@dataclass(frozen=True)
class _Call:
    """A call to make, and where its result goes."""

    make: Callable[[], Any]
    future: 'futures.Future[Any]'

    def run(self) -> None:
        """Make it, unless it was cancelled."""
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.make())
            except BaseException as error:  # raised again where the result is asked for
                self.future.set_exception(error)


class CallWorkers(futures.Executor):
    """
    Makes calls on up to ``most`` threads, and on two while these get on.

    Python runs one thread at a time, and changes from one to another took a third of the time of
    a server of short calls: eight threads make fewer calls a second than two. When no call began
    for ``PATIENCE_S`` although some wait, another thread begins, and again after as long; so
    calls that are long, or wait for the policy, keep no others waiting. The threads are daemons.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: deque[_Call] = deque()
        self._idle: list[_Worker] = []
        self._threads = self._active = self._begun = 0
        self._some_wait, self._closed = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, name='policy watch', daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any,
               **kwargs: Any) -> 'futures.Future[Any]':
        """Have a call made; return its result to be."""
        call = _Call(partial(fn, *args, **kwargs), futures.Future())
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError('these workers were shut down; no call can be made')
            self._calls.append(call)
            if self._active < min(AT_ONCE, self._most):
                self._begin()
            else:
                self._some_wait.set()
        return call.future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Cancel the calls that wait; those that run go on. Can be called twice."""
        with self._lock:
            self._closed.set()
            self._some_wait.set()
            waiting, self._calls = self._calls, deque()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.wake(None)
        for call in waiting:
            call.future.cancel()

    def next_call(self, worker: '_Worker') -> _Call | None:
        """Return what to do now; None: the worker is idle until it is woken."""
        with self._lock:
            if self._calls and self._active <= AT_ONCE:
                self._begun += 1
                return self._calls.popleft()
            self._active -= 1
            if self._closed.is_set():
                worker.wake(None)
            else:
                self._idle.append(worker)
            return None

    def _begin(self) -> None:
        """Give the oldest call to another thread."""
        call = self._calls.popleft()
        self._active += 1
        self._begun += 1
        if self._idle:
            self._idle.pop().wake(call)
        else:
            self._threads += 1
            _Worker(self, f'policy {self._threads}', call)

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._some_wait.wait()
            begun = self._begun
            self._closed.wait(PATIENCE_S)
            with self._lock:
                if not self._calls:
                    self._some_wait.clear()
                elif begun == self._begun and self._active < self._most:
                    self._begin()


class _Worker:
    """A thread that makes the calls of its workers, the given one first."""

    def __init__(self, workers: CallWorkers, name: str, call: _Call) -> None:
        self._workers = workers
        self._woken = threading.Semaphore(0)
        self._given: _Call | None = call
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wake(self, call: _Call | None) -> None:
        """Make a call, and then others; None: end."""
        self._given = call
        self._woken.release()

    def _run(self) -> None:
        call = self._given
        while call is not None:
            while call is not None:
                call.run()
                call = self._workers.next_call(self)
            self._woken.acquire()
            call = self._given
