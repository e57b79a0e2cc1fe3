"""
All processes of a demonstration: ended together, and none left behind by a killed one.

`ResourceUsage` measures their memory and processor time.
"""

import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from arena_robot.core.files import write_json
from arena_robot.core.process import Process, birth, end_all, wait_until

FILE = 'processes.json'
END_S = 5.0    # until what a killed run left is killed too
log = logging.getLogger(__name__)
PERIOD_S = 4.0    # memory is counted page by page: some milliseconds of each process
TICKS = os.sysconf('SC_CLK_TCK')


class Processes:
    """
    All processes of a demonstration; ``with`` ends them.

    Their numbers are kept in the folder, so that what a killed demonstration left running is
    ended by the next one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self.running: list[Process] = []
        self._needed: set[str] = set()

    def __enter__(self) -> 'Processes':
        end_leftovers(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *processes: Process, needed: bool = False) -> None:
        """
        Start processes, one after the other, without waiting for them.

        ``needed`` ones are ended only after the others, which talk to them.
        """
        for process in processes:
            self.running.append(process)
            self._needed |= {process.name} if needed else set()
            process.start()
            born = {p.pid: birth(p.pid) for p in self.running if p.pid}
            write_json(self._file, born)

    def end(self, *processes: Process) -> None:
        """End some of them; the others keep running."""
        self.running = [process for process in self.running if process not in processes]
        end_all(list(reversed(processes)), END_S)

    def require(self) -> None:
        """Raise ProcessFailed when one has ended by itself."""
        for process in self.running:
            process.require()

    def close(self, timeout_s: float = END_S) -> None:
        """End all, those that others need last; kill what is still there after ``timeout_s``."""
        for needed in (False, True):
            end_all([p for p in reversed(self.running) if (p.name in self._needed) is needed],
                    timeout_s)
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
    wait_until(lambda: not any(birth(pid) == left[pid] for pid in alive), END_S)
    for pid in alive:
        if birth(pid) == left[pid]:
            os.killpg(pid, signal.SIGKILL)
    file.unlink(missing_ok=True)
    return len(alive)


class ResourceUsage:
    """
    Samples every few seconds this process, those in ``processes``, and their children.

    ``peak_bytes`` is the largest sum of proportional set sizes: memory that several processes
    share counts once. ``cpu_s`` is processor time by name.
    """

    def __init__(self, processes: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._processes = processes
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._seconds: dict[tuple[str, int], float] = {}
        self.peak_bytes = 0

    def __enter__(self) -> 'ResourceUsage':
        self._thread = threading.Thread(target=self._watch, name='usage', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(5.0)
        log.info('peak memory %.2f GiB; processor seconds: %s', self.peak_bytes / 2**30,
                 ', '.join(f'{name} {seconds:.1f}' for name, seconds in self.cpu_s.items()))

    @property
    def cpu_s(self) -> dict[str, float]:
        """Return processor seconds by name, the largest first."""
        by_name: dict[str, float] = {}
        for (name, _), seconds in tuple(self._seconds.items()):
            by_name[name] = by_name.get(name, 0.0) + seconds
        return dict(sorted(by_name.items(), key=lambda item: -item[1]))

    def look(self) -> None:
        """Take one sample."""
        total = 0
        for name, pid in [('arena demo', os.getpid()), *self._processes()]:
            for process in (pid, *children(pid)) if pid != os.getpid() else (pid,):
                total += memory_bytes(process)
                seconds = cpu_seconds(process)
                if seconds is not None:
                    self._seconds[name, process] = seconds
        self.peak_bytes = max(self.peak_bytes, total)

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.look()


def memory_bytes(pid: int) -> int:
    """Return a process's proportional set size, 0 when it is gone."""
    try:
        for line in Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii').splitlines():
            if line.startswith('Pss:'):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended, or belongs to another user
    return 0


def cpu_seconds(pid: int) -> float | None:
    """Return a process's processor time in user and kernel, None when it is gone."""
    try:
        fields = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def children(pid: int) -> list[int]:
    """Return the numbers of a process's children."""
    try:
        tasks = Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='ascii')
    except OSError:
        return []
    return [int(word) for word in tasks.split()]
