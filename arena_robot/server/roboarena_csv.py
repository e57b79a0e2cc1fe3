"""
Existing evaluations in and out, as the CSV tables of RoboArena's public data.

Imported sessions count in the rankings like any other; their policies are retired, so nobody is
ever assigned one. A session that is here already is left alone, so an import can be repeated.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.episode import EndReason, Preference
from arena_robot.core.errors import DataError
from arena_robot.core.files import replacing
from arena_robot.core.iso_time import from_iso, to_table_time
from arena_robot.server.base import PolicyState, SessionState
from arena_robot.server.categories import categorise
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import accounts, episodes, policies, sessions, stations

SESSION_COLUMNS = ('session_uuid', 'evaluation_type', 'institution', 'evaluator', 'created',
                   'completed', 'valid', 'preference', 'policy_a', 'policy_b', 'feedback_text')
EPISODE_COLUMNS = ('session_uuid', 'policy', 'order', 'instruction', 'binary_success',
                   'partial_success', 'duration_steps', 'camera', 'letter', 'avg_latency_s')
RATE_HZ = 15.0
OWNER = 'imported'


@dataclass(frozen=True)
class Imported:
    """What an import added."""

    sessions: int
    episodes: int
    policies: int
    known: int


@dataclass
class _Names:
    accounts: dict[str, int]
    policies: dict[str, int]
    stations: dict[str, int]


def import_tables(database: Database, clock: Clock, folder: Path) -> Imported:
    """
    Load ``sessions.csv`` and, where it is there, ``episodes.csv`` of a folder.

    All or nothing. Raises DataError naming file, line and column of what cannot be read.
    """
    rows = list(_rows(folder / 'sessions.csv', SESSION_COLUMNS[:1] + SESSION_COLUMNS[6:10]))
    rollouts = list(_rows(folder / 'episodes.csv', EPISODE_COLUMNS[:2])) \
        if (folder / 'episodes.csv').exists() else []
    by_session: dict[str, list[dict[str, str]]] = {}
    for rollout in rollouts:
        by_session.setdefault(rollout['session_uuid'], []).append(rollout)
    with database.write() as connection:
        present = set(connection.execute(sa.select(sessions.c.id)).scalars())
        fresh = [row for row in rows if row['session_uuid'] not in present]
        names = _names(connection, clock, fresh, rollouts)
        added = [_session(row, by_session.get(row['session_uuid'], []), names) for row in fresh]
        ids = {item['id'] for item in added}
        played = [_episode(r, names) for r in rollouts if r['session_uuid'] in ids]
        for table, values in ((sessions, added), (episodes, played)):
            if values:
                connection.execute(sa.insert(table), values)
    return Imported(len(added), len(played), len(names.policies), len(rows) - len(fresh))


def export_tables(database: Database, folder: Path) -> tuple[Path, Path]:
    """Write ``sessions.csv`` and ``episodes.csv`` with RoboArena's columns; never overwrite."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / 'sessions.csv', folder / 'episodes.csv'
    for path in paths:
        if path.exists():
            raise DataError(f'{path} exists; choose another folder')
    with database.read() as connection:
        _write(paths[0], SESSION_COLUMNS, _session_rows(connection))
        _write(paths[1], EPISODE_COLUMNS, _episode_rows(connection))
    return paths


def _rows(path: Path, needed: Iterable[str]) -> Iterable[dict[str, str]]:
    try:
        with path.open(newline='', encoding='utf-8') as file:
            reader = csv.DictReader(file)
            missing = set(needed) - set(reader.fieldnames or ())
            if missing:
                raise DataError(f"{path} lacks the columns {', '.join(sorted(missing))}")
            for row in reader:
                yield {k: v or '' for k, v in row.items() if k is not None}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f'cannot read {path}: {error}') from error


def _names(connection: Connection, clock: Clock, rows: list[dict[str, str]],
           rollouts: list[dict[str, str]]) -> _Names:
    now = clock.now_ns()
    people = {OWNER: 'imported'}
    people |= {_evaluator(row): row.get('institution', '') or 'unknown' for row in rows}
    account_ids = _ensure(connection, accounts, people, lambda name: {
        'institution': people[name], 'created_ns': now,
        'roles': 'owner' if name == OWNER else 'evaluator'})
    wanted = {row[c] for row in rows for c in ('policy_a', 'policy_b') if row[c]}
    wanted |= {rollout['policy'] for rollout in rollouts}
    policy_ids = _ensure(connection, policies, sorted(wanted), lambda name: {
        'owner_id': account_ids[OWNER], 'address': '', 'open_source': True, 'description': '',
        'robot': 'any', 'action_space': 'joint_position', 'external_cameras': 1,
        'wrist_camera': True, 'stereo': False, 'state': PolicyState.RETIRED.value,
        'reason': 'imported', 'failures': 0, 'requested': 0, 'healthy': False, 'checked_ns': 0,
        'created_ns': now, 'updated_ns': now})
    places = {f'imported: {place}': place for place in set(people.values())}
    station_ids = _ensure(connection, stations, places, lambda name: {
        'institution': places[name], 'robot': 'panda', 'external_cameras': 2,
        'wrist_camera': True, 'stereo': True, 'test_driver': False, 'created_ns': now})
    return _Names(account_ids, policy_ids, station_ids)


def _ensure(connection: Connection, table: sa.Table, names: Iterable[str],
            values: Any) -> dict[str, int]:
    def known() -> dict[str, int]:
        return {row.name: row.id for row in connection.execute(
            sa.select(table.c.name, table.c.id))}
    there = known()
    new = [{'name': name, **values(name)} for name in names if name not in there]
    if new:
        connection.execute(sa.insert(table), new)
    return known()


def _evaluator(row: dict[str, str]) -> str:
    return row.get('evaluator') or 'unknown evaluator'


def _session(row: dict[str, str], rollouts: list[dict[str, str]], names: _Names) -> dict[str, Any]:
    where = f"session {row['session_uuid']}"
    preference = row['preference'].upper() or None
    if preference not in (None, *(p.value for p in Preference)):
        raise DataError(f'{where}: preference is A, B, TIE or empty, found {preference!r:.40}')
    valid = row['valid'].lower() in ('1', 'true')
    scores = {r['policy']: _score(r, where) for r in rollouts}
    prompt = next((r['instruction'] for r in rollouts if r.get('instruction')), '')
    created = _stamp(row.get('created', ''), where)
    number = names.policies
    if row['policy_a'] not in number or row['policy_b'] not in number:
        raise DataError(f'{where}: policy_a or policy_b is empty')
    return {
        'id': row['session_uuid'], 'request': f"import:{row['session_uuid']}",
        'station_id': names.stations[f"imported: {row.get('institution') or 'unknown'}"],
        'evaluator_id': names.accounts[_evaluator(row)],
        'institution': row.get('institution') or 'unknown', 'prompt': prompt,
        'category': categorise(prompt),
        'state': SessionState.DONE.value, 'policy_a_id': number[row['policy_a']],
        'policy_b_id': number[row['policy_b']], 'probation': False, 'nonce': '',
        'commitment': '', 'token_a': f"import:{row['session_uuid']}:A",
        'token_b': f"import:{row['session_uuid']}:B", 'created_ns': created,
        'seen_ns': created, 'ended_ns': _stamp(row.get('completed', ''), where) or created,
        'revealed_ns': created, 'rollouts': len(rollouts), 'valid': valid,
        'preference': preference, 'progress_a': scores.get(row['policy_a']),
        'progress_b': scores.get(row['policy_b']), 'explanation': row.get('feedback_text', ''),
        'invalid_reason': '' if valid else 'marked invalid in the imported table', 'notes': '',
        'imported': True}


def _episode(row: dict[str, str], names: _Names) -> dict[str, Any]:
    where = f"an episode of session {row['session_uuid']}"
    steps = int(_number(row.get('duration_steps', ''), where) or 0)
    return {'session_id': row['session_uuid'], 'slot': row.get('letter') or None,
            'policy_id': names.policies[row['policy']], 'prompt': row.get('instruction', ''),
            'steps': steps, 'end_reason': EndReason.DONE.value, 'detail': '',
            'progress': _score(row, where), 'started_ns': 0,
            'ended_ns': int(steps / RATE_HZ * 1e9)}


def _score(row: dict[str, str], where: str) -> float | None:
    value = _number(row.get('partial_success', ''), where)
    if value is not None and not 0.0 <= value <= 1.0:
        raise DataError(f'{where}: partial_success is 0 to 1, found {value}')
    return value


def _number(text: str, where: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise DataError(f'{where}: {text!r:.40} is not a number') from error


def _stamp(text: str, where: str) -> int:
    if not text:
        return 0
    try:
        return from_iso(text)
    except DataError as error:
        raise DataError(f'{where}: {text!r:.40} is not a time') from error


def _session_rows(connection: Connection) -> Iterable[tuple[Any, ...]]:
    a, b = policies.alias('a'), policies.alias('b')
    query = sa.select(sessions, accounts.c.name.label('who'), a.c.name.label('a'),
                      b.c.name.label('b')).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)
        .join(accounts, sessions.c.evaluator_id == accounts.c.id)).where(
        sessions.c.state == SessionState.DONE.value).order_by(sessions.c.created_ns)
    for row in connection.execute(query):
        yield (row.id, 'A/B', row.institution, row.who, _iso(row.created_ns), _iso(row.ended_ns),
               int(bool(row.valid)), row.preference or '', row.a, row.b, row.explanation)


def _episode_rows(connection: Connection) -> Iterable[tuple[Any, ...]]:
    query = sa.select(episodes, policies.c.name).select_from(
        episodes.join(policies, episodes.c.policy_id == policies.c.id)).join(
        sessions, sessions.c.id == episodes.c.session_id).where(
        sessions.c.state == SessionState.DONE.value).order_by(episodes.c.id)
    for row in connection.execute(query):
        score = '' if row.progress is None else row.progress
        success = '' if row.progress is None else int(row.progress == 1.0)
        yield (row.session_id, row.name, '', row.prompt, success, score, row.steps, '',
               row.slot or '', '')


def _iso(stamp_ns: int | None) -> str:
    return to_table_time(stamp_ns) if stamp_ns else ''


def _write(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with replacing(path) as part, part.open('w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
