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
# An index has the sessions of an evaluator that are not accepted.
_NOT_ACCEPTED = sa.and_(sessions.c.accepted_ns.is_(None), sa.not_(sessions.c.imported))
# A valid verdict without two rollouts, or whose files did not arrive, is a draw given up too.
_UNPROVEN = sa.and_(sessions.c.valid, sessions.c.conflict == '',
                    sa.or_(sessions.c.rollouts < 2, sessions.c.final))
_WAS_GIVEN_UP = sa.and_(
    _NOT_ACCEPTED, sa.or_(sa.not_(sessions.c.valid), _UNPROVEN),
    ~sa.exists().where(relayed.c.session_id == sessions.c.id, relayed.c.failure != ''),
    sessions.c.state.in_((*GIVEN_UP, SessionState.DONE.value)))
_FAILED = sa.select(relayed.c.id).where(
    relayed.c.session_id == sa.bindparam('session'), relayed.c.failure != '').limit(1)
_OF_EVALUATOR = sessions.c.evaluator_id == sa.bindparam('evaluator')
_LATER = sessions.alias('later')
# Each assignment runs these; to build them anew took longer than the database.
_COUNT = sa.select(sa.func.count()).where(
    _OF_EVALUATOR, sessions.c.created_ns >= sa.bindparam('since_ns'), _WAS_GIVEN_UP)
_COUNT_WAITING = sa.select(sa.func.count()).where(
    _OF_EVALUATOR, _NOT_ACCEPTED, sessions.c.valid, sessions.c.conflict == '',
    sessions.c.rollouts >= 2, sa.not_(sessions.c.final))
_COUNTING = {column: sa.select(sa.func.count()).where(
    sessions.c[column] == sa.bindparam('holder'),
    sessions.c.created_ns >= sa.bindparam('since_ns'), sa.not_(sessions.c.imported),
    sessions.c.withdrawn_ns.is_(None), sa.or_(
        sessions.c.accepted_ns.is_not(None), sessions.c.state == SessionState.RUNNING.value,
        sa.and_(sessions.c.valid, sessions.c.conflict == '', sa.not_(sessions.c.final))))
    for column in ('evaluator_id', 'station_id')}
_LOCK = sa.select(accounts.c.id).where(
    accounts.c.id == sa.bindparam('evaluator')).with_for_update()
_TO_REPEAT = sa.select(sessions.c.id, *columns(), sessions.c.chosen).where(
    _OF_EVALUATOR, _WAS_GIVEN_UP,
    ~sa.exists().where(_LATER.c.repeats == sessions.c.id)).order_by(sessions.c.created_ns)


def policy_failed(connection: Connection, session_id: str) -> bool:
    """Tell whether the relay saw a policy of this session fail and not answer again."""
    return connection.execute(_FAILED, {'session': session_id}).first() is not None


def count_since(connection: Connection, evaluator_id: int, since_ns: int) -> int:
    """Return how many sessions an evaluator gave up, did not prove, or marked as invalid."""
    return int(connection.execute(
        _COUNT, {'evaluator': evaluator_id, 'since_ns': since_ns}).scalar_one())


def count_waiting(connection: Connection, evaluator_id: int) -> int:
    """Return how many judged sessions of an evaluator wait for their files."""
    return int(connection.execute(_COUNT_WAITING, {'evaluator': evaluator_id}).scalar_one())


def count_counting(connection: Connection, column: str, number: int, since_ns: int) -> int:
    """
    Return how many sessions began since then that count, are run, or may count yet.

    ``column`` is ``evaluator_id`` or ``station_id``, and ``number`` its value.
    """
    return int(connection.execute(
        _COUNTING[column], {'holder': number, 'since_ns': since_ns}).scalar_one())


def pairs_to_repeat(connection: Connection, evaluator_id: int,
                    ) -> list[tuple[str, int, int, bool | None]]:
    """
    Return the given-up sessions of an evaluator, oldest first.

    Each is (session, policy A, policy B, whether the pair was chosen by earlier verdicts). Those
    with a retired policy are left out: it never comes back.
    """
    # The row lock makes two requests of one evaluator wait for each other.
    connection.execute(_LOCK, {'evaluator': evaluator_id}).all()
    rows = connection.execute(_TO_REPEAT, {'evaluator': evaluator_id}).all()
    if not rows:
        return []
    retired = set(connection.execute(sa.select(policies.c.id).where(
        policies.c.state == PolicyState.RETIRED.value)).scalars())
    pairs = ((row.id, *pair_of(row), row.chosen) for row in rows)
    return list(islice((pair for pair in pairs if retired.isdisjoint(pair[1:3])), 100))


def conduct(connection: Connection) -> list[dict[str, Any]]:
    """Return per institution how many sessions there were, and what became of them."""
    c = sessions.c
    done = c.state == SessionState.DONE.value

    def number(clause: Any) -> sa.ColumnElement[int]:
        return sa.func.coalesce(sa.func.sum(sa.case((clause, 1), else_=0)), 0)

    counted = sa.and_(done, c.valid, c.accepted_ns.is_not(None), c.withdrawn_ns.is_(None),
                      sa.not_(c.probation), c.study_sha256 == '')
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
