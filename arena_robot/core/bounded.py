"""Functions that read files of strangers, called in a process with bounds on memory and time."""

import multiprocessing
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import ParamSpec, TypeVar

from arena_robot.core.errors import DataError

# Decoders map much that they never use; what an honest file takes is far below.
MEMORY_BYTES = 4 << 30
CALL_S = 20.0    # the caller waits meanwhile

P = ParamSpec('P')
T = TypeVar('T')


class BoundedWorker:
    """
    One process that is started by the first call; a call that needs too much ends it.

    The next call starts another. Any thread may call; calls wait for each other.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES, call_s: float = CALL_S) -> None:
        self._memory_bytes = memory_bytes
        self._call_s = call_s
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def call(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """
        Return what ``work``, a function of a module, returns, or raise what it raises.

        DataError when it takes more memory or time than the bounds.
        """
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context('spawn'), bound, (self._memory_bytes,))
            try:
                return self._pool.submit(
                    _timed, self._call_s, partial(work, *arguments, **named)).result()
            except (BrokenProcessPool, MemoryError) as error:
                self._pool.shutdown(wait=False)
                self._pool = None
                raise DataError(
                    f'a file needs more than {self._memory_bytes >> 20} MiB or {self._call_s:g} s '
                    'to be read') from error


def bound(memory_bytes: int, cpu_s: int = resource.RLIM_INFINITY) -> None:
    """Let this process take so much memory, and so much processor time, and end beyond."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))


def _timed(limit_s: float, work: Callable[[], T]) -> T:
    signal.setitimer(signal.ITIMER_REAL, limit_s)    # its signal ends the process
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
