"""Progress bar for work that takes longer than two seconds; only on a terminal."""

import sys
import time
from types import TracebackType

from typing_extensions import Self

from arena_robot.core.terminal import redraws

_WIDTH = 32


class ProgressBar:
    """Shows ``done`` of ``total`` on one line of standard error."""

    def __init__(self, delay_s: float = 2.0, every_s: float = 0.1) -> None:
        self._start = time.monotonic()
        self._delay_s = delay_s
        self._every_s = every_s
        self._shown = 0.0

    def show(self, done: int, total: int, label: str) -> None:
        """Draw the bar, unless it is too early, too soon again, or not on a terminal."""
        now = time.monotonic()
        if now - self._start < self._delay_s or not redraws(sys.stderr):
            return
        if now - self._shown < self._every_s and done < total:
            return
        self._shown = now
        filled = _WIDTH * done // max(total, 1)
        rate = done / (now - self._start)
        left_s = (total - done) / rate if rate > 0 else 0.0
        print(f"\r  [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}  {rate:.0f}/s  "
              f'{left_s:3.0f} s left  {label:<20.20}', end='', file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._shown:
            print(f"\r{' ' * 99}\r", end='', file=sys.stderr, flush=True)
