"""Verdicts: written at the end of a session, marked as counting or not, read for the results."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import to_iso_each
from arena_robot.core.episode import Comparison, Preference, Slot
from arena_robot.core.errors import DataError
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import NAMES, Verdict, from_plain, to_plain
from arena_robot.server.base import SessionState
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import (
    accounts,
    episodes,
    in_pool,
    log,
    policies,
    robot_column,
    sessions,
    shown,
)
from arena_robot.server.store.sealed_pairs import publish
from arena_robot.server.store.sessions import SessionRow, session_of_row

BATCH = 1000    # sessions of one transaction; other writers wait for it
_END = sa.update(sessions).where(sessions.c.id == sa.bindparam('session')).values(
    **{name: sa.bindparam(f'new_{name}')
       for name in ('state', 'ended_ns', *to_plain(Verdict()))})


def store_scores(connection: Connection, session_id: str, verdict: Verdict) -> None:
    """Write a verdict's scores to the rollouts of the slots, inside the caller's transaction."""
    for slot in Slot:
        connection.execute(sa.update(episodes).where(
            episodes.c.session_id == session_id, episodes.c.slot == slot.value).values(
            progress=verdict.of_slot('progress', slot)))


def end(connection: Connection, session_id: str, state: SessionState, now_ns: int,
        verdict: Verdict) -> None:
    """Write the end of a session inside the caller's transaction."""
    values = {'state': state.value, 'ended_ns': now_ns, **to_plain(verdict)}
    connection.execute(_END, {'session': session_id,
                              **{f'new_{name}': value for name, value in values.items()}})


def mark_accepted(connection: Connection, session_id: str, now_ns: int) -> None:
    """Note that a session counts from now on."""
    publish(connection, session_id)
    connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
        accepted_ns=now_ns, incomplete='', conflict=''))


def mark_incomplete(connection: Connection, session_id: str, why: str, conflict: str) -> None:
    """Note why a session does not count."""
    connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(
        incomplete=why, conflict=conflict))


def mark_final(connection: Connection, session_id: str) -> None:
    """Note that a session is not looked at any more unless something of it arrives."""
    connection.execute(sa.update(sessions).where(sessions.c.id == session_id).values(final=True))


def mark_withdrawn(connection: Connection, session_id: str, now_ns: int) -> None:
    """Note that a session counts no longer; the first time stays."""
    connection.execute(sa.update(sessions).where(
        sessions.c.id == session_id, sessions.c.withdrawn_ns.is_(None)).values(
        withdrawn_ns=now_ns))


def incomplete_sessions(connection: Connection, after_ns: int) -> list[str]:
    """Return the judged sessions that ended after ``after_ns`` and may still be accepted."""
    c = sessions.c
    return list(connection.execute(sa.select(c.id).where(
        c.state == SessionState.DONE.value, c.valid, c.accepted_ns.is_(None),
        sa.not_(c.imported), sa.not_(c.final), c.ended_ns > after_ns,
        sa.not_(sa.and_(c.conflict != '', c.incomplete == ''))).order_by(
        c.ended_ns).limit(BATCH)).scalars())


def accepted_without_entry(connection: Connection,
                           last: SessionRow | None = None) -> list[SessionRow]:
    """Return sessions that count and are not in the log, oldest first, a batch after ``last``."""
    entered = sa.exists().where(log.c.session_id == sessions.c.id)
    wanted = [sessions.c.accepted_ns.is_not(None), sa.not_(entered)]
    if last is not None:
        wanted.append(sa.tuple_(sessions.c.created_ns, sessions.c.id) > (
            last.created_ns, last.id))
    rows = connection.execute(sa.select(sessions).where(*wanted).order_by(
        sessions.c.created_ns, sessions.c.id).limit(BATCH)).mappings()
    return [session_of_row(row) for row in rows]


def accepted_reveals(connection: Connection) -> dict[str, Reveal]:
    """Return nonce and names of every accepted session with a commitment, by session."""
    a, b = policies.alias('a'), policies.alias('b')
    rows = connection.execute(sa.select(
        sessions.c.id, sessions.c.nonce, sessions.c.probation, a.c.name.label('a'),
        b.c.name.label('b')).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)).where(
        sessions.c.accepted_ns.is_not(None), sessions.c.commitment != ''))
    return {row.id: Reveal(row.nonce, row.a, row.b, probation=row.probation) for row in rows}


@dataclass(frozen=True)
class Selection:
    """
    Which of the verdicts that count are ranked; an empty field leaves none out.

    ``category`` and ``lab`` are those of the session, ``without`` is a lab that is left out,
    ``since`` a day (UTC, 2026-01-31). ``equal_score``: only sessions whose policies got the same
    progress score. ``robot`` is the kind of the station's, empty: that of the server's first
    station, as :func:`in_pool` says. ``open_source``: only those between two open-source policies.
    """

    category: str = ''
    lab: str = ''
    without: str = ''
    since: str = ''
    robot: str = ''
    equal_score: bool = False
    open_source: bool = False

    @property
    def is_part(self) -> bool:
        """Tell whether a field other than ``open_source`` leaves verdicts out."""
        return replace(self, open_source=False) != Selection()

    def words(self) -> str:
        """Return which sessions are ranked: ' of Sorting at NYU', '' for all."""
        said = ((self.category, f' of {self.category}'), (self.lab, f' at {self.lab}'),
                (self.without, f' without those at {self.without}'),
                (self.since, f' since {self.since}'), (self.robot, f' on {self.robot}'),
                (self.equal_score, ' in which both policies got the same progress score'),
                (self.open_source, ' between two open-source policies'))
        return ','.join(words for value, words in said if value)

    def condition(self, a: sa.FromClause, b: sa.FromClause) -> sa.ColumnElement[bool]:
        """Return the condition on a session and its policies; DataError for a bad day."""
        s = sessions.c
        wanted: list[sa.ColumnElement[bool]] = [in_pool(self.robot)]
        if self.category:
            wanted.append(s.category == self.category)
        if self.lab:
            wanted.append(s.institution == self.lab)
        if self.without:
            wanted.append(s.institution != self.without)
        if self.since:
            wanted.append(s.created_ns >= self.since_ns())
        if self.equal_score:
            wanted.append(s.progress_a == s.progress_b)
        if self.open_source:
            # Of an imported policy, which has no address, nobody knows that.
            wanted += [a.c.open_source, b.c.open_source, a.c.address != '', b.c.address != '']
        return sa.and_(*wanted)

    def since_ns(self) -> int:
        """Return the begin of the day ``since``; DataError where it is no day."""
        try:
            day = datetime.strptime(self.since, '%Y-%m-%d').replace(tzinfo=timezone.utc)
        except ValueError as error:
            raise DataError(f'since is a day such as 2026-01-31, found {self.since!r:.40}'
                            ) from error
        return int(day.timestamp()) * 10**9


ALL = Selection()


def counted_verdicts(connection: Connection, chosen: Selection | None = ALL) -> list[Comparison]:
    """Return every verdict that counts and is chosen, oldest first; None: on all robots."""
    a, b = policies.alias('a'), policies.alias('b')
    waited = [sa.select(episodes.c.waited).where(
        episodes.c.session_id == sessions.c.id, episodes.c.slot == slot.value
        ).scalar_subquery().label(f'waited_{slot.value.lower()}') for slot in Slot]
    query = sa.select(
        sessions.c.id, a.c.name.label('a'), b.c.name.label('b'), sessions.c.preference,
        sessions.c.progress_a, sessions.c.progress_b, accounts.c.name.label('evaluator'),
        sessions.c.institution, sessions.c.prompt, sessions.c.created_ns,
        sessions.c.imported, sessions.c.chosen, *waited,
        robot_column()).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)
        .join(accounts, sessions.c.evaluator_id == accounts.c.id)).where(
        that_counts(), *([chosen.condition(a, b)] if chosen else ()))
    rows = connection.execute(query.order_by(sessions.c.created_ns)).all()
    nan, words = float('nan'), {member.value: member for member in Preference}
    times = to_iso_each([row.created_ns for row in rows])
    return [Comparison(session, a, b, words[said], nan if progress_a is None else progress_a,
                       nan if progress_b is None else progress_b, person, place, prompt, time,
                       _origin(imported), waited_a, waited_b, chosen, robot)
            for time, (session, a, b, said, progress_a, progress_b, person, place, prompt, _,
                       imported, chosen, waited_a, waited_b, robot) in zip(
                           times, rows, strict=True)]


def tally_of_verdicts(connection: Connection) -> dict[tuple[int, int, str], int]:
    """Return how often each verdict fell, by (policy A, policy B, preference)."""
    columns = (sessions.c.policy_a_id, sessions.c.policy_b_id, sessions.c.preference)
    rows = connection.execute(sa.select(*columns, sa.func.count()).where(
        that_counts(), in_pool()).group_by(*columns)).all()
    return {(int(r[0]), int(r[1]), str(r[2])): int(r[3]) for r in rows}


def _origin(imported: bool) -> str:
    return 'imported' if imported else 'relayed'


def verdicts_version(connection: Connection) -> tuple[int, int]:
    """Return what changes with every verdict that counts: how many, and when the last."""
    row = connection.execute(sa.select(
        sa.func.count(), sa.func.coalesce(sa.func.max(sessions.c.accepted_ns), 0),
    ).where(that_counts())).one()
    return int(row[0]), int(row[1])


def that_counts() -> sa.ColumnElement[bool]:
    """Return the condition for a session whose verdict counts in rankings."""
    # A policy against itself says nothing; old imports may have left such rows.
    return sa.and_(sessions.c.valid, sessions.c.preference.is_not(None),
                   sessions.c.accepted_ns.is_not(None), sessions.c.withdrawn_ns.is_(None),
                   sa.not_(sessions.c.probation), sessions.c.study_sha256 == '',
                   sessions.c.policy_a_id != sessions.c.policy_b_id,
                   sessions.c.state == SessionState.DONE.value)


@dataclass(frozen=True)
class CountedSession:
    """
    One session; ``slots`` are (end reason, steps) by slot, ``imported`` has no end reasons.

    ``waited`` are the shares of steps in which the arm waited for its policy, where known.
    """

    id: str
    created_ns: int
    prompt: str
    category: str
    policy_a: str
    policy_b: str
    institution: str
    evaluator: str
    imported: bool
    verdict: Verdict
    slots: Mapping[str, tuple[str, int]]
    waited: Mapping[str, float]


def counted_sessions(database: Database) -> list[CountedSession]:
    """Return every session whose verdict counts, oldest first."""
    a, b, s = policies.alias('a'), policies.alias('b'), sessions.c
    query = sa.select(
        s.id, s.created_ns, shown('prompt'), s.category, a.c.name.label('policy_a'),
        b.c.name.label('policy_b'), s.institution, accounts.c.name.label('evaluator'),
        s.imported, *map(shown, NAMES)).select_from(
        sessions.join(a, s.policy_a_id == a.c.id).join(b, s.policy_b_id == b.c.id)
        .join(accounts, s.evaluator_id == accounts.c.id)).where(that_counts()).order_by(
        s.created_ns, s.id)
    e = episodes.c
    rollouts = sa.select(e.session_id, e.slot, e.end_reason, e.steps, e.waited).select_from(
        episodes.join(sessions, e.session_id == s.id)).where(
        that_counts(), e.slot.in_([slot.value for slot in Slot])).order_by(e.id)
    slots: dict[str, dict[str, tuple[str, int]]] = {}
    waited: dict[str, dict[str, float]] = {}
    with database.read() as connection:
        for rollout in connection.execute(rollouts):
            slots.setdefault(rollout.session_id, {})[rollout.slot] = (
                rollout.end_reason, rollout.steps)
            if rollout.waited is not None:
                waited.setdefault(rollout.session_id, {})[rollout.slot] = rollout.waited
        return [CountedSession(
            **{str(k): v for k, v in row.items() if k not in NAMES},
            verdict=from_plain({**row}), slots=slots.get(row['id'], {}),
            waited=waited.get(row['id'], {}))
            for row in connection.execute(query).mappings()]
