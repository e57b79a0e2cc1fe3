"""A lock in the database: one of several servers does the work that must be done once."""

import logging
import threading

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.server.store.database import LOCK_KEY, Database

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
