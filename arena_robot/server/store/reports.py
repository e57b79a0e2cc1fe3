"""Reports on policies, kept under a number that stays, and what people say of their citations."""

from dataclasses import dataclass

import sqlalchemy as sa

from arena_robot.core.clock import Clock
from arena_robot.server.base import UnknownSession
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import citation_checks, reports


@dataclass(frozen=True)
class StoredReport:
    """One report; ``content`` is its JSON, empty in a list."""

    policy: str
    number: int
    sessions: int
    method: str
    created_ns: int
    content: str = ''


class Reports:
    """Stores and reads reports."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, policy: str, sessions: int, method: str, content: str) -> StoredReport:
        """Store a report under the next number of its policy."""
        c = reports.c
        with self._database.write() as connection:
            last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(c.number), 0)).where(
                c.policy == policy)).scalar_one()
            made = StoredReport(policy, int(last) + 1, sessions, method, self._clock.now_ns(),
                                content)
            connection.execute(sa.insert(reports).values(**made.__dict__))
        return made

    def get(self, policy: str, number: int = 0) -> StoredReport:
        """Return a report, 0 is the newest; UnknownSession when there is none."""
        c = reports.c
        with self._database.read() as connection:
            row = connection.execute(sa.select(reports).where(
                c.policy == policy, *([c.number == number] if number else [])).order_by(
                c.number.desc()).limit(1)).mappings().first()
        if row is None:
            raise UnknownSession(f'there is no such report on {policy:.100} yet')
        return StoredReport(**{str(k): v for k, v in row.items() if k != 'id'})

    def list(self, policy: str, most: int = 50) -> list[StoredReport]:
        """Return the newest reports on a policy without their content."""
        c = reports.c
        query = sa.select(c.policy, c.number, c.sessions, c.method, c.created_ns).where(
            c.policy == policy).order_by(c.number.desc()).limit(most)
        with self._database.read() as connection:
            return [StoredReport(*row) for row in connection.execute(query)]

    def covered(self) -> dict[str, int]:
        """Return how many sessions the newest report on each policy is about."""
        c = reports.c
        newest = sa.select(c.policy, sa.func.max(c.number).label('number')).group_by(
            c.policy).subquery()
        with self._database.read() as connection:
            return {row.policy: row.sessions for row in connection.execute(
                sa.select(c.policy, c.sessions).join(newest, sa.and_(
                    c.policy == newest.c.policy, c.number == newest.c.number)))}


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
        opinions: dict[str, dict[bool, int]] = {}
        with self._database.read() as connection:
            for row in connection.execute(query):
                opinions.setdefault(row.place, {})[bool(row.holds)] = row.n
        return {place: CitationOpinion(said.get(True, 0), said.get(False, 0))
                for place, said in opinions.items()}
