"""What the kernel says of a process's connections, when the process itself waits for ever."""

import contextlib
import os
from pathlib import Path

CLOSE_WAIT = '08'       # the other end has closed, this one not yet
STATE, INODE = 3, 9     # columns of /proc/PID/net/tcp


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
    found = set()
    with contextlib.suppress(OSError):          # the process has ended
        for one in folder.iterdir():
            with contextlib.suppress(OSError):  # a file was closed meanwhile
                found.add(os.readlink(one))
    return found
