"""What a terminal supports: colours, and lines that are redrawn."""

import os
import select
import sys
from contextlib import suppress
from typing import TextIO


def redraws(out: TextIO) -> bool:
    """Return whether lines on ``out`` can be drawn again: a terminal, and not a dumb one."""
    return out.isatty() and os.environ.get('TERM', '') != 'dumb'


def colours(out: TextIO) -> bool:
    """Return whether ``out`` takes colours; the variable ``NO_COLOR`` turns them off."""
    return redraws(out) and not os.environ.get('NO_COLOR')


def plain_children() -> None:
    """Turn off the colours of ROS's log, here and in child programs, when none are wanted."""
    if os.environ.get('NO_COLOR') or os.environ.get('TERM', '') == 'dumb':
        os.environ.setdefault('RCUTILS_COLORIZED_OUTPUT', '0')


def let_go_of_closed() -> None:
    """
    Send output to nowhere where the terminal was closed.

    Otherwise every further line is an error, the last one when the interpreter ends.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):    # no file, such as under a test
            look = select.poll()
            look.register(stream.fileno(), 0)
            if look.poll(0):    # only what is always told: hung up, or an error
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
