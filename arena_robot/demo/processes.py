"""Processes in the background: each with its log file, all ended together, none left behind."""

import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from arena_robot.core.errors import ArenaError

log = logging.getLogger(__name__)

FILE = 'processes.json'
END_S = 5.0
KILL_S = 2.0
LOOK_S = 0.05
TAIL = 800


class ProcessFailed(ArenaError):
    """A process of the demonstration did not start, or ended by itself."""

    code = 'process_failed'


class Process:
    """
    One program in a session of its own, so that Ctrl-C reaches only who started it.

    ``needed`` ones are ended only after the others, which talk to them.
    """

    def __init__(self, name: str, command: Sequence[str], log_file: Path,
                 environment: Mapping[str, str] | None = None, needed: bool = False) -> None:
        self.name = name
        self.needed = needed
        self.log_file = log_file
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    @property
    def pid(self) -> int:
        """Return the process's number, 0 before it was started."""
        return self._process.pid if self._process else 0

    @property
    def code(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start; what it says goes to the end of the log file."""
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open('ab') as out:
            self._begin = out.tell()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=self._environment, start_new_session=True)

    def said(self) -> str:
        """Return what it has said since it was started."""
        with self.log_file.open('rb') as file:
            file.seek(self._begin)
            return file.read().decode('utf-8', 'replace')

    def require(self) -> None:
        """Raise ProcessFailed when it has ended."""
        if self.code is not None:
            lines = self.said().strip()[-TAIL:]
            raise ProcessFailed(f'{self.name} ended with {self.code}; its log is '
                                f'{self.log_file}, and ends with:\n{lines}')

    def wait_for(self, text: str, timeout_s: float = 60.0) -> str:
        """Return the line that holds ``text`` once it has said it; ProcessFailed when not."""
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
        """Ask it to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it, and whatever it started in its own session."""
        if self._process is not None and self._process.poll() is None:
            log.warning('%s did not end by itself: killed', self.name)
            os.killpg(self._process.pid, signal.SIGKILL)
            try:
                self._process.wait(KILL_S)
            except subprocess.TimeoutExpired:
                log.error('process %d (%s) is still there', self._process.pid, self.name)


class Processes:
    """
    All processes of a demonstration; ``with`` ends them.

    Their numbers are kept in the folder, so that what a killed demonstration left running is
    ended by the next one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self.running: list[Process] = []

    def __enter__(self) -> 'Processes':
        end_leftovers(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *processes: Process) -> None:
        """Start processes, one after the other, without waiting for them."""
        for process in processes:
            self.running.append(process)
            process.start()
            born = {p.pid: birth(p.pid) for p in self.running if p.pid}
            self._file.write_text(json.dumps(born), encoding='utf-8')

    def require(self) -> None:
        """Raise ProcessFailed when one has ended by itself."""
        for process in self.running:
            process.require()

    def close(self, timeout_s: float = END_S) -> None:
        """End all, those that others need last; kill what is still there after ``timeout_s``."""
        for needed in (False, True):
            wave = [p for p in reversed(self.running) if p.needed is needed and p.pid]
            for process in wave:
                process.interrupt()
            _wait(partial(_ended, wave), timeout_s)
            for process in wave:
                process.kill()
        self.running.clear()
        self._file.unlink(missing_ok=True)


def end_leftovers(file: Path) -> int:
    """End the processes that a killed demonstration left running; return how many."""
    try:
        left = {int(pid): str(born) for pid, born in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return 0
    alive = [pid for pid, born in left.items() if born and birth(pid) == born]
    for pid in alive:
        os.killpg(pid, signal.SIGINT)
    _wait(lambda: not any(birth(pid) == left[pid] for pid in alive), END_S)
    for pid in alive:
        if birth(pid) == left[pid]:
            os.killpg(pid, signal.SIGKILL)
    file.unlink(missing_ok=True)
    return len(alive)


def birth(pid: int) -> str:
    """Return when a running process was started, in the kernel's ticks; '' when there is none."""
    try:
        fields = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()
    except OSError:
        return ''
    return '' if fields[0] == 'Z' else fields[19]


def _ended(processes: Sequence[Process]) -> bool:
    return all(process.code is not None for process in processes)


def _wait(done: Callable[[], bool], timeout_s: float) -> None:
    end_s = time.monotonic() + timeout_s
    while not done() and time.monotonic() < end_s:
        time.sleep(LOOK_S)
