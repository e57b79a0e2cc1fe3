"""Sessions without a verdict that counts: their cost, their limit, their pair assigned again."""

from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.server.base import PolicyState, SessionState
from arena_robot.server.store.schema import accounts, policies, relayed, sessions
from arena_robot.server.store.sealed_pairs import columns, pair_of

OUTCOMES = ('sessions', 'counted', 'imported', 'incomplete', 'conflicts_of_interest',
            'withdrawn', 'invalid', 'aborted')
GIVEN_UP = (SessionState.ABORTED.value, SessionState.CANCELLED.value)


def policy_failed(connection: Connection, session_id: str) -> bool:
    """Tell whether the relay saw a policy of this session fail and not answer again."""
    return connection.execute(sa.select(relayed.c.id).where(
        relayed.c.session_id == session_id, relayed.c.failure != '').limit(1)).first() is not None


def count_since(connection: Connection, evaluator_id: int, since_ns: int) -> int:
    """Return how many sessions an evaluator gave up, or marked as invalid, since then."""
    return int(connection.execute(sa.select(sa.func.count()).where(
        sessions.c.evaluator_id == evaluator_id, sessions.c.created_ns >= since_ns,
        _given_up())).scalar_one())


def pairs_to_repeat(connection: Connection, evaluator_id: int) -> list[tuple[str, int, int]]:
    """
    Return (session, policy A, policy B) of an evaluator's given-up sessions, oldest first.

    Those with a retired policy are left out: it never comes back.
    """
    # The row lock makes two requests of one evaluator wait for each other.
    connection.execute(sa.select(accounts.c.id).where(
        accounts.c.id == evaluator_id).with_for_update()).all()
    later = sessions.alias('later')
    c = sessions.c
    retired = set(connection.execute(sa.select(policies.c.id).where(
        policies.c.state == PolicyState.RETIRED.value)).scalars())
    rows = connection.execute(sa.select(c.id, *columns()).where(
        c.evaluator_id == evaluator_id, _given_up(),
        ~sa.exists().where(later.c.repeats == c.id)).order_by(c.created_ns))
    found = ((row.id, *pair_of(row)) for row in rows)
    return list(islice((one for one in found if retired.isdisjoint(one[1:])), 100))


def conduct(connection: Connection) -> list[dict[str, Any]]:
    """Return per institution how many sessions there were, and what became of them."""
    c = sessions.c
    done = c.state == SessionState.DONE.value

    def number(clause: Any) -> sa.ColumnElement[int]:
        return sa.func.coalesce(sa.func.sum(sa.case((clause, 1), else_=0)), 0)

    counted = sa.and_(done, c.valid, c.accepted_ns.is_not(None), c.withdrawn_ns.is_(None),
                      sa.not_(c.probation))
    rows = connection.execute(sa.select(
        c.institution, sa.func.count().label('sessions'), number(counted).label('counted'),
        number(c.imported).label('imported'),
        number(sa.and_(done, c.valid, c.accepted_ns.is_(None), c.conflict == '')).label(
            'incomplete'),
        number(c.conflict != '').label('conflicts_of_interest'),
        number(c.withdrawn_ns.is_not(None)).label('withdrawn'),
        number(sa.and_(done, sa.not_(c.valid))).label('invalid'),
        number(c.state.in_(GIVEN_UP)).label('aborted'),
    ).group_by(c.institution).order_by(c.institution)).mappings()
    return [{key: value if key == 'institution' else int(value) for key, value in row.items()}
            for row in rows]


def _given_up() -> sa.ColumnElement[bool]:
    c = sessions.c
    failed = sa.exists().where(relayed.c.session_id == c.id, relayed.c.failure != '')
    # Every one that ended without a valid verdict is stored as not valid; an index has that.
    return sa.and_(
        sa.not_(c.valid), sa.not_(c.imported), sa.not_(failed),
        c.state.in_((*GIVEN_UP, SessionState.DONE.value)))
