"""Background processing of finished episodes, never while recording."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from arena_robot.core import bounded
from arena_robot.core.process import Process
from arena_robot.recording.bag.recover import is_complete, recover
from arena_robot.recording.episode.derive import derive

log = logging.getLogger(__name__)
CLOSE_S = 1.0    # as long as a node may take to end
CUT_S = 5.0      # longer than a file takes that is written atomically
Work = Callable[..., object]


def derive_files(folder: str) -> None:
    """Write the derived files of an episode."""
    derive(Path(folder))


def recover_bag(folder: str) -> None:
    """Copy what can be read of an episode that was cut off into a complete bag."""
    if not is_complete(Path(folder)):
        recover(Path(folder))


class Deriver:
    """
    Works on folder after folder, each in a process of the lowest priority.

    ``hold`` ends the running process, which restarts after ``release``: a stopped (SIGSTOP)
    process would stay if this process were killed. One that has not ended after CUT_S is killed.
    Work that ``close`` interrupts can be derived again by hand: files are written atomically.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Work, tuple[str, ...]]] = deque()
        self._process: Process | None = None
        self._job: tuple[Path, Work, tuple[str, ...]] = (Path(), derive_files, ())
        self._held = self._cut = False
        self._cut_s = 0.0
        self._guard = threading.RLock()

    def add(self, folder: Path, work: Work = derive_files, *more: str) -> None:
        """Call ``work`` with ``folder`` and ``more`` as soon as possible; see ``started``."""
        with self._guard:
            self._waiting.append((folder, work, more))
        self.step()

    def hold(self) -> None:
        """Stop processing until :meth:`release`."""
        with self._guard:
            self._held = True
            if self._process is not None and self._process.code is None and not self._cut:
                self._cut, self._cut_s = True, time.monotonic()
                self._waiting.appendleft(self._job)
                self._process.interrupt()

    def moved(self, folder: Path, home: Path) -> None:
        """Derive what waits for ``folder`` at ``home``; call it between hold and release."""
        with self._guard:
            self._waiting = deque((home if waiting == folder else waiting, work, more)
                                  for waiting, work, more in self._waiting)

    def release(self) -> None:
        """Continue processing."""
        with self._guard:
            self._held = False
        self.step()

    def step(self) -> None:
        """Start the next process when the running one has ended; call this periodically."""
        with self._guard:
            if self._process is not None:
                code = self._process.code
                if code is None:
                    if self._cut and time.monotonic() - self._cut_s > CUT_S:
                        self._process.kill()
                    return
                if code and not self._cut:
                    log.error('%s failed with exit code %d', self._process.name, code)
                self._process = None
            if self._waiting and not self._held:
                self._begin(*self._waiting.popleft())

    def close(self) -> None:
        """End the running process."""
        with self._guard:
            self._waiting.clear()
            if self._process is not None:
                self._process.end(CLOSE_S / 2, CLOSE_S / 2)
                self._process = None

    def _begin(self, folder: Path, work: Work, more: tuple[str, ...]) -> None:
        self._job, self._cut = (folder, work, more), False
        self._process = bounded.started(work, folder, *more)
