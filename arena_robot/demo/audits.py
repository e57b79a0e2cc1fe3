"""Audits of the demonstration's episodes, after the last session: by the simulator and `local`."""

import logging
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from arena_robot.audit.base import Judge
from arena_robot.audit.judges import make_judge
from arena_robot.audit.run import audit_clip
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.parallel import Workers
from arena_robot.recording.episode.clip import read_clip
from arena_robot.records.audit_file import audits_of, write_audit
from arena_robot.records.session_file import read_session

log = logging.getLogger(__name__)

JUDGES = ('oracle', 'local')
FULL = 0.995


def audit_sessions(sessions: Sequence[Path], say: Callable[[str], None],
                   uploaded: Path | None = None) -> None:
    """
    Audit all episodes that have no audit yet, on all cores; one that cannot be read is logged.

    ``uploaded`` is the server's folder of files: the site shows the audits from there.
    """
    episodes = [(session / slot.value, uploaded / session.name / slot.value if uploaded else None)
                for session in sessions for slot in Slot]
    missing = [one for one in episodes if len(audits_of(one[0])) < len(JUDGES)]

    def done(count: int, problem: str) -> None:
        say(f'audit {count} of {len(missing)}')
        if problem:
            log.warning('%s', problem)

    Workers(os.cpu_count() or 1).map(_audit, missing, done)


def _audit(places: tuple[Path, Path | None]) -> str:
    """Audit one episode; return what is wrong with it."""
    folder, home = places
    try:
        clip = read_clip(folder)
        score = read_session(folder.parent).progress(folder.name)
        for judge in _judges():
            audit = audit_clip(judge, clip, success=None if score is None else score >= FULL)
            for place in (folder, *([home] if home and home.is_dir() else [])):
                write_audit(place, audit)
    except (ArenaError, OSError) as error:
        return f'{folder} was not audited: {error}'
    return ''


@cache
def _judges() -> list[Judge]:
    return [make_judge(name) for name in JUDGES]
