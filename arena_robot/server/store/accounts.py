"""Accounts, stations and their tokens; only the digest of a token is ever stored."""

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable
from itertools import chain, count
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import DAY_S, Clock
from arena_robot.core.errors import Conflict, DataError, Unauthorised
from arena_robot.server.base import Account, Caller, Role, Station
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import accounts, policies, stations, tokens

TOKEN_BYTES = 32
# A token that nobody remembers ends within a year; a maintainer may choose another time.
LIFETIME_S = 365 * DAY_S
MAX_LIFETIME_S = 10 * LIFETIME_S
PREFIX = 'arena_'
ROBOT_CHARS = 50    # the column of the database
# Every call runs these; to build them anew took longer than the database.
_OF_DIGEST = sa.select(tokens).where(tokens.c.digest == sa.bindparam('digest'))
_BY_ID = {table: sa.select(table).where(table.c.id == sa.bindparam('number'))
          for table in (accounts, stations)}
_BY_NAME = {table: sa.select(table).where(table.c.name == sa.bindparam('name'))
            for table in (accounts, stations)}
_OWNERS = sa.select(accounts).where(accounts.c.id.in_(sa.select(policies.c.owner_id)))


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
        return Account(self._insert(accounts, row, name), str(row['name']),
                       str(row['institution']), granted, str(row['person']))

    def signed_in(self, person: str, name: str, institution: str) -> Account:
        """
        Return the account of a person who signed in on the site; the first time, a new owner's.

        A ``name`` that is taken gets a number, and without an institution nobody else shares
        it. An account whose person is its own name was imported and is nobody's who signs in.
        """
        with self._database.alone('sign in'):
            with self._database.read() as connection:
                row = connection.execute(sa.select(accounts).where(
                    accounts.c.person == person, accounts.c.name != person).order_by(
                    accounts.c.id).limit(1)).mappings().first()
            if row is not None:
                return _account(row)
            taken, others = self.names(), (f'{name}-{k}' for k in count(2))
            free = next(one for one in chain([name], others) if one not in taken)
            return self.add_account(free, institution or f'unvouched ({free})', [Role.OWNER],
                                    person)

    def add_station(self, station: Station) -> Station:
        """Create a station (its ``id`` is given here); Conflict when the name is taken."""
        row = {'name': _name(station.name), 'institution': _name(station.institution),
               'robot': _robot(station.robot), 'external_cameras': station.external_cameras,
               'wrist_camera': station.wrist_camera, 'stereo': station.stereo,
               'test_driver': station.test_driver, 'depth': station.depth,
               'created_ns': self._clock.now_ns()}
        number = self._insert(stations, row, station.name)
        return Station(**{**station.__dict__, 'id': number})

    def issue(self, holder: Account | Station, lifetime_s: float | None = LIFETIME_S) -> str:
        """
        Return a new token for an account or station; it is shown this once.

        It expires after ``lifetime_s``, None: never.
        """
        with self._database.write() as connection:
            return self._issue(connection, holder, lifetime_s)

    def rotate(self, holder: Account | Station, lifetime_s: float | None = LIFETIME_S) -> str:
        """Return a new token and revoke every other of the holder: both, or nothing."""
        with self._database.write() as connection:
            self._revoke_all(connection, holder)
            return self._issue(connection, holder, lifetime_s)

    def _issue(self, connection: Connection, holder: Account | Station,
               lifetime_s: float | None) -> str:
        if lifetime_s is not None and not 0.0 <= lifetime_s <= MAX_LIFETIME_S:
            raise DataError(f'a token is valid for 0 to {MAX_LIFETIME_S:g} seconds, found '
                            f'{lifetime_s:g}')
        token, now = PREFIX + secrets.token_urlsafe(TOKEN_BYTES), self._clock.now_ns()
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
        """
        Revoke every token of a holder and return how many there were.

        Conflict when nobody could maintain the server afterwards.
        """
        with self._database.write() as connection:
            done = self._revoke_all(connection, holder)
            if isinstance(holder, Account) and Role.MAINTAINER in holder.roles \
                    and not self._maintained(connection):
                raise Conflict(f"'{holder.name}' is the only maintainer with a token; give "
                               'another one a token first, or rotate this one')
            return done

    def _revoke_all(self, connection: Connection, holder: Account | Station) -> int:
        column = tokens.c.account_id if isinstance(holder, Account) else tokens.c.station_id
        return connection.execute(
            sa.update(tokens).where(column == holder.id, tokens.c.revoked_ns.is_(None))
            .values(revoked_ns=self._clock.now_ns())).rowcount

    def _maintained(self, connection: Connection) -> bool:
        """Tell whether any maintainer has a token that is valid."""
        valid = sa.and_(tokens.c.revoked_ns.is_(None), sa.or_(
            tokens.c.expires_ns.is_(None), tokens.c.expires_ns > self._clock.now_ns()))
        return connection.execute(sa.select(tokens.c.id).join(
            accounts, tokens.c.account_id == accounts.c.id).where(
            valid, accounts.c.roles.contains(Role.MAINTAINER.value)).limit(1)).first() is not None

    def caller(self, token: str) -> Caller:
        """Return who a token belongs to; Unauthorised when unknown, expired or revoked."""
        with self._database.read() as connection:
            row = connection.execute(_OF_DIGEST, {'digest': digest(token)}).mappings().first()
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
        return _account(self._find(accounts, name, 'account'))

    def account_by_id(self, number: int) -> Account:
        """Return an account by number; DataError when there is none."""
        with self._database.read() as connection:
            row = connection.execute(_BY_ID[accounts], {'number': number}).mappings().first()
        if row is None:
            raise DataError(f'there is no account with number {number} on this server')
        return _account(row)

    def owners(self) -> dict[int, Account]:
        """Return the accounts that have a policy, by number."""
        with self._database.read() as connection:
            return {row['id']: _account(row) for row in connection.execute(_OWNERS).mappings()}

    def station(self, name: str) -> Station:
        """Return the station of that name; DataError when there is none."""
        row = dict(self._find(stations, name, 'station'))
        row.pop('created_ns')
        return Station(**row)

    def _find(self, table: sa.Table, name: str, kind: str) -> Any:
        name = normalised(name)
        with self._database.read() as connection:
            row = connection.execute(_BY_NAME[table], {'name': name}).mappings().first()
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
    return account_of(connection, number).name


def account_of(connection: Connection, number: int) -> Account:
    """Return an account inside the caller's transaction."""
    return _account(connection.execute(_BY_ID[accounts], {'number': number}).mappings().one())


def station_name(connection: Connection, number: int) -> str:
    """Return the name of a station inside the caller's transaction."""
    return str(connection.execute(sa.select(stations.c.name).where(
        stations.c.id == number)).scalar_one())


def account_names(connection: Connection) -> dict[int, str]:
    """Return the name of every account by its number, inside the caller's transaction."""
    return {row.id: row.name for row in connection.execute(
        sa.select(accounts.c.id, accounts.c.name))}


def station_names(connection: Connection) -> dict[int, str]:
    """Return the name of every station by its number, inside the caller's transaction."""
    return {row.id: row.name for row in connection.execute(
        sa.select(stations.c.id, stations.c.name))}


def _holder(connection: Connection, row: Any) -> Caller:
    table = accounts if row['account_id'] is not None else stations
    number = row['account_id'] if row['account_id'] is not None else row['station_id']
    holder = connection.execute(_BY_ID[table], {'number': number}).mappings().one()
    roles = _roles(holder['roles']) if table is accounts else frozenset({Role.STATION})
    return Caller(holder['id'], holder['name'], holder['institution'], roles)


def _account(row: Any) -> Account:
    return Account(row['id'], row['name'], row['institution'], _roles(row['roles']),
                   row['person'])


def _roles(text: str) -> frozenset[Role]:
    return frozenset(Role(word) for word in text.split(','))


def normalised(name: str) -> str:
    """Return a name in one spelling: NFKC, without space around it."""
    return unicodedata.normalize('NFKC', name).strip()


def _name(text: str) -> str:
    """Return a name fit to stand in a log line: 1 to 200 printable characters."""
    text = unicodedata.normalize('NFKC', text)
    if not text or len(text) > 200 or not text.isprintable() or text != text.strip():
        raise DataError(f'a name has 1 to 200 printable characters, found {text!r:.80}')
    return text


def _robot(name: str) -> str:
    if not 0 < len(_name(name)) <= ROBOT_CHARS or name == 'any':
        raise DataError(f"a robot has a name of 1 to {ROBOT_CHARS} characters, not 'any', found "
                        f'{name!r:.80}')
    return name


def rescue_token(database: Database, clock: Clock, name: str) -> str:
    """
    Return a new token of the maintainer ``name``, who is made when there is no such account.

    It is written to the audit log. Raises Conflict when the account is not a maintainer's.
    """
    accounts = Accounts(database, clock)
    try:
        account = accounts.account(name)
    except DataError:
        account = accounts.add_account(name, 'local', [Role.MAINTAINER])
    if Role.MAINTAINER not in account.roles:
        raise Conflict(f"'{name}' is not a maintainer; name one, or a new account")
    token = accounts.issue(account)
    Audit(database, clock).write('local', 'rescue', name, 'ok')
    return token
