"""Audits of uploaded episodes in the background, one process at a time, at the lowest priority."""

import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from arena_robot.audit.judges import JUDGES
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.process import NOTHING, Process
from arena_robot.records.audit_file import FOLDER
from arena_robot.server.blobs import Blobs
from arena_robot.server.files import FileId
from arena_robot.server.store.browse import MOST, Browse
from arena_robot.server.store.filters import Filter
from arena_robot.server.uploads import Uploads

log = logging.getLogger(__name__)

LOOK_STEPS = 12     # a new list of the newest sessions at every twelfth call
LONGEST_STEPS = 120  # calls after which an audit is given up
CLOSE_S = 1.0


class AuditWorker:
    """
    Runs `arena audit` on each session that counts and has no audit by ``judge`` yet.

    It looks at the newest 200 sessions; the result is put beside the episode, where the site reads
    it. A session whose audit failed is tried again after a restart. Call ``step`` every five
    seconds. ConfigError for an unknown judge.
    """

    def __init__(self, judge: str, browse: Browse, uploads: Uploads, blobs: Blobs) -> None:
        JUDGES.find(judge)
        self._judge = judge
        self._browse, self._uploads, self._blobs = browse, uploads, blobs
        self._seen: set[str] = set()
        self._waiting: list[str] = []
        self._steps = self._since = 0
        self._running: tuple[str, Process, tempfile.TemporaryDirectory[str]] | None = None

    def step(self) -> None:
        """Take the result of an audit that has ended, and begin the next one."""
        self._steps += 1
        if self._running is not None:
            late = self._steps - self._since > LONGEST_STEPS
            if self._running[1].code is None and not late:
                return
            self._take()
        if not self._waiting and self._steps % LOOK_STEPS == 1:
            self._look()
        if self._waiting:
            self._begin(self._waiting.pop(0))

    def close(self) -> None:
        """End the running audit; it is done at the next start."""
        if self._running is not None:
            _, process, folder = self._running
            process.end(CLOSE_S / 2, CLOSE_S / 2)
            folder.cleanup()
            self._running = None

    def _look(self) -> None:
        for evaluation in self._browse.page(Filter(limit=MOST)).evaluations:
            if evaluation.counts and not evaluation.mark and evaluation.id not in self._seen:
                self._seen.add(evaluation.id)
                if not all(self._blobs.exists(self._key(evaluation.id, slot)) for slot in Slot):
                    self._waiting.append(evaluation.id)

    def _key(self, session_id: str, slot: Slot) -> str:
        return FileId(session_id, slot.value, f'{FOLDER}/{self._judge}.json').key

    def _begin(self, session_id: str) -> None:
        folder = tempfile.TemporaryDirectory(prefix='arena-audit-')
        try:
            slots = self._fetch(session_id, Path(folder.name))
        except (ArenaError, OSError) as error:
            log.warning('session %s is not audited: %s', session_id, error)
            folder.cleanup()
            return
        if not slots:
            folder.cleanup()
            return
        process = Process(f'audit of {session_id}', self._call(slots), NOTHING)
        process.start()
        process.lower_priority()
        self._running, self._since = (session_id, process, folder), self._steps

    def _call(self, folders: Sequence[Path]) -> list[str]:
        return [sys.executable, '-m', 'arena_robot.cli.main', 'audit', *map(str, folders),
                '--judge', self._judge, '--save', '--no-cache']

    def _fetch(self, session_id: str, home: Path) -> list[Path]:
        """Put the bags of a session into ``home``; return the folders of its slots."""
        found = set()
        for record in self._uploads.list(session_id):
            if not record.complete or record.file.slot not in tuple(Slot) \
                    or not record.file.path.endswith(('.mcap', 'metadata.yaml')):
                continue
            target = home / session_id / record.file.slot / record.file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            local = self._blobs.local_path(record.file.key)
            if local is not None:
                target.symlink_to(local)
            else:
                with target.open('wb') as stream:
                    stream.writelines(self._blobs.read(record.file.key))
            found.add(home / session_id / record.file.slot)
        return sorted(found)

    def _take(self) -> None:
        assert self._running is not None
        session_id, process, folder = self._running
        self._running = None
        process.kill()
        for slot in Slot:
            made = Path(folder.name) / session_id / slot.value / FOLDER / f'{self._judge}.json'
            if made.exists():
                self._blobs.put(made, self._key(session_id, slot))
            else:
                log.warning('%s of session %s could not be audited', slot.value, session_id)
        folder.cleanup()
