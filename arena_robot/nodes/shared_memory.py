"""
Ports of Fast DDS in shared memory that a killed process left half made.

Fast DDS keeps each of its ports in a file of ``/dev/shm``. A process that is killed at the instant
in which it makes one leaves a file without contents; every process that is started later looks
into the same port, waits in it for ever, and holds Python's lock meanwhile (seen with Fast DDS
2.14). Nothing on the machine could start until somebody deleted that file.
"""

import logging
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
    mended = sorted(path.name for path, _ in unready if _delete(path))
    if mended:
        log.warning('%s: a killed process left them half made, and every new one would wait in '
                    'them; deleted', ', '.join(mended))
    return mended


def _unready(home: Path) -> Iterator[tuple[Path, int]]:
    """Return the ports that are not ready, each with the number of its file."""
    for path in home.glob('fast*_port*'):
        if not PORT.fullmatch(path.name):
            continue
        with suppress(OSError):    # gone again, or another person's
            with path.open('rb') as file:
                begin = file.read(STATE.size)
            if len(begin) < STATE.size or STATE.unpack(begin)[0] not in (READY, BROKEN):
                yield path, path.stat().st_ino


def _delete(path: Path) -> bool:
    """Delete a port, and tell those who wait in it that it will not be made."""
    try:
        with path.open('r+b') as file:
            file.write(STATE.pack(BROKEN))
        path.unlink()
    except OSError as error:
        log.error('%s is half made, so no ROS process can start on this machine; delete it: %s',
                  path, error.strerror)
        return False
    return True
