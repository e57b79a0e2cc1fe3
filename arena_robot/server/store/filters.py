"""Filters of a list of evaluations, as conditions of a query."""

from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.core.errors import DataError
from arena_robot.server.store.schema import sessions

PAGE = 30
OUTCOMES = ('A', 'B', 'TIE', 'invalid')
ORIGINS = ('relayed', 'imported')


@dataclass(frozen=True)
class Filter:
    """What to show; empty fields show everything. ``before`` is the last page's key."""

    text: str = ''
    institution: str = ''
    policy: str = ''
    against: str = ''
    category: str = ''
    outcome: str = ''
    origin: str = ''
    before: str = ''
    limit: int = PAGE


def outcome(wanted: str) -> sa.ColumnElement[bool]:
    """Return the condition for an outcome; DataError when there is no such."""
    if wanted not in OUTCOMES:
        raise DataError(f"an outcome is one of {', '.join(OUTCOMES)}, found {wanted!r:.40}")
    if wanted == 'invalid':
        return sa.not_(sessions.c.valid)
    return sa.and_(sessions.c.valid, sessions.c.preference == wanted)


def origin(wanted: str) -> sa.ColumnElement[bool]:
    """Return the condition for an origin; DataError when there is no such."""
    if wanted not in ORIGINS:
        raise DataError(f"an origin is one of {', '.join(ORIGINS)}, found {wanted!r:.40}")
    return sessions.c.imported if wanted == 'imported' else sa.not_(sessions.c.imported)


def older(key: str) -> sa.ColumnElement[bool]:
    """Return the condition for what follows a page's key; DataError for a bad one."""
    stamp, mark, session_id = key.partition('_')
    if not mark or not stamp.lstrip('-').isdigit() or len(stamp) > 19:
        raise DataError(f'{key!r:.60} is not the key of a page')
    return sa.tuple_(sessions.c.created_ns, sessions.c.id) < sa.tuple_(
        sa.literal(int(stamp), sa.BigInteger), sa.literal(session_id))
