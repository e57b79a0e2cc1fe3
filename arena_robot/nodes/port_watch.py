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
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from arena_robot.nodes.shared_memory import HOME

# Who listens in a port holds a lock on a file of this name.
LOCK = re.compile(r'(fast(?:rtps|dds)_port\d+)_el\b')
MAPPED = re.compile(rb'(\d+) +\S*/(fast(?:rtps|dds)_port\d+)(?: \(deleted\))?\n')
LOOKS = 3    # a port that Fast DDS makes anew by itself is found again before


def lost_ports(home: Path = HOME, process: Path = Path('/proc/self')) -> set[str]:
    """Return the ports in which a process listens and where no other process finds it."""
    own = {found[1] for file in _open_files(process) if (found := LOCK.search(file))}
    if not own:
        return set()
    mapped = {(name.decode(), int(number))
              for number, name in MAPPED.findall((process / 'maps').read_bytes())}
    return {name for name in own if (name, _number(home / name)) not in mapped}


class PortWatch:
    """Tells which ports of this process were lost in the last LOOKS looks."""

    def __init__(self, lost: Callable[[], set[str]] = lost_ports) -> None:
        self._lost = lost
        self._times: dict[str, int] = {}

    def look(self) -> list[str]:
        """Look again, once a second; return the ports that stay lost."""
        self._times = {name: self._times.get(name, 0) + 1 for name in self._lost()}
        return sorted(name for name, times in self._times.items() if times >= LOOKS)


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
