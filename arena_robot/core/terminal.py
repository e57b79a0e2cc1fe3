"""What a terminal supports: colours, and lines that are redrawn."""

import os
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
