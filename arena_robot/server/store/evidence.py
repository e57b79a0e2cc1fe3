"""What the server has of a judged session: the relay's record, episodes, manifests, files."""

from collections.abc import Mapping
from dataclasses import dataclass

from arena_robot.server.files import Manifest
from arena_robot.server.store import files as stored_files
from arena_robot.server.store import manifests, relayed
from arena_robot.server.store.database import Connection
from arena_robot.server.store.relayed import RelayedRollout
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
    whole = {(one.file.slot, one.file.path): (one.size, one.sha256)
             for one in stored_files.of_session(connection, session_id) if one.complete}
    return SessionEvidence(
        relayed.of_session(connection, session_id), episodes_of(connection, session_id),
        manifests.of_session(connection, session_id), whole)
