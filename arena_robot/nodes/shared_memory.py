"""
Ports of Fast DDS in shared memory that a killed process left half made.

Fast DDS keeps each of its ports in a file of ``/dev/shm``. A process that is killed at the instant
in which it makes one leaves a file without contents; every process that is started later looks
into the same port, waits in it for ever, and holds Python's lock meanwhile (seen with Fast DDS
2.14). Nothing on the machine could start until somebody deleted that file.
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
MAKING_S, LOOK_S = 3.0, 0.05


def mend_ports(home: Path = HOME, making_s: float = MAKING_S) -> list[str]:
    """
    Delete the ports that are half made and stay so for ``making_s``; return their names.

    Returns at once when there are none. Processes that wait in a deleted one go on.
    """
    end_s = time.monotonic() + making_s
    unready = set(_unready(home))
    while unready and time.monotonic() < end_s:
        time.sleep(LOOK_S)
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
