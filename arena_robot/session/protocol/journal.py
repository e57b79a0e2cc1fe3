"""
Write-ahead journal: entries of a journal file, written to the disk before they take effect.

An incomplete last line, which a power failure can leave, is removed at the next open.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from arena_robot.core.clock import Clock
from arena_robot.core.errors import SessionError
from arena_robot.core.files import move, sync_folder
from arena_robot.core.openable import Openable
from arena_robot.records.session_file import Entry, line_of, read_journal, whole_length


class Log(Protocol):
    """Interface of the log that a session writes before a change takes effect."""

    def append(self, move: str, data: Mapping[str, Any], sync: bool = True) -> Entry:
        """Write one entry; with ``sync`` it survives a power failure once this returns."""


class Journal(Openable):
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
            end = whole_length(self.path.read_bytes())
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

    def move_folder(self, home: Path, mover: Callable[[Path, Path], None] = move) -> None:
        """Move the folder of the file to ``home`` by ``mover``; the journal stays open."""
        mover(self.path.parent, home)
        self.path = home / self.path.name

    def close(self) -> None:
        """Close the file; can be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def lock_journal(file: int, path: Path) -> None:
    """Lock an open journal; SessionError when another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise SessionError(f'{path} is in use by another program, a session node or arena '
                           'blind; stop that one, or give this one its own folder') from error
