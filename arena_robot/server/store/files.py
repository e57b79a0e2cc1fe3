"""
What is known of uploaded files: announced size and SHA-256, and whether they are complete.

:class:`SessionEvidence` is all that the server has of a judged session.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from arena_robot.server.files import FileId, Manifest, ManifestEntry
from arena_robot.server.store import relayed
from arena_robot.server.store.relayed import RelayedRollout
from arena_robot.server.store.schema import (
    files,
    manifests,
    recording_checks,
    sessions,
    stations,
    upload_days,
)
from arena_robot.server.store.sessions import StoredEpisode, episodes_of


@dataclass(frozen=True)
class FileRow:
    """One announced file; of an ``erased`` one only size and SHA-256 are left."""

    file: FileId
    size: int
    sha256: str
    complete: bool
    erased: bool = False


def lock_session(connection: Connection, session_id: str) -> None:
    """
    Let the announcements of one session's files wait for each other.

    Nobody else waits for them, so moving a file within the store may take its time.
    """
    if connection.dialect.name == 'postgresql':
        connection.execute(sa.text('SET LOCAL idle_in_transaction_session_timeout = 0'))
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


def add_to_day(connection: Connection, session_id: str, day: int, size: int) -> int:
    """Add to what the station of a session announced on a day, and return the sum."""
    insert = (sqlite if connection.dialect.name == 'sqlite' else postgresql).insert
    station = sa.select(sessions.c.station_id).where(
        sessions.c.id == session_id).scalar_subquery()
    added = insert(upload_days).values(station_id=station, day=day, bytes=size)
    return int(connection.execute(added.on_conflict_do_update(
        index_elements=['station_id', 'day'],
        set_={'bytes': upload_days.c.bytes + size}).returning(
        upload_days.c.bytes)).scalar_one())


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


def mark_erased(connection: Connection, which: Sequence[FileId], now_ns: int) -> None:
    """Note that the content of files is deleted; for everybody they are not there any more."""
    for file in which:
        connection.execute(sa.update(files).where(_is(file)).values(
            complete=False, erased_ns=now_ns, updated_ns=now_ns))


def erased_since(connection: Connection, since_ns: int) -> list[FileId]:
    """Return the files that were marked as erased since then."""
    return [FileId(*row) for row in connection.execute(sa.select(
        files.c.session_id, files.c.slot, files.c.path).where(files.c.erased_ns >= since_ns))]


def sessions_with_files(connection: Connection, before_ns: int, limit: int, station: str,
                        named: Sequence[str]) -> list[str]:
    """Return sessions with files that ended before; '' is every station that is not named."""
    query = sa.select(sessions.c.id).join(stations).where(
        sessions.c.ended_ns < before_ns, sessions.c.id.in_(
            sa.select(files.c.session_id).where(files.c.erased_ns.is_(None))),
        stations.c.name == station if station else stations.c.name.not_in(named))
    return list(connection.execute(query.order_by(sessions.c.ended_ns).limit(limit)).scalars())


def _is(file: FileId) -> sa.ColumnElement[bool]:
    return sa.and_(files.c.session_id == file.session_id, files.c.slot == file.slot,
                   files.c.path == file.path)


def _row(session_id: str, row: Any) -> FileRow:
    return FileRow(FileId(session_id, row['slot'], row['path']), row['size'], row['sha256'],
                   bool(row['complete']), row['erased_ns'] is not None)


@dataclass(frozen=True)
class SessionEvidence:
    """What the server has of a session, by slot; ``files`` are (size, SHA-256) of whole ones."""

    rollouts: Mapping[str, RelayedRollout]
    episodes: Mapping[str, StoredEpisode]
    manifests: Mapping[str, Manifest]
    files: Mapping[tuple[str, str], tuple[int, str]]


def collect(connection: Connection, session_id: str) -> SessionEvidence:
    """Return what is stored of a session."""
    whole = {(row.file.slot, row.file.path): (row.size, row.sha256)
             for row in of_session(connection, session_id) if row.complete}
    return SessionEvidence(
        relayed.of_session(connection, session_id), episodes_of(connection, session_id),
        manifests_of(connection, session_id), whole)


def store_manifest(connection: Connection, session_id: str, slot: str, manifest: Manifest,
                   now_ns: int) -> None:
    """Keep a slot's manifest; one that was there before is replaced."""
    c = manifests.c
    values = {'sha256': manifest.sha256, 'content': manifest.content, 'created_ns': now_ns}
    here = sa.and_(c.session_id == session_id, c.slot == slot)
    if connection.execute(sa.update(manifests).where(here).values(**values)).rowcount == 0:
        connection.execute(sa.insert(manifests).values(session_id=session_id, slot=slot,
                                                       **values))


def manifests_of(connection: Connection, session_id: str) -> dict[str, Manifest]:
    """Return the manifests of a session by slot."""
    rows = connection.execute(sa.select(manifests.c.slot, manifests.c.content).where(
        manifests.c.session_id == session_id))
    return {row.slot: Manifest(tuple(ManifestEntry(**entry) for entry in json.loads(row.content)))
            for row in rows}


def found_in_recordings(connection: Connection, session_id: str, seen: str) -> str | None:
    """Return why recordings do not prove the rollouts; '' when they do, None: not checked."""
    row = connection.execute(sa.select(recording_checks).where(
        recording_checks.c.session_id == session_id)).first()
    return str(row.why) if row is not None and row.seen == seen else None


def store_found(connection: Connection, session_id: str, seen: str, why: str, now_ns: int) -> None:
    """Store what the newest check found."""
    connection.execute(sa.delete(recording_checks).where(
        recording_checks.c.session_id == session_id))
    connection.execute(sa.insert(recording_checks).values(
        session_id=session_id, seen=seen, why=why, created_ns=now_ns))
