"""
Ports of Fast DDS in shared memory in which a process listens and where nobody finds it.

Fast DDS keeps each of its ports in a file of ``/dev/shm``. A process that is started in place of a
killed one makes the same ports anew. Another process that still clears away the killed one's ports
may then delete a new file, most often on a busy machine (seen with Fast DDS 2.14). The new process
listens in a file without a name: it is seen by all others, and gets none of their requests, for
ever. Ended and started again, it gets them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from arena_robot.nodes.shared_memory import HOME

# Who listens in a port holds a lock on a file of this name.
LOCK = re.compile(r'(fast(?:rtps|dds)_port\d+)_el\b')
MAPPED = re.compile(rb'\S+ \S+ \S+ \S+ (\d+) +\S*/(fast(?:rtps|dds)_port\d+)(?: \(deleted\))?')
LOOKS = 3    # a port that Fast DDS makes anew by itself is found again before
Port = tuple[str, int]    # its name, and the number of its file, 0 where there is none


class PortWatch:
    """
    Tells which ports of a process were lost in the last LOOKS looks.

    A look takes 0.2 ms of Python's lock; the list of what is mapped, 2 ms long, is only read when
    a file has changed, so that a control loop in the same process is not late.
    """

    def __init__(self, home: Path = HOME, process: Path = Path('/proc/self')) -> None:
        self._home, self._process = home, process
        self._good: set[Port] = set()
        self._times: dict[str, int] = {}

    def look(self) -> list[str]:
        """Look again, once a second; return the ports that stay lost."""
        self._times = {name: self._times.get(name, 0) + 1 for name in self.lost()}
        return sorted(name for name, times in self._times.items() if times >= LOOKS)

    def lost(self) -> set[str]:
        """Return the ports in which the process listens now and where no other finds it."""
        locks = (LOCK.search(file) for file in _open_files(self._process))
        own = {(name, _number(self._home / name)) for name in {lock[1] for lock in locks if lock}}
        if own <= self._good:
            return set()
        self._good = own & _mapped(self._process)
        return {name for name, _ in own - self._good}


def _mapped(process: Path) -> set[Port]:
    """Return the ports that a process has in its memory, to listen or to write."""
    lines = (process / 'maps').read_bytes().split(b'\n')
    found = (MAPPED.match(line) for line in lines if b'/fast' in line)
    return {(one[2].decode(), int(one[1])) for one in found if one}


def _open_files(process: Path) -> Iterator[str]:
    try:
        files = os.listdir(process / 'fd')
    except FileNotFoundError:    # not Linux: no such ports either
        return
    for file in files:
        with suppress(OSError):    # closed meanwhile
            yield os.readlink(process / 'fd' / file)


def _number(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
