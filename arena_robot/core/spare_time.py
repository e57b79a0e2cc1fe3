"""Work in processor time that no other program wants, also of a function in its own process."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from arena_robot.core.bounded import bound
from arena_robot.core.errors import ArenaError
from arena_robot.core.extensions import load_object
from arena_robot.core.process import Process

log = logging.getLogger(__name__)

AUTOGROUP = Path('/proc/self/autogroup')
LOWEST = 19
FAILED, NO_MEMORY, INTERRUPTED = 1, 3, 130
# An interrupt while Python still imports ends the process without words.
_PROGRAM = ('import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); '
            f'from {__name__} import main; raise SystemExit(main(')


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
        f'{work.__module__}:{work.__qualname__}', *map(str, arguments)])
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
