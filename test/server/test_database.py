import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from arena_robot.core.errors import ConfigError, ServerError
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.database import Database, alembic_config
from arena_robot.server.store.schema import NEWEST, audit, metadata

RELEASE = Path(__file__).parent.parent / 'data' / '0.1.0'
NEWEST_SCHEMA = ScriptDirectory.from_config(alembic_config()).get_current_head()


def check_schema(database):
    def is_here(item, name, kind, reflected, compared):
        return name not in NEWEST or NEWEST[name][0] == connection.dialect.name

    with database.read() as connection:
        difference = compare_metadata(MigrationContext.configure(
            connection, opts={'include_object': is_here}), metadata)
        names = {index['name'] for index in sa.inspect(connection).get_indexes('sessions')}
    assert difference == []
    assert {name for name in NEWEST if name in names} == {
        name for name, (dialect, _) in NEWEST.items() if dialect == connection.dialect.name}


def test_a_new_database_has_the_schema(database):
    check_schema(database)


def test_a_database_of_0_1_0_is_migrated_to_the_schema(tmp_path):
    shutil.copyfile(RELEASE / 'arena.db', tmp_path / 'arena.db')
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        check_schema(database)


def test_a_postgresql_database_of_0_1_0_is_migrated_to_the_schema(postgres_url):
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql((RELEASE / 'postgresql.sql').read_text(encoding='utf-8'))
    engine.dispose()
    with Database(postgres_url) as database:
        check_schema(database)


def test_a_migration_that_fails_on_the_way_leaves_nothing(tmp_path):
    database = Database(f'sqlite:///{tmp_path}/arena.db')
    with sqlite3.connect(tmp_path / 'arena.db') as before:
        before.execute('CREATE TABLE sessions (odd INTEGER)')
    with pytest.raises(sa.exc.DBAPIError, match='sessions'):
        database.open()
    assert database.version() is None, 'a migration that failed was kept'
    with database.read() as connection:
        assert sa.inspect(connection).get_table_names() == ['sessions']
    with database.write() as connection:
        connection.exec_driver_sql('DROP TABLE sessions')
    database.close()
    with database:
        assert database.version() == NEWEST_SCHEMA


def test_opening_again_migrates_nothing(database_url):
    for _ in range(2):
        with Database(database_url) as database:
            assert database.version() == NEWEST_SCHEMA


@pytest.mark.parametrize('url', ['sqlite:////proc/nowhere/x.db', 'nonsense',
                                 'postgresql+psycopg://arena:secret@127.0.0.1:1/x'])
def test_a_database_that_cannot_be_opened(url):
    database = Database(url)
    with pytest.raises(ConfigError, match='cannot open the database') as caught:
        database.open()
    assert 'secret' not in str(caught.value)


def test_a_closed_database_says_so(tmp_path):
    with pytest.raises(ServerError, match='not open'), Database(
            f'sqlite:///{tmp_path}/x.db').read():
        pass


def test_a_failed_transaction_leaves_nothing(database, clock):
    Audit(database, clock).write('a', 'b', 'c', 'ok')
    def fails_on_the_way():
        with database.write() as connection:
            connection.execute(sa.insert(audit).values(
                created_ns=1, actor='x', call='x', target='x', outcome='x', detail=''))
            raise RuntimeError('on the way')

    with pytest.raises(RuntimeError):
        fails_on_the_way()
    assert [line.actor for line in Audit(database, clock).lines()] == ['a']


def test_the_queries_of_one_reading_see_one_state(database, clock):
    log = Audit(database, clock)
    log.write('a', 'b', 'c', 'ok')
    count = sa.select(sa.func.count()).select_from(audit)
    with database.read() as connection:
        before = connection.execute(count).scalar()
        log.write('d', 'e', 'f', 'ok')
        assert connection.execute(count).scalar() == before == 1
    with database.read() as connection:
        assert connection.execute(count).scalar() == 2


def test_the_audit_log_only_grows(database, clock):
    Audit(database, clock).write('station:bench', 'assign', 'r1', 'ok', 'x' * 5000)
    for statement in (sa.update(audit).values(actor='nobody'), sa.delete(audit)):
        with pytest.raises(sa.exc.DBAPIError, match='append-only'), \
                database.write() as connection:
            connection.execute(statement)
    line, = Audit(database, clock).lines()
    assert (line.actor, line.outcome, len(line.detail)) == ('station:bench', 'ok', 1000)
