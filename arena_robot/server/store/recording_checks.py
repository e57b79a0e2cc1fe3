"""What the check of a session's recordings found, for the files and queries that it saw."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.server.store.schema import recording_checks


def found(connection: Connection, session_id: str, seen: str) -> str | None:
    """Return why recordings do not prove the rollouts; '' when they do, None: not checked."""
    row = connection.execute(sa.select(recording_checks).where(
        recording_checks.c.session_id == session_id)).first()
    return str(row.why) if row is not None and row.seen == seen else None


def store(connection: Connection, session_id: str, seen: str, why: str, now_ns: int) -> None:
    """Store what the newest check found."""
    connection.execute(sa.delete(recording_checks).where(
        recording_checks.c.session_id == session_id))
    connection.execute(sa.insert(recording_checks).values(
        session_id=session_id, seen=seen, why=why, created_ns=now_ns))
