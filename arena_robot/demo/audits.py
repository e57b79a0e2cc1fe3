"""Audits of the demonstration's episodes, after the last session: by the simulator and `local`."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from arena_robot.audit.judges import make_judge
from arena_robot.audit.run import audit_clip
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.recording.episode.clip import read_clip
from arena_robot.records.audit_file import audits_of, write_audit
from arena_robot.records.session_file import read_session

log = logging.getLogger(__name__)

JUDGES = ('oracle', 'local')
FULL = 0.995


def audit_sessions(sessions: Sequence[Path], say: Callable[[str], None],
                   uploaded: Path | None = None) -> None:
    """
    Audit all episodes that have no audit yet; one that cannot be read is logged.

    ``uploaded`` is the server's folder of files: the site shows the audits from there.
    """
    judges = [make_judge(name) for name in JUDGES]
    for number, session in enumerate(sessions, 1):
        say(f'session {number} of {len(sessions)}')
        for slot in Slot:
            folder = session / slot.value
            if len(audits_of(folder)) >= len(JUDGES):
                continue
            home = uploaded / session.name / slot.value if uploaded else None
            try:
                clip = read_clip(folder)
                score = read_session(session).progress(slot.value)
                for judge in judges:
                    audit = audit_clip(judge, clip,
                                       success=None if score is None else score >= FULL)
                    for place in (folder, *([home] if home and home.is_dir() else [])):
                        write_audit(place, audit)
            except (ArenaError, OSError) as error:
                log.warning('%s was not audited: %s', folder, error)
