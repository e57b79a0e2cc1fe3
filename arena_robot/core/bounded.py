"""
Functions called in a process of their own, with bounds on memory and time.

:class:`BoundedWorker` reads files of strangers; :func:`started` works in spare processor time.
"""

import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.extensions import load_object
from arena_robot.core.process import Process

log = logging.getLogger(__name__)

# Decoders map much that they never use; what an honest file takes is far below.
MEMORY_BYTES = 4 << 30
CALL_S = 20.0    # the caller waits meanwhile
AUTOGROUP = Path('/proc/self/autogroup')
LOWEST = 19
FAILED, NO_MEMORY, INTERRUPTED = 1, 3, 130
# An interrupt while Python still imports ends the process without words; one before waits.
_PROGRAM = ('import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); '
            'signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT]); '
            f'from {__name__} import main; raise SystemExit(main(')

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


def started(work: Callable[..., object], *arguments: object, memory_bytes: int = 0) -> Process:
    """
    Start ``work`` with ``arguments``, as text, in a process of the lowest priority.

    ``work`` is a function of a module. The exit code is 0 when it returns, and FAILED with one
    line on this program's standard error for an ArenaError. With ``memory_bytes`` above 0 the
    process has no more memory than that: it ends with NO_MEMORY, or by a signal, when ``work``
    needs more.
    """
    process = Process(f'{work.__name__} of {" ".join(map(str, arguments))}', [
        sys.executable, '-c', f'{_PROGRAM}{memory_bytes}))',
        f'{work.__module__}:{work.__qualname__}', *map(str, arguments)], blocked=(signal.SIGINT,))
    process.start()
    return process


def use_spare_time() -> None:
    """
    Let this process, which must lead a session of its own, run only while nobody else does.

    A priority counts among the processes of one session only where Linux groups them by session
    (``sched_autogroup_enabled``): there the priority of the group is lowered too.
    """
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    if sys.platform != 'linux':
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == os.getpid():
        with suppress(OSError):    # a kernel without groups, or they cannot be changed here
            AUTOGROUP.write_text(f'{LOWEST}\n', encoding='ascii')


def main(memory_bytes: int = 0) -> int:
    """Call the function named in the command line with the other words of it."""
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    try:
        work = load_object(sys.argv[1])
        assert callable(work)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if memory_bytes:
            bound(memory_bytes)
        work(*sys.argv[2:])
    except ArenaError as error:
        log.error('%s: %s', ' '.join(sys.argv[1:]), error)
        return FAILED
    except MemoryError:
        log.error('%s needs more than %d MiB', ' '.join(sys.argv[1:]), memory_bytes >> 20)
        return NO_MEMORY
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0
