"""
Other people's evaluations as session folders.

A folder holds the ``session.json`` that a station would have written. Recorded steps stay where
they are.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.files import write_json
from arena_robot.records.roboarena import SLOTS, RoboArenaData, RoboArenaSession
from arena_robot.records.roboarena_csv import (
    SESSIONS_FILE,
    episodes_beside,
    read_tables,
    write_tables,
)
from arena_robot.records.roboarena_dump import SESSIONS_FOLDER, is_dump, read_dump

WRITERS = 16


def read_evaluations(source: Path) -> RoboArenaData:
    """Return the sessions of a dump, of a folder with tables, or of a table. Raises DataError."""
    if is_dump(source):
        return read_dump(source)
    table = source if source.suffix == '.csv' else source / SESSIONS_FILE
    if table.is_file():
        return read_tables(table, episodes_beside(table))
    raise DataError(f'{source} is neither a RoboArena data dump (a folder with '
                    f'{SESSIONS_FOLDER}/) nor tables ({SESSIONS_FILE}, and the episodes beside '
                    'it)')


def write_evaluations(sessions: Sequence[RoboArenaSession], output: Path, origin: str) -> None:
    """
    Write ``<output>/<session>/session.json`` for each session, and both tables.

    Raises DataError when a session is there already.
    """
    for session in sessions:
        if (output / session.session_id / 'session.json').exists():
            raise DataError(f'{output / session.session_id} holds a session already; imports do '
                            'not overwrite, name another --output')
    # Waiting for the disk once a file is most of the work; many at a time share its waits.
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(lambda session: _write(session, output, origin), sessions):
            pass
    write_tables(output, sessions)


def _write(session: RoboArenaSession, output: Path, origin: str) -> None:
    folder = output / session.session_id
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / 'session.json', record(session, origin))


def record(session: RoboArenaSession, origin: str) -> dict[str, Any]:
    """Return a session as the JSON values of a ``session.json``."""
    played = session.slots()
    slots = {slot: {'started_ns': 0, 'ended_ns': 0, 'end': None, 'detail': '', 'notes': '',
                    'steps': played[slot].steps if slot in played else 0,
                    'progress': played[slot].progress if slot in played else None}
             for slot in SLOTS}
    return {'version': 1, 'state': 'done', 'session_id': session.session_id,
            'station': session.institution, 'evaluator': session.evaluator,
            'prompt': session.prompt, 'commitment': '', 'slots': slots,
            'preference': session.preference.value if session.preference else None,
            'explanation': session.explanation, 'valid': session.valid,
            'invalid_reason': '' if session.valid else 'not marked as valid in the source',
            'reveal': {'nonce': '', 'policy_a': session.policy_a, 'policy_b': session.policy_b},
            'verified': None, 'created': session.created, 'updated': session.completed,
            'imported_from': origin,
            'other_rollouts': [{'policy': r.policy, 'letter': r.letter, 'progress': r.progress,
                                'steps': r.steps} for r in session.others()]}
