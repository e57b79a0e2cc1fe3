"""
Ports of Fast DDS in shared memory: left half made by a killed process, or deleted by another.

Fast DDS keeps each of its ports in a file of ``/dev/shm``. A process that is killed at the instant
in which it makes one leaves a file without contents; every process that is started later looks
into the same port, waits in it for ever, and holds Python's lock meanwhile (seen with Fast DDS
2.14). Nothing on the machine could start until somebody deleted that file.

A process that is started in place of a killed one makes the same ports anew. Another process that
still clears away the killed one's ports may then delete a new file, most often on a busy machine.
The new process listens in a file without a name: all others see it, and it gets none of their
requests, for ever. Ended and started again, it gets them. ``PortWatch`` finds this.
"""

import fcntl
import logging
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

HOME = Path('/dev/shm')
PORT = re.compile(r'fast(rtps|dds)_port\d+')
# The first four bytes of a segment, as Boost.Interprocess writes them.
STATE = struct.Struct('<i')
READY, BROKEN = 2, 3
MAKING_S = 3.0         # a living process makes a port within milliseconds
PORT_LOOK_S = 0.05
# Who listens in a port holds a lock on a file of this name.
LOCK = re.compile(r'(fast(?:rtps|dds)_port\d+)_el\b')
MAPPED = re.compile(rb'\S+ \S+ \S+ \S+ (\d+) +\S*/(fast(?:rtps|dds)_port\d+)(?: \(deleted\))?')
LOOKS = 3    # a port that Fast DDS makes anew by itself is found again before
Port = tuple[str, int]    # its name, and the number of its file, 0 where there is none


def mend_ports(home: Path = HOME, making_s: float = MAKING_S) -> list[str]:
    """
    Delete the ports that are half made and stay so for ``making_s``; return their names.

    Returns at once when there are none. Processes that wait in a deleted one go on.
    """
    end_s = time.monotonic() + making_s
    unready = set(_unready(home))
    while unready and time.monotonic() < end_s:
        time.sleep(PORT_LOOK_S)
        unready &= set(_unready(home))
    mended = sorted(path.name for path, file in unready if _delete(path, file))
    if mended:
        log.warning('%s: a killed process left them half made, and every new one would wait in '
                    'them; deleted', ', '.join(mended))
    return mended


def _unready(home: Path) -> Iterator[tuple[Path, int]]:
    """Return the ports that are not ready, each with the number of its file."""
    for path in home.glob('fast*_port*'):
        if PORT.fullmatch(path.name):
            with suppress(OSError), path.open('rb') as file:    # gone again, or another person's
                if not _is_ready(file):
                    yield path, os.fstat(file.fileno()).st_ino


def _is_ready(file: BinaryIO) -> bool:
    file.seek(0)
    return file.read(STATE.size) == STATE.pack(READY)


def _delete(path: Path, number: int) -> bool:
    """
    Delete a port that is still the file ``number`` and not ready; tell those who wait in it.

    All nodes of a station may start, and see it, at once: the others then find the port that the
    first of them has made in its place, or nothing.
    """
    try:
        with path.open('r+b') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            same = os.fstat(file.fileno()).st_ino == path.stat().st_ino == number
            if _is_ready(file) or not same:
                return False
            file.seek(0)
            file.write(STATE.pack(BROKEN))
            file.flush()
            path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        log.error('%s is half made, so no ROS process can start on this machine; delete it: %s',
                  path, error.strerror)
        return False
    return True


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
    matches = (MAPPED.match(line) for line in lines if b'/fast' in line)
    return {(match[2].decode(), int(match[1])) for match in matches if match}


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
