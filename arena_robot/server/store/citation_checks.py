"""What people say of the citations of a report: whether a session is about its statement."""

from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.core.clock import Clock
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import citation_checks


@dataclass(frozen=True)
class CitationOpinion:
    """How many people say that a citation holds, and how many that it does not."""

    holds: int = 0
    fails: int = 0


class CitationChecks:
    """Stores and reads; a person may change her mind, the newest word counts."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, policy: str, number: int, place: str, holds: bool, actor: str) -> None:
        """Store what a person says of the citation at ``place`` of a report."""
        with self._database.write() as connection:
            connection.execute(sa.insert(citation_checks).values(
                policy=policy, number=number, place=place, holds=holds, actor=actor,
                created_ns=self._clock.now_ns()))

    def of(self, policy: str, number: int) -> dict[str, CitationOpinion]:
        """Return what people say of a report's citations, by place."""
        c = citation_checks.c
        newest = sa.select(sa.func.max(c.id)).where(
            c.policy == policy, c.number == number).group_by(c.place, c.actor)
        query = sa.select(c.place, c.holds, sa.func.count().label('n')).where(
            c.id.in_(newest)).group_by(c.place, c.holds)
        found: dict[str, dict[bool, int]] = {}
        with self._database.read() as connection:
            for row in connection.execute(query):
                found.setdefault(row.place, {})[bool(row.holds)] = row.n
        return {place: CitationOpinion(said.get(True, 0), said.get(False, 0))
                for place, said in found.items()}
