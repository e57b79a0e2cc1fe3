"""Background programs: each with its log file, ended within a time limit with all its children."""

import contextlib
import functools
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from arena_robot.core.clock import LOOK_S
from arena_robot.core.errors import ProcessFailed

log = logging.getLogger(__name__)

TAIL = 800    # characters of a log in an error message: the last ten lines
NOTHING = Path(os.devnull)


class Process:
    """
    One program in a session of its own, so that Ctrl-C reaches only the program that started it.

    What it prints goes to the end of ``log_file``, never into a pipe that nobody reads; None
    leaves it on this program's own output. With ``pipes`` standard input and output are pipes of
    text, and the log file takes standard error. When the program ends, what it started and left
    in its session is killed. When the program that started it is killed, it gets SIGTERM (on
    Linux, with setpriv of util-linux). Signals in ``blocked`` wait until it unblocks them.
    """

    def __init__(self, name: str, command: Sequence[str], log_file: Path | None = None,
                 environment: Mapping[str, str] | None = None, pipes: bool = False,
                 blocked: Collection[signal.Signals] = ()) -> None:
        self.name = name
        self.log_file = log_file
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._pipes = pipes
        self._blocked = blocked
        self._process: subprocess.Popen[str] | None = None
        self._begin = 0
        self._swept = False

    @property
    def pid(self) -> int:
        """Return the process's number, 0 before it was started."""
        return self._process.pid if self._process else 0

    @property
    def code(self) -> int | None:
        """Return the exit code, None while it runs; negative for a signal."""
        code = self._process.poll() if self._process else None
        if code is not None and not self._swept:
            self._swept = True
            self._signal_all(signal.SIGKILL)
        return code

    @property
    def stdin(self) -> IO[str]:
        """Return the pipe to its standard input."""
        return _pipe(self._process.stdin if self._process else None, self.name)

    @property
    def stdout(self) -> IO[str]:
        """Return the pipe from its standard output."""
        return _pipe(self._process.stdout if self._process else None, self.name)

    def start(self) -> None:
        """Start it."""
        with contextlib.ExitStack() as files:
            out: IO[bytes] | None = None
            if self.log_file is not None:
                self.log_file.parent.mkdir(parents=True, exist_ok=True)
                out = files.enter_context(self.log_file.open('ab'))
                self._begin = out.tell()
            self._swept = False
            self._process = _in_lasting_thread(lambda: self._spawn(out))

    def _spawn(self, out: IO[bytes] | None) -> 'subprocess.Popen[str]':
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)    # the program's too
        try:
            return subprocess.Popen(
                _with_death_signal(self._command, self._environment.get('PATH')),
                env=self._environment, start_new_session=True, text=True,
                bufsize=1, stdin=subprocess.PIPE if self._pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._pipes else out,
                stderr=out if self._pipes or out is None else subprocess.STDOUT)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def said(self) -> str:
        """Return what was written to its log file since it was started."""
        if self.log_file is None:
            return ''
        with self.log_file.open('rb') as file:
            file.seek(self._begin)
            return file.read().decode('utf-8', 'replace')

    def require(self) -> None:
        """Raise ProcessFailed, with the last lines of its log, when it has ended."""
        if self.code is not None:
            raise ProcessFailed(f'{self.name} ended with {self.code}; its log is '
                                f'{self.log_file}, and ends with:\n{self.said().strip()[-TAIL:]}')

    def wait_for(self, text: str, timeout_s: float = 60.0) -> str:
        """Return the line that holds ``text`` once it was printed; ProcessFailed when not."""
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            for line in self.said().splitlines(keepends=True):
                if text in line and line.endswith('\n'):
                    return line.strip()
            self.require()
            time.sleep(LOOK_S)
        raise ProcessFailed(f'{self.name} did not come up within {timeout_s:g} s; see '
                            f'{self.log_file}')

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def end(self, interrupt_s: float = 5.0, terminate_s: float = 1.0) -> None:
        """End it: see :func:`end_all`. Nothing when it was not started."""
        end_all([self], interrupt_s, terminate_s)

    def kill(self) -> None:
        """End it, and what it started in its session, at once."""
        if self._process is not None:
            if not self._swept:
                self._signal_all(signal.SIGKILL)
            self._process.wait()
            self._swept = True
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def terminate(self) -> None:
        """Send SIGTERM to it and to what it started in its session."""
        if self.code is None:
            self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def end_all(processes: Sequence[Process], interrupt_s: float = 5.0,
            terminate_s: float = 1.0) -> None:
    """
    End all at the same time: SIGINT, SIGTERM after ``interrupt_s``, SIGKILL ``terminate_s`` later.

    Returns when all have ended, and whatever they had started in their sessions.
    """
    running = [p for p in processes if p.pid and p.code is None]
    for process in running:
        process.interrupt()
    wait_until(lambda: all(p.code is not None for p in running), interrupt_s)
    for process in (stubborn := [p for p in running if p.code is None]):
        log.warning('%s did not end within %g s of SIGINT', process.name, interrupt_s)
        process.terminate()
    wait_until(lambda: all(p.code is not None for p in stubborn), terminate_s)
    for process in (p for p in processes if p.pid):
        if process.code is None:
            log.error('%s did not end by itself: killed', process.name)
        if process.code is None or process in running:
            process.kill()


def wait_until(done: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether ``done`` became true within ``timeout_s``."""
    end_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() >= end_s:
            return False
        time.sleep(LOOK_S)
    return True


def end_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a program: Ctrl-C, kill, terminal closed (not under nohup)."""
    hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hung_up)


def ended_by_signal() -> threading.Event:
    """Return an event that those signals set instead; for the main thread only."""
    over = threading.Event()
    for number in end_signals():
        signal.signal(number, lambda *_: over.set())
    return over


def birth(pid: int) -> str:
    """Return when a running process was started, in the kernel's ticks; '' when there is none."""
    try:
        fields = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()
    except OSError:
        return ''
    return '' if fields[0] == 'Z' else fields[19]


def _pipe(pipe: 'IO[str] | None', name: str) -> IO[str]:
    if pipe is None:
        raise ProcessFailed(f'{name} was not started with pipes')
    return pipe


def _with_death_signal(command: list[str], path: str | None) -> list[str]:
    """Return the command line with which the kernel ends it once its parent has ended."""
    setpriv = _setpriv()
    if not setpriv or shutil.which(command[0], path=path) is None:
        return command
    return [setpriv, '--pdeathsig', 'TERM', '--', *command]


@functools.cache
def _setpriv() -> str:
    """Return the path of a setpriv that knows --pdeathsig, '' where there is none."""
    setpriv = shutil.which('setpriv') or ''
    if setpriv:
        tried = subprocess.run([setpriv, '--pdeathsig', 'TERM', '--', 'true'], check=False,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=10.0)
        if tried.returncode == 0:
            return setpriv
    log.warning('no setpriv that knows --pdeathsig: a program that is killed with SIGKILL leaves '
                'running what it started')
    return ''


def _in_lasting_thread(start: 'Callable[[], subprocess.Popen[str]]') -> 'subprocess.Popen[str]':
    """
    Start a process from a thread that lasts as long as the program.

    The kernel sends the death signal when the thread that started the process ends.
    """
    if threading.current_thread() is threading.main_thread():
        return start()
    return _starter().submit(start).result()


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, 'process starter')


os.register_at_fork(after_in_child=_starter.cache_clear)
