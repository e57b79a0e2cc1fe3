"""What a session costs the database, as sessions are stored: as much after many as after few."""

import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from arena_setting import STATION, Setting, query, run

from arena_robot.core.clock import DAY_NS
from arena_robot.core.episode import Slot
from arena_robot.server.app import POOLS
from arena_robot.server.store.database import Database
from arena_robot.server.store.relayed import newest_of_policy
from arena_robot.server.store.schema import metadata
from arena_robot.session.arena.contract import PROMPT

MANY = 1500
EACH = 10    # instructions of SQLite's virtual machine between two calls of the counter
GROWING = ('sessions', 'episodes', 'relayed', 'relay_notes', 'files', 'manifests', 'entries',
           'audit', 'log')


class Instructions:
    """Counts the instructions of SQLite in the threads that serve calls."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self, connection, record) -> None:
        connection.set_progress_handler(self.add, EACH)

    def add(self) -> int:
        if threading.current_thread().name.startswith(tuple(POOLS)):
            self.count += EACH
        return 0

    def of(self, work: Callable[[], object]) -> int:
        before = self.count
        work()
        return self.count - before


@pytest.fixture
def instructions() -> Iterator[Instructions]:
    made = Instructions()
    sa.event.listen(sa.pool.Pool, 'connect', made.listen)
    yield made
    sa.event.remove(sa.pool.Pool, 'connect', made.listen)


@pytest.fixture
def lite(tmp_path, pool, instructions):
    # What the ranking knows is read again for every session that counts; here nobody asks.
    made = Setting(tmp_path / 'server', '', pool, informative=False)
    yield made
    made.close()


def renamed(value: object, old: str, new: str) -> object:
    return value.replace(old, new) if isinstance(value, str) else value


def copy(database: Database, session_id: str, times: int) -> None:
    """Store a session so many times more, with all that belongs to it."""
    with database.write() as connection:
        for table in (metadata.tables[name] for name in GROWING):
            stored = [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            mine = [row for row in stored
                    if any(session_id in str(value) for value in row.values())]
            assert mine, table.name
            made = [{key: renamed(value, session_id, f'{k:036}') for key, value in row.items()
                     if (table.name, key) == ('sessions', 'id') or key != 'id'}
                    for k in range(times) for row in mine]
            for k, row in enumerate(made):
                if table.name == 'sessions':
                    row['created_ns'] -= 2 * DAY_NS    # a day's quota bounds those of today
                row.update({key: f'{key}-{k}' for key in ('request', 'token_a', 'token_b')
                            if key in row})
                if table.name == 'log':
                    row['number'] = len(stored) + k
            connection.execute(sa.insert(table), made)


def test_a_session_costs_as_much_after_many_as_after_few(lite, instructions, tmp_path):
    arena = lite.arena()
    for _ in range(2):    # two are open all the time
        pair = arena.assign(STATION, 'ada', PROMPT)
        for slot in Slot:
            query(arena, pair.session_id, slot)
    first = run(arena, tmp_path)
    few = instructions.of(lambda: run(arena, tmp_path))
    copy(lite.server.database, first, MANY)
    many = instructions.of(lambda: run(arena, tmp_path))
    assert few > 1000, 'nothing was counted'
    assert many < 1.5 * few


def test_a_policy_is_judged_with_the_same_statements_after_many_sessions(lite):
    """Each connection keeps the statements that it prepared: other texts fill the memory."""
    arena, executed, here = lite.arena(), [], threading.current_thread()
    database = lite.server.database
    sa.event.listen(database._opened(), 'before_cursor_execute', lambda _, __, text, *rest:
                    executed.append(text) if threading.current_thread() is here else None)

    def statements(policy_id: int) -> list[str]:
        executed.clear()
        with database.read() as connection:
            assert newest_of_policy(connection, policy_id, 3)
        return list(executed)

    kept, policy_id = [], 0
    for _ in range(4):
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        for slot in Slot:
            query(arena, session_id, slot)
        lite.server.record.flush()
        policy_id = policy_id or lite.server.sessions.get(session_id).policy_a_id
        kept.append(statements(policy_id))
    assert kept[-1] == kept[0]
