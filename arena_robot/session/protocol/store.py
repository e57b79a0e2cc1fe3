"""
Session folders: ``<root>/<session id>/`` with a journal and its summary ``session.json``.

A session without an id is in ``<root>/pending-…/``, which is renamed when it gets one.
"""

import datetime
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from arena_robot.core.clock import Clock, to_iso
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, SessionError
from arena_robot.core.files import move, sync_folder
from arena_robot.records.episode_file import earlier_home
from arena_robot.records.session_file import (
    JOURNAL,
    SESSION_FILE,
    SessionFile,
    Source,
    read_session,
    write_session,
)
from arena_robot.session.protocol.journal import Journal
from arena_robot.session.protocol.machine import Session
from arena_robot.session.protocol.record import SessionRecord, replay
from arena_robot.session.protocol.salvage import PENDING, mend_journal, read_record
from arena_robot.session.protocol.states import State

LOCK = '.lock'

log = logging.getLogger(__name__)


class InUse(SessionError):
    """Another process runs sessions in the folder."""


class KeptSession(Session):
    """A session with its folder; ``close`` closes the journal."""

    def __init__(self, journal: Journal, record: SessionRecord | None = None) -> None:
        super().__init__(journal, record)
        self._journal = journal
        self.is_open = True

    @property
    def folder(self) -> Path:
        """Return the session's folder."""
        return self._journal.path.parent

    def adopt_id(self) -> None:
        """Rename a pending folder to the session's id, once it has one."""
        folder = self.folder
        if folder.name.startswith(PENDING) and self.record.session_id:
            home = folder.with_name(self.record.session_id)
            self._journal.move_folder(home, _move_into if home.exists() else move)

    def rerun(self, reason: str = '', folder: str = '') -> SessionRecord:
        """Run the slot that has just ended again; the recorder will move its recording."""
        slot = Slot.A if self.state is State.SCORING_A else Slot.B
        home = earlier_home(self.folder / slot.value)
        return super().rerun(reason, folder or (home.name if home else ''))

    def write_summary(self) -> None:
        """Write ``session.json`` from the record, atomically."""
        write_session(self.folder, session_file(self.record))

    def close(self) -> None:
        """Close the journal; can be called twice."""
        self.is_open = False
        self._journal.close()


class SessionStore:
    """The folder of all sessions of a station."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root = root
        self._clock = clock
        self._lock = -1
        self._days: dict[Path, tuple[tuple[int, int], datetime.date]] = {}

    def hold(self) -> None:
        """
        Make this process the only one that runs sessions in the folder, until :meth:`release`.

        SessionError when another one does, or when nothing can be written there.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SessionError(f'nothing can be written to {self.root} ({error.strerror}); free '
                               'some space or change its owner') from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise InUse(f'another session node keeps its sessions in {self.root}; stop that one, '
                        'or give this one its own data_dir') from error
        self._lock = lock

    def release(self) -> None:
        """Let another process have the folder; can be called twice."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def begin(self) -> KeptSession:
        """Return a new session without an id, its journal open."""
        folder = self.root / f'{PENDING}{self._clock.now_ns()}-{secrets.token_hex(4)}'
        journal = Journal(folder / JOURNAL, self._clock)
        try:
            folder.mkdir(parents=True)
            sync_folder(self.root)
            journal.open()
        except OSError as error:
            raise SessionError(f'no session can be kept in {self.root} ({error.strerror}); free '
                               'some space or change its owner') from error
        return KeptSession(journal)

    def resume(self, folder: Path) -> KeptSession:
        """
        Return a session in the state of its journal, to be continued.

        A damaged journal is written anew from its readable lines.
        """
        mend_journal(folder / JOURNAL)
        journal = Journal(folder / JOURNAL, self._clock)
        journal.open()
        try:
            session = KeptSession(journal, replay(journal.entries))
            session.adopt_id()
        except BaseException:
            journal.close()
            raise
        return session

    def unfinished(self, tell: Callable[[str], None] = log.warning) -> list[Path]:
        """
        Return the folders of sessions that are neither done nor aborted, oldest first.

        Journals that cannot be read are passed to ``tell``. Where a process was killed between the
        last line of the journal and ``session.json``, that file is written now.
        """
        unfinished = []
        for journal in self._journals():
            folder, record = journal.parent, self._read(journal, tell)
            if record is None or record.state is State.IDLE:
                continue
            if not record.state.is_final:
                unfinished.append((record.created_ns, folder))
                continue
            try:
                _finish_summary(folder, record)
            except (ArenaError, OSError) as error:
                tell(f'{folder}: session.json could not be written: {error}')
        return [folder for _, folder in sorted(unfinished)]

    def today(self) -> list[SessionRecord]:
        """
        Return today's sessions (station's time zone), newest first.

        Of other days, only journals that are new or have changed since are read.
        """
        day, days, records = _day(self._clock.now_ns()), {}, []
        for journal in self._journals():
            version, known = _version(journal), self._days.get(journal)
            if known is not None and known[0] == version and known[1] != day:
                days[journal] = known
                continue
            record = self._read(journal)
            if record is None:
                continue
            if version is not None:
                days[journal] = version, _day(record.created_ns)
            if _day(record.created_ns) == day and record.state is not State.IDLE:
                records.append(record)
        self._days = days
        return sorted(records, key=lambda r: r.created_ns, reverse=True)

    def _journals(self) -> Iterator[Path]:
        yield from sorted(self.root.glob(f'*/{JOURNAL}'))

    def _read(self, journal: Path, tell: Callable[[str], None] = log.warning
              ) -> SessionRecord | None:
        try:
            return read_record(journal)
        except (ArenaError, OSError) as error:
            tell(f'left out a session that cannot be read: {error}')
            return None


def session_file(record: SessionRecord) -> SessionFile:
    """Return what ``session.json`` says of a session."""
    return SessionFile(
        record.session_id, Source.STATION, record.state.value, record.station, record.evaluator,
        record.prompt, to_iso(record.created_ns), to_iso(record.updated_ns), record.commitment,
        record.reveal, record.verified,
        {slot.value: rollout for slot, rollout in record.slots.items()}, record.verdict,
        record.checks, record.views, record.matches, record.match, record.reset_confirmed,
        record.draft, record.delivered, record.notice, record.clock_jumps_s, reruns=record.reruns,
        equal_latency=record.equal_latency, third_person=record.third_person,
        promises=record.promises, photo_code=record.photo_code, repairs=record.repairs,
        robot=record.robot)


def _finish_summary(folder: Path, record: SessionRecord) -> None:
    """Write the summary of a session that ended, if it still says that the session goes on."""
    summary, journal = folder / SESSION_FILE, folder / JOURNAL
    if summary.exists() and summary.stat().st_mtime_ns > journal.stat().st_mtime_ns:
        return
    if not summary.exists() or read_session(folder).state != record.state.value:
        write_session(folder, session_file(record))


def _move_into(folder: Path, home: Path) -> None:
    """Move what is in a folder into one that exists; the journal goes last."""
    if (home / JOURNAL).exists():
        raise SessionError(f'{home} holds another session of that id')
    for path in sorted(folder.iterdir(), key=lambda path: path.name == JOURNAL):
        ends = ('', *(f'_earlier_{k}' for k in range(1, 1000)))
        move(path, next(name for end in ends
                        if not (name := home / f'{path.name}{end}').exists()))
    folder.rmdir()


def _version(path: Path) -> tuple[int, int] | None:
    """Return what changes with the content of a file; None when it is gone."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def _day(stamp_ns: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(stamp_ns * 1e-9).astimezone().date()
