"""Databases for the server's tests: SQLite always, PostgreSQL where its programs are found."""

import os
import shutil
import time

import pytest
import sqlalchemy as sa
from arena_setting import NAMES, Setting
from postgres import postgres, program

from arena_robot.core.clock import ManualClock
from arena_robot.policy.examples.simple import Echo, Frozen
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.server.store.database import Database


@pytest.fixture(scope='session')
def postgres_server():
    """Return the URL of a PostgreSQL whose writes need not reach the disk."""
    pytest.importorskip('psycopg', reason='psycopg is missing: pip install psycopg[binary]')
    if not program('initdb'):
        pytest.skip("PostgreSQL's programs are missing: apt-get install postgresql")
    with postgres(durable=False) as url:
        yield url


@pytest.fixture
def postgres_urls(postgres_server):
    """Return a function that makes an empty schema: a database takes a second, and 7 MB."""
    def url():
        name = f'arena_{time.monotonic_ns()}'
        engine = sa.create_engine(postgres_server, isolation_level='AUTOCOMMIT')
        with engine.connect() as connection:
            connection.exec_driver_sql(f'CREATE SCHEMA {name}')
        engine.dispose()
        return f'{postgres_server}&options=-csearch_path%3D{name}'
    return url


@pytest.fixture
def postgres_url(postgres_urls):
    """Return the URL of an empty schema."""
    return postgres_urls()


@pytest.fixture(scope='session')
def migrated(tmp_path_factory):
    """Return an empty SQLite database: a test's copy needs no migration of its own."""
    path = tmp_path_factory.mktemp('migrated') / 'arena.db'
    with Database(f'sqlite:///{path}'):
        pass
    assert [file.name for file in path.parent.iterdir()] == [path.name], 'a journal is left'
    return path


@pytest.fixture(params=['sqlite', 'postgresql'])
def database_url(request, tmp_path, migrated):
    if request.param == 'postgresql':
        return request.getfixturevalue('postgres_url')
    return f'sqlite:///{shutil.copy(migrated, tmp_path)}'


@pytest.fixture(params=['sqlite', pytest.param('postgresql', marks=pytest.mark.skipif(
    'ARENA_TEST_WALKS' not in os.environ,
    reason='test/attack/test_campaign.py kills servers on PostgreSQL; also: make walks'))])
def process_url(request):
    """Return the database of a whole server process; '' is SQLite in its own folder."""
    return '' if request.param == 'sqlite' else request.getfixturevalue('postgres_url')


@pytest.fixture
def database(database_url):
    with Database(database_url) as opened:
        yield opened


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000 * 10**9)


@pytest.fixture(scope='session')
def pool():
    """Three policies on real sockets: two over gRPC, one over the openpi protocol."""
    with GrpcPolicyServer(Echo()) as first, GrpcPolicyServer(Frozen()) as second, \
            OpenpiPolicyServer(Echo()) as third:
        yield dict(zip(NAMES, (first.address, second.address, third.address), strict=True))


@pytest.fixture
def setting(tmp_path, database_url, pool):
    made = Setting(tmp_path / 'server', database_url, pool)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / 'episode'
    made.mkdir()
    (made / 'A_0.mcap').write_bytes(bytes(range(256)) * 5000)
    (made / 'metadata.yaml').write_text('version: 9\n')
    return made
