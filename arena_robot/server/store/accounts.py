"""Accounts, stations and their tokens; only the digest of a token is ever stored."""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.errors import Conflict, DataError, Unauthorised
from arena_robot.server.base import Account, Caller, Role, Station
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import accounts, stations, tokens

TOKEN_BYTES = 32
PREFIX = 'arena_'


def digest(token: str) -> str:
    """Return the hex SHA-256 under which a token is stored (tokens carry 256 random bits)."""
    return hashlib.sha256(token.encode('utf-8')).hexdigest()


class Accounts:
    """Who may call, and as what."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add_account(self, name: str, institution: str, roles: Iterable[Role],
                    person: str = '') -> Account:
        """
        Create an account; Conflict when the name is taken.

        ``person`` is who holds it, for people with several accounts; empty: ``name``.
        """
        granted = frozenset(roles)
        if Role.STATION in granted or not granted:
            raise DataError(f"account '{name}' needs one or more of evaluator, owner, maintainer")
        row = {'name': _name(name), 'institution': _name(institution),
               'roles': ','.join(sorted(r.value for r in granted)),
               'person': _name(person or name),
               'created_ns': self._clock.now_ns()}
        return Account(self._insert(accounts, row, name), name, institution, granted,
                       person or name)

    def add_station(self, station: Station) -> Station:
        """Create a station (its ``id`` is given here); Conflict when the name is taken."""
        row = {'name': _name(station.name), 'institution': _name(station.institution),
               'robot': station.robot, 'external_cameras': station.external_cameras,
               'wrist_camera': station.wrist_camera, 'stereo': station.stereo,
               'test_driver': station.test_driver, 'created_ns': self._clock.now_ns()}
        number = self._insert(stations, row, station.name)
        return Station(**{**station.__dict__, 'id': number})

    def issue(self, holder: Account | Station, lifetime_s: float | None = None) -> str:
        """Return a new token for an account or station; it is shown this once."""
        token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock.now_ns()
        with self._database.write() as connection:
            connection.execute(sa.insert(tokens).values(
                digest=digest(token), created_ns=now, revoked_ns=None,
                account_id=holder.id if isinstance(holder, Account) else None,
                station_id=holder.id if isinstance(holder, Station) else None,
                expires_ns=None if lifetime_s is None else now + int(lifetime_s * 1e9)))
        return token

    def revoke(self, token: str) -> None:
        """Make a token useless from now on; Unauthorised when it is unknown."""
        with self._database.write() as connection:
            done = connection.execute(
                sa.update(tokens).where(tokens.c.digest == digest(token))
                .values(revoked_ns=self._clock.now_ns()))
            if done.rowcount == 0:
                raise Unauthorised('this token is not known here')

    def revoke_all(self, holder: Account | Station) -> int:
        """Revoke every token of a holder and return how many there were."""
        column = tokens.c.account_id if isinstance(holder, Account) else tokens.c.station_id
        with self._database.write() as connection:
            return connection.execute(
                sa.update(tokens).where(column == holder.id, tokens.c.revoked_ns.is_(None))
                .values(revoked_ns=self._clock.now_ns())).rowcount

    def caller(self, token: str) -> Caller:
        """Return who a token belongs to; Unauthorised when unknown, expired or revoked."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(tokens).where(
                tokens.c.digest == digest(token))).mappings().first()
            if row is None:
                raise Unauthorised('this token is not known here; ask the maintainer for one')
            if row['revoked_ns'] is not None:
                raise Unauthorised('this token was revoked; ask the maintainer for a new one')
            if row['expires_ns'] is not None and row['expires_ns'] <= self._clock.now_ns():
                raise Unauthorised('this token has expired; ask the maintainer for a new one')
            return _holder(connection, row)

    def names(self) -> set[str]:
        """Return the names of all accounts."""
        with self._database.read() as connection:
            return set(connection.execute(sa.select(accounts.c.name)).scalars())

    def names_with(self, role: Role) -> list[str]:
        """Return the names of the accounts that have a role."""
        with self._database.read() as connection:
            return list(connection.execute(sa.select(accounts.c.name).where(
                accounts.c.roles.contains(role.value)).order_by(accounts.c.name)).scalars())

    def account(self, name: str) -> Account:
        """Return the account of that name; DataError when there is none."""
        row = self._find(accounts, name, 'account')
        return Account(row['id'], row['name'], row['institution'], _roles(row['roles']),
                       row['person'])

    def account_by_id(self, number: int) -> Account:
        """Return an account by number; DataError when there is none."""
        with self._database.read() as connection:
            row = connection.execute(
                sa.select(accounts).where(accounts.c.id == number)).mappings().first()
        if row is None:
            raise DataError(f'there is no account with number {number} on this server')
        return Account(row['id'], row['name'], row['institution'], _roles(row['roles']),
                       row['person'])

    def station(self, name: str) -> Station:
        """Return the station of that name; DataError when there is none."""
        row = dict(self._find(stations, name, 'station'))
        row.pop('created_ns')
        return Station(**row)

    def _find(self, table: sa.Table, name: str, kind: str) -> Any:
        with self._database.read() as connection:
            row = connection.execute(
                sa.select(table).where(table.c.name == name)).mappings().first()
        if row is None:
            raise DataError(f"there is no {kind} named '{name}' on this server")
        return row

    def _insert(self, table: sa.Table, row: dict[str, Any], name: str) -> int:
        try:
            with self._database.write() as connection:
                return int(connection.execute(
                    sa.insert(table).values(**row).returning(table.c.id)).scalar_one())
        except sa.exc.IntegrityError as error:
            raise Conflict(f"the name '{name}' is taken; choose another") from error


def account_name(connection: Connection, number: int) -> str:
    """Return the name of an account inside the caller's transaction."""
    return str(connection.execute(sa.select(accounts.c.name).where(
        accounts.c.id == number)).scalar_one())


def account_of(connection: Connection, number: int) -> Account:
    """Return an account inside the caller's transaction."""
    row = connection.execute(sa.select(accounts).where(accounts.c.id == number)).mappings().one()
    return Account(row['id'], row['name'], row['institution'], _roles(row['roles']),
                   row['person'])


def station_name(connection: Connection, number: int) -> str:
    """Return the name of a station inside the caller's transaction."""
    return str(connection.execute(sa.select(stations.c.name).where(
        stations.c.id == number)).scalar_one())


def _holder(connection: Connection, row: Any) -> Caller:
    table = accounts if row['account_id'] is not None else stations
    number = row['account_id'] if row['account_id'] is not None else row['station_id']
    found = connection.execute(sa.select(table).where(table.c.id == number)).mappings().one()
    roles = _roles(found['roles']) if table is accounts else frozenset({Role.STATION})
    return Caller(found['id'], found['name'], found['institution'], roles)


def _roles(text: str) -> frozenset[Role]:
    return frozenset(Role(word) for word in text.split(','))


def _name(text: str) -> str:
    """Return a name fit to stand in a log line: 1 to 200 printable characters."""
    if not text or len(text) > 200 or not text.isprintable() or text != text.strip():
        raise DataError(f'a name has 1 to 200 printable characters, found {text!r:.80}')
    return text
