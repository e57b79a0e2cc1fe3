"""
Deletion of uploaded content, with a tombstone: the log keeps the hash of what is gone.

A session that counts goes on counting: what the log says of it stays, and a new entry says which
files were deleted, why, and when. ``arena results verify`` checks that entry like any other.
Files are marked in the database first and deleted after that; :meth:`FileEraser.step` deletes what
a kill in between has left, and what is older than the server keeps files of a station.
"""

from collections.abc import Mapping

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import DataError
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId
from arena_robot.server.store import files as store
from arena_robot.server.store import log as entries
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Database
from arena_robot.server.store.uploads import SLOTS, Uploads
from arena_robot.server.transparency.keys import LogKey
from arena_robot.server.transparency.log import TransparencyLog, erasure_entry

MAX_REASON = 500
AT_ONCE = 100    # sessions that one step looks at, so that other chores get their turn


class FileEraser:
    """Deletes the files of sessions; ``keep_days`` by station, '' for the others, 0 for ever."""

    def __init__(self, database: Database, blobs: Blobs, uploads: Uploads, log: TransparencyLog,
                 clock: Clock, keep_days: Mapping[str, int]) -> None:
        self._database, self._blobs, self._uploads = database, blobs, uploads
        self._log, self._clock, self._keep_days = log, clock, keep_days
        self._audit = Audit(database, clock)

    def erase(self, session_id: str, slot: str, reason: str, author: str) -> int:
        """
        Delete the files of a slot (``A``, ``B``, ``-`` for the session's own, '' for all).

        Returns how many. DataError when there are none, or without a reason.
        """
        reason = ' '.join(reason.split())
        if not 0 < len(reason) <= MAX_REASON:
            raise DataError(f'a reason has 1 to {MAX_REASON} characters; it is public in the log')
        if slot and slot not in SLOTS:
            raise DataError(f"a slot is A, B or '-', found '{slot:.20}'")
        now = self._clock.now_ns()
        with self._database.write() as connection:
            store.lock_session(connection, session_id)
            rows = [row for row in store.of_session(connection, session_id)
                    if not row.erased and slot in ('', row.file.slot)]
            if not rows:
                raise DataError(f'session {session_id:.40} has no file to delete'
                                + (f' in slot {slot}' if slot else ''))
            store.mark_erased(connection, [row.file for row in rows], now)
            if entries.of_session(connection, session_id):
                self._log.append(connection, [(session_id, erasure_entry(
                    session_id, author, reason, {row.file.key: row.sha256 for row in rows},
                    now))])
        self._audit.write(author, 'erase', f'{session_id} {slot or "all"}: {reason}', 'ok')
        for row in rows:
            self._delete(row.file)
        return len(rows)

    def step(self) -> None:
        """Delete what an earlier run left behind, and what was kept long enough."""
        with self._database.read() as connection:
            left = store.erased_since(connection, self._clock.now_ns() - DAY_NS)
        for file in left:
            self._delete(file)
        named = [name for name in self._keep_days if name]
        for name, days in self._keep_days.items():
            if not days:
                continue
            with self._database.read() as connection:
                old = store.sessions_with_files(
                    connection, self._clock.now_ns() - days * DAY_NS, AT_ONCE, name, named)
            for session_id in old:
                self.erase(session_id, '', f'files are kept for {days} days', 'retention')

    def _delete(self, file: FileId) -> None:
        self._uploads.forget_part(file)
        self._blobs.remove(file.key)


def eraser_of(config: ServerConfig, database: Database, clock: Clock) -> FileEraser:
    """Return the eraser of a server's database and store, for a person at its machine."""
    blobs = Blobs(config.blobs_url())
    blobs.open()
    log = TransparencyLog(database, LogKey(config.data / 'log.key'), clock)
    return FileEraser(database, blobs, Uploads(database, blobs, config.data / 'spool', clock), log,
                      clock, {})
