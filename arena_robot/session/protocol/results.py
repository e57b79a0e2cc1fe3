"""Finished sessions in a folder, as comparisons: what a station without a server can rank."""

import json
import logging
from pathlib import Path
from typing import Any

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError
from arena_robot.session.protocol.store import SUMMARY

log = logging.getLogger(__name__)


def read_session(folder: Path) -> Comparison | None:
    """
    Return the verdict of a session's folder, None when it does not count.

    Counted are the sessions that are done, valid, judged and revealed, with a reveal that fits
    the commitment. Raises DataError when ``session.json`` cannot be read.
    """
    path = folder / SUMMARY
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        counts = (data['state'] == 'done' and data['valid'] and data['preference']
                  and data['reveal'] and data['verified'])
        return _comparison(data) if counts else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path} is not the record of a session: {error!r}') from error


def read_sessions(root: Path) -> list[Comparison]:
    """Return the verdicts of all sessions below ``root``, oldest first; bad ones are logged."""
    found = []
    for path in sorted(root.glob(f'*/{SUMMARY}')):
        try:
            verdict = read_session(path.parent)
        except DataError as error:
            log.warning('left out: %s', error)
            continue
        if verdict is not None:
            found.append(verdict)
    return sorted(found, key=lambda c: (c.created, c.session_id))


def _comparison(data: dict[str, Any]) -> Comparison:
    progress = {slot: one['progress'] for slot, one in data['slots'].items()}
    return Comparison(
        data['session_id'], data['reveal']['policy_a'], data['reveal']['policy_b'],
        Preference(data['preference']), float(progress['A']), float(progress['B']),
        data['evaluator'], data['station'], data['prompt'], data['created'])
