"""The entries of the log, in the order of their numbers; the database refuses to change one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.server.store.schema import log

# In the place of a session's id in entries about a release, and its folder in the file store.
RELEASES = 'releases'


@dataclass(frozen=True)
class LogEntry:
    """One entry: ``body`` is the exact text that is hashed."""

    number: int
    session_id: str
    body: str
    created_ns: int


def append(connection: Connection, bodies: Sequence[tuple[str, str]], now_ns: int) -> None:
    """Add an entry for each session and body, inside the caller's transaction."""
    if not bodies:
        return
    lock(connection)  # numbers have no gap
    first = size(connection)
    connection.execute(sa.insert(log), [
        {'number': number, 'session_id': session_id, 'body': body, 'created_ns': now_ns}
        for number, (session_id, body) in enumerate(bodies, first)])


def lock(connection: Connection) -> None:
    """Let other writers of the log wait until the end of the caller's transaction."""
    if connection.dialect.name == 'postgresql':
        connection.execute(sa.text('LOCK TABLE log IN EXCLUSIVE MODE'))


def size(connection: Connection) -> int:
    """Return how many entries there are."""
    return int(connection.execute(
        sa.select(sa.func.coalesce(sa.func.max(log.c.number) + 1, 0))).scalar_one())


def entries(connection: Connection, start: int, limit: int) -> list[LogEntry]:
    """Return up to ``limit`` entries from number ``start`` on."""
    rows = connection.execute(sa.select(log).where(log.c.number >= start).order_by(
        log.c.number).limit(limit)).mappings()
    return [LogEntry(**row) for row in rows]


def blurred(connection: Connection, session_id: str) -> dict[str, str]:
    """Return the SHA-256 of the blurred videos that the log names, by key."""
    notes = [json.loads(entry.body).get('blurred') for entry in of_session(connection, session_id)]
    return {film['file']: film['sha256'] for film in notes if film}


def releases(connection: Connection) -> list[dict[str, Any]]:
    """Return the entries of the releases, oldest first."""
    return [json.loads(entry.body) for entry in of_session(connection, RELEASES)]


def of_session(connection: Connection, session_id: str) -> list[LogEntry]:
    """Return a session's entries."""
    rows = connection.execute(sa.select(log).where(log.c.session_id == session_id).order_by(
        log.c.number)).mappings()
    return [LogEntry(**row) for row in rows]
