"""
Pairs that are not public: sealed in one column of ``sessions``, and nowhere else in the database.

While a session is not public its columns ``policy_a_id`` and ``policy_b_id`` are empty, as are
``policy_id`` of its episodes and of what the relay saw; no credit is booked and no policy's
counter is changed. All of this is written when the pair becomes public.
"""

from collections import Counter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ConfigError
from arena_robot.server.base import PolicyState, SessionState
from arena_robot.server.sealing import is_sealed
from arena_robot.server.store.schema import episodes, policies, relayed, sessions

Pair = tuple[int, int]
# How many sealed sessions are looked at, newest first, for what is known of a policy.
NEWEST = 200


def pair_text(pair: Pair) -> str:
    """Return the text of a pair; all have one length."""
    return f'{pair[0]:010d} {pair[1]:010d}'


def pair_of(row: Any) -> Pair:
    """
    Return the pair of a session from its row with sealed_pair, policy_a_id, policy_b_id.

    ConfigError when it is sealed and this program has no key.
    """
    if not row.sealed_pair:
        return int(row.policy_a_id), int(row.policy_b_id)
    return _pair_in(row.sealed_pair)


def _pair_in(text: str) -> Pair:
    if is_sealed(text):
        raise ConfigError('the pair of a session that is not public can be read with the '
                          "server's key file alone")
    a, b = text.split()
    return int(a), int(b)


def columns() -> tuple[sa.Column[Any], ...]:
    """Return the columns that :func:`pair_of` reads."""
    return sessions.c.sealed_pair, sessions.c.policy_a_id, sessions.c.policy_b_id


def is_sealed_pair() -> sa.ColumnElement[bool]:
    """Return the condition for a session whose pair is not public; an index has it."""
    return sessions.c.policy_a_id.is_(None)


_NEWEST_SEALED = sa.select(sessions.c.sealed_pair).where(is_sealed_pair()).order_by(
    sessions.c.created_ns.desc()).limit(NEWEST)


def publish(connection: Connection, session_id: str) -> None:
    """Write a session's pair and nonce in the clear from now on: they are public."""
    row = connection.execute(sa.select(
        sessions.c.nonce, sessions.c.sealed_nonce, *columns()).where(
        sessions.c.id == session_id).with_for_update()).first()
    if row is None or not (row.sealed_pair or row.sealed_nonce):
        return
    pair = pair_of(row)
    connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
        nonce=row.nonce or row.sealed_nonce, sealed_nonce='', policy_a_id=pair[0],
        policy_b_id=pair[1], sealed_pair=''))
    if not row.sealed_pair:
        return
    for slot, number in zip(Slot, pair, strict=True):
        for table in (episodes, relayed):
            connection.execute(sa.update(table).where(
                table.c.session_id == session_id, table.c.slot == slot.value).values(
                policy_id=number))
    _count(connection, pair, 1)


def publish_retired(connection: Connection) -> None:
    """Publish the finished sessions whose policies are both retired."""
    retired = set(connection.execute(sa.select(policies.c.id).where(
        policies.c.state == PolicyState.RETIRED.value)).scalars())
    rows = connection.execute(sa.select(sessions.c.id, *columns()).where(
        is_sealed_pair(), sessions.c.state == SessionState.DONE.value)).all()
    for row in rows:
        if retired.issuperset(pair_of(row)):
            publish(connection, row.id)


def requested(connection: Connection) -> Counter[int]:
    """Return how often each policy was requested in the newest sessions that are not public."""
    sealed = connection.execute(_NEWEST_SEALED).scalars()
    return Counter(number for text in sealed for number in _pair_in(text))


def _count(connection: Connection, pair: Pair, by: int) -> None:
    # Sorted, so that two sessions of the same policies do not wait for each other.
    for number in sorted(pair):
        connection.execute(sa.update(policies).where(policies.c.id == number).values(
            requested=policies.c.requested + by))
