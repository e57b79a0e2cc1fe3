"""What is known of rollouts beside their result: reruns, and waits for the policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.episode import Slot
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import episodes, sessions


@dataclass(frozen=True)
class RolloutNotes:
    """
    Notes on one rollout.

    ``reruns`` is how often its slot was run again, as its station said. ``waited`` is the share
    of its steps in which the arm held because the policy had not answered, as the relay saw it;
    None: not known.
    """

    reruns: int
    waited: float | None


def rollout_notes(database: Database,
                  session_ids: Sequence[str]) -> dict[str, dict[str, RolloutNotes]]:
    """Return the notes by session and slot; an imported session is not in it: nobody knows."""
    e = episodes.c
    query = sa.select(e.session_id, e.slot, e.reruns, e.waited).select_from(
        episodes.join(sessions)).where(
        e.session_id.in_(session_ids), e.slot.in_([slot.value for slot in Slot]),
        sa.not_(sessions.c.imported))
    found: dict[str, dict[str, RolloutNotes]] = {}
    with database.read() as connection:
        for row in connection.execute(query):
            found.setdefault(row.session_id, {})[row.slot] = RolloutNotes(row.reruns, row.waited)
    return found


def note_waits(connection: Connection, session_id: str, waited: Mapping[str, float]) -> None:
    """Store the share of waiting of a session's rollouts, by slot."""
    for slot, share in waited.items():
        connection.execute(sa.update(episodes).where(
            episodes.c.session_id == session_id, episodes.c.slot == slot).values(waited=share))
