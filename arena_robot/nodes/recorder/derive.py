"""Background processing of finished episodes, never while recording."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from arena_robot.core.process import NOTHING, Process

log = logging.getLogger(__name__)
CLOSE_S, CUT_S = 1.0, 5.0


def arena_call(*words: str) -> list[str]:
    """Return the command line of a verb of `arena` in another process."""
    return [sys.executable, '-m', 'arena_robot.cli.main', *words]


def episode_call(verb: str, folder: Path) -> Sequence[str]:
    """Return the command line of ``arena episode VERB FOLDER``."""
    return arena_call('episode', verb, str(folder))


class Deriver:
    """
    Runs ``arena episode derive`` or ``recover`` for folder after folder, at the lowest priority.

    ``call`` returns another command line for a verb and a folder.

    ``hold`` ends the running process, which restarts after ``release``: a stopped (SIGSTOP)
    process would stay if this process were killed. One that has not ended after CUT_S is killed.
    Work that ``close`` interrupts can be derived again by hand: files are written atomically.
    """

    def __init__(self, call: Callable[[str, Path], Sequence[str]] = episode_call) -> None:
        self._call = call
        self._waiting: deque[tuple[str, Path]] = deque()
        self._process: Process | None = None
        self._job = ('', Path())
        self._held = self._cut = False
        self._cut_s = 0.0
        self._guard = threading.RLock()

    def add(self, folder: Path, verb: str = 'derive') -> None:
        """Derive the files of an episode, or ``recover`` it, as soon as possible."""
        with self._guard:
            self._waiting.append((verb, folder))
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
            self._waiting = deque((verb, home if one == folder else one)
                                  for verb, one in self._waiting)

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
                    log.error('%s failed with exit code %d; run it by hand to see why',
                              ' '.join(('arena', *self._call(*self._job)[3:])), code)
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

    def _begin(self, verb: str, folder: Path) -> None:
        self._job, self._cut = (verb, folder), False
        self._process = Process(f'arena {verb}', self._call(verb, folder), NOTHING)
        self._process.start()
        self._process.lower_priority()
