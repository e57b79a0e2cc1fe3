"""Databases for the server's tests: SQLite always, PostgreSQL where its programs are found."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from arena_setting import NAMES, Setting

from arena_robot.core.clock import ManualClock
from arena_robot.policy.examples.echo import Echo
from arena_robot.policy.examples.frozen import Frozen
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.server.store.database import Database

PLACES = sorted(Path('/usr/lib/postgresql').glob('*/bin')) if Path(
    '/usr/lib/postgresql').exists() else []


def program(name: str) -> str | None:
    found = shutil.which(name)
    return found or next((str(p / name) for p in reversed(PLACES) if (p / name).exists()), None)


def as_nobody() -> dict[str, object]:
    """PostgreSQL refuses to run as root; the tests then run it as an unprivileged user."""
    if os.geteuid() != 0:
        return {}
    return {'user': 'nobody', 'group': 'nogroup', 'extra_groups': []}


def started(command, folder, environment, who):
    """Return a PostgreSQL that answers; it fails with its own words."""
    with (folder / 'said').open('wb') as said:
        server = subprocess.Popen(command, cwd=folder, env=environment, stderr=said, stdout=said,
                                  **who)
    deadline = time.monotonic() + 20.0
    while not (folder / '.s.PGSQL.5432').exists():
        if server.poll() is not None or time.monotonic() > deadline:
            words = (folder / 'said').read_text(errors='replace')
            pytest.fail(f'PostgreSQL did not start, its code is {server.poll()}: {words[-1000:]}')
        time.sleep(0.05)
    return server


@pytest.fixture(scope='session')
def postgres_server():
    initdb, postgres = program('initdb'), program('postgres')
    if not initdb or not postgres:
        pytest.skip("PostgreSQL's initdb and postgres are missing: apt-get install postgresql")
    pytest.importorskip('psycopg', reason='psycopg is missing: pip install psycopg[binary]')
    folder = Path(tempfile.mkdtemp(prefix='arena-pg-'))
    if os.geteuid() == 0:
        shutil.chown(folder, 'nobody', 'nogroup')
    data, who = folder / 'data', as_nobody()
    environment = {**os.environ, 'LC_ALL': 'C.UTF-8', 'HOME': str(folder)}
    subprocess.run([initdb, '-D', str(data), '-U', 'arena', '-A', 'trust', '-E', 'UTF8',
                    '--no-sync'], check=True, cwd=folder, env=environment, timeout=60,
                   stdout=subprocess.DEVNULL, **who)
    server = started([postgres, '-D', str(data), '-k', str(folder), '-c', 'listen_addresses=',
                      '-c', 'fsync=off', '-c', 'max_connections=100'], folder, environment, who)
    yield folder
    server.send_signal(signal.SIGQUIT)  # nobody needs what it holds
    server.wait(20.0)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server):
    """Return the URL of an empty schema: a database of its own takes a second, and 7 MB."""
    import psycopg
    name = f'arena_{time.monotonic_ns()}'
    where = f'host={postgres_server} user=arena'
    for attempt in range(50):
        try:
            with psycopg.connect(f'{where} dbname=postgres', autocommit=True) as connection:
                connection.execute(f'CREATE SCHEMA {name}')
            break
        except psycopg.OperationalError:
            if attempt == 49:
                raise
            time.sleep(0.1)
    return (f'postgresql+psycopg://arena@/postgres?host={postgres_server}'
            f'&options=-csearch_path%3D{name}')


@pytest.fixture(scope='session')
def migrated(tmp_path_factory):
    """Return an empty SQLite database: a test's copy needs no migration of its own."""
    path = tmp_path_factory.mktemp('migrated') / 'arena.db'
    with Database(f'sqlite:///{path}'):
        pass
    assert [one.name for one in path.parent.iterdir()] == [path.name], 'a journal is left'
    return path


@pytest.fixture(params=['sqlite', 'postgresql'])
def database_url(request, tmp_path, migrated):
    if request.param == 'postgresql':
        return request.getfixturevalue('postgres_url')
    return f'sqlite:///{shutil.copy(migrated, tmp_path)}'


@pytest.fixture(params=['sqlite', pytest.param('postgresql', marks=pytest.mark.skipif(
    'ARENA_TEST_WALKS' not in os.environ,
    reason='test_many_servers kills server processes on PostgreSQL; also: make walks'))])
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
    with GrpcPolicyServer(Echo()) as one, GrpcPolicyServer(Frozen()) as two, \
            OpenpiPolicyServer(Echo()) as three:
        yield dict(zip(NAMES, (one.address, two.address, three.address), strict=True))


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
