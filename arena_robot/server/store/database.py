"""Open, migrate, and hand out transactions on SQLite (WAL) or PostgreSQL."""

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.engine import Connection, Engine, make_url

from arena_robot.core.errors import ConfigError, ServerError, ServerUnavailable
from arena_robot.server.sealing import Seal
from arena_robot.server.store.schema import metadata, use_seal

__all__ = ['Connection', 'Database']

log = logging.getLogger(__name__)
T = TypeVar('T')

MIGRATIONS = Path(__file__).parent / 'migrations'
BUSY_TIMEOUT_S = 30.0    # for a command on the same SQLite, such as an import
# How long a server that stands still in a transaction (a paused machine, a lost network) keeps
# others waiting for its locks on PostgreSQL; and how long one waits for a lock at most.
IDLE_S, LOCK_S = 10.0, 20.0
# A lock is of one schema: several arenas may be in one database.
LOCK_KEY = "hashtextextended(current_schema() || ':' || :name, 0)"


class Database:
    """
    One database by SQLAlchemy URL, such as ``sqlite:///arena.db`` or ``postgresql+psycopg://…``.

    Nothing is opened by the constructor. ``open`` connects and migrates to the newest schema.
    ``seal`` has the key of what is sealed in it; without, such texts stay as they are kept.
    """

    def __init__(self, url: str, seal: Seal | None = None) -> None:
        self._url = url
        self._seal = seal
        self._engine: Engine | None = None
        self._turn: AbstractContextManager[Any] = (
            threading.RLock() if self.is_sqlite else nullcontext())

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a local file."""
        return self._url.startswith('sqlite')

    def open(self) -> None:
        """Connect and migrate; ConfigError when the URL cannot be used."""
        try:
            engine = _engine(self._url)
            with engine.connect():
                pass
        except (sa.exc.SQLAlchemyError, ImportError, OSError) as error:
            shown = self._url.split('@')[-1]
            raise ConfigError(f'cannot open the database {shown}: {error}') from error
        if self._seal is not None:
            use_seal(engine, self._seal)
        self._engine = engine
        self._migrate()

    def close(self) -> None:
        """Close every connection."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def __enter__(self) -> 'Database':
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for queries, which all see the same state; nothing is written."""
        with self._opened().connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql('BEGIN')
            else:
                connection = connection.execution_options(isolation_level='REPEATABLE READ')
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction: committed as a whole, or not at all."""
        # SQLite has one writer at a time and lets the others poll; a lock lets them queue.
        with self._turn, self._opened().connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql('BEGIN IMMEDIATE')
            try:
                yield connection
                connection.commit()
            except BaseException as error:
                connection.rollback()
                if not self.is_sqlite and _is_passing(error):
                    raise ServerUnavailable('the database ended the work of this call, which '
                                            'changed nothing; ask again') from error
                raise

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold a lock that other servers of this database wait for when they take it too."""
        if self.is_sqlite:
            yield    # one server
            return
        with self.write() as connection:
            wait_for_turn(connection, name)
            yield

    def own_connection(self) -> Connection:
        """Return a connection outside of transactions, which the caller closes."""
        return self._opened().connect().execution_options(isolation_level='AUTOCOMMIT')

    def count_by(self, column: sa.Column[str]) -> dict[str, int]:
        """Return how many rows of a column's table have each value there."""
        query = sa.select(column, sa.func.count()).group_by(column)
        with self.read() as connection:
            return {str(value): int(count) for value, count in connection.execute(query)}

    def version(self) -> str | None:
        """Return the schema revision that the database is at."""
        with self.read() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def _migrate(self) -> None:
        config = alembic_config()
        head = ScriptDirectory.from_config(config).get_current_head()
        if self.version() == head:
            return
        with self.write() as connection:
            wait_for_turn(connection, 'migration')
            revision = MigrationContext.configure(connection).get_current_revision()
            if revision == head:
                return    # another server was first
            config.attributes['connection'] = connection
            if revision is None:
                metadata.create_all(connection, checkfirst=False)
                command.stamp(config, 'head')
                return
            log.info('migrating the database to %s', head)
            try:
                command.upgrade(config, 'head')
            except CommandError as error:
                raise ConfigError(
                    f'the database has the schema {self.version()}, this version knows up to '
                    f'{head} ({error}); install the newer version, or restore a backup') from error

    def _opened(self) -> Engine:
        if self._engine is None:
            raise ServerError('the database is not open; call open() first')
        return self._engine


def _is_passing(error: BaseException) -> bool:
    """Tell whether a lock or a connection was lost: the same again may succeed."""
    return isinstance(error, sa.exc.OperationalError) or (
        isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated)


def wait_for_turn(connection: Connection, name: str) -> None:
    """Hold a lock until the caller's transaction ends; other servers that take it wait."""
    if connection.dialect.name == 'postgresql':
        connection.execute(sa.text(f'SELECT pg_advisory_xact_lock({LOCK_KEY})'), {'name': name})


def listed(values: Iterable[T]) -> list[T]:
    """
    Return different values for a list in a statement, the last one again up to a power of two.

    Each length is a statement of its own, and a connection keeps those that it prepared.
    """
    different = list(set(values))
    if not different:
        return []
    length = 1 << (len(different) - 1).bit_length()
    return different + different[-1:] * (length - len(different))


def alembic_config() -> Config:
    """Return Alembic's configuration for the migrations of this package."""
    config = Config()
    config.set_main_option('script_location', str(MIGRATIONS))
    return config


def _engine(url: str) -> Engine:
    if make_url(url).get_backend_name() != 'sqlite':
        engine = sa.create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20,
                                  hide_parameters=True)
        sa.event.listen(engine, 'connect', _configure_postgresql)
        return engine
    path = make_url(url).database
    if path and path != ':memory:':
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite gives its journals the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.chmod(path, 0o600)
    engine = sa.create_engine(url, hide_parameters=True, connect_args={'timeout': BUSY_TIMEOUT_S,
                                                 'check_same_thread': False})
    sa.event.listen(engine, 'connect', _configure_sqlite)
    return engine


def _configure_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'SET idle_in_transaction_session_timeout = {int(IDLE_S * 1e3)}')
        cursor.execute(f'SET lock_timeout = {int(LOCK_S * 1e3)}')
    connection.commit()


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver's own implicit BEGIN would be a deferred one, which cannot wait for its turn.
    connection.isolation_level = None
    cursor = connection.cursor()
    # The cache is each connection's own, of up to 15 connections, and fills as the database grows.
    # It is dropped when another connection has written; 8 MB made a search 1 ms faster, no more.
    for pragma in ('journal_mode=WAL', 'synchronous=FULL', 'foreign_keys=ON',
                   'cache_size=-1000', 'temp_store=MEMORY'):
        cursor.execute(f'PRAGMA {pragma}')
    cursor.close()


log = logging.getLogger(__name__)


class Turn:
    """
    A lock by name that one server holds until it ends, however it ends.

    On SQLite, which one server uses, it is always held.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def held(self) -> bool:
        """Take the lock if it is free; tell whether this server holds it."""
        if self._database.is_sqlite:
            return True
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._taken()
                else:
                    self._connection.execute(sa.text('SELECT 1'))
            except sa.exc.SQLAlchemyError as error:
                log.warning('the lock %s is lost with its connection: %s', self._name, error)
                self._drop()
            return self._connection is not None

    def release(self) -> None:
        """Let another server take it."""
        with self._lock:
            self._drop()

    def _taken(self) -> Connection | None:
        connection = self._database.own_connection()
        if connection.execute(sa.text(f'SELECT pg_try_advisory_lock({LOCK_KEY})'),
                              {'name': self._name}).scalar():
            log.info('this server has the lock %s now', self._name)
            return connection
        connection.close()
        return None

    def _drop(self) -> None:
        if self._connection is None:
            return
        try:    # the database frees the lock of a closed connection too, but somewhat later
            self._connection.execute(sa.text(f'SELECT pg_advisory_unlock({LOCK_KEY})'),
                                     {'name': self._name})
        except sa.exc.SQLAlchemyError as error:
            log.info('the lock %s ends with its connection: %s', self._name, error)
        self._connection.invalidate()
        self._connection.close()
        self._connection = None
