"""What the server has of a judged session: the relay's record, episodes, manifests, files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.server.files import Manifest, ManifestEntry
from arena_robot.server.store import files as stored_files
from arena_robot.server.store import relayed
from arena_robot.server.store.database import Connection
from arena_robot.server.store.relayed import RelayedRollout
from arena_robot.server.store.schema import manifests, recording_checks
from arena_robot.server.store.sessions import StoredEpisode, episodes_of


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
             for row in stored_files.of_session(connection, session_id) if row.complete}
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
