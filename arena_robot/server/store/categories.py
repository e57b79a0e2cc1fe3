"""Who said of which kind a task is: rules, a model, or a maintainer, whose word counts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import DataError
from arena_robot.core.task_categories import CATEGORIES, PERSON, RULES
from arena_robot.server.base import UnknownSession
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import categories, sessions
from arena_robot.server.store.verdicts import that_counts


@dataclass(frozen=True)
class StoredCategory:
    """
    What was said of a session: ``method`` is rules, model or person, ``actor`` that person.

    Rules with a ``model`` stand where that model gave no fitting answer.

    ``scene`` are words on lighting, clutter, visibility and objects, where a model saw pictures.
    """

    category: str
    method: str = RULES
    model: str = ''
    prompt_version: str = ''
    confidence: float | None = None
    scene: Mapping[str, Any] = field(default_factory=dict)
    actor: str = ''


class Categories:
    """Stores and reads; the category that counts is also in the session's row."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def store(self, session_id: str, said: StoredCategory) -> bool:
        """
        Store what was said; return whether it counts: a person's word is changed by a person only.

        DataError for an unknown category, UnknownSession for an unknown session.
        """
        if said.category not in CATEGORIES:
            raise DataError(f"there is no category '{said.category:.60}'; known: "
                            f"{', '.join(CATEGORIES)}")
        with self._database.write() as connection:
            if connection.execute(sa.select(sessions.c.id).where(
                    sessions.c.id == session_id)).first() is None:
                raise UnknownSession(f'there is no session {session_id:.40}')
            before = _newest(connection, session_id, PERSON)
            connection.execute(sa.insert(categories).values(
                session_id=session_id, category=said.category, method=said.method,
                model=said.model, prompt_version=said.prompt_version, confidence=said.confidence,
                scene=json.dumps(dict(said.scene), ensure_ascii=False), actor=said.actor,
                created_ns=self._clock.now_ns()))
            counts = said.method == PERSON or before is None
            if counts:
                connection.execute(sa.update(sessions).where(
                    sessions.c.id == session_id).values(category=said.category))
        return counts

    def of(self, session_id: str) -> StoredCategory | None:
        """Return what counts of what was said; None where the rules alone spoke."""
        with self._database.read() as connection:
            return _newest(connection, session_id, PERSON) or _newest(connection, session_id)

    def unseen(self, model: str, prompt_version: str, limit: int) -> list[tuple[str, str]]:
        """Return (session, prompt) of sessions this model, '': any, has not seen, newest first."""
        c = categories.c
        seen = sa.exists().where(c.session_id == sessions.c.id, *(
            [c.model == model, c.prompt_version == prompt_version] if model else
            [c.model != '']))
        with self._database.read() as connection:
            rows = connection.execute(sa.select(sessions.c.id, sessions.c.prompt).where(
                that_counts(), sa.not_(seen)).order_by(
                sessions.c.created_ns.desc(), sessions.c.id).limit(limit)).all()
        return [(row.id, row.prompt) for row in rows]

    def by_model_in_a_day(self) -> int:
        """Return how many sessions a model categorised in the last 24 hours."""
        with self._database.read() as connection:
            return int(connection.execute(sa.select(sa.func.count()).where(
                categories.c.model != '',
                categories.c.created_ns > self._clock.now_ns() - DAY_NS)).scalar_one())


def category_version(connection: Connection) -> int:
    """Return what changes with every category that is stored."""
    return int(connection.execute(sa.select(sa.func.coalesce(
        sa.func.max(categories.c.id), 0))).scalar_one())


def _newest(connection: Connection, session_id: str, method: str = '') -> StoredCategory | None:
    c = categories.c
    row = connection.execute(sa.select(categories).where(
        c.session_id == session_id, *([c.method == method] if method else [])).order_by(
        c.id.desc()).limit(1)).first()
    return None if row is None else StoredCategory(
        row.category, row.method, row.model, row.prompt_version, row.confidence,
        json.loads(row.scene), row.actor)
