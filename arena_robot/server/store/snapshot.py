"""Snapshots of a database that is in use, into a file and out of it."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url

from arena_robot.core.errors import ConfigError, DataError, ServerError
from arena_robot.server.files import FileId
from arena_robot.server.store.log import RELEASES, releases

TOOL_S = 3600.0    # pg_dump of a large database
_MEND = 'restore the newest backup from before'
_FILES = sa.text('SELECT session_id, slot, path, size, sha256 FROM files WHERE complete '
                 'ORDER BY session_id, slot, path')
_AMCHECK_READY = sa.text(
    "SELECT count(*) = 2 FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' "
    "JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'amcheck' "
    "WHERE has_function_privilege(p.oid, 'EXECUTE') AND (p.proname = 'verify_heapam' OR "
    "p.proname = 'bt_index_check' AND p.pronargs = 2)")
_HEAPS = sa.text(
    "SELECT c.relname AS name, v.msg FROM pg_class c, LATERAL verify_heapam(c.oid) v "
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' LIMIT 5")
_INDEXES = sa.text(
    "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam "
    "WHERE c.relnamespace = current_schema()::regnamespace AND a.amname = 'btree'")


@dataclass(frozen=True)
class DatabaseSnapshot:
    """
    The schema's revision, the sessions, and each whole file with its size and SHA-256.

    ``unchecked`` as :func:`check_pages` returns it.
    """

    schema: str
    sessions: int
    files: tuple[tuple[FileId, int, str], ...]
    unchecked: str


def snapshot_name(url: str, now_ns: int) -> str:
    """Return the name of a snapshot of a database, another one for each."""
    return f'arena-{now_ns}{snapshot_suffix(url)}'


def snapshot_suffix(url: str) -> str:
    """Return the suffix of a snapshot of this kind of database."""
    return '.db' if _is_sqlite(url) else '.dump'


def take(url: str, target: Path) -> DatabaseSnapshot:
    """Write a consistent snapshot of a database that may be in use, and return what it has."""
    return (_of_sqlite if _is_sqlite(url) else _of_postgresql)(make_url(url), target)


def put_back(url: str, source: Path) -> None:
    """Fill an empty PostgreSQL database from a dump."""
    _run_tool('pg_restore', make_url(url), '--no-owner', '--no-privileges',
              '--single-transaction', '--exit-on-error', str(source))


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database, None for another."""
    return Path(make_url(url).database or '') if _is_sqlite(url) else None


def tables(url: str) -> list[str]:
    """Return the names of the tables in a database."""
    engine = sa.create_engine(url, hide_parameters=True)
    try:
        return list(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def check_sqlite(path: Path) -> None:
    """Raise DataError when pages of a snapshot of SQLite are damaged."""
    engine = sa.create_engine(f'sqlite:///{path}')
    try:
        with engine.connect() as connection:
            check_pages(connection)
    finally:
        engine.dispose()


def check_pages(connection: Connection) -> str:
    """
    Raise DataError when pages of a database are damaged; return why they were not checked.

    SQLite checks tables, indexes and foreign keys. PostgreSQL checks with its extension amcheck,
    where that is installed in the database and its role may use it.
    """
    with _damage_named():
        if connection.dialect.name == 'sqlite':
            lines = connection.execute(sa.text('PRAGMA integrity_check(5)')).scalars().all()
            damage = [line for line in lines if line != 'ok'] or [
                f'a row of {row[0]} refers to no row of {row[2]}' for row in
                connection.execute(sa.text('PRAGMA foreign_key_check')).all()[:5]]
        elif not connection.execute(_AMCHECK_READY).scalar():
            return ('the pages of PostgreSQL were not checked: CREATE EXTENSION amcheck, and '
                    "GRANT EXECUTE of its functions to the server's role")
        else:
            damage = [f'{row.name}: {row.msg}' for row in connection.execute(_HEAPS)]
            connection.execute(_INDEXES).all()    # an error says what is damaged
    if damage:
        raise DataError(f'the database is damaged: {"; ".join(damage)[:500]}; {_MEND}')
    return ''


@contextmanager
def _damage_named() -> Iterator[None]:
    try:
        yield
    except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
        raise DataError(f'the database is damaged: {error}'[:500] + f'; {_MEND}') from error


def whole_files(connection: Connection) -> tuple[tuple[FileId, int, str], ...]:
    """Return every file that is complete, those of releases too, with its size and SHA-256."""
    frozen = ((FileId(RELEASES, entry['name'], name), file['size'], file['sha256'])
              for entry in releases(connection) for name, file in entry['files'].items())
    return (*((FileId(row[0], row[1], row[2]), int(row[3]), str(row[4]))
              for row in connection.execute(_FILES)), *frozen)


def _is_sqlite(url: str) -> bool:
    return make_url(url).get_backend_name() == 'sqlite'


def require_database(url: str) -> None:
    """Raise ConfigError where the file of a database is not there: opening it would make one."""
    source = Path(make_url(url).database or '')
    if _is_sqlite(url) and not source.is_file():
        raise ConfigError(f'there is no database {source}; name the data folder or the '
                          'configuration of the server')


def _of_sqlite(url: URL, target: Path) -> DatabaseSnapshot:
    source = Path(url.database or '')
    with closing(sqlite3.connect(f'file:{source}?mode=ro', uri=True, timeout=30.0)) as live, \
            closing(sqlite3.connect(target)) as copy, _damage_named():
        live.backup(copy, pages=4096)
        copy.execute('PRAGMA journal_mode=DELETE')
    engine = sa.create_engine(f'sqlite:///{target}')
    try:
        with engine.connect() as connection:
            return _known(connection)
    finally:
        engine.dispose()


def _of_postgresql(url: URL, target: Path) -> DatabaseSnapshot:
    engine = sa.create_engine(url, isolation_level='REPEATABLE READ', hide_parameters=True)
    try:
        with engine.connect() as connection:
            name = connection.execute(sa.text('SELECT pg_export_snapshot()')).scalar_one()
            _run_tool('pg_dump', url, '--format=custom', '--no-owner', '--no-privileges',
                     f'--snapshot={name}', f'--file={target}')
            return _known(connection)
    finally:
        engine.dispose()


def _known(connection: Connection) -> DatabaseSnapshot:
    unchecked = check_pages(connection)
    schema = connection.execute(sa.text('SELECT version_num FROM alembic_version')).scalar_one()
    sessions = connection.execute(sa.text('SELECT count(*) FROM sessions')).scalar_one()
    return DatabaseSnapshot(str(schema), int(sessions), whole_files(connection), unchecked)


def _run_tool(name: str, url: URL, *arguments: str) -> None:
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
