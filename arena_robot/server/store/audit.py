"""The append-only record of who asked for what, and how it ended."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from arena_robot.core.clock import Clock
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import audit

DETAIL_CHARS = 1000    # an error that quotes its input must not fill the log


@dataclass(frozen=True)
class AuditLine:
    """One call: ``outcome`` is ``'ok'`` or the code of the error."""

    created_ns: int
    actor: str
    call: str
    target: str
    outcome: str
    detail: str


class Audit:
    """
    Writes lines and reads them back; there is no way to change one (triggers refuse).

    Lines of calls that end at the same time are committed together: many callers, one wait for
    the disk. ``write`` returns when its line is safe.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: list[tuple[dict[str, Any], Future[None]]] = []
        self._lock = threading.Lock()
        self._committing = threading.Lock()

    def write(self, actor: str, call: str, target: str, outcome: str, detail: str = '') -> None:
        """Append a line."""
        row = {'created_ns': self._clock.now_ns(), 'actor': actor[:210], 'call': call[:100],
               'target': target[:210], 'outcome': outcome[:50], 'detail': detail[:DETAIL_CHARS]}
        mine: Future[None] = Future()
        with self._lock:
            self._waiting.append((row, mine))
        with self._committing:
            # Whoever held the lock before may have committed this line with its own.
            if not mine.done():
                self._commit()
        mine.result()

    def _commit(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            with self._database.write() as connection:
                connection.execute(sa.insert(audit), [row for row, _ in batch])
        except BaseException as error:
            for _, waiter in batch:
                waiter.set_exception(error)
            return
        for _, waiter in batch:
            waiter.set_result(None)

    def lines(self, limit: int = 100) -> list[AuditLine]:
        """Return the newest lines first."""
        query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [AuditLine(**{k: v for k, v in row.items() if k != 'id'}) for row in rows]
