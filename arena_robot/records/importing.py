"""
Import of RoboArena evaluations as session folders.

A folder holds the ``session.json`` that a station would have written. Recorded steps are not
copied.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from arena_robot.core.clock import from_iso, to_iso
from arena_robot.core.errors import DataError
from arena_robot.core.files import sync_folder
from arena_robot.core.pair import Reveal
from arena_robot.core.parallel import in_threads
from arena_robot.core.verdict import from_plain
from arena_robot.records.roboarena import SLOTS, RoboArenaData, RoboArenaSession
from arena_robot.records.roboarena_files import (
    SESSIONS_FILE,
    SESSIONS_FOLDER,
    episodes_beside,
    is_dump,
    read_dump,
    read_tables,
    write_tables,
)
from arena_robot.records.session_file import (
    DONE,
    SessionFile,
    SessionSlot,
    Source,
    has_session,
    write_session,
)

WRITERS = 4    # threads that wait for the disk


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
        if has_session(output / session.session_id):
            raise DataError(f'{output / session.session_id} holds a session already; imports do '
                            'not overwrite, name another --output')
    # Most of the time is spent waiting for the disk; parallel writes share the waits. An import
    # that is cut off is repeated, so names are brought to the disk together, at the end.
    folders = in_threads(functools.partial(_write, output=output, origin=origin), sessions,
                         WRITERS)
    in_threads(sync_folder, folders, WRITERS)
    write_tables(output, sessions)


def _write(session: RoboArenaSession, output: Path, origin: str) -> Path:
    folder = output / session.session_id
    folder.mkdir(parents=True, exist_ok=True)
    write_session(folder, session_file(session, origin), sync_name=False)
    return folder


def session_file(session: RoboArenaSession, origin: str) -> SessionFile:
    """Return a session as the ``session.json`` that a station would have written of it."""
    played = session.slots()
    return SessionFile(
        session.session_id, Source.IMPORT, DONE, session.institution, session.evaluator,
        session.prompt, _time(session.created), _time(session.completed),
        reveal=Reveal('', session.policy_a, session.policy_b, chosen=session.chosen),
        slots={slot: SessionSlot(steps=played[slot].steps if slot in played else 0)
               for slot in SLOTS},
        verdict=from_plain({
            **{name: value for slot, r in played.items() for name, value in r.said(slot).items()},
            'preference': session.preference, 'explanation': session.explanation,
            'valid': session.valid,
            'invalid_reason': '' if session.valid else 'not marked as valid in the source'}),
        origin=origin, other_rollouts=session.others())


def _time(text: str) -> str:
    return to_iso(from_iso(text)) if text else ''
