"""
What the public may see of the results, page by page.

Only finished sessions whose policies were revealed carry names; a session that is running, was
aborted or cancelled is not shown. Pages are cut by key, not by count, so that the thousandth costs
as much as the first.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import NAMES, Verdict, from_plain, to_plain
from arena_robot.records.session_file import LOCAL_STUDY, SessionSlot
from arena_robot.server.base import PolicyState, SessionState, UnknownSession
from arena_robot.server.files import FileId
from arena_robot.server.store import log
from arena_robot.server.store.database import Database, listed
from arena_robot.server.store.files import manifests_of
from arena_robot.server.store.relayed import DayServed, Served, days_served, served
from arena_robot.server.store.schema import (
    accounts,
    at_robot,
    episodes,
    files,
    policies,
    robot_column,
    sessions,
    shown,
    stations,
)

MOST = 200    # rows of a page, and values of a menu: what a browser shows at once
MARKS = {
    'imported': 'from published tables; it did not pass the relay of this server',
    LOCAL_STUDY: 'from a study that a lab ran with its own policies; it does not count here',
    'withdrawn': 'taken back after it was accepted; it counts no longer',
    'conflict of interest': 'the evaluator has an interest in a policy; it does not count',
    'invalid': 'marked by the evaluator; it does not count',
    'incomplete': 'it was never proven to have taken place; it does not count',
}
COUNTED_MARKS = ('', 'imported')
PAGE = 30     # a screen or two
OUTCOMES = ('A', 'B', 'TIE', 'invalid')
LISTED = (PolicyState.POOL.value, PolicyState.RETIRED.value, PolicyState.SUSPENDED.value)
ORIGINS = ('relayed', 'imported', LOCAL_STUDY)


@dataclass(frozen=True)
class Evaluation:
    """
    One session in a list; ``mark`` says how it differs from one that counts.

    ``robot`` is the kind of the station's, empty if not known.
    """

    id: str
    created_ns: int
    institution: str
    prompt: str
    category: str
    policy_a: str
    policy_b: str
    commitment: str
    nonce: str
    verdict: Verdict
    mark: str = ''
    third_person: str = ''
    photo_code: str = ''
    chosen: bool | None = None
    study: str = ''
    study_sha256: str = ''
    robot: str = ''

    @property
    def counts(self) -> bool:
        """Tell whether the verdict, if there is one, counts in the rankings."""
        return self.verdict.valid and self.mark in COUNTED_MARKS

    def plain(self) -> dict[str, Any]:
        """Return the evaluation as flat JSON values."""
        others = {name: value for name, value in self.__dict__.items() if name != 'verdict'}
        return {**others, **to_plain(self.verdict)}


@dataclass(frozen=True)
class StoredRollout:
    """One slot's rollout."""

    slot: str | None
    policy: str
    steps: int
    end_reason: str
    progress: float | None
    reruns: int = 0
    waited: float | None = None


@dataclass(frozen=True)
class RolloutNotes:
    """
    Notes on one rollout.

    ``reruns`` is how often its slot was run again, as its station said. ``waited`` is the share
    of its steps in which the arm held because the policy had not answered, as the relay saw it;
    None: not known.
    """

    reruns: int
    waited: float | None


@dataclass(frozen=True)
class Filter:
    """What to show; empty fields show everything. ``before`` is the last page's key."""

    text: str = ''
    institution: str = ''
    policy: str = ''
    against: str = ''
    category: str = ''
    robot: str = ''
    outcome: str = ''
    origin: str = ''
    before: str = ''
    limit: int = PAGE


@dataclass(frozen=True)
class Page:
    """A page of evaluations; ``next`` is the key of the next one, empty on the last."""

    evaluations: tuple[Evaluation, ...]
    next: str


@dataclass(frozen=True)
class PolicyCard:
    """
    What the public may see of a policy: no address, no reason, nothing of its owner.

    Of an ``imported`` one only the name and its results are known: the rest is None.
    """

    id: int
    name: str
    owner: str | None
    open_source: bool | None
    description: str
    robot: str | None
    action_space: str | None
    state: str
    imported: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)


class Browse:
    """Read-only queries for pages and the JSON API."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, wanted: Filter) -> Page:
        """Return the newest evaluations that pass the filter; DataError for a bad key."""
        limit = max(1, min(wanted.limit, MOST))
        query: Any = _newest(_evaluations().where(*self._clauses(wanted)), limit + 1)
        if sides := _sides(wanted):    # each by its index: a new policy has none
            query = sa.union(*(sa.select(query.where(side).subquery()) for side in sides))
            query = _newest(sa.select(query.subquery()), limit + 1)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        shown = tuple(_evaluation(row) for row in rows[:limit])
        more = len(rows) > limit
        return Page(shown, f'{shown[-1].created_ns}_{shown[-1].id}' if more else '')

    def evaluation(self, session_id: str) -> tuple[Evaluation, tuple[StoredRollout, ...]]:
        """Return one finished session and its rollouts; UnknownSession when it is not shown."""
        with self._database.read() as connection:
            row = connection.execute(_evaluations().where(
                sessions.c.id == session_id)).mappings().first()
            if row is None:
                raise UnknownSession(f'there is no finished evaluation {session_id:.40}')
            rollouts = connection.execute(sa.select(
                episodes.c.slot, policies.c.name.label('policy'), episodes.c.steps,
                episodes.c.end_reason, episodes.c.progress, episodes.c.reruns,
                episodes.c.waited).join_from(
                episodes, policies).where(episodes.c.session_id == session_id).order_by(
                episodes.c.slot)).mappings().all()
        return _evaluation(row), tuple(StoredRollout(**r) for r in rollouts)

    def slots(self, session_id: str) -> dict[str, SessionSlot]:
        """Return how the rollouts of slots A and B of a session went, by slot."""
        e = episodes.c
        query = sa.select(
            e.slot, e.started_ns, e.ended_ns, e.steps, e.end_reason, e.detail, e.waited).where(
            e.session_id == session_id, e.slot.in_(list(Slot)))
        with self._database.read() as connection:
            return {row.slot: SessionSlot(row.started_ns, row.ended_ns, row.steps,
                                          EndReason(row.end_reason), row.detail,
                                          row.waited)
                    for row in connection.execute(query)}

    def videos(self, session_id: str) -> dict[str, list[str]]:
        """Return the videos of a finished session that its episodes or the log list, by slot."""
        query = sa.select(files.c.slot, files.c.path, files.c.sha256).where(
            files.c.session_id == session_id, files.c.complete,
            files.c.path.like('%.mp4')).order_by(files.c.slot, files.c.path)
        videos: dict[str, list[str]] = {}
        with self._database.read() as connection:
            listed = {(FileId(session_id, slot, file.path).key, file.sha256)
                      for slot, manifest in manifests_of(connection, session_id).items()
                      for file in manifest.files}
            listed |= log.blurred(connection, session_id).items()
            for row in connection.execute(query):
                if (FileId(session_id, row.slot, row.path).key, row.sha256) in listed:
                    videos.setdefault(row.slot, []).append(row.path)
        return videos

    def filmed(self, session_ids: Sequence[str]) -> set[str]:
        """Return which of the sessions may have videos; :meth:`videos` says which are listed."""
        with self._database.read() as connection:
            return set(connection.execute(sa.select(files.c.session_id).where(
                files.c.session_id.in_(listed(session_ids)), files.c.complete,
                files.c.path.like('%.mp4'))).scalars())

    def sent(self, session_id: str, slot: str) -> set[str]:
        """Return the paths of all files that the station sent for a slot."""
        with self._database.read() as connection:
            return set(connection.execute(sa.select(files.c.path).where(
                files.c.session_id == session_id, files.c.slot == slot)).scalars())

    def cards(self) -> list[PolicyCard]:
        """Return every policy that was ever in the pool, by name."""
        with self._database.read() as connection:
            return [_card(row) for row in connection.execute(_cards().where(
                policies.c.state.in_(LISTED))).mappings()]

    def card(self, name: str) -> PolicyCard:
        """Return a policy by name, also one on probation; DataError where none is shown."""
        query = _cards().where(policies.c.name == name, policies.c.state.in_(
            [*LISTED, PolicyState.PROBATION.value]))
        with self._database.read() as connection:
            row = connection.execute(query).mappings().first()
        if row is None:
            raise DataError(f"there is no policy '{name:.100}' to show")
        return _card(row)

    def served(self, card: PolicyCard) -> Served | None:
        """Return how a policy answered lately; None where no public rollout tells it."""
        with self._database.read() as connection:
            return served(connection, card.id)

    def days(self, card: PolicyCard, now_ns: int) -> list[DayServed]:
        """Return on how many sessions a policy answered, by day of the last 30, oldest first."""
        with self._database.read() as connection:
            return days_served(connection, card.id, now_ns)

    def choices(self) -> tuple[list[str], list[str], list[str]]:
        """Return the institutions, the categories and the robots that occur."""
        robots = sa.select(stations.c.robot).where(sa.exists().where(
            sessions.c.station_id == stations.c.id,
            sessions.c.state == SessionState.DONE.value)).distinct().order_by(stations.c.robot)
        with self._database.read() as connection:
            return (_distinct(connection, sessions.c.institution),
                    _distinct(connection, sessions.c.category),
                    list(connection.execute(robots).scalars()))

    def _clauses(self, wanted: Filter) -> Sequence[sa.ColumnElement[bool]]:
        clauses: list[sa.ColumnElement[bool]] = []
        if wanted.text:
            clauses.append(self._holds(wanted.text[:200]))
        if wanted.institution:
            clauses.append(sessions.c.institution == wanted.institution)
        if wanted.category:
            clauses.append(sessions.c.category == wanted.category)
        if wanted.robot:
            clauses.append(at_robot(wanted.robot))
        if wanted.outcome:
            clauses.append(outcome(wanted.outcome))
        if wanted.origin:
            clauses.append(origin(wanted.origin))
        if wanted.before:
            clauses.append(older(wanted.before))
        return clauses

    def _holds(self, text: str) -> sa.ColumnElement[bool]:
        # The text is a parameter and its wildcards are escaped: it is only text.
        if self._database.is_sqlite:  # LIKE ignores case there
            holds = sessions.c.prompt.contains(text, autoescape=True)
        else:
            holds = sa.func.lower(sessions.c.prompt).contains(text.lower(), autoescape=True)
        return sa.and_(holds, sessions.c.hidden == '')


def _sides(wanted: Filter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the policies that are asked for, by who of them was A."""
    a, b = sessions.c.policy_a_id, sessions.c.policy_b_id
    one, other = (sa.select(policies.c.id).where(policies.c.name == name).scalar_subquery()
                  for name in (wanted.policy or wanted.against, wanted.against))
    if wanted.policy and wanted.against:
        return [sa.and_(a == one, b == other), sa.and_(a == other, b == one)]
    return [a == one, b == one] if wanted.policy or wanted.against else []


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
    is_study = sessions.c.study_sha256 != ''
    return is_study if wanted == LOCAL_STUDY else sa.and_(
        sa.not_(is_study),
        sessions.c.imported if wanted == 'imported' else sa.not_(sessions.c.imported))


def older(key: str) -> sa.ColumnElement[bool]:
    """Return the condition for what follows a page's key; DataError for a bad one."""
    stamp, mark, session_id = key.partition('_')
    if not mark or not stamp.lstrip('-').isdigit() or len(stamp) > 19:
        raise DataError(f'{key!r:.60} is not the key of a page')
    return sa.tuple_(sessions.c.created_ns, sessions.c.id) < sa.tuple_(
        sa.literal(int(stamp), sa.BigInteger), sa.literal(session_id))


def _newest(query: sa.Select[Any], limit: int) -> sa.Select[Any]:
    by_name = query.selected_columns
    return query.order_by(by_name.created_ns.desc(), by_name.id.desc()).limit(limit)


def _evaluations() -> sa.Select[Any]:
    a, b = policies.alias('a'), policies.alias('b')
    s = sessions.c
    return sa.select(
        s.id, s.created_ns, s.institution, shown('prompt'), s.category, s.commitment,
        s.third_person, s.photo_code, s.chosen, s.study, s.study_sha256,
        sa.type_coerce(sa.case((s.nonce != '', s.nonce), else_=s.sealed_nonce),
                       s.sealed_nonce.type).label('nonce'),
        mark_column().label('mark'), robot_column(), a.c.name.label('policy_a'),
        b.c.name.label('policy_b'), *map(shown, NAMES)).select_from(
        sessions.join(a, s.policy_a_id == a.c.id).join(b, s.policy_b_id == b.c.id)).where(
        s.state == SessionState.DONE.value, sa.not_(s.probation), public_pair(a, b))


def public_pair(a: Any, b: Any) -> sa.ColumnElement[bool]:
    """
    Return the condition that the pair of a finished session may be named.

    ``a`` and ``b`` are its policies. What does not count tells no names until both are retired.
    """
    retired = PolicyState.RETIRED.value
    return sa.or_(sessions.c.accepted_ns.is_not(None),
                  sa.and_(a.c.state == retired, b.c.state == retired))


def mark_column() -> sa.ColumnElement[str]:
    """Return how a session is marked: '' when it counts and passed this server's relay."""
    c = sessions.c
    return sa.case(
        (c.withdrawn_ns.is_not(None), 'withdrawn'), (c.study_sha256 != '', LOCAL_STUDY),
        (c.imported, 'imported'),
        (c.conflict != '', 'conflict of interest'), (sa.not_(c.valid), 'invalid'),
        (c.accepted_ns.is_(None), 'incomplete'), else_='')


def _evaluation(row: sa.RowMapping) -> Evaluation:
    others = {str(name): value for name, value in row.items() if name not in NAMES}
    return Evaluation(**others, verdict=from_plain({**row}))


def _cards() -> sa.Select[Any]:
    p = policies.c
    return sa.select(p.id, p.name, accounts.c.name.label('owner'), p.open_source, p.description,
                     p.robot, p.action_space, p.state, p.address, p.provenance).join_from(
        policies, accounts).order_by(p.name)


def _card(row: sa.RowMapping) -> PolicyCard:
    known = PolicyCard(**{str(name): value for name, value in row.items() if name != 'address'}
                       | {'provenance': json.loads(row['provenance'] or '{}')})
    return known if row['address'] else replace(
        known, owner=None, open_source=None, robot=None, action_space=None, imported=True)


def _distinct(connection: sa.Connection, column: sa.Column[str]) -> list[str]:
    # A loose index scan: one index look-up per value, however many rows there are.
    values: list[str] = []
    value = connection.execute(sa.select(sa.func.min(column))).scalar()
    while value is not None and len(values) < MOST:
        values.append(value)
        value = connection.execute(sa.select(sa.func.min(column)).where(column > value)).scalar()
    return [v for v in values if v]


def rollout_notes(database: Database,
                  session_ids: Sequence[str]) -> dict[str, dict[str, RolloutNotes]]:
    """Return the notes by session and slot; an imported session is not in it: nobody knows."""
    e = episodes.c
    query = sa.select(e.session_id, e.slot, e.reruns, e.waited).select_from(
        episodes.join(sessions)).where(
        e.session_id.in_(session_ids), e.slot.in_([slot.value for slot in Slot]),
        sa.not_(sessions.c.imported))
    notes: dict[str, dict[str, RolloutNotes]] = {}
    with database.read() as connection:
        for row in connection.execute(query):
            notes.setdefault(row.session_id, {})[row.slot] = RolloutNotes(row.reruns, row.waited)
    return notes
