"""Sessions that count with everything their evaluators said, for reports."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.core.episode import Slot
from arena_robot.core.verdict import NAMES, Verdict, from_plain
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import accounts, episodes, policies, sessions
from arena_robot.server.store.verdicts import that_counts


@dataclass(frozen=True)
class CountedSession:
    """
    One session; ``slots`` are (end reason, steps) by slot, ``imported`` has no end reasons.

    ``waited`` are the shares of steps in which the arm waited for its policy, where known.
    """

    id: str
    created_ns: int
    prompt: str
    category: str
    policy_a: str
    policy_b: str
    institution: str
    evaluator: str
    imported: bool
    verdict: Verdict
    slots: Mapping[str, tuple[str, int]]
    waited: Mapping[str, float]


def counted_sessions(database: Database) -> list[CountedSession]:
    """Return every session whose verdict counts, oldest first."""
    a, b, s = policies.alias('a'), policies.alias('b'), sessions.c
    query = sa.select(
        s.id, s.created_ns, s.prompt, s.category, a.c.name.label('policy_a'),
        b.c.name.label('policy_b'), s.institution, accounts.c.name.label('evaluator'),
        s.imported, *(s[name] for name in NAMES)).select_from(
        sessions.join(a, s.policy_a_id == a.c.id).join(b, s.policy_b_id == b.c.id)
        .join(accounts, s.evaluator_id == accounts.c.id)).where(that_counts()).order_by(
        s.created_ns, s.id)
    e = episodes.c
    rollouts = sa.select(e.session_id, e.slot, e.end_reason, e.steps, e.waited).select_from(
        episodes.join(sessions, e.session_id == s.id)).where(
        that_counts(), e.slot.in_([slot.value for slot in Slot])).order_by(e.id)
    slots: dict[str, dict[str, tuple[str, int]]] = {}
    waited: dict[str, dict[str, float]] = {}
    with database.read() as connection:
        for one in connection.execute(rollouts):
            slots.setdefault(one.session_id, {})[one.slot] = (one.end_reason, one.steps)
            if one.waited is not None:
                waited.setdefault(one.session_id, {})[one.slot] = one.waited
        return [CountedSession(
            **{str(k): v for k, v in row.items() if k not in NAMES},
            verdict=from_plain({**row}), slots=slots.get(row['id'], {}),
            waited=waited.get(row['id'], {}))
            for row in connection.execute(query).mappings()]
