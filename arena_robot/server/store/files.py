"""What is known of uploaded files: announced size and SHA-256, and whether they are complete."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.server.files import FileId
from arena_robot.server.store.schema import files, sessions


@dataclass(frozen=True)
class FileRow:
    """One announced file."""

    file: FileId
    size: int
    sha256: str
    complete: bool


def lock_session(connection: Connection, session_id: str) -> None:
    """Let the announcements of one session's files wait for each other."""
    connection.execute(sa.select(sessions.c.id).where(
        sessions.c.id == session_id).with_for_update()).all()


def find(connection: Connection, file: FileId) -> FileRow | None:
    """Return a file, None when it was never announced."""
    row = connection.execute(sa.select(files).where(_is(file))).mappings().first()
    return None if row is None else _row(file.session_id, row)


def of_session(connection: Connection, session_id: str) -> list[FileRow]:
    """Return a session's files by slot and path."""
    rows = connection.execute(sa.select(files).where(
        files.c.session_id == session_id).order_by(files.c.slot, files.c.path)).mappings().all()
    return [_row(session_id, row) for row in rows]


def announced_bytes(connection: Connection, session_id: str) -> int:
    """Return the sum of the sizes of a session's files."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.sum(files.c.size), 0)).where(
        files.c.session_id == session_id)).scalar_one())


def announce(connection: Connection, row: FileRow, now_ns: int) -> None:
    """Keep a file that is to come; what was said of it before is replaced."""
    values = {'size': row.size, 'sha256': row.sha256, 'received': 0, 'complete': False,
              'updated_ns': now_ns}
    if find(connection, row.file) is None:
        connection.execute(sa.insert(files).values(
            session_id=row.file.session_id, slot=row.file.slot, path=row.file.path, **values))
    else:
        connection.execute(sa.update(files).where(_is(row.file)).values(**values))


def mark_complete(connection: Connection, row: FileRow, now_ns: int) -> bool:
    """Note that a file is in the blob store; False when another content is announced now."""
    return connection.execute(sa.update(files).where(
        _is(row.file), files.c.sha256 == row.sha256, files.c.size == row.size).values(
        complete=True, received=row.size, updated_ns=now_ns)).rowcount == 1


def _is(file: FileId) -> sa.ColumnElement[bool]:
    return sa.and_(files.c.session_id == file.session_id, files.c.slot == file.slot,
                   files.c.path == file.path)


def _row(session_id: str, row: Any) -> FileRow:
    return FileRow(FileId(session_id, row['slot'], row['path']), row['size'], row['sha256'],
                   bool(row['complete']))
