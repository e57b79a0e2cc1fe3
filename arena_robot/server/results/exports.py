"""
Sessions of a server as folders, in the form in which a station keeps them.

``<output>/<session>`` with a session file and the episodes ``A/`` and ``B/``: what the verbs
`arena episode …` take. With `arena episode export --format roboarena` they become the tree of
RoboArena's data dumps. :func:`export_tables` writes them as RoboArena's CSV tables.
"""

import dataclasses
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from arena_robot.core.clock import to_iso
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.core.files import move
from arena_robot.core.pair import Reveal
from arena_robot.records.roboarena import RoboArenaRollout
from arena_robot.records.roboarena_files import table_paths, write_tables
from arena_robot.records.session_file import (
    DONE,
    LOCAL_STUDY,
    SessionFile,
    SessionSlot,
    Source,
    write_session,
)
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import MOST, Browse, Evaluation, Filter, StoredRollout
from arena_robot.server.store.database import Database
from arena_robot.server.store.evaluations import finished_evaluations
from arena_robot.server.store.uploads import Uploads

# What an imported table may bring as an id, so that no folder is outside of the output.
_FOLDER = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}')
log = logging.getLogger(__name__)


def materialise(browse: Browse, uploads: Uploads, blobs: Blobs, output: Path) -> Iterator[Path]:
    """
    Write every finished session with its files below ``output`` and yield its folder.

    Folders that exist are left alone, so it can be repeated. Raises DataError when a file that
    the database knows is missing from the store.
    """
    key = ''
    while True:
        page = browse.page(Filter(before=key, limit=MOST))
        for evaluation in page.evaluations:
            if not _FOLDER.fullmatch(evaluation.id):
                log.warning('left out session %r: its id cannot name a folder', evaluation.id[:80])
                continue
            folder = output / evaluation.id
            if not folder.exists():
                _write(browse, uploads, blobs, evaluation, folder)
                yield folder
        key = page.next
        if not key:
            return


def _write(browse: Browse, uploads: Uploads, blobs: Blobs, evaluation: Evaluation,
           folder: Path) -> None:
    part = folder.with_name(f'.{folder.name}.part')
    for record in uploads.list(evaluation.id):
        if not record.complete:
            continue
        slot = '.' if record.file.slot == '-' else record.file.slot
        target = part / slot / record.file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not blobs.exists(record.file.key):
            raise DataError(f'{record.file.key} is in the database and not in the store; '
                            'restore the store from its backup')
        with target.open('wb') as stream:
            for block in blobs.read(record.file.key):
                stream.write(block)
    part.mkdir(parents=True, exist_ok=True)
    _, rollouts = browse.evaluation(evaluation.id)
    write_session(part, session_file(evaluation, browse.slots(evaluation.id), rollouts))
    move(part, folder)


def session_file(evaluation: Evaluation, slots: Mapping[str, SessionSlot],
                 rollouts: Sequence[StoredRollout]) -> SessionFile:
    """Return what a station's session file would say of a finished session."""
    created = to_iso(evaluation.created_ns) if evaluation.created_ns else ''
    session = SessionFile(
        evaluation.id, Source.SERVER, DONE, evaluation.institution, prompt=evaluation.prompt,
        created=created, updated=created, commitment=evaluation.commitment,
        reveal=Reveal(evaluation.nonce, evaluation.policy_a, evaluation.policy_b,
                      chosen=evaluation.chosen),
        slots={slot.value: slots.get(slot.value, SessionSlot()) for slot in Slot},
        origin=evaluation.mark if evaluation.mark == LOCAL_STUDY else '',
        third_person=evaluation.third_person, photo_code=evaluation.photo_code,
        robot=evaluation.robot, verdict=evaluation.verdict, other_rollouts=tuple(
            RoboArenaRollout(r.policy, r.slot or '', r.progress, r.steps)
            for r in rollouts if r.slot not in tuple(Slot)))
    return dataclasses.replace(session, verified=session.fits())


def export_tables(database: Database, folder: Path) -> tuple[Path, Path]:
    """Write the finished sessions as tables into a folder; never overwrite."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in table_paths(folder):
        if path.exists():
            raise DataError(f'{path} exists; choose another folder')
    return write_tables(folder, finished_evaluations(database))
