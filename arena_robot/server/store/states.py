"""How many sessions and policies there are in each state."""

import sqlalchemy as sa

from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import policies, sessions


def session_states(database: Database) -> dict[str, int]:
    """Return the number of sessions by state."""
    return _count(database, sessions)


def policy_states(database: Database) -> dict[str, int]:
    """Return the number of policies by state."""
    return _count(database, policies)


def _count(database: Database, table: sa.Table) -> dict[str, int]:
    query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
    with database.read() as connection:
        return {str(state): int(count) for state, count in connection.execute(query)}
