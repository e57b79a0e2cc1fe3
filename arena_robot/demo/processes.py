"""All processes of a demonstration: ended together, and none left behind by a killed one."""

import json
import os
import signal
from pathlib import Path

from arena_robot.core.files import write_json
from arena_robot.core.process import Process, birth, end_all, wait_until

FILE = 'processes.json'
END_S = 5.0


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
