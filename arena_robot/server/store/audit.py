"""
What callers ask for: the append-only record of calls and their ends, and counts for rates.

Counts are what callers took at all servers of a database in the last seconds.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ServerError
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.schema import audit, rate_counts

DETAIL_CHARS = 1000    # an error that quotes its input must not fill the log
PERIOD_S = 10       # a row per caller and ten seconds: the table stays small
KEPT = 1            # whole periods beside the one that runs
WAIT_MS = 2000      # for the database, then the counts of a second are given up

CallerKey = tuple[str, str]       # kind of rate, hash of the caller
CountKey = tuple[str, str, int]   # and period


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


class RateCounts:
    """
    Counts by kind, caller and period of ten seconds, on the clock of a PostgreSQL.

    SQLite, which one server uses, has the table and never a row.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.shared = not database.is_sqlite

    def exchange(self, taken: Mapping[CallerKey, int]) -> tuple[dict[CountKey, int], int]:
        """
        Add what was taken here; return the counts of all servers, and the running period.

        ServerError when the database does not answer.
        """
        try:
            return self._exchanged(taken)
        except sa.exc.SQLAlchemyError as error:
            raise ServerError(str(error)) from error

    def _exchanged(self, taken: Mapping[CallerKey, int]) -> tuple[dict[CountKey, int], int]:
        with self._database.write() as connection:
            # A lost second of counts does no harm: nothing waits for the disk.
            connection.execute(sa.text('SET LOCAL synchronous_commit TO OFF'))
            connection.execute(sa.text(f'SET LOCAL statement_timeout TO {WAIT_MS}'))
            period = _period(connection)
            if taken:
                connection.execute(_addition(taken, period))
            rows = connection.execute(sa.select(
                rate_counts.c.kind, rate_counts.c.caller, rate_counts.c.period,
                rate_counts.c.count).where(rate_counts.c.period >= period - KEPT)).all()
        return {(kind, caller, its): count for kind, caller, its, count in rows}, period

    def clean(self) -> None:
        """Remove periods that no server reads any more."""
        with self._database.write() as connection:
            connection.execute(sa.delete(rate_counts).where(
                rate_counts.c.period < _period(connection) - KEPT))


def _period(connection: Connection) -> int:
    return int(connection.execute(sa.text(
        f'SELECT floor(extract(epoch FROM now()) / {PERIOD_S})')).scalar_one())


def _addition(taken: Mapping[CallerKey, int], period: int) -> sa.Executable:
    # In one order at all servers: two that add to the same rows do not wait for each other.
    added = insert(rate_counts).values([
        {'kind': kind, 'caller': caller, 'period': period, 'count': count}
        for (kind, caller), count in sorted(taken.items())])
    return added.on_conflict_do_update(
        index_elements=['kind', 'caller', 'period'],
        set_={'count': rate_counts.c.count + added.excluded.count})
