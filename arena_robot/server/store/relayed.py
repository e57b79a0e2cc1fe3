"""What the relay saw of each slot's rollout; the only evidence that a rollout took place."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from arena_robot.core.clock import DAY_NS, to_utc
from arena_robot.core.episode import Slot
from arena_robot.core.inferences import Inference
from arena_robot.server.store.database import listed
from arena_robot.server.store.schema import relay_notes, relayed, sessions
from arena_robot.server.store.sealed_pairs import NEWEST, columns, is_sealed_pair, pair_of
from arena_robot.server.store.sessions import SessionRow

# A journal that is older than this was emptied long ago.
KEPT_NS = 90 * DAY_NS
MOST_SERVED = 30    # rollouts, some hundred queries: enough for the 99th percentile
DAYS = 30    # of which a policy's card says whether it answered
SUMS = ('queries', 'actions', 'failures', 'refusals', 'cuts')


@dataclass(frozen=True)
class RelayedRollout:
    """
    A slot's rollout since it was last begun, from the relay's own observation.

    ``queries`` were answered with ``actions`` in all. ``failure`` says how the policy failed last,
    empty when it answered since. ``refusals`` are observations that the policy refused, ``cuts``
    queries that the station gave up, ``begun`` how often the step number went back. The last
    answered query was at ``last_step`` and returned ``last_actions``. ``exact`` has a line of JSON
    for each, as :meth:`Inference.row` returns it.
    ``policy_id`` is None until the session's pair is public.
    """

    session_id: str
    slot: str
    station_id: int
    policy_id: int | None
    queries: int = 0
    actions: int = 0
    failures: int = 0
    failure: str = ''
    refusals: int = 0
    cuts: int = 0
    begun: int = 1
    first_ns: int = 0
    last_ns: int = 0
    last_step: int = 0
    last_actions: int = 0
    exact: str = ''

    @property
    def seconds(self) -> float:
        """Return the time between the first and the last answered query."""
        return max(0, self.last_ns - self.first_ns) * 1e-9

    def inferences(self) -> tuple[Inference, ...]:
        """Return every answered query, oldest first."""
        return tuple(sorted((Inference.of(json.loads(line)) for line in self.exact.splitlines()),
                            key=lambda query: query.stamp_ns))


class ReachedRollout(NamedTuple):
    """A rollout that reached its policy: how that failed last, empty when it answered since."""

    last_ns: int
    id: int
    station_id: int
    failure: str


@dataclass(frozen=True)
class Served:
    """
    How a policy answered in its newest public ``rollouts`` through the relay; ``failed`` of them.

    ``queries`` were answered with ``actions`` in all; half took up to ``p50_s``, 99 % ``p99_s``.
    """

    rollouts: int
    failed: int
    queries: int
    actions: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True)
class DayServed:
    """How many public sessions asked a policy on a day (UTC), and in how many it answered."""

    day: str
    asked: int
    answered: int


_REACHED = sa.select(*(relayed.c[name] for name in ReachedRollout._fields)).where(
    sa.or_(relayed.c.queries > 0, relayed.c.failures > 0))
_PUBLIC = _REACHED.where(relayed.c.policy_id == sa.bindparam('policy')).order_by(
    relayed.c.last_ns.desc(), relayed.c.id.desc()).limit(sa.bindparam('most'))
# No list of sessions: SQLite keeps a prepared statement for each length, of 30 kB and more.
_SEALED = _REACHED.add_columns(relayed.c.slot, *columns()).join(
    sessions, relayed.c.session_id == sessions.c.id).where(is_sealed_pair()).order_by(
    sessions.c.created_ns.desc()).limit(len(Slot) * NEWEST)
_SPAN = sa.select(sa.func.min(relayed.c.first_ns).label('first_ns'),
                  sa.func.max(relayed.c.last_ns).label('last_ns')).where(
    relayed.c.session_id == sa.bindparam('session'), relayed.c.queries > 0)
_MEANWHILE = sa.select(relayed.c.session_id).join(
    sessions, relayed.c.session_id == sessions.c.id).where(
    sessions.c.evaluator_id == sa.bindparam('evaluator'), sessions.c.valid,
    sessions.c.created_ns.between(sa.bindparam('since_ns'), sa.bindparam('until_ns')),
    sessions.c.accepted_ns.is_not(None), sessions.c.id != sa.bindparam('session'),
    relayed.c.queries > 0).group_by(relayed.c.session_id).having(sa.and_(
        sa.func.min(relayed.c.first_ns) < sa.bindparam('last_ns'),
        sa.func.max(relayed.c.last_ns) > sa.bindparam('first_ns'))).limit(1)
_ADD = sa.update(relayed).where(
    relayed.c.session_id == sa.bindparam('of_session'),
    relayed.c.slot == sa.bindparam('of_slot')).values(
    **{name: sa.bindparam(f'new_{name}')
       for name in ('failure', 'first_ns', 'last_ns', 'last_step', 'last_actions')},
    **{name: relayed.c[name] * sa.bindparam('kept') + sa.bindparam(f'new_{name}')
       for name in SUMS},
    begun=relayed.c.begun + sa.bindparam('again'),
    exact=sa.case((sa.bindparam('kept') == 1, relayed.c.exact + sa.bindparam('new_exact')),
                  else_=sa.bindparam('new_exact')))
_NOTES = {name: dialect.insert(relay_notes)
          for name, dialect in (('sqlite', sqlite), ('postgresql', postgresql))}
_NOTE = {name: notes.on_conflict_do_update(
    index_elements=['journal', 'session_id', 'slot'],
    set_={'notes': notes.excluded.notes, 'written_ns': notes.excluded.written_ns})
    for name, notes in _NOTES.items()}


def add(connection: Connection, seen: Sequence[tuple[RelayedRollout, int]]) -> None:
    """
    Add what was seen since the last call; each rollout was begun anew so many times meanwhile.

    Counts are added to what is stored, so several processes may relay one rollout.
    """
    c = relayed.c
    rows = connection.execute(sa.select(
        c.session_id, c.slot, c.queries, c.failure, c.first_ns, c.last_ns, c.last_step,
        c.last_actions).where(
        c.session_id.in_(listed(new.session_id for new, _ in seen))).order_by(
        c.session_id, c.slot).with_for_update())
    old = {(row.session_id, row.slot): row for row in rows}
    first, further = [], []
    for new, again in seen:
        before = old.get((new.session_id, new.slot))
        if before is None:
            first.append({**new.__dict__, 'begun': 1 + again})
        else:
            further.append(_further(new, again, before))
    if first:
        connection.execute(sa.insert(relayed), first)
    if further:
        connection.execute(_ADD, further)


def _further(new: RelayedRollout, again: int, old: Any) -> dict[str, Any]:
    """
    Return the values of ``_ADD`` for a rollout that is stored; ``old`` is its locked row.

    A server that was killed writes its last notes when it is started again: what another server
    noted of the rollout meanwhile is newer, and stays what is last.
    """
    is_late = bool(old.queries) and new.last_ns < old.last_ns
    begin, last = new if again or not old.queries else old, new if new.queries else old
    if is_late:
        begin, last = new if 0 < new.first_ns < old.first_ns else old, old
    return {
        'of_session': new.session_id, 'of_slot': new.slot, 'again': again,
        'kept': 0 if again and not is_late else 1,
        'new_failure': old.failure if is_late else new.failure, 'new_exact': new.exact,
        'new_first_ns': begin.first_ns, 'new_last_ns': max(new.last_ns, old.last_ns),
        'new_last_step': last.last_step, 'new_last_actions': last.last_actions,
        **{f'new_{name}': getattr(new, name) for name in SUMS}}


def note_written(connection: Connection, journal: str, noted: Mapping[tuple[str, str], int],
                 now_ns: int) -> None:
    """Note that a journal's first so many notes of each slot are written."""
    if not noted:
        return
    connection.execute(_NOTE[connection.dialect.name], [
        {'journal': journal, 'session_id': session_id, 'slot': slot, 'notes': count,
         'written_ns': now_ns} for (session_id, slot), count in sorted(noted.items())])


def drop_old_notes(connection: Connection, now_ns: int) -> None:
    """Forget the journals that were emptied long ago; reads every note there is."""
    connection.execute(sa.delete(relay_notes).where(relay_notes.c.written_ns < now_ns - KEPT_NS))


def written(connection: Connection, journal: str) -> dict[tuple[str, str], int]:
    """Return how many of a journal's notes are written, by slot."""
    rows = connection.execute(sa.select(relay_notes).where(relay_notes.c.journal == journal))
    return {(row.session_id, row.slot): row.notes for row in rows}


def of_session(connection: Connection, session_id: str) -> dict[str, RelayedRollout]:
    """Return what the relay saw of a session, by slot."""
    rows = connection.execute(sa.select(relayed).where(
        relayed.c.session_id == session_id)).mappings()
    return {row['slot']: _rollout(row) for row in rows}


def overlapping(connection: Connection, session: SessionRow) -> str:
    """
    Return why a session cannot have been run: its evaluator ran another that counts meanwhile.

    '' when that is not so. The times are those of the answers that the relay gave.
    """
    span = connection.execute(_SPAN, {'session': session.id}).one()
    if span.first_ns is None:
        return ''
    meanwhile = connection.execute(_MEANWHILE, {
        'session': session.id, 'evaluator': session.evaluator_id,
        'since_ns': session.created_ns - DAY_NS, 'until_ns': session.created_ns + DAY_NS,
        'first_ns': span.first_ns, 'last_ns': span.last_ns}).first()
    return (f'its evaluator ran session {meanwhile.session_id} in the same seconds'
            if meanwhile is not None else '')


def newest_of_policy(connection: Connection, policy_id: int, limit: int) -> list[ReachedRollout]:
    """Return the newest rollouts of a policy that reached it, newest first."""
    public = connection.execute(_PUBLIC, {'policy': policy_id, 'most': limit})
    sealed = (row for row in connection.execute(_SEALED)
              if policy_id == dict(zip(Slot, pair_of(row), strict=True))[Slot(row.slot)])
    return sorted((ReachedRollout(*row[:4]) for row in (*public, *sealed)), reverse=True)[:limit]


def served(connection: Connection, policy_id: int) -> Served | None:
    """Return how a policy answered in its newest public rollouts; None where none is known."""
    c = relayed.c
    rows = [_rollout(row) for row in connection.execute(sa.select(relayed).where(
        c.policy_id == policy_id, sa.or_(c.queries > 0, c.failures > 0)).order_by(
        c.last_ns.desc(), c.id.desc()).limit(MOST_SERVED)).mappings()]
    took_s = [query.took_s for row in rows for query in row.inferences()]
    if not took_s:
        return None
    p50_s, p99_s = np.quantile(took_s, (0.5, 0.99)).tolist()
    return Served(len(rows), sum(bool(row.failure) for row in rows), sum(r.queries for r in rows),
                  sum(r.actions for r in rows), p50_s, p99_s)


def days_served(connection: Connection, policy_id: int, now_ns: int) -> list[DayServed]:
    """Return how a policy answered on each of the last 30 days that asked it, oldest first."""
    c, first_ns = relayed.c, (now_ns // DAY_NS - DAYS + 1) * DAY_NS
    rows = connection.execute(sa.select(
        (c.last_ns - c.last_ns % DAY_NS).label('day'), sa.func.count(),
        sa.func.sum(sa.case((c.failure == '', 1), else_=0))).where(
        c.policy_id == policy_id, c.last_ns >= first_ns,
        sa.or_(c.queries > 0, c.failures > 0)).group_by('day').order_by('day'))
    return [DayServed(f'{to_utc(day_ns):%Y-%m-%d}', int(asked), int(answered))
            for day_ns, asked, answered in rows]


def parties(connection: Connection,
            keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int | None]]:
    """
    Return the numbers of the station and of the policy of slots, of those whose session is known.

    That of the policy is None until it is public; the rows are locked, so that it stays so.
    """
    c = sessions.c
    rows = connection.execute(sa.select(c.id, c.station_id, c.policy_a_id, c.policy_b_id).where(
        c.id.in_(listed(session_id for session_id, _ in keys))).order_by(c.id).with_for_update(
        read=True))
    known = {row.id: row for row in rows}
    return {(session_id, slot): (int(row.station_id),
                                 row.policy_a_id if slot == 'A' else row.policy_b_id)
            for session_id, slot in keys if (row := known.get(session_id)) is not None}


def _rollout(row: Any) -> RelayedRollout:
    return RelayedRollout(**{k: v for k, v in row.items() if k != 'id'})
