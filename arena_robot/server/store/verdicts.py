"""The verdicts that count: valid, done, not on probation, between two policies."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.iso_time import to_iso
from arena_robot.server.base import SessionState
from arena_robot.server.store.schema import accounts, policies, sessions


def counted(connection: Connection, open_source: bool = False) -> list[Comparison]:
    """Return every verdict that counts, oldest first."""
    a, b = policies.alias('a'), policies.alias('b')
    query = sa.select(
        sessions.c.id, a.c.name.label('a'), b.c.name.label('b'), sessions.c.preference,
        sessions.c.progress_a, sessions.c.progress_b, accounts.c.name.label('evaluator'),
        sessions.c.institution, sessions.c.prompt, sessions.c.created_ns).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)
        .join(accounts, sessions.c.evaluator_id == accounts.c.id)).where(_counts())
    if open_source:
        query = query.where(a.c.open_source, b.c.open_source)
    rows = connection.execute(query.order_by(sessions.c.created_ns)).all()
    nan = float('nan')
    return [Comparison(r.id, r.a, r.b, Preference(r.preference),
                       nan if r.progress_a is None else r.progress_a,
                       nan if r.progress_b is None else r.progress_b, r.evaluator,
                       r.institution, r.prompt, to_iso(r.created_ns)) for r in rows]


def tally(connection: Connection) -> dict[tuple[int, int, str], int]:
    """Return how often each verdict fell, by (policy A, policy B, preference)."""
    columns = (sessions.c.policy_a_id, sessions.c.policy_b_id, sessions.c.preference)
    rows = connection.execute(sa.select(*columns, sa.func.count()).where(
        _counts()).group_by(*columns)).all()
    return {(int(r[0]), int(r[1]), str(r[2])): int(r[3]) for r in rows}


def version(connection: Connection) -> tuple[int, int]:
    """Return what changes with every verdict that counts: how many, and when the last."""
    row = connection.execute(sa.select(
        sa.func.count(), sa.func.coalesce(sa.func.max(sessions.c.ended_ns), 0),
    ).where(_counts())).one()
    return int(row[0]), int(row[1])


def _counts() -> sa.ColumnElement[bool]:
    # A policy against itself says nothing; old imports may have left such rows.
    return sa.and_(sessions.c.valid, sessions.c.preference.is_not(None),
                   sa.not_(sessions.c.probation),
                   sessions.c.policy_a_id != sessions.c.policy_b_id,
                   sessions.c.state == SessionState.DONE.value)
