"""What verbs print and read: JSON, progress, keys, lists, refused rows."""

import argparse
import functools
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from arena_robot.core.terminal import redraws

if TYPE_CHECKING:
    from arena_robot.records.roboarena import RoboArenaData

_WIDTH = 32


def json_text(values: Any) -> str:
    """Return what `--json` prints, in full precision; ValueError for NaN and infinity."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False, default=os.fspath)


def sentences(args: argparse.Namespace) -> Callable[..., None]:
    """Return ``print`` for what people read: on standard error with `--json`."""
    return functools.partial(print, file=sys.stderr if args.json else sys.stdout, flush=True)


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


class ListRows(argparse.Action):
    """``table`` is the table as ``module:NAME``, imported only when the list is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: str) -> None:
        self.table = options.pop('table')
        super().__init__(option_strings, dest, nargs=0, help=options['help'])

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace,
                 values: str | Sequence[Any] | None, option_string: str | None = None) -> None:
        """Print name and summary of every row."""
        from arena_robot.core.extensions import Table, load_object
        listed = load_object(self.table)
        assert isinstance(listed, Table)
        rows = listed.rows()
        width = max(len(name) for name in rows)
        for name, row in rows.items():
            print(f'{name:{width}}  {row.summary}')
        parser.exit()


def tell_refused(data: 'RoboArenaData') -> None:
    """Print where and why each refused row was left out."""
    for line in data.refusals():
        print(f'arena: refused: {line}', file=sys.stderr)
