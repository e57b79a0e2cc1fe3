"""Measurement of memory and processor time of all processes together."""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger(__name__)

PERIOD_S = 4.0    # memory is counted page by page: some milliseconds of each process
TICKS = os.sysconf('SC_CLK_TCK')


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
        found: dict[str, float] = {}
        for (name, _), seconds in tuple(self._seconds.items()):
            found[name] = found.get(name, 0.0) + seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def look(self) -> None:
        """Take one sample."""
        total = 0
        for name, pid in [('arena demo', os.getpid()), *self._processes()]:
            for one in (pid, *children(pid)) if pid != os.getpid() else (pid,):
                total += memory_bytes(one)
                seconds = cpu_seconds(one)
                if seconds is not None:
                    self._seconds[name, one] = seconds
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
