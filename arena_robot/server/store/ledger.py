"""
Credits as a double-entry ledger: every transfer is two entries that sum to zero.

Holders are ``account:<name>`` and ``request:<policy>``, what was paid for comparisons of it (both
never negative), and the system's own ``mint`` and ``spent`` (the counterparts, which may be). What
the system holds is summed up when somebody asks: a balance that every transfer changes would be a
row for which all servers wait. A transfer has a name and happens at most once, so that any call
can be repeated.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.errors import Conflict, DataError
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import balances, entries

MINT = 'mint'
SPENT = 'spent'
_SYSTEM = (MINT, SPENT)
_LOCK = sa.select(balances.c.holder).where(
    balances.c.holder.in_(sa.bindparam('holders', expanding=True))).order_by(
    balances.c.holder).with_for_update()
_BOOKED = sa.select(entries.c.id).where(
    entries.c.transfer == sa.bindparam('name')).limit(1)
_MOVE = sa.update(balances).where(
    balances.c.holder == sa.bindparam('of'), sa.or_(
        balances.c.may_be_negative, balances.c.amount + sa.bindparam('by') >= 0)).values(
    amount=balances.c.amount + sa.bindparam('by'))
_ENTER = sa.insert(entries)
_PAYER = sa.select(entries.c.holder).where(
    entries.c.transfer == sa.bindparam('name'), entries.c.holder != SPENT)
_OPEN = {name: dialect.insert(balances).on_conflict_do_nothing()
         for name, dialect in (('sqlite', sqlite), ('postgresql', postgresql))}


class NotEnoughCredit(Conflict):
    """The payer's balance does not cover the transfer."""

    code = 'not_enough_credit'


@dataclass(frozen=True)
class Transfer:
    """``amount`` credits from ``payer`` to ``payee``; ``name`` is unique for all time."""

    name: str
    payer: str
    payee: str
    amount: int
    reason: str


@dataclass(frozen=True)
class LedgerLine:
    """One entry of a holder: ``amount`` credits came, or went when it is negative."""

    created_ns: int
    amount: int
    reason: str


class Ledger:
    """Balances that always sum up."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def transfer(self, transfer: Transfer) -> bool:
        """Book a transfer in a transaction of its own; see :func:`book`."""
        with self._database.write() as connection:
            return book(connection, transfer, self._clock.now_ns())

    def balance(self, holder: str) -> int:
        """Return a holder's credits; 0 for an unknown one."""
        if holder in _SYSTEM:
            return self.balances().get(holder, 0)
        with self._database.read() as connection:
            amount = connection.execute(sa.select(balances.c.amount).where(
                balances.c.holder == holder)).scalar()
        return int(amount or 0)

    def balances(self) -> dict[str, int]:
        """Return every holder's credits."""
        with self._database.read() as connection:
            kept = {row.holder: int(row.amount) for row in connection.execute(
                sa.select(balances.c.holder, balances.c.amount))}
            system = connection.execute(sa.select(
                entries.c.holder, sa.func.sum(entries.c.amount)).where(
                entries.c.holder.in_(_SYSTEM)).group_by(entries.c.holder))
            return kept | {row[0]: int(row[1]) for row in system}

    def of_accounts(self) -> dict[str, int]:
        """Return the credits of the accounts."""
        with self._database.read() as connection:
            return {row.holder: int(row.amount) for row in connection.execute(
                sa.select(balances.c.holder, balances.c.amount).where(
                    sa.not_(balances.c.may_be_negative)))}

    def lines(self, holder: str, limit: int = 20) -> list[LedgerLine]:
        """Return a holder's newest entries, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(
                entries.c.created_ns, entries.c.amount, entries.c.reason).where(
                entries.c.holder == holder).order_by(entries.c.id.desc()).limit(limit))
            return [LedgerLine(*row) for row in rows]

    def check(self) -> None:
        """Raise DataError unless every transfer and every balance adds up."""
        total = sa.func.sum(entries.c.amount)
        with self._database.read() as connection:
            crooked = connection.execute(sa.select(entries.c.transfer).group_by(
                entries.c.transfer).having(total != 0)).scalars().all()
            booked = {row[0]: int(row[1]) for row in connection.execute(
                sa.select(entries.c.holder, total).group_by(entries.c.holder))}
            recorded = {row[0]: int(row[1]) for row in connection.execute(
                sa.select(balances.c.holder, balances.c.amount))}
        wrong = [h for h, amount in recorded.items()
                 if h not in _SYSTEM and booked.get(h, 0) != amount]
        if crooked or wrong:
            raise DataError(f'the ledger does not add up: transfers {crooked}, holders {wrong}')


def lock(connection: Connection, holders: Iterable[str]) -> None:
    """
    Lock the balances of ``holders`` until the transaction ends, in the order of their names.

    A transaction with several bookings locks all their holders first; otherwise two of them can
    each hold a balance that the other waits for.
    """
    names = sorted(set(holders) - set(_SYSTEM))
    for holder in names:
        _open_balance(connection, holder)
    connection.execute(_LOCK, {'holders': names}).all()


def book(connection: Connection, transfer: Transfer, now_ns: int) -> bool:
    """
    Move credits inside the caller's transaction.

    Returns False when a transfer of that name was booked before (nothing changes). Raises
    NotEnoughCredit when the payer cannot pay, DataError for an amount below one.
    """
    if transfer.amount < 1:
        raise DataError(f'a transfer moves 1 credit or more, not {transfer.amount}')
    # The order of the rows is the order of their locks: sorted, so that no two writers deadlock.
    parts = sorted([(transfer.payer, -transfer.amount), (transfer.payee, transfer.amount)])
    lock(connection, [holder for holder, _ in parts])
    if connection.execute(_BOOKED, {'name': transfer.name}).first():
        return False
    for holder, amount in parts:
        if holder in _SYSTEM:
            _open_balance(connection, holder)
        elif connection.execute(_MOVE, {'of': holder, 'by': amount}).rowcount == 0:
            raise NotEnoughCredit(f'{holder} cannot pay {transfer.amount} for {transfer.reason}')
        connection.execute(_ENTER, {
            'transfer': transfer.name, 'holder': holder, 'amount': amount,
            'reason': transfer.reason, 'created_ns': now_ns})
    return True


def paid_for(policy: str) -> str:
    """Return the holder of what was paid for comparisons of a policy."""
    return f'request:{policy}'


def balance_of(connection: Connection, holder: str) -> int:
    """Return a holder's credits inside the caller's transaction; 0 for an unknown one."""
    return int(connection.execute(sa.select(balances.c.amount).where(
        balances.c.holder == holder)).scalar() or 0)


def payer(connection: Connection, transfer: str) -> str | None:
    """Return who paid a transfer to the credits that were spent; None when nobody did."""
    return connection.execute(_PAYER, {'name': transfer}).scalar()


def _open_balance(connection: Connection, holder: str) -> None:
    connection.execute(_OPEN[connection.dialect.name], {
        'holder': holder, 'amount': 0, 'may_be_negative': holder in _SYSTEM})
