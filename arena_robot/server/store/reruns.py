"""How often the slots of sessions were run again, as their stations said."""

from collections.abc import Sequence

import sqlalchemy as sa

from arena_robot.core.episode import Slot
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import episodes, sessions


def reruns(database: Database, session_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the reruns by session and slot; an imported session is not in it: nobody knows."""
    e = episodes.c
    query = sa.select(e.session_id, e.slot, e.reruns).select_from(episodes.join(sessions)).where(
        e.session_id.in_(session_ids), e.slot.in_([slot.value for slot in Slot]),
        sa.not_(sessions.c.imported))
    found: dict[str, dict[str, int]] = {}
    with database.read() as connection:
        for row in connection.execute(query):
            found.setdefault(row.session_id, {})[row.slot] = row.reruns
    return found
