"""Sessions, their slots and their episodes, from assignment to reveal."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import Conflict, DataError
from arena_robot.core.verdict import MAX_TEXT_CHARS, NAMES, Verdict, from_plain, to_plain
from arena_robot.server.base import SessionState, UnknownSession
from arena_robot.server.store import sealed_pairs
from arena_robot.server.store.accounts import digest
from arena_robot.server.store.database import Database, listed
from arena_robot.server.store.schema import episodes, sessions, stations


@dataclass(frozen=True)
class SessionRow:
    """
    A session as the server keeps it; ``policy_*`` never leave the server before the reveal.

    ``token_*`` are digests of the slots' tokens. ``is_public`` says whether the pair is. No answer
    comes earlier than after ``equal_latency_s``; 0: not measured yet, None: the pair may differ.
    ``third_person`` is the outside camera that a policy with only one saw, '' where nobody said;
    ``photo_code`` the code that the start photograph has to show, '' for none. ``chosen`` tells
    whether the pair was chosen by earlier verdicts; None: not known. ``study`` and its hash are
    those of a lab's own study, which never counts.
    """

    id: str
    request: str
    station_id: int
    evaluator_id: int
    institution: str
    prompt: str
    category: str
    state: SessionState
    policy_a_id: int
    policy_b_id: int
    probation: bool
    nonce: str
    commitment: str
    token_a: str
    token_b: str
    created_ns: int
    seen_ns: int
    ended_ns: int | None
    revealed_ns: int | None
    rollouts: int
    verdict: Verdict
    imported: bool
    accepted_ns: int | None = None
    incomplete: str = ''
    conflict: str = ''
    withdrawn_ns: int | None = None
    repeats: str | None = None
    final: bool = False
    equal_latency_s: float | None = None
    third_person: str = ''
    photo_code: str = ''
    chosen: bool | None = None
    study: str = ''
    study_sha256: str = ''
    is_public: bool = True
    hidden: str = ''


@dataclass(frozen=True)
class NewSession:
    """What the assignment decided for ``request``; the store adds the id and the times."""

    request: str
    station_id: int
    evaluator_id: int
    institution: str
    prompt: str
    policy_a_id: int
    policy_b_id: int
    nonce: str
    commitment: str
    token_a: str
    token_b: str
    probation: bool = False
    category: str = ''
    repeats: str | None = None
    equal_latency_s: float | None = None
    third_person: str = ''
    photo_code: str = ''
    chosen: bool | None = None


@dataclass(frozen=True)
class StoredEpisode:
    """How the station said that a rollout ended, whose fault that was, and its reruns."""

    steps: int
    end: str
    fault: str
    reruns: int = 0


# Every call runs some of these; to build them anew took longer than the database.
_BY_ID = sa.select(sessions).where(sessions.c.id == sa.bindparam('session'))
_LOCKED = _BY_ID.with_for_update()
_OF_REQUEST = sa.select(sessions).where(sessions.c.request == sa.bindparam('asked'))
_ID_OF_REQUEST = _OF_REQUEST.with_only_columns(sessions.c.id)
_LOCK_STATION = sa.select(stations.c.id).where(
    stations.c.id == sa.bindparam('station')).with_for_update()
_OPEN_AT = sa.select(sa.func.count()).where(
    sessions.c.station_id == sa.bindparam('station'),
    sessions.c.state == SessionState.RUNNING.value)
_INSERT = sa.insert(sessions)
_REOPENED: dict[str, Any] = {**to_plain(Verdict()), 'valid': None, 'ended_ns': None}


class Sessions:
    """Create, keep alive, finish, reveal. Every call that changes a session can be repeated."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def create(self, connection: Connection, new: NewSession) -> str:
        """Insert a running session inside the caller's transaction and return its id."""
        session_id, now = str(uuid.uuid4()), self._clock.now_ns()
        connection.execute(_INSERT, {
            **new.__dict__, 'nonce': '', 'token_a': digest(new.token_a),
            'token_b': digest(new.token_b), 'policy_a_id': None, 'policy_b_id': None,
            'sealed_nonce': new.nonce, 'sealed_pair': sealed_pairs.pair_text(
                (new.policy_a_id, new.policy_b_id)), 'id': session_id,
            'state': SessionState.RUNNING.value, 'created_ns': now,
            'seen_ns': now, 'rollouts': 0, 'imported': False, 'incomplete': '', 'conflict': '',
            **to_plain(Verdict()), 'valid': None})
        return session_id

    def get(self, session_id: str) -> SessionRow:
        """Return a session; UnknownSession when there is none of that id."""
        with self._database.read() as connection:
            return load(connection, session_id)

    def by_request(self, request: str) -> SessionRow | None:
        """Return the session that an assignment request led to, if it was made before."""
        with self._database.read() as connection:
            row = connection.execute(_OF_REQUEST, {'asked': request}).mappings().first()
        return _record(row) if row is not None else None

    def id_of_request(self, connection: Connection, request: str) -> str | None:
        """Return the session a request led to, inside the caller's transaction."""
        return connection.execute(_ID_OF_REQUEST, {'asked': request}).scalar()

    def touch(self, session_id: str) -> SessionRow:
        """
        Note that the station is alive; Conflict when the session is over.

        One that was cancelled after a rollout began, because its station sent nothing, goes on.
        """
        with self._database.write() as connection:
            session = load(connection, session_id, lock=True)
            if session.state is not SessionState.CANCELLED or not session.rollouts:
                session = running(connection, session_id)
            connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
                seen_ns=self._clock.now_ns(), state=SessionState.RUNNING.value,
                **({} if session.state is SessionState.RUNNING else _REOPENED)))
        return session

    def seen(self, session_id: str) -> None:
        """Note that the station of a session is alive, whatever state that is in."""
        with self._database.write() as connection:
            connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
                seen_ns=self._clock.now_ns()))

    def touch_all(self) -> None:
        """Note that the stations of all running sessions are alive."""
        with self._database.write() as connection:
            connection.execute(sa.update(sessions).where(
                sessions.c.state == SessionState.RUNNING.value).values(
                seen_ns=self._clock.now_ns()))

    def open_at(self, connection: Connection, station_id: int) -> int:
        """Return how many sessions of a station are open, inside the caller's transaction."""
        # The row lock makes two requests of one station wait for each other.
        connection.execute(_LOCK_STATION, {'station': station_id}).all()
        return int(connection.execute(_OPEN_AT, {'station': station_id}).scalar_one())

    def add_episode(self, connection: Connection, episode: Episode) -> bool:
        """Store how a slot's rollout ended; False when it was stored before, as it is now."""
        session = load(connection, episode.session_id, lock=True)    # one at a time
        policy = None
        if session.is_public:
            policy = session.policy_a_id if episode.slot is Slot.A else session.policy_b_id
        values = {'session_id': episode.session_id, 'slot': episode.slot.value,
                  'policy_id': policy, 'prompt': episode.prompt, 'steps': episode.steps,
                  'end_reason': episode.end.value, 'detail': episode.detail,
                  'started_ns': episode.started_ns, 'ended_ns': episode.ended_ns,
                  'reruns': episode.reruns}
        old = connection.execute(sa.select(episodes).where(
            episodes.c.session_id == episode.session_id,
            episodes.c.slot == episode.slot.value)).mappings().first()
        if old is None:
            connection.execute(sa.insert(episodes).values(**values, fault=''))
            return True
        if any(old[key] != value for key, value in values.items() if key != 'policy_id'):
            raise Conflict(f'slot {episode.slot.value} of session {episode.session_id} was '
                           'stored before with another ending')
        return False

    def overdue(self, before_ns: int) -> list[str]:
        """Return the running sessions that were last seen before ``before_ns``."""
        with self._database.read() as connection:
            return list(connection.execute(sa.select(sessions.c.id).where(
                sessions.c.state == SessionState.RUNNING.value,
                sessions.c.seen_ns < before_ns).order_by(sessions.c.seen_ns)).scalars())

    def mark_revealed(self, session_id: str) -> None:
        """Note when the names were first given out."""
        with self._database.write() as connection:
            sealed_pairs.publish(connection, session_id)
            connection.execute(sa.update(sessions).where(
                sessions.c.id == session_id, sessions.c.revealed_ns.is_(None)).values(
                revealed_ns=self._clock.now_ns()))


def load(connection: Connection, session_id: str, lock: bool = False) -> SessionRow:
    """Return a session inside the caller's transaction; UnknownSession when there is none."""
    row = connection.execute(_LOCKED if lock else _BY_ID, {'session': session_id}
                             ).mappings().first()
    if row is None:
        raise UnknownSession(f'there is no session {session_id:.40} on this server')
    return _record(row)


def running(connection: Connection, session_id: str) -> SessionRow:
    """Return a session that is still running, locked; Conflict when it is over."""
    session = load(connection, session_id, lock=True)
    if session.state is not SessionState.RUNNING:
        raise Conflict(f'session {session_id} is {session.state.value}; start a new one')
    return session


def episodes_of(connection: Connection, session_id: str) -> dict[str, StoredEpisode]:
    """Return how the rollouts of a session's slots ended, by slot."""
    rows = connection.execute(sa.select(
        episodes.c.slot, episodes.c.steps, episodes.c.end_reason, episodes.c.fault,
        episodes.c.reruns).where(
        episodes.c.session_id == session_id, episodes.c.slot.is_not(None)))
    return {row.slot: StoredEpisode(row.steps, row.end_reason, row.fault, row.reruns)
            for row in rows}


def store_fault(connection: Connection, session_id: str, slot: Slot, fault: str) -> None:
    """Store whose fault the end of a slot's rollout was."""
    connection.execute(sa.update(episodes).where(
        episodes.c.session_id == session_id, episodes.c.slot == slot.value).values(fault=fault))


def note_waits(connection: Connection, session_id: str, waited: Mapping[str, float]) -> None:
    """Store the share of waiting of a session's rollouts, by slot."""
    for slot, share in waited.items():
        connection.execute(sa.update(episodes).where(
            episodes.c.session_id == session_id, episodes.c.slot == slot).values(waited=share))


def session_of_row(row: Any) -> SessionRow:
    """Return the session in a row of the table."""
    return _record(row)


def _record(row: Any) -> SessionRow:
    others = {name: value for name, value in row.items()
              if name not in NAMES and name not in ('sealed_nonce', 'sealed_pair')}
    a, b = sealed_pairs.pair_of(SimpleNamespace(**row))
    return SessionRow(**{**others, 'nonce': row['nonce'] or row['sealed_nonce'],
                         'policy_a_id': a, 'policy_b_id': b,
                         'is_public': not row['sealed_pair'],
                         'state': SessionState(row['state']),
                         'verdict': from_plain(row)})


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


def hide_texts(database: Database, session_id: str, by: str, why: str) -> None:
    """
    Hide what people typed in a session from pages, JSON and downloads; show it with ``why`` ''.

    The log keeps it: an entry of the log never changes. Raises UnknownSession, DataError.
    """
    if len(why) > MAX_TEXT_CHARS:
        raise DataError(f'say why the texts are hidden, in 1 to {MAX_TEXT_CHARS} characters')
    with database.write() as connection:
        done = connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
            hidden=f'{by}: {why.strip()}' if why.strip() else ''))
    if not done.rowcount:
        raise UnknownSession(f'there is no session {session_id:.40}')
