"""
Sessions of a server back as folders, as a station keeps them.

``<output>/<session>/session.json`` with ``A/`` and ``B/`` beside it: what `arena export`,
`arena replay` and `arena episode check` take. With `arena export --format roboarena` they become
the tree of RoboArena's data dumps.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.files import move, write_json
from arena_robot.core.iso_time import to_iso
from arena_robot.core.verdict import FIELDS
from arena_robot.server.blobs import Blobs
from arena_robot.server.browse import MOST, Browse, Evaluation, Filter, StoredRollout
from arena_robot.server.uploads import Uploads


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
    write_json(part / 'session.json', summary(evaluation, rollouts))
    move(part, folder)


def summary(evaluation: Evaluation, rollouts: tuple[StoredRollout, ...]) -> dict[str, Any]:
    """Return what a station's ``session.json`` would say of a finished session."""
    verdict = evaluation.verdict
    slots: dict[str, dict[str, Any]] = {r.slot: {'steps': r.steps, 'end': r.end_reason}
                                        for r in rollouts if r.slot}
    words: dict[str, Any] = {}
    for one in FIELDS:
        place = slots.setdefault(one.slot.value, {}) if one.slot else words
        place[one.key] = one.plain(getattr(verdict, one.name))
    created = to_iso(evaluation.created_ns)
    return {
        'version': 1, 'state': 'done', 'session_id': evaluation.id, 'prompt': evaluation.prompt,
        'station': evaluation.institution, 'evaluator': '', **words, 'slots': slots,
        'commitment': evaluation.commitment, 'verified': bool(evaluation.commitment),
        'reveal': {'nonce': evaluation.nonce, 'policy_a': evaluation.policy_a,
                   'policy_b': evaluation.policy_b},
        'created': created, 'updated': created}
