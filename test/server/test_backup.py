"""A backup of a server that runs, and its restore into an empty place: nothing is missing."""

import contextlib
import dataclasses
import hashlib
import json
import os
import random
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from arena_setting import Setting, run
from sqlalchemy.engine import make_url

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import ConfigError, Conflict, DataError
from arena_robot.core.pair import commitment
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.server.app import ArenaServer
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId
from arena_robot.server.store.database import Database
from arena_robot.server.store.snapshot import check_pages
from arena_robot.server.upkeep.backup import back_up, restore
from arena_robot.session.arena.contract import VERDICT

CLOCK = SystemClock()
# Where the files of the restore test are beside PostgreSQL. By hand, with a server of S3:
# FSSPEC_S3_ENDPOINT_URL=http://127.0.0.1:5000 ARENA_TEST_BLOBS=s3://arena pytest ...
OBJECTS = os.environ.get('ARENA_TEST_BLOBS', 'memory://arena')


@pytest.fixture(scope='module')
def filled(tmp_path_factory):
    """Return the folder of a server with two sessions, stopped, and a backup of it."""
    folder = tmp_path_factory.mktemp('filled')
    with GrpcPolicyServer(Echo()) as first, GrpcPolicyServer(Echo()) as second:
        setting = Setting(folder / 'server', '', {'crimson-7b': first.address,
                                                  'azure-fast': second.address})
        try:
            ids = [run(setting.arena(), folder / 'station') for _ in range(2)]
            setting.server.log.head()
            back_up(setting.config, folder / 'backup', CLOCK)
        finally:
            setting.close()
    return folder, ids


def test_sessions_go_on_while_a_backup_is_taken_and_all_of_it_comes_back(
        tmp_path, pool, database_url, request):
    places = [database_url, f'sqlite:///{tmp_path}/restored/arena.db']
    stores = ['', '']
    if database_url.startswith('postgresql'):
        if not shutil.which('pg_dump'):
            pytest.skip("PostgreSQL's pg_dump is missing: apt-get install postgresql-client")
        places = databases(folder_of(request.getfixturevalue('postgres_server')))
        stores = [f'{OBJECTS}/{time.monotonic_ns()}/{name}' for name in ('old', 'new')]
    setting = Setting(tmp_path / 'server', places[0], pool, blobs=stores[0])
    try:
        arena = setting.arena()
        before = [run(arena, tmp_path / 'station') for _ in range(2)]
        key = setting.server.log.head().key
        over = threading.Event()
        going = threading.Thread(target=lambda: [
            run(arena, tmp_path / 'station') for _ in iter(over.is_set, True)])
        going.start()
        try:
            backup = back_up(setting.config, tmp_path / 'backup', CLOCK)
            again = back_up(setting.config, tmp_path / 'backup', CLOCK)
        finally:
            over.set()
            going.join()
        assert again.sessions >= backup.sessions >= 2
    finally:
        setting.close()
    config = ServerConfig(data=tmp_path / 'restored', database=places[1], blobs=stores[1])
    assert not (tmp_path / 'backup' / 'secrets.key').exists()
    config.data.mkdir(mode=0o700)
    shutil.copy(setting.config.key_path(), config.key_path())    # kept in another place
    back = restore(config, tmp_path / 'backup', CLOCK)
    assert (back.sessions, back.files, back.bytes) == (again.sessions, again.files, again.bytes)
    check(config, before, key, setting.tokens['station'])


def check(config, ids, key, token):
    """A server on the restored data has the verdicts, the log, the files and the tokens."""
    config = dataclasses.replace(config, port=0, site_port=-1)
    with ArenaServer(config, CLOCK, lambda _: '', lambda _: '') as server:
        for session_id in ids:
            assert server.sessions.get(session_id).verdict == VERDICT
            data = b''.join(server.blobs.read(FileId(session_id, 'A', 'A_0.mcap').key))
            assert session_id.encode() in data
        assert server.log.head().key == key
        caller = server.accounts.caller(token)
        reveal = server.verdicts.reveal(caller, ids[0])
        assert commitment(reveal.nonce, reveal.policy_a, reveal.policy_b) == (
            server.sessions.get(ids[0]).commitment)
        assert server.log.size() >= len(ids)
        assert server.first_token() is None


def folder_of(url):
    """Return where a PostgreSQL has its socket and its files."""
    return Path(make_url(url).query['host'])


def databases(folder):
    """Return the URLs of two new databases."""
    import psycopg
    names = [f'backup_{time.monotonic_ns()}_{k}' for k in range(2)]
    with psycopg.connect(f'host={folder} user=arena dbname=postgres',
                         autocommit=True) as connection:
        for name in names:
            connection.execute(f'CREATE DATABASE {name}')
    return [f'postgresql+psycopg://arena@/{name}?host={folder}' for name in names]


def test_the_verbs_restore_what_they_saved(filled, tmp_path, capsys):
    folder, ids = filled
    assert main(['admin', 'backup', str(tmp_path / 'b'), '--data', str(folder / 'server')]) == 0
    assert f'{len(ids)} sessions, 12 files' in capsys.readouterr().out
    assert main(['admin', 'restore', str(tmp_path / 'b'), '--data', str(tmp_path / 'new')]) == 0
    assert 'ledger, log and files are whole' in capsys.readouterr().out
    assert main(['admin', 'restore', str(tmp_path / 'b'), '--data', str(tmp_path / 'new')]) == 1
    assert 'not empty' in capsys.readouterr().err
    assert main(['admin', 'backup', str(tmp_path / 'c'), '--data', str(tmp_path / 'none')]) == 2
    assert not (tmp_path / 'c').exists(), 'a folder that is no backup'


def test_nobody_else_may_read_a_backup(filled):
    backup = filled[0] / 'backup'
    assert backup.stat().st_mode & 0o077 == 0
    for path in (*backup.glob('arena-*.db'), backup / 'log.key'):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize('damage', ['database', 'file', 'missing', 'no list', 'outside'])
def test_a_damaged_backup_is_refused_and_nothing_is_restored(filled, tmp_path, damage):
    backup = shutil.copytree(filled[0] / 'backup', tmp_path / 'backup')
    bag = next(backup.rglob('A_0.mcap'))
    if damage == 'database':
        [path] = backup.glob('arena-*.db')
        data = bytearray(path.read_bytes())
        data[5000] ^= 1
        path.write_bytes(data)
    elif damage == 'file':
        bag.write_bytes(bag.read_bytes()[:-1])
    elif damage == 'missing':
        bag.unlink()
    elif damage == 'no list':
        (backup / 'backup.json').unlink()
    else:
        manifest = json.loads((backup / 'backup.json').read_text())
        manifest['files']['blobs/../../outside'] = '0' * 64
        (backup / 'backup.json').write_text(json.dumps(manifest))
    with pytest.raises(DataError):
        restore(ServerConfig(data=tmp_path / 'new'), backup, CLOCK)
    assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize('when', ['_copy_files', 'take', 'write_json'])
def test_an_interrupted_backup_leaves_the_one_before_and_is_none_by_itself(
        filled, tmp_path, monkeypatch, when):
    backup = shutil.copytree(filled[0] / 'backup', tmp_path / 'backup')

    def fail(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(f'arena_robot.server.upkeep.backup.{when}', fail)
    for folder in (backup, tmp_path / 'first'):
        with pytest.raises(KeyboardInterrupt):
            back_up(ServerConfig(data=filled[0] / 'server'), folder, CLOCK)
    monkeypatch.undo()
    assert restore(ServerConfig(data=tmp_path / 'new'), backup, CLOCK).sessions == 2
    with pytest.raises(DataError, match='not a finished backup'):
        restore(ServerConfig(data=tmp_path / 'other'), tmp_path / 'first', CLOCK)
    back_up(ServerConfig(data=filled[0] / 'server'), backup, CLOCK)
    assert len(list(backup.glob('arena-*'))) == 1, 'the older snapshot is removed'


def test_a_damaged_page_is_seen_and_the_last_good_backup_stays(filled, tmp_path):
    server = shutil.copytree(filled[0] / 'server', tmp_path / 'server')
    backup = shutil.copytree(filled[0] / 'backup', tmp_path / 'backup')
    whole = (server / 'arena.db').read_bytes()
    pages = len(whole) // 4096
    for page in random.Random(1).sample(range(1, pages), 20):
        damaged = bytearray(whole)
        damaged[page * 4096:(page + 1) * 4096] = random.Random(page).randbytes(4096)
        (server / 'arena.db').write_bytes(damaged)
        with pytest.raises(DataError, match='the database is damaged'):
            back_up(ServerConfig(data=server), backup, CLOCK)
        [snapshot] = backup.glob('arena-*.db')
        copy = shutil.copytree(backup, tmp_path / 'copy')
        (copy / snapshot.name).write_bytes(damaged)
        listed = json.loads((copy / 'backup.json').read_text())
        listed['files'][snapshot.name] = hashlib.sha256(damaged).hexdigest()
        (copy / 'backup.json').write_text(json.dumps(listed))
        with pytest.raises(DataError, match='the database is damaged'):
            restore(ServerConfig(data=tmp_path / 'new'), copy, CLOCK)
        assert not (tmp_path / 'new').exists()
        shutil.rmtree(copy)
    assert restore(ServerConfig(data=tmp_path / 'new'), backup, CLOCK).sessions == 2


def test_pages_of_postgresql_are_checked_where_amcheck_is_and_else_it_is_said(postgres_server):
    import psycopg
    folder = folder_of(postgres_server)
    urls = databases(folder)
    names = [make_url(url).database for url in urls]
    with Database(urls[0]) as database, database.read() as connection:
        assert 'CREATE EXTENSION amcheck' in check_pages(connection)
    with psycopg.connect(f'host={folder} user=arena dbname={names[0]}',
                         autocommit=True) as superuser:
        if not superuser.execute("SELECT 1 FROM pg_available_extensions "
                                 "WHERE name = 'amcheck'").fetchone():
            pytest.skip("PostgreSQL's amcheck is missing: apt-get install postgresql-contrib")
        superuser.execute('CREATE EXTENSION amcheck')
    with Database(urls[0]) as database, database.read() as connection:
        assert check_pages(connection) == ''
    with psycopg.connect(f'host={folder} user=arena dbname=postgres',
                         autocommit=True) as superuser:
        superuser.execute(f'DROP DATABASE {names[1]}')
        # Copied file by file, so that no page of the copy is in memory.
        superuser.execute(f'CREATE DATABASE {names[1]} TEMPLATE {names[0]} STRATEGY FILE_COPY')
    with psycopg.connect(f'host={folder} user=arena dbname={names[1]}') as superuser:
        [path] = superuser.execute(
            "SELECT pg_relation_filepath('ix_sessions_state_seen_ns')").fetchone()
    file = folder / 'data' / path
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))
    with Database(urls[1]) as database, database.read() as connection, \
            pytest.raises(DataError, match='the database is damaged'):
        check_pages(connection)


def test_nothing_is_overwritten_not_even_a_key(filled, tmp_path):
    (tmp_path / 'new').mkdir()
    (tmp_path / 'new' / 'log.key').write_text('x')
    with pytest.raises(Conflict, match='not empty'):
        restore(ServerConfig(data=tmp_path / 'new'), filled[0] / 'backup', CLOCK)
    assert [path.name for path in (tmp_path / 'new').iterdir()] == ['log.key']


def test_an_older_version_refuses_the_database_of_a_newer_one(filled, tmp_path):
    shutil.copy(next((filled[0] / 'backup').glob('arena-*.db')), tmp_path / 'arena.db')
    with contextlib.closing(sqlite3.connect(tmp_path / 'arena.db')) as opened:
        opened.execute("UPDATE alembic_version SET version_num = '9999'")
        opened.commit()
    with pytest.raises(ConfigError, match='install the newer version'):
        Database(f'sqlite:///{tmp_path}/arena.db').open()
