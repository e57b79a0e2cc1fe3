"""
The control process as its driver sees it: started, watched, killed when it hangs.

The kernel says what became of its connections when the process itself waits for ever.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from arena_robot.core.process import Process
from arena_robot.drivers.franka.board import FrankaBoard, FrankaState
from arena_robot.drivers.franka.client import FrankaConfig
from arena_robot.drivers.franka.probe import NO_ANSWER, NO_FCI, WENT

SILENT_NS = 500_000_000         # without a new state: killed
START_NS = 20_000_000_000       # until the first sign of a process; imports on a busy machine
AGAIN_NS = 1_000_000_000        # between two attempts to start one
# A library that waits for an answer may not notice that the robot has closed the connection.
LOOK_NS, HUNG_NS = 50_000_000, 300_000_000
SHARED = Path('/dev/shm')
CLOSE_WAIT = '08'       # the other end has closed, this one not yet
STATE, INODE = 3, 9     # columns of /proc/PID/net/tcp


class ControlProcess:
    """
    One library in a process of its own; one thread calls :meth:`watch` again and again.

    ``trouble`` says why there is no state, '' when there is one. ``board`` is where commands go,
    ``config`` what the next process is started with.
    """

    def __init__(self, library: str, config: FrankaConfig) -> None:
        where = str(SHARED) if SHARED.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix='arena_franka_', dir=where))
        self.board = FrankaBoard(self._folder / 'board')
        self.config = config
        self._library = library
        self._process = self._made()
        self.trouble = ''
        self.starts = 0
        self._running = False
        self._started_ns = self._look_ns = self._closed_ns = 0

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def start(self, now_ns: int) -> None:
        """Start it; what the last one wrote is taken away."""
        self.board.post_state(FrankaState(busy_until_ns=now_ns + START_NS))
        self.board.beat(now_ns)
        self._process = self._made()
        self._process.start()
        self._running, self._started_ns, self._closed_ns = True, now_ns, 0
        self.starts += 1

    def watch(self, now_ns: int) -> FrankaState | None:
        """Return its state, None when there is none; kill it when it hangs, and start it again."""
        self.board.beat(now_ns)
        if not self._running:
            if now_ns - self._started_ns > AGAIN_NS:
                self.start(now_ns)
            return None
        state = self.board.state()
        if self._process.code is not None:
            self._over((state.trouble if state else '') or 'the control process ended with '
                       f'{self._process.code}: {self._last_words()}')
            return None
        if state is None:
            return None
        if state.trouble:
            return None
        if now_ns > max(state.busy_until_ns, state.read_ns + SILENT_NS):
            self.kill(self._silence(state))
            return None
        if state.awaits and self._hung(now_ns):
            self.kill(f'the robot has closed the connection: {WENT}; {NO_FCI}')
            return None
        if state.count == 0:
            return None
        self.trouble = ''
        return state

    def kill(self, why: str) -> None:
        """End it at once; the connection ends with it, and so does a motion."""
        self._process.kill()
        self._over(why)

    def close(self) -> None:
        """End it and remove its files; can be called twice."""
        self._running = False
        self._process.kill()
        self.board.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _made(self) -> Process:
        return Process(
            f'{self._library} control process',
            [sys.executable, '-m', 'arena_robot.drivers.franka.child',
             str(self.board.path), self._library, json.dumps(asdict(self.config))],
            self._folder / 'log')

    def _silence(self, state: FrankaState) -> str:
        """Return why a silent process is ended."""
        if closed_by_peer(self.pid):
            return f'the robot has closed the connection: {WENT}; {NO_FCI}'
        if state.awaits:
            return (f'no state of the robot: it does not answer {state.awaits}, {WENT}; '
                    f'{NO_ANSWER}')
        return (f'no state of the robot for {SILENT_NS / 1e9:g} s: {WENT}; check its cable and '
                'power')

    def _hung(self, now_ns: int) -> bool:
        """Return whether the connection has been closed for some time at the other end."""
        if now_ns < self._look_ns:
            return False
        self._look_ns = now_ns + LOOK_NS
        if not closed_by_peer(self.pid):
            self._closed_ns = 0
            return False
        self._closed_ns = self._closed_ns or now_ns
        return now_ns - self._closed_ns > HUNG_NS

    def _over(self, why: str) -> None:
        self._running, self.trouble = False, why

    def _last_words(self) -> str:
        lines = self._process.said().strip().splitlines()
        return lines[-1][:300] if lines else 'it said nothing'


def closed_by_peer(pid: int, proc: Path = Path('/proc')) -> bool:
    """Return whether the other end of a TCP connection of a process has closed it (on Linux)."""
    waiting = set()
    for family in ('tcp', 'tcp6'):
        try:
            lines = (proc / str(pid) / 'net' / family).read_text(encoding='ascii').splitlines()
        except OSError:
            continue
        waiting |= {f'socket:[{line.split()[INODE]}]' for line in lines[1:]
                    if line.split()[STATE] == CLOSE_WAIT}
    return bool(waiting) and not waiting.isdisjoint(_open_in(proc / str(pid) / 'fd'))


def _open_in(folder: Path) -> set[str]:
    """Return what the file descriptors of a process are."""
    files = set()
    with contextlib.suppress(OSError):          # the process has ended
        for descriptor in folder.iterdir():
            with contextlib.suppress(OSError):  # a file was closed meanwhile
                files.add(os.readlink(descriptor))
    return files
