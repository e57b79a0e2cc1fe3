"""What a server does with its sessions in processes of their own, of the lowest priority."""

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.audit.judges import JUDGES
from arena_robot.audit.run import failed_audit
from arena_robot.core import bounded
from arena_robot.core.clock import Clock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.files import write_text
from arena_robot.core.process import Process
from arena_robot.records.audit_file import FOLDER, audit_path, write_audit
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId
from arena_robot.server.results.standings import Results
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import MOST, Browse, Filter
from arena_robot.server.store.categories import Categories
from arena_robot.server.store.database import Database
from arena_robot.server.store.reports import Reports
from arena_robot.server.store.uploads import Uploads

log = logging.getLogger(__name__)

# An audit has the pictures of a rollout in memory: two minutes of three HD cameras are 5 GB.
AUDIT_BYTES = 8 << 30
AUDIT_LOOK_STEPS = 12        # a new list of the newest sessions at every twelfth call
AUDIT_STEP_S = 5.0           # between two calls
AUDIT_LONGEST_STEPS = 120    # calls after which an audit is given up: ten minutes
LONGEST_STEPS = 30           # calls after which other processes are given up
PAUSE_STEPS = 60             # calls without another try after one failed
CLOSE_S = 1.0    # a process that is ended keeps a closing server so long
SHARE = 0.1      # a report is made anew when a tenth of its sessions is new
AT_ONCE = 20    # sessions that one process shows the model

Work = Callable[..., object]


@dataclass(frozen=True)
class BackgroundFunctions:
    """
    Functions of modules of higher rooms; one that is None is never called.

    ``audit`` gets the folder of a session and the name of a judge, and writes audits beside the
    episodes. ``reports`` and ``categories`` get the path of a server's configuration.
    """

    audit: Work | None = None
    reports: Work | None = None
    categories: Work | None = None


NO_FUNCTIONS = BackgroundFunctions()


class AuditWorker:
    """
    Audits each session that counts and has no audit by ``judge`` yet.

    It looks at the newest 200 sessions; the result is put beside the episode, where the site reads
    it. The bags are files of strangers: the process has ``memory_bytes`` and ``longest_steps``
    calls of ``step``, and no more. A bag that cannot be read, and a process that ends for those
    bounds or by a signal, leave an audit that is invalid and says so; a session whose audit failed
    otherwise is tried again after a restart. Call ``step`` every AUDIT_STEP_S.
    ConfigError for an unknown judge.
    """

    def __init__(self, audit: Work, judge: str, browse: Browse, uploads: Uploads,
                 blobs: Blobs, memory_bytes: int = AUDIT_BYTES,
                 longest_steps: int = AUDIT_LONGEST_STEPS) -> None:
        JUDGES.find(judge)
        self._audit, self._judge = audit, judge
        self._memory_bytes, self._longest_steps = memory_bytes, longest_steps
        self._browse, self._uploads, self._blobs = browse, uploads, blobs
        self._seen: set[str] = set()
        self._waiting: list[str] = []
        self._steps = self._since = 0
        self._running: tuple[str, Process, tempfile.TemporaryDirectory[str]] | None = None

    def step(self) -> None:
        """Take the result of an audit that has ended, and begin the next one."""
        self._steps += 1
        if self._running is not None:
            late = self._steps - self._since > self._longest_steps
            if self._running[1].code is None and not late:
                return
            self._take()
        if not self._waiting and self._steps % AUDIT_LOOK_STEPS == 1:
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
        session = Path(folder.name) / session_id
        try:
            self._fetch(session_id, session)
        except (ArenaError, OSError) as error:
            log.warning('session %s is not audited: %s', session_id, error)
            folder.cleanup()
            return
        if not session.exists():
            folder.cleanup()
            return
        process = bounded.started(self._audit, session, self._judge,
                                     memory_bytes=self._memory_bytes)
        self._running, self._since = (session_id, process, folder), self._steps

    def _fetch(self, session_id: str, home: Path) -> None:
        """Put the bags of a session into ``home``."""
        for record in self._uploads.list(session_id):
            if not record.complete or record.file.slot not in tuple(Slot) \
                    or not record.file.path.endswith(('.mcap', 'metadata.yaml')):
                continue
            self._blobs.fetch(record.file.key, home / record.file.slot / record.file.path)

    def _take(self) -> None:
        assert self._running is not None
        session_id, process, folder = self._running
        self._running, why = None, self._why_broken(process.code)
        process.kill()
        for slot in Slot:
            home = Path(folder.name) / session_id / slot.value
            made = audit_path(home, self._judge)
            if not made.exists():
                log.warning('%s of session %s could not be audited%s', slot.value, session_id,
                            why and f': {why}')
                if not why:
                    continue
                home.mkdir(parents=True, exist_ok=True)
                write_audit(home, failed_audit(f'{session_id}/{slot.value}', self._judge, why))
            self._blobs.put(made, self._key(session_id, slot))
        folder.cleanup()

    def _why_broken(self, code: int | None) -> str:
        """Return why an audit that ended with ``code`` would end so again; '' where it may not."""
        if code == bounded.NO_MEMORY:
            return f'the audit of this session needs more than {self._memory_bytes >> 20} MiB'
        if code is None:
            return ('the audit of this session takes longer than '
                    f'{self._longest_steps * AUDIT_STEP_S:.0f} s')
        if code < 0:
            return f'the audit of this session was ended by signal {-code}'
        return ''


class BackgroundWork:
    """
    Calls ``work`` in a process of its own when ``due`` says so; call ``step`` every minute.

    It does not run at the first step, nor twice at a time, and waits after a failure.
    """

    def __init__(self, config: ServerConfig, name: str, work: Work,
                 due: Callable[[], object]) -> None:
        self._config, self._name, self._work, self._due = config, name, work, due
        self._running: Process | None = None
        self._steps = self._calls = 0
        self._next = 2

    def step(self) -> None:
        """Begin when it is due and does not run."""
        self._calls += 1
        if self._running is not None:
            self._steps += 1
            if self._running.code is None and self._steps < LONGEST_STEPS:
                return
            if self._running.code != 0:
                log.warning('%s: the process failed: %s', self._name, self._running.code)
                self._next = self._calls + PAUSE_STEPS
            self._running.kill()
            self._running = None
        if self._calls >= self._next and self._due():
            self._running, self._steps = bounded.started(self._work, self._settings_file()), 0

    def close(self) -> None:
        """End the process; what it stored is kept."""
        if self._running is not None:
            self._running.end(CLOSE_S / 2, CLOSE_S / 2)
            self._running = None

    def _settings_file(self) -> Path:
        """Write what the process has to know of the server into a file of its folder."""
        where = self._config.data / f'{self._name}.yaml'
        known: dict[str, Any] = {name: str(value) for name, value in (
            ('data', Path(self._config.data).resolve()),
            ('database', self._config.database), ('blobs', self._config.blobs),
            ('key_file', self._config.key_path().resolve())) if value}
        write_text(where, json.dumps({**known,
                                      'categorise_per_day': self._config.categorise_per_day}))
        return where


def reports_are_due(config: ServerConfig, results: Results, reports: Reports) -> bool:
    """Tell whether a policy has ``report_every`` new sessions and a tenth of those it had."""
    counted: Counter[str] = Counter()
    for (a, b, _), count in results.counts_by_name().items():
        counted.update({a: count, b: count})
    covered = reports.covered()
    return any(count - covered.get(name, 0) >= max(
        config.report_every, SHARE * covered.get(name, 0)) for name, count in counted.items())


def sessions_to_categorise(config: ServerConfig, categories: Categories) -> int:
    """
    Return how many sessions may be shown to the vision model now.

    At most ``config.categorise_per_day`` in any 24 hours, counted in the database. Address, model
    and key are in the environment, as for :class:`arena_robot.models.chat.ChatClient`.
    """
    if not (os.environ.get('ARENA_MODEL_URL') and os.environ.get('ARENA_MODEL')):
        return 0
    left = config.categorise_per_day - categories.by_model_in_a_day()
    most = max(0, min(left, AT_ONCE))
    return len(categories.unseen('', '', most)) if most else 0


def background_work(config: ServerConfig, functions: BackgroundFunctions, results: Results,
                    database: Database, clock: Clock) -> dict[str, BackgroundWork]:
    """Return what the configuration asks for, by name."""
    works: dict[str, BackgroundWork] = {}
    if config.report_every > 0 and functions.reports:
        reports = Reports(database, clock)
        works['reports'] = BackgroundWork(config, 'reports', functions.reports,
                                          lambda: reports_are_due(config, results, reports))
    if config.categorise_per_day > 0 and functions.categories:
        kept = Categories(database, clock)
        works['categories'] = BackgroundWork(config, 'categories', functions.categories,
                                             lambda: sessions_to_categorise(config, kept))
    return works
