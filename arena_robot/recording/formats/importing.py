"""
Other people's evaluations as session records: RoboArena's data dumps, and CSV tables.

A record has the keys of the ``session.json`` that a station writes. Recorded steps stay where
they are: a dump keeps them as pickled objects, which are never loaded from somebody else's file.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json, write_text
from arena_robot.recording.episode.folders import SLOTS
from arena_robot.recording.formats.roboarena import GLOBAL, SESSIONS

SESSION_COLUMNS = ('session_uuid', 'evaluation_type', 'institution', 'evaluator', 'created',
                   'completed', 'valid', 'preference', 'policy_a', 'policy_b', 'feedback_text')
EPISODE_COLUMNS = ('session_uuid', 'policy', 'order', 'instruction', 'binary_success',
                   'partial_success', 'duration_steps', 'camera', 'letter', 'avg_latency_s')
_PREFERENCES = ('A', 'B', 'TIE')
WRITERS = 16


@dataclass(frozen=True)
class ImportedRollout:
    """One scored rollout: ``letter`` A or B, or another for rollouts outside the comparison."""

    policy: str
    letter: str
    progress: float | None
    steps: int


@dataclass(frozen=True)
class ImportedSession:
    """One session; ``preference`` is A, B, TIE or empty, progress 0 to 1."""

    session_id: str
    prompt: str
    station: str
    evaluator: str
    created: str
    updated: str
    valid: bool
    preference: str
    explanation: str
    rollouts: tuple[ImportedRollout, ...]
    policies: Mapping[str, str]

    def rollout(self, letter: str) -> ImportedRollout | None:
        """Return the rollout of a slot."""
        return next((r for r in self.rollouts if r.letter == letter), None)


def read_any(source: Path) -> list[ImportedSession]:
    """Return the sessions of a dump, or of a folder with sessions.csv. Raises DataError."""
    if (source / SESSIONS).is_dir():
        return read_dump(source)
    table = source if source.suffix == '.csv' else source / 'sessions.csv'
    if table.is_file():
        return read_tables(table, table.with_name('episodes.csv'))
    raise DataError(f'{source} is neither a RoboArena data dump (a folder with {SESSIONS}/) nor '
                    'tables (sessions.csv, and episodes.csv beside it)')


def read_dump(source: Path) -> list[ImportedSession]:
    """Return the sessions of a data dump, by name. Raises DataError naming the file."""
    return [_from_metadata(path) for path in sorted((source / SESSIONS).glob('*/metadata.yaml'))]


def _from_metadata(path: Path) -> ImportedSession:
    try:
        data = read_yaml(path)
        policies = {str(k): v for k, v in (data.get('policies') or {}).items()}
        rollouts = tuple(ImportedRollout(
            str(p['policy_name']), letter, _score(p.get('partial_success')),
            round(float(p.get('duration') or 0))) for letter, p in sorted(policies.items()))
        return ImportedSession(
            session_id=path.parent.name, prompt=_words(data, 'language_instruction'),
            station=_words(data, 'evaluation_location'),
            evaluator=_words(data, 'evaluator_name'),
            created=_words(data, 'session_creation_timestamp'),
            updated=_words(data, 'session_completion_timestamp'),
            valid=bool(data.get('valid', True)), preference=_preference(data.get('preference')),
            explanation=_words(data, 'longform_feedback'), rollouts=rollouts,
            policies={r.letter: r.policy for r in rollouts if r.letter in SLOTS})
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f'{path} is not the metadata of a session: {error!r}') from error


def read_tables(sessions: Path, episodes: Path) -> list[ImportedSession]:
    """
    Return the sessions of two tables, in their order; ``episodes`` may be missing.

    A rollout belongs to A or B by its session and policy, since early tables have no letters.
    """
    by_session: dict[str, list[Mapping[str, str]]] = {}
    if episodes.exists():
        for row in _rows(episodes, ('session_uuid', 'policy')):
            by_session.setdefault(row['session_uuid'], []).append(row)
    needed = ('session_uuid', 'valid', 'preference', 'policy_a', 'policy_b')
    return [_from_row(sessions, n, row, by_session.get(row['session_uuid'], []))
            for n, row in enumerate(_rows(sessions, needed), start=2)]


def _from_row(path: Path, line: int, row: Mapping[str, str],
              episodes: Sequence[Mapping[str, str]]) -> ImportedSession:
    pair = {'A': row['policy_a'], 'B': row['policy_b']}
    try:
        rollouts = tuple(_rollout(e, pair) for e in episodes)
        return ImportedSession(
            session_id=row['session_uuid'], station=row.get('institution', ''),
            prompt=next((e['instruction'] for e in episodes if e.get('instruction')), ''),
            evaluator=row.get('evaluator', ''), created=row.get('created', ''),
            updated=row.get('completed', ''), valid=row['valid'].lower() in ('1', 'true'),
            preference=_preference(row['preference']),
            explanation=row.get('feedback_text', ''), rollouts=rollouts,
            policies={slot: name for slot, name in pair.items() if name})
    except ValueError as error:
        raise DataError(f'{path} line {line}: {error}') from error


def _rollout(row: Mapping[str, str], pair: Mapping[str, str]) -> ImportedRollout:
    letter = row.get('letter', '') or next((s for s, n in pair.items() if n == row['policy']), '')
    return ImportedRollout(row['policy'], letter, _score(row.get('partial_success')),
                           round(float(row.get('duration_steps') or 0)))


def _rows(path: Path, needed: Sequence[str]) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline='', encoding='utf-8') as file:
            reader = csv.DictReader(file)
            missing = [c for c in needed if c not in (reader.fieldnames or ())]
            if missing:
                raise DataError(f"{path} lacks the columns {', '.join(missing)}; it has "
                                f"{', '.join(reader.fieldnames or ())}")
            for row in reader:
                yield {k: v or '' for k, v in row.items() if k}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f'cannot read {path}: {error}') from error


def _words(data: Mapping[str, Any], key: str) -> str:
    return str(data.get(key) or '')


def _preference(value: Any) -> str:
    word = str(value or '').strip().upper()
    if word and word not in _PREFERENCES:
        raise ValueError(f"the preference is A, B or TIE, found '{value}'")
    return word


def _score(value: Any) -> float | None:
    if value is None or value == '':
        return None
    score = float(value)
    if not 0.0 <= score <= 1.0:
        raise ValueError(f'partial success is 0 to 1, found {value}')
    return score


def record(session: ImportedSession, origin: str) -> dict[str, Any]:
    """Return a session as the JSON values of a ``session.json``."""
    slots = {}
    for slot in SLOTS:
        rollout = session.rollout(slot)
        slots[slot] = {'started_ns': 0, 'ended_ns': 0, 'end': None, 'detail': '', 'notes': '',
                       'steps': rollout.steps if rollout else 0,
                       'progress': rollout.progress if rollout else None}
    reveal = {'nonce': '', 'policy_a': session.policies.get('A', ''),
              'policy_b': session.policies.get('B', '')}
    return {'version': 1, 'state': 'done', 'session_id': session.session_id,
            'station': session.station, 'evaluator': session.evaluator, 'prompt': session.prompt,
            'commitment': '', 'slots': slots, 'preference': session.preference or None,
            'explanation': session.explanation, 'valid': session.valid,
            'invalid_reason': '' if session.valid else 'not marked as valid in the source',
            'reveal': reveal if any(session.policies.values()) else None, 'verified': None,
            'created': session.created, 'updated': session.updated, 'imported_from': origin,
            'other_rollouts': [{'policy': r.policy, 'letter': r.letter, 'progress': r.progress,
                                'steps': r.steps} for r in session.rollouts
                               if r.letter not in SLOTS]}


def write_records(sessions: Iterable[ImportedSession], output: Path, origin: str) -> int:
    """
    Write ``<output>/<session>/session.json`` and both tables; return how many sessions.

    Raises DataError when a session is there already or its name is no folder name.
    """
    kept = list(sessions)
    for session in kept:
        if not session.session_id or '/' in session.session_id or session.session_id[0] == '.':
            raise DataError(f"'{session.session_id}' cannot be the name of a session's folder")
        if (output / session.session_id / 'session.json').exists():
            raise DataError(f'{output / session.session_id} holds a session already; imports do '
                            'not overwrite, name another --output')
    # Waiting for the disk once a file is most of the work; many at a time share its waits.
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(lambda session: _write_record(session, output, origin), kept):
            pass
    _write_table(output / 'sessions.csv', SESSION_COLUMNS, map(_session_row, kept))
    _write_table(output / 'episodes.csv', EPISODE_COLUMNS,
                 [_episode_row(s, n, r) for s in kept for n, r in enumerate(s.rollouts, start=1)])
    return len(kept)


def _write_record(session: ImportedSession, output: Path, origin: str) -> None:
    folder = output / session.session_id
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / 'session.json', record(session, origin))


def _session_row(s: ImportedSession) -> dict[str, Any]:
    return {'session_uuid': s.session_id, 'evaluation_type': 'A/B', 'institution': s.station,
            'evaluator': s.evaluator, 'created': s.created, 'completed': s.updated,
            'valid': int(s.valid), 'preference': s.preference,
            'policy_a': s.policies.get('A', ''), 'policy_b': s.policies.get('B', ''),
            'feedback_text': s.explanation}


def _episode_row(s: ImportedSession, order: int, r: ImportedRollout) -> dict[str, Any]:
    known = r.progress is not None
    return {'session_uuid': s.session_id, 'policy': r.policy, 'order': order,
            'instruction': s.prompt, 'binary_success': int(r.progress == 1.0) if known else '',
            'partial_success': r.progress if known else '', 'duration_steps': r.steps,
            'letter': r.letter}


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    lines = io.StringIO(newline='')
    writer = csv.DictWriter(lines, columns)
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, lines.getvalue())


def dump_totals(source: Path) -> dict[str, int]:
    """Return what a dump's ``global_metadata.yaml`` says is in it; empty without one."""
    path = source / GLOBAL
    if not path.exists():
        return {}
    data = read_yaml(path)
    return {k: int(data[k]) for k in ('total_sessions', 'total_policy_episodes') if k in data}
