"""Single keys from a terminal, without Enter."""

import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def single_keys() -> Iterator[Callable[[float], str]]:
    """Give a function that returns the key pressed within some seconds, or nothing."""
    file = sys.stdin

    def read(timeout_s: float) -> str:
        ready, _, _ = select.select([file], [], [], timeout_s)
        return file.read(1) if ready else ''
    if not file.isatty():
        yield read
        return
    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    try:
        yield read
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
