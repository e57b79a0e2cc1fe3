"""What callers took from their rates at all servers of a database, in the last seconds."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from arena_robot.core.errors import ServerError
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.schema import rate_counts

PERIOD_S = 10       # a row per caller and ten seconds: the table stays small
KEPT = 1            # whole periods beside the one that runs
WAIT_MS = 2000      # for the database, then the counts of a second are given up

CallerKey = tuple[str, str]       # kind of rate, hash of the caller
CountKey = tuple[str, str, int]   # and period


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
