"""Terminal output of the demonstration: permanent lines, and a block that is redrawn."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from arena_robot.core.terminal import colours, let_go_of_closed, redraws

PERIOD_S = 0.2
BAR = 20
DIM, BOLD, GREEN, RED, BLUE, PLAIN = (f'\033[{n}m' for n in (2, 1, 32, 31, 36, 0))
HIDE, SHOW = '\033[?25l', '\033[?25h'


class Display:
    """
    Prints to ``out``; if that is not a terminal, only the permanent lines, without colours.

    ``block`` returns the lines of the block; it is called five times a second.
    """

    def __init__(self, out: TextIO | None = None,
                 block: Callable[[], Sequence[str]] = list) -> None:
        self._out = out or sys.stdout
        self.live = redraws(self._out)
        self._coloured = colours(self._out)
        self._block = block
        self._shown = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> 'Display':
        if self.live:
            self._put(HIDE)
            self._thread = threading.Thread(target=self._draw_on, name='display', daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the block and restore the terminal; can be called twice."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
            with self._lock:
                self._put(self._cleared() + SHOW)

    def line(self, text: str = '') -> None:
        """Print a permanent line above the block."""
        with self._lock:
            self._put(f'{self._cleared()}{text}\n')

    def colour(self, code: str, text: str) -> str:
        """Return ``text`` in a colour, if colours are used."""
        return f'{code}{text}{PLAIN}' if self._coloured else text

    def _draw_on(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.draw()

    def draw(self) -> None:
        """Redraw the block."""
        lines = list(self._block())
        width = shutil.get_terminal_size().columns
        with self._lock:
            if self._over.is_set():
                return
            self._put(''.join((self._cleared(), *(f'{cut(text, width - 1)}\n'
                                                  for text in lines))))
            self._shown = len(lines)

    def _cleared(self) -> str:
        """Return what removes the block."""
        shown, self._shown = self._shown, 0
        return f'\033[{shown}F\033[J' if shown else ''

    def _put(self, text: str) -> None:
        """Write at once; nothing happens when the terminal was closed."""
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            if not self.live:
                raise
            let_go_of_closed()


def cut(text: str, width: int) -> str:
    """Return at most ``width`` visible characters of ``text``; colour codes do not count."""
    out, seen, inside = [], 0, False
    for character in text:
        inside = inside or character == '\033'
        if inside:
            out.append(character)
            inside = character != 'm'
        elif seen < width:
            out.append(character)
            seen += 1
    return ''.join(out) + (PLAIN if '\033' in text else '')


def bar(share: float, width: int = BAR) -> str:
    """Return a bar filled to ``share``, 0 to 1."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return '━' * filled + '─' * (width - filled)


def minutes(seconds: float) -> str:
    """Return a time span as ``m:ss``."""
    whole = max(0, round(seconds))
    return f'{whole // 60}:{whole % 60:02d}'


class Stopwatch:
    """Seconds since its creation."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the elapsed seconds."""
        return time.monotonic() - self._start_s
