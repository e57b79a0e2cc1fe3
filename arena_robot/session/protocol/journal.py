"""
Write-ahead journal: one JSON object per line, written to the disk before it takes effect.

Line n is ``{"n": n, "t": stamp_ns, "move": "...", "data": {...}}``. If the process is killed or
the machine loses power, at most the last line is incomplete; it is removed at the next open.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from typing_extensions import Self

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.files import move, sync_folder

JOURNAL = 'journal.jsonl'


@dataclass(frozen=True)
class Entry:
    """One entry of the journal."""

    n: int
    stamp_ns: int
    move: str
    data: Mapping[str, Any]


class Log(Protocol):
    """Interface of the log that a session writes before a change takes effect."""

    def append(self, move: str, data: Mapping[str, Any], sync: bool = True) -> Entry:
        """Write one entry; with ``sync`` it survives a power failure once this returns."""


class Journal:
    """A journal file; one process at a time can have it open."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self._clock = clock
        self._file = -1

    def open(self) -> None:
        """
        Create or continue the file; an incomplete last line is removed.

        Raises SessionError when another process holds it, DataError when it is damaged.
        """
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            lock_journal(file, self.path)
            self.entries = list(read_journal(self.path))
            end = _whole_length(self.path.read_bytes())
            if end != os.fstat(file).st_size:
                os.ftruncate(file, end)
                os.fsync(file)
        except BaseException:
            os.close(file)
            raise
        if new:
            sync_folder(self.path.parent)
        self._file = file

    def append(self, move: str, data: Mapping[str, Any], sync: bool = True) -> Entry:
        """
        Write one entry and return it; with ``sync`` it is then on the disk.

        Raises SessionError when writing fails; nothing has changed then.
        """
        if self._file < 0:
            raise SessionError(f'the journal {self.path} is not open')
        entry = Entry(len(self.entries), self._clock.now_ns(), str(move), dict(data))
        line = line_of(entry)
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f'only {written} of {len(line)} bytes were written')
            if sync:
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise SessionError(f'cannot keep what happened in {self.path}: {error}; '
                               'free some disk space and try again') from error
        self.entries.append(entry)
        return entry

    def move_folder(self, home: Path) -> None:
        """Rename the folder of the file to ``home``; the journal stays open."""
        move(self.path.parent, home)
        self.path = home / self.path.name

    def close(self) -> None:
        """Close the file; can be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Entry]:
    """
    Yield the entries of a journal file; an incomplete last line is ignored.

    Raises DataError for any other damage, naming the line.
    """
    raw = path.read_bytes()
    lines = raw[:_whole_length(raw)].splitlines()
    for n, line in enumerate(lines):
        try:
            entry = parse_entry(line)
        except DataError as error:
            raise DataError(f'{path} line {n + 1} is damaged: {error}') from error
        if entry.n != n:
            raise DataError(f'{path} line {n + 1} has number {entry.n}: lines are missing')
        yield entry


def parse_entry(line: bytes) -> Entry:
    """Return the entry in a line of a journal; DataError when it is not one."""
    try:
        item = json.loads(line)
        return Entry(int(item['n']), int(item['t']), str(item['move']), dict(item['data']))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f'{error or type(error).__name__}') from error


def line_of(entry: Entry) -> bytes:
    """Return the line that an entry is written as."""
    item = {'n': entry.n, 't': entry.stamp_ns, 'move': entry.move, 'data': entry.data}
    return (json.dumps(item, ensure_ascii=False, allow_nan=False) + '\n').encode('utf-8')


def _whole_length(raw: bytes) -> int:
    return raw.rfind(b'\n') + 1


def lock_journal(file: int, path: Path) -> None:
    """Lock an open journal; SessionError when another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise SessionError(f'{path} is in use by another session node; stop that one, or give '
                           'this one its own data folder') from error
