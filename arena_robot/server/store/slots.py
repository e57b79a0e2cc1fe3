"""The slots of sessions, as the relay asks for them: many at once, with few columns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.server.base import SessionState
from arena_robot.server.store import sealed_pairs
from arena_robot.server.store.accounts import digest
from arena_robot.server.store.database import Database, listed
from arena_robot.server.store.schema import sessions


@dataclass(frozen=True)
class SlotRow:
    """
    A slot and its session, while that runs; ``pair`` are the numbers of both policies.

    ``equal_latency_s`` is as in :class:`arena_robot.server.store.sessions.SessionRow`.
    """

    session_id: str
    slot: Slot
    state: SessionState
    nonce: str
    pair: tuple[int, int]
    equal_latency_s: float | None


_C = sessions.c
# Each query of a policy can lead to these; to build them anew took longer than the database.
_OF_TOKENS = sa.select(
    _C.id, _C.state, _C.nonce, _C.sealed_nonce, _C.equal_latency_s, _C.token_a, _C.token_b,
    *sealed_pairs.columns()).where(sa.or_(
        _C.token_a.in_(sa.bindparam('names', expanding=True)),
        _C.token_b.in_(sa.bindparam('names', expanding=True))))
_NOW = sa.select(_C.id, _C.state, _C.equal_latency_s).where(
    _C.id.in_(sa.bindparam('ids', expanding=True)))
_COUNT = sa.update(sessions).where(_C.id == sa.bindparam('session')).values(
    rollouts=_C.rollouts + sa.bindparam('more'))


class Slots:
    """What the relay reads and writes of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_tokens(self, tokens: Sequence[str]) -> dict[str, SlotRow]:
        """Return the slots that tokens stand for, without those of unknown tokens."""
        names = {digest(token): token for token in tokens}
        with self._database.read() as connection:
            rows = connection.execute(_OF_TOKENS, {'names': listed(names)}).all()
        return {names[name]: SlotRow(
            row.id, slot, SessionState(row.state), row.nonce or row.sealed_nonce,
            sealed_pairs.pair_of(row), row.equal_latency_s)
            for row in rows for slot, name in ((Slot.A, row.token_a), (Slot.B, row.token_b))
            if name in names}

    def refusals(self, tokens: Sequence[str]) -> list[DataError | None]:
        """Return why tokens are refused, None for those that stand for a slot."""
        known = self.of_tokens(tokens)
        return [None if token in known else DataError('this slot token is not known here')
                for token in tokens]

    def as_they_are(self, ids: Iterable[str]) -> dict[str, tuple[SessionState, float | None]]:
        """Return the state and ``equal_latency_s`` of sessions, without those unknown here."""
        with self._database.read() as connection:
            rows = connection.execute(_NOW, {'ids': listed(ids)}).all()
        return {row.id: (SessionState(row.state), row.equal_latency_s) for row in rows}

    def keep_latency(self, session_id: str, least_s: float) -> None:
        """Keep how long the policies of a session take at least, once."""
        with self._database.write() as connection:
            connection.execute(sa.update(sessions).where(
                _C.id == session_id, _C.equal_latency_s == 0.0).values(equal_latency_s=least_s))

    def count_rollouts(self, ids: Sequence[str]) -> None:
        """Note a rollout of each session: from now on an invalid session may be revealed."""
        with self._database.write() as connection:
            # Sorted, so that two servers do not wait for each other.
            connection.execute(_COUNT, [{'session': session_id, 'more': count}
                                        for session_id, count in sorted(Counter(ids).items())])
