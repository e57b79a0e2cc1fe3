"""
Backups of a server, which may run meanwhile.

A backup is a folder:

    backup.json     version, schema, time, and the SHA-256 of every other file
    arena.db        a snapshot of SQLite; arena.dump of PostgreSQL (pg_dump)
    log.key         the key that signs the log
    blobs/          every uploaded file that the snapshot knows

The snapshot is taken first. An uploaded file is in the store before the database says that it is
complete, and is never changed, so every file of the snapshot can be copied after it. The key of
the secrets in the database is not in the backup: who finds one cannot read them.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url

from arena_robot import __version__
from arena_robot.core.clock import Clock
from arena_robot.core.errors import ConfigError, DataError, ServerError
from arena_robot.core.files import replacing, write_json
from arena_robot.server.backup_files import (
    FILES,
    MANIFEST,
    digest_of,
    key_files,
    read_manifest,
)
from arena_robot.server.blobs import Blobs
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId

SNAPSHOT, DUMP = 'arena.db', 'arena.dump'
TOOL_S = 3600.0
_KNOWN = sa.text('SELECT session_id, slot, path, size, sha256 FROM files WHERE complete '
                 'ORDER BY session_id, slot, path')


@dataclass(frozen=True)
class Backup:
    """What a backup holds: the schema's revision, and how many sessions, files and bytes."""

    schema: str
    sessions: int
    files: int
    bytes: int


@dataclass(frozen=True)
class _Known:
    schema: str
    sessions: int
    files: tuple[tuple[FileId, int, str], ...]


def back_up(config: ServerConfig, folder: Path, clock: Clock) -> Backup:
    """
    Write a backup of a server into a folder, and return what it holds.

    A backup that is there already is brought up to date: uploaded files that it has are not
    copied again. DataError when the store lacks a file that the database knows.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    before = read_manifest(folder)['files'] if (folder / MANIFEST).exists() else {}
    (folder / MANIFEST).unlink(missing_ok=True)    # until the end it is not a backup
    url = make_url(config.database_url())
    sqlite = url.get_backend_name() == 'sqlite'
    with _private(folder / (SNAPSHOT if sqlite else DUMP)) as part:
        known = _of_sqlite(url, part) if sqlite else _of_postgresql(url, part)
    for key in key_files(config.data):
        with _private(folder / key.name) as part:
            shutil.copyfile(key, part)
    sums = {path.name: digest_of(path) for path in (
        folder / (SNAPSHOT if sqlite else DUMP), *key_files(folder))}
    sums |= _copy_files(config, folder, known, before)
    write_json(folder / MANIFEST, {
        'version': __version__, 'schema': known.schema, 'created_ns': clock.now_ns(),
        'sessions': known.sessions, 'files': sums})
    return Backup(known.schema, known.sessions, len(known.files),
                  sum(size for _, size, _ in known.files))


@contextmanager
def _private(path: Path) -> Iterator[Path]:
    with replacing(path) as part:
        part.chmod(0o600)
        yield part
        part.chmod(0o600)


def _of_sqlite(url: URL, target: Path) -> _Known:
    source = Path(url.database or '')
    if not source.is_file():
        raise ConfigError(f'there is no database {source}; name the data folder or the '
                          'configuration of the server')
    with closing(sqlite3.connect(f'file:{source}?mode=ro', uri=True, timeout=30.0)) as live, \
            closing(sqlite3.connect(target)) as copy:
        live.backup(copy, pages=4096)
        copy.execute('PRAGMA journal_mode=DELETE')
    engine = sa.create_engine(f'sqlite:///{target}')
    try:
        with engine.connect() as connection:
            return _known(connection)
    finally:
        engine.dispose()


def _of_postgresql(url: URL, target: Path) -> _Known:
    engine = sa.create_engine(url, isolation_level='REPEATABLE READ', hide_parameters=True)
    try:
        with engine.connect() as connection:
            name = connection.execute(sa.text('SELECT pg_export_snapshot()')).scalar_one()
            run_tool('pg_dump', url, '--format=custom', '--no-owner', '--no-privileges',
                     f'--snapshot={name}', f'--file={target}')
            return _known(connection)
    finally:
        engine.dispose()


def _known(connection: Connection) -> _Known:
    schema = connection.execute(sa.text('SELECT version_num FROM alembic_version')).scalar_one()
    sessions = connection.execute(sa.text('SELECT count(*) FROM sessions')).scalar_one()
    return _Known(str(schema), int(sessions), tuple(
        (FileId(row[0], row[1], row[2]), int(row[3]), str(row[4]))
        for row in connection.execute(_KNOWN)))


def run_tool(name: str, url: URL, *arguments: str) -> None:
    """Run a program of PostgreSQL on a database; the password is not on its command line."""
    program = shutil.which(name)
    if program is None:
        raise ConfigError(f'{name} is missing; install the client programs of PostgreSQL')
    place = URL.create('postgresql', url.username, None, url.host, url.port, url.database,
                       url.query)
    secret = {'PGPASSWORD': str(url.password)} if url.password else {}
    try:
        done = subprocess.run([program, f'--dbname={place.render_as_string()}', *arguments],
                              env={**os.environ, **secret}, capture_output=True, text=True,
                              timeout=TOOL_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ServerError(f'{name} did not end within {TOOL_S:g} s') from error
    if done.returncode:
        raise ServerError(f'{name} failed: {done.stderr.strip()[-500:]}')


def _copy_files(config: ServerConfig, folder: Path, known: _Known,
                before: Mapping[str, str]) -> dict[str, str]:
    blobs = Blobs(config.blobs_url())
    blobs.open()
    sums = {}
    for file, size, wanted in known.files:
        name = f'{FILES}/{file.key}'
        target = folder / name
        if before.get(name) != wanted or not target.exists() or target.stat().st_size != size:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _private(target) as part:
                with part.open('wb') as stream:
                    for block in blobs.read(file.key):
                        stream.write(block)
                if digest_of(part) != wanted:
                    raise DataError(f'{file.key} in the store has another SHA-256 than the '
                                    'database says; restore it from an earlier backup')
        sums[name] = wanted
    return sums
