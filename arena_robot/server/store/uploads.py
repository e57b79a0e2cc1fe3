"""
Files from stations, in pieces that can be repeated.

The spool file of a file has all bytes that arrived, so a station can ask where to continue, and a
killed server loses nothing. A file is complete when its SHA-256 is the announced one; only then it
enters the blob store, under ``<session>/<slot>/<path>``.
"""

import dataclasses
import fcntl
import hashlib
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import Conflict, DataError, ServerUnavailable
from arena_robot.server.config import ServerLimits
from arena_robot.server.files import FileId, FileRecord, checked_sha256
from arena_robot.server.store import files as store
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Connection, Database

SLOTS = ('A', 'B', '-')
LIMITS = ServerLimits()
FILM = ('.mp4', '.m4v', '.mov')
OTHER_FILM = ('.mkv', '.webm', '.avi', '.ts', '.m4a', '.aac', '.mp3', '.wav', '.ogg', '.opus',
              '.flac')
MOST_BOXES = 10_000    # of an MP4: a video of ours has some dozens


class Uploads:
    """Announce, append, finish; within the bounds of a file, a session, a day, and the disk."""

    def __init__(self, database: Database, blobs: Blobs, spool: Path, clock: Clock,
                 limits: ServerLimits = LIMITS) -> None:
        self._database = database
        self._blobs = blobs
        self._spool = spool
        self._clock = clock
        self._limits = limits

    def begin(self, file: FileId, size: int, sha256: str) -> FileRecord:
        """
        Announce a file and return what is here of it already.

        Conflict when another content was stored under its name; DataError when it is too large.
        ServerUnavailable when it has to wait: for space on the disk, or for the next day.
        """
        if file.slot not in SLOTS:
            raise DataError(f"a slot is A, B or '-', found {file.slot!r:.20}")
        key = file.key
        if file.path.lower().endswith(OTHER_FILM):
            raise DataError(f'{key}: videos are MP4 without sound, no other film and no sound')
        sha256 = checked_sha256(sha256.lower(), key)
        if not 0 <= size <= self._limits.file_bytes:
            raise DataError(f'{key} has {size} bytes; up to {self._limits.file_bytes} are '
                            'accepted')
        with self._database.write() as connection:
            store.lock_session(connection, file.session_id)
            row, wanted = store.find(connection, file), (size, sha256)
            if row is None or (not _is_done(row) and (row.size, row.sha256) != wanted):
                self._check_disk(size)
                self._check_room(connection, file, size)
                store.announce(connection, store.FileRow(file, size, sha256, False),
                               self._clock.now_ns())
                self._part(file).unlink(missing_ok=True)
            elif (row.size, row.sha256) != wanted:
                raise Conflict(f'{key} was stored before with another content')
        return self.status(file)

    def is_whole(self, file: FileId, size: int, sha256: str) -> bool:
        """Tell whether a file of just this content is here already."""
        with self._database.read() as connection:
            row = store.find(connection, file)
        return row is not None and _is_done(row) and (row.size, row.sha256) == (
            size, sha256.lower())

    def append(self, file: FileId, offset: int, data: bytes) -> int:
        """
        Store bytes at ``offset`` and return how many are here now.

        Bytes that are here already are skipped; DataError when there would be a gap or too many.
        """
        with self._held(file) as (record, stream):
            if stream is None:
                return record.size
            if offset > record.received:
                raise DataError(f'{file.key}: bytes from {offset} would leave a gap; '
                                f'go on from {record.received}')
            fresh = data[record.received - offset:]
            self._check_disk(len(fresh))
            if record.received + len(fresh) > record.size:
                raise DataError(f'{file.key} was announced with {record.size} bytes, '
                                'more arrived')
            stream.write(fresh)
            return record.received + len(fresh)

    def finish(self, file: FileId) -> FileRecord:
        """Check the content and move it to the store; DataError (start again) when it is wrong."""
        with self._held(file) as (record, stream):
            if stream is None:
                return record
            if record.received != record.size:
                raise DataError(f'{file.key} has {record.received} of {record.size} bytes; '
                                f'go on from {record.received}')
            part = self._part(file)
            if self._digest(part) != record.sha256:
                part.unlink(missing_ok=True)
                raise DataError(f'{file.key} arrived with another SHA-256 than announced; '
                                'it was dropped, send it again from 0')
            if file.path.lower().endswith(FILM) and has_sound(part):
                part.unlink(missing_ok=True)
                raise DataError(f'{file.key} has a sound track, and voices are not taken; send '
                                'the video without it (ffmpeg -i IN -an -c copy OUT)')
            if not self._keep(record, stream):
                raise Conflict(f'{file.key} was announced with another content while this one '
                               'was checked; begin its upload again')
        return self.status(file)

    def _keep(self, record: FileRecord, stream: BinaryIO) -> bool:
        """
        Give a checked spool file its place in the store and mark it as complete.

        False when it was announced anew meanwhile. Both announcing and this hold the lock of the
        session, so the bytes at that place are those of the SHA-256 in the database.
        """
        part, file = self._part(record.file), record.file
        staged = self._blobs.stage(part, file.key)
        with self._database.write() as connection:
            store.lock_session(connection, file.session_id)
            kept = _is_at(stream, part) and store.mark_complete(connection, store.FileRow(
                file, record.size, record.sha256, True), self._clock.now_ns())
            if kept:
                self._blobs.place(staged, file.key)
        if staged != str(part):
            if kept:
                part.unlink(missing_ok=True)
            else:
                self._blobs.drop(staged)
        return kept

    @contextmanager
    def _held(self, file: FileId) -> Iterator[tuple[FileRecord, BinaryIO | None]]:
        """
        Yield what is here of a file and its spool file, which nobody else changes meanwhile.

        None instead of the spool file when the file is complete.
        """
        part = self._part(file)
        while True:
            record = self.status(file)
            if record.complete:
                yield record, None
                return
            part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with part.open('ab') as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                if not _is_at(stream, part):
                    continue    # it was completed or dropped while this waited
                if os.fstat(stream.fileno()).st_size > record.size:
                    stream.truncate(0)
                received = os.fstat(stream.fileno()).st_size
                yield dataclasses.replace(record, received=received), stream
                return

    def status(self, file: FileId) -> FileRecord:
        """Return what is here of a file; DataError when it was never announced."""
        with self._database.read() as connection:
            row = store.find(connection, file)
        if row is None:
            raise DataError(f'{file.key} was not announced; begin the upload first')
        return self._record(row)

    def list(self, session_id: str) -> list[FileRecord]:
        """Return a session's files, without those whose content was deleted."""
        with self._database.read() as connection:
            rows = store.of_session(connection, session_id)
        return [self._record(row) for row in rows if not row.erased]

    def forget_part(self, file: FileId) -> None:
        """Delete what arrived of a file that is not complete."""
        self._part(file).unlink(missing_ok=True)

    def _record(self, row: store.FileRow) -> FileRecord:
        file, complete = row.file, _is_done(row)
        received = None if complete else _size(self._part(file))
        if not complete and received is None and self._blobs.exists(file.key) \
                and self._blobs.size(file.key) == row.size > 0 \
                and _sha256(self._blobs.read(file.key)) == row.sha256:
            # The server was killed between the move and the mark.
            with self._database.write() as connection:
                complete = store.mark_complete(connection, row, self._clock.now_ns())
        return FileRecord(file, row.size, row.sha256, row.size if complete else received or 0,
                          complete)

    def _check_room(self, connection: Connection, file: FileId, size: int) -> None:
        used, most = store.announced_bytes(connection, file.session_id), self._limits.session_bytes
        if used + size > most:
            raise DataError(f'session {file.session_id} would hold {used + size} bytes; '
                            f'up to {most} are accepted')
        day, allowed = self._clock.now_ns() // DAY_NS, self._limits.station_day_bytes
        announced = store.add_to_day(connection, file.session_id, day, size)
        if announced > allowed:
            raise ServerUnavailable(f'the station would announce {announced} bytes of files '
                                    f'today (UTC); up to {allowed} are accepted: the rest goes '
                                    'tomorrow, by itself')

    def _check_disk(self, size: int) -> None:
        free = shutil.disk_usage(existing(self._spool)).free
        if free - size < self._limits.reserve_bytes:
            raise ServerUnavailable(
                f"the server's disk has {free >> 20} MB free and keeps "
                f'{self._limits.reserve_bytes >> 20} MB for verdicts: this file of {size} bytes '
                'waits at the station; ask the maintainer to make space')

    def _part(self, file: FileId) -> Path:
        return self._spool / (hashlib.sha256(file.key.encode()).hexdigest() + '.part')

    @staticmethod
    def _digest(path: Path) -> str:
        with path.open('rb') as stream:
            digest = _sha256(iter(lambda: stream.read(1 << 20), b''))
            os.fsync(stream.fileno())
        return digest


def _is_done(row: store.FileRow) -> bool:
    """Tell whether nothing more of a file is taken: it is here, or was deleted on purpose."""
    return row.complete or row.erased


def has_sound(path: Path) -> bool:
    """Tell whether an MP4 file has a sound track; only its boxes (ISO 14496-12) are read."""
    left, size = MOST_BOXES, path.stat().st_size
    with path.open('rb') as stream:
        todo = [(0, size)]
        while todo and left:
            at, end = todo.pop()
            while at + 8 <= end and left:
                left -= 1
                stream.seek(at)
                length, kind = struct.unpack('>I4s', stream.read(8))
                head = 8
                if length == 1:
                    length, head = struct.unpack('>Q', stream.read(8).ljust(8, b'\0'))[0], 16
                stop = min(at + length, end) if length else end
                if kind in (b'moov', b'trak', b'mdia'):
                    todo.append((at + head, stop))
                elif kind == b'hdlr':
                    stream.seek(at + head + 8)
                    if stream.read(4) == b'soun':
                        return True
                at = max(stop, at + head)
    return not left    # so many boxes hold no video of ours


def _sha256(blocks: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for block in blocks:
        total.update(block)
    return total.hexdigest()


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def _size(path: Path) -> int | None:
    """Return the bytes of a file; None where there is none, or none any more."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return None


def _is_at(stream: BinaryIO, path: Path) -> bool:
    """Tell whether an open file is still the one at ``path``."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    return False
