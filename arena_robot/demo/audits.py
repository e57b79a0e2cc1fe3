"""
Audits of the demonstration's episodes, by the simulator and by the judge `local`.

Those of a session that is done are made while the next one runs, in processor time that nobody
else wants; what is missing at the end is made then, on all cores.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from arena_robot.audit.base import Judge
from arena_robot.audit.judges import make_judge
from arena_robot.audit.run import audit_clip
from arena_robot.core.bounded import use_spare_time
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.parallel import Workers
from arena_robot.core.process import Process
from arena_robot.recording.episode.clip import read_clip
from arena_robot.records.audit_file import audits_of, write_audit
from arena_robot.records.session_file import read_session
from arena_robot.reports.audit_agreement import FULL

log = logging.getLogger(__name__)

JUDGES = ('oracle', 'local')
# So many episodes are sooner done by the one process that has begun than by new ones.
FEW = 6
LAST_S, LOOK_S = 60.0, 0.1    # the last few audits may take a minute; asked ten times a second


class BackgroundAudits:
    """A process that audits the sessions it is told of, one after the other."""

    def __init__(self, uploaded: Path, log_file: Path) -> None:
        self._process = Process('auditor', [sys.executable, '-m', 'arena_robot.demo.audits',
                                            str(uploaded)], log_file, pipes=True)
        self._asked: list[Path] = []

    def __enter__(self) -> 'BackgroundAudits':
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Files are written atomically; what is missing is audited again.
        self._process.kill()

    def __call__(self, session: Path) -> None:
        """Audit the episodes of a session, some time."""
        try:
            self._process.stdin.write(f'{session}\n')
            self._asked.append(session)
        except OSError as error:
            log.warning('%s is audited at the end: %s', session, error)

    def finish(self) -> None:
        """Wait for the last audits, unless there are many: then end at once."""
        self._process.stdin.close()    # it ends after what it was told of
        end_s = time.monotonic() + LAST_S
        while (0 < len(_missing(self._asked)) <= FEW and self._process.code is None
               and time.monotonic() < end_s):
            time.sleep(LOOK_S)
        self._process.kill()


def audit_sessions(sessions: Sequence[Path], say: Callable[[str], None],
                   uploaded: Path | None = None) -> None:
    """
    Audit all episodes that have no audit yet, on all cores; one that cannot be read is logged.

    ``uploaded`` is the server's folder of files: the site shows the audits from there.
    """
    missing = [(episode, uploaded / episode.parent.name / episode.name if uploaded else None)
               for episode in _missing(sessions)]

    def done(count: int, problem: str) -> None:
        say(f'audit {count} of {len(missing)}')
        if problem:
            log.warning('%s', problem)

    Workers(os.cpu_count() or 1).map(_audit, missing, done)


def _missing(sessions: Sequence[Path]) -> list[Path]:
    return [session / slot.value for session in sessions for slot in Slot
            if len(audits_of(session / slot.value)) < len(JUDGES)]


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


def main() -> None:
    """Audit the sessions named on standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_spare_time()
    uploaded = Path(sys.argv[1])
    for line in sys.stdin:
        session = Path(line.rstrip('\n'))
        for episode in _missing([session]):
            problem = _audit((episode, uploaded / session.name / episode.name))
            if problem:
                log.warning('%s', problem)


if __name__ == '__main__':
    main()
