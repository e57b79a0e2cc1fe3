"""
Evaluations from elsewhere into the database, and finished ones out of it.

Imported sessions count in the rankings like any other; their policies are retired, so nobody is
ever assigned one. A session that is there already is left alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock, from_iso, to_table_time
from arena_robot.core.episode import CONTROL_RATE_HZ, EndReason, Preference, Slot
from arena_robot.core.errors import Conflict
from arena_robot.core.observation import OUTSIDE
from arena_robot.core.task_categories import categorise
from arena_robot.core.verdict import NAMES, from_plain, to_plain
from arena_robot.records.roboarena import (
    SLOTS,
    RoboArenaRollout,
    RoboArenaSession,
    said_of,
)
from arena_robot.records.session_file import LOCAL_STUDY
from arena_robot.server.base import LocalSession, PolicyState, SessionState
from arena_robot.server.store.browse import COUNTED_MARKS, mark_column, public_pair
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import (
    accounts,
    episodes,
    policies,
    robot_column,
    sessions,
    stations,
)
from arena_robot.server.store.webhooks import tell

OWNER = 'imported'
SENT = ('study', 'study_sha256', 'evaluator_id', 'policy_a_id', 'policy_b_id', 'prompt',
        'created_ns', 'ended_ns', *NAMES)    # what may not differ when it is sent again


@dataclass(frozen=True)
class Imported:
    """What an import added, and how many of its sessions were ``known``."""

    sessions: int
    episodes: int
    policies: int
    known: int


@dataclass(frozen=True)
class _Names:
    accounts: dict[str, int]
    policies: dict[str, int]
    stations: dict[str, int]
    kind: str


def insert_evaluations(database: Database, clock: Clock,
                       given: Sequence[RoboArenaSession]) -> Imported:
    """Insert the sessions that are not there yet, with their rollouts; all or nothing."""
    with database.write() as connection:
        present = set(connection.execute(sa.select(sessions.c.id)).scalars())
        fresh = [s for s in given if s.session_id not in present]
        names = _names(connection, clock, fresh)
        added = [_session(s, names) for s in fresh]
        played = [_episode(s, r, names) for s in fresh for r in s.rollouts]
        for table, values in ((sessions, added), (episodes, played)):
            if values:
                connection.execute(sa.insert(table), values)
    return Imported(len(added), len(played), len(names.policies), len(given) - len(fresh))


def insert_local(database: Database, clock: Clock, given: LocalSession) -> bool:
    """
    Insert a session of a local study; return whether it was there already.

    Raises Conflict where another session has its identifier, or a policy of the arena its
    policy's name.
    """
    session = given.renamed()
    with database.write() as connection:
        names = _names(connection, clock, [session], LOCAL_STUDY)
        taken = sa.select(policies.c.name).where(
            policies.c.name.in_(session.policies().values()),
            policies.c.state != PolicyState.STUDY.value)
        if (name := connection.execute(taken).scalar()) is not None:
            raise Conflict(f"a policy of the arena has the name '{name}'; the study's policies "
                           'cannot have it')
        row = {**_session(session, names), 'accepted_ns': clock.now_ns(), 'study': given.study,
               'study_sha256': given.study_sha256, **to_plain(given.verdict)}
        found = connection.execute(sa.select(sessions).where(
            sessions.c.id == session.session_id)).mappings().first()
        if found is not None:
            if other := [name for name in SENT if found[name] != row[name]]:
                raise Conflict(f'session {session.session_id} is here already, and differs in '
                               f"{', '.join(other)}; what was sent once cannot be changed")
            return True
        first = connection.execute(sa.select(sessions.c.id).where(
            sessions.c.study_sha256 == given.study_sha256).limit(1)).first() is None
        if first:    # a study is sent when it has ended
            tell(connection, row['evaluator_id'], 'study_arrived',
                 {'study': given.study, 'sha256': given.study_sha256}, clock.now_ns())
        connection.execute(sa.insert(sessions), row)
        connection.execute(sa.insert(episodes), [_episode(session, r, names)
                                                 for r in session.rollouts])
    return False


def finished_evaluations(database: Database) -> list[RoboArenaSession]:
    """Return every finished session with its rollouts, oldest first."""
    played: dict[str, list[RoboArenaRollout]] = {}
    with database.read() as connection:
        for session_id, rollout in _rollouts(connection):
            played.setdefault(session_id, []).append(rollout)
        return [_evaluation(row, played.get(row.id, ())) for row in connection.execute(_done())]


def _names(connection: Connection, clock: Clock, given: Sequence[RoboArenaSession],
           kind: str = OWNER) -> _Names:
    state = PolicyState.STUDY if kind == LOCAL_STUDY else PolicyState.RETIRED
    now = clock.now_ns()
    people = {OWNER: 'imported'} | {_evaluator(s): _institution(s) for s in given}
    account_ids = _ensure(connection, accounts, people, lambda name: {
        'institution': people[name], 'person': name, 'created_ns': now,
        'roles': 'owner' if name == OWNER else 'evaluator'})
    wanted = {name for s in given for name in (s.policy_a, s.policy_b)}
    wanted |= {r.policy for s in given for r in s.rollouts}
    policy_ids = _ensure(connection, policies, sorted(wanted), lambda name: {
        'owner_id': account_ids[OWNER], 'address': '', 'open_source': False, 'description': '',
        'robot': 'any', 'action_space': 'joint_position', 'external_cameras': 1,
        'wrist_camera': True, 'stereo': False, 'state': state.value,
        'reason': kind, 'failures': 0, 'requested': 0, 'healthy': False, 'checked_ns': 0,
        'created_ns': now, 'updated_ns': now})
    places = {_station(s, kind): s for s in given}
    station_ids = _ensure(connection, stations, places, lambda name: {
        'institution': _institution(places[name]), 'external_cameras': 2,
        'robot': places[name].robot or 'panda', 'wrist_camera': True, 'stereo': True,
        'test_driver': False, 'created_ns': now})
    return _Names(account_ids, policy_ids, station_ids, kind)


def _ensure(connection: Connection, table: sa.Table, names: Iterable[str],
            values: Callable[[str], dict[str, Any]]) -> dict[str, int]:
    def known() -> dict[str, int]:
        return {row.name: row.id for row in connection.execute(
            sa.select(table.c.name, table.c.id))}
    there = known()
    new = [{'name': name, **values(name)} for name in names if name not in there]
    if new:
        connection.execute(sa.insert(table), new)
    return known()


def _evaluator(s: RoboArenaSession) -> str:
    return s.evaluator or 'unknown evaluator'


def _institution(s: RoboArenaSession) -> str:
    return s.institution or 'unknown'


def _station(s: RoboArenaSession, kind: str) -> str:
    return f'{kind}: {_institution(s)}' + (f' on {s.robot}' if s.robot else '')


def _session(s: RoboArenaSession, names: _Names) -> dict[str, Any]:
    created = from_iso(s.created) if s.created else 0
    said = {name: value for slot, r in s.slots().items() for name, value in r.said(slot).items()}
    return {
        'id': s.session_id, 'request': f'import:{s.session_id}',
        'station_id': names.stations[_station(s, names.kind)],
        'evaluator_id': names.accounts[_evaluator(s)], 'institution': _institution(s),
        'prompt': s.prompt, 'category': categorise(s.prompt), 'state': SessionState.DONE.value,
        'policy_a_id': names.policies[s.policy_a], 'policy_b_id': names.policies[s.policy_b],
        'probation': False, 'nonce': '', 'commitment': '', 'token_a': f'import:{s.session_id}:A',
        'token_b': f'import:{s.session_id}:B', 'created_ns': created, 'seen_ns': created,
        'ended_ns': from_iso(s.completed) if s.completed else created, 'revealed_ns': created,
        'rollouts': len(s.rollouts), 'imported': True, 'incomplete': '', 'conflict': '',
        'third_person': next((r.camera for r in s.rollouts if r.camera in OUTSIDE), ''),
        'chosen': s.chosen, 'accepted_ns': created if s.valid else None, **to_plain(from_plain({
            **said, 'preference': s.preference, 'explanation': s.explanation, 'valid': s.valid,
            'invalid_reason': '' if s.valid else 'marked invalid in the imported table'}))}


def _episode(s: RoboArenaSession, r: RoboArenaRollout, names: _Names) -> dict[str, Any]:
    # A policy that ran several times in a slot: only the rollout that was scored has the slot.
    is_other = any(r is rollout for rollout in s.others()) and r.letter in s.slots()
    return {'session_id': s.session_id, 'slot': None if is_other else r.letter or None,
            'policy_id': names.policies[r.policy], 'prompt': r.prompt, 'steps': r.steps,
            'end_reason': EndReason.DONE.value, 'detail': '', 'progress': r.progress,
            'started_ns': 0, 'ended_ns': int(r.steps / CONTROL_RATE_HZ * 1e9), 'fault': ''}


def _done() -> sa.Select[Any]:
    a, b = policies.alias('a'), policies.alias('b')
    waited = [sa.select(episodes.c.waited).where(
        episodes.c.session_id == sessions.c.id, episodes.c.slot == slot).scalar_subquery().label(
        f'waited_{slot.lower()}') for slot in SLOTS]
    return sa.select(sessions, mark_column().label('mark'), accounts.c.name.label('who'),
                     robot_column(), a.c.name.label('a'), b.c.name.label('b'),
                     *waited).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)
        .join(accounts, sessions.c.evaluator_id == accounts.c.id)).where(
        sessions.c.state == SessionState.DONE.value, public_pair(a, b)).order_by(
        sessions.c.created_ns)


def _rollouts(connection: Connection) -> Iterable[tuple[str, RoboArenaRollout]]:
    said = [sessions.c[name].label(f'said_{name}') for name in NAMES]
    query = sa.select(episodes, policies.c.name, sessions.c.third_person, *said).select_from(
        episodes.join(policies, episodes.c.policy_id == policies.c.id)).join(
        sessions, sessions.c.id == episodes.c.session_id).where(
        sessions.c.state == SessionState.DONE.value).order_by(episodes.c.id)
    for row in connection.execute(query).mappings():
        slot = row['slot'] or ''
        extras = said_of(from_plain({name: row[f'said_{name}'] for name in NAMES}),
                         Slot(slot)) if slot in SLOTS else {}
        yield row['session_id'], RoboArenaRollout(
            row['name'], slot, row['progress'], row['steps'], row['prompt'],
            camera=row['third_person'], **extras)


def _evaluation(row: Any, played: Sequence[RoboArenaRollout]) -> RoboArenaSession:
    return RoboArenaSession(
        row.id, row.a, row.b,
        bool(row.valid) and row.mark in COUNTED_MARKS and not row.probation,
        Preference(row.preference) if row.preference else None, row.institution, row.who,
        _time(row.created_ns), _time(row.ended_ns), row.explanation,
        origin=row.mark or ('probation' if row.probation else 'relayed'),
        waited_a=row.waited_a, waited_b=row.waited_b, chosen=row.chosen,
        robot=row.robot, rollouts=tuple(played))


def _time(stamp_ns: int | None) -> str:
    return to_table_time(stamp_ns) if stamp_ns else ''
