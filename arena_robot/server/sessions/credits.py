"""Credits: weekly grants, gifts, comparisons that are paid for, and what a pair given up costs."""

import logging
from dataclasses import dataclass

from arena_robot.core.clock import Clock, to_utc
from arena_robot.core.errors import Conflict, DataError, Unauthorised
from arena_robot.server.base import Caller, PolicyState, Role, same_institution
from arena_robot.server.config import Credits
from arena_robot.server.store import redraws
from arena_robot.server.store.accounts import Accounts, account_name
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.ledger import (
    MINT,
    SPENT,
    Ledger,
    LedgerLine,
    NotEnoughCredit,
    Transfer,
    book,
    paid_for,
    payer,
)
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.sessions import SessionRow

log = logging.getLogger(__name__)


def grant_weekly(database: Database, clock: Clock, plan: Credits) -> int:
    """Book this week's credits that are not booked yet; return how many grants were made."""
    year, week, _ = to_utc(clock.now_ns()).isocalendar()
    owners = Accounts(database, clock).names_with(Role.OWNER)
    grants = [('base', name, plan.weekly_base) for name in owners]
    grants += [('sponsor', name, amount) for name, amount in sorted(plan.sponsors.items())]
    ledger, made = Ledger(database, clock), 0
    for kind, name, amount in grants:
        room = plan.weekly_cap - ledger.balance(f'account:{name}')
        if min(amount, room) > 0:
            made += ledger.transfer(Transfer(
                f'{kind}:{year}-W{week:02}:{name}', MINT, f'account:{name}',
                min(amount, room), f'weekly {kind}'))
    return made


def charge_given_up(connection: Connection, session: SessionRow, now_ns: int) -> None:
    """Take a credit of the evaluator whose session was given up, unless the policy failed."""
    if redraws.policy_failed(connection, session.id):
        return
    name = account_name(connection, session.evaluator_id)
    try:
        with connection.begin_nested():
            book(connection, Transfer(f'redraw:{session.id}', f'account:{name}', SPENT, 1,
                                      'session given up'), now_ns)
    except NotEnoughCredit:
        log.info('session %s is given up free of charge: no credit', session.id)


def give_back(connection: Connection, session: SessionRow, now_ns: int) -> None:
    """Return the credit of a session that was given up and was delivered after all."""
    if holder := payer(connection, f'redraw:{session.id}'):
        book(connection, Transfer(f'unredraw:{session.id}', SPENT, holder, 1,
                                  'session judged after all'), now_ns)


@dataclass(frozen=True)
class CreditStatement:
    """What an account has: credits, its newest entries, and what is paid for its policies."""

    balance: int
    lines: tuple[LedgerLine, ...]
    paid: dict[str, int]


class CreditDesk:
    """
    What people do with credits; a booking has the name that its caller gave it, and is done once.

    Nobody gets an advantage from whom they judge: credits stay within an institution, and an
    evaluator is never given policies of it.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._ledger = Ledger(database, clock)
        self._accounts = Accounts(database, clock)
        self._policies = Policies(database, clock)

    def of(self, caller: Caller) -> CreditStatement:
        """Return the statement of the caller's account."""
        holder, balances = f'account:{caller.name}', self._ledger.of_accounts()
        names = [policy.name for policy in self._policies.list(owner_id=caller.id)]
        return CreditStatement(
            balances.get(holder, 0), tuple(self._ledger.lines(holder)),
            {name: paid for name in names if (paid := balances.get(paid_for(name), 0))})

    def give(self, caller: Caller, to: str, amount: int, request: str) -> CreditStatement:
        """Give credits to an owner of policies of the caller's institution."""
        receiver = self._accounts.account(to)
        if Role.OWNER not in receiver.roles or not same_institution(
                receiver.institution, caller.institution):
            raise Unauthorised(f"'{to}' is no owner of policies of {caller.institution}; credits "
                               'are given within an institution')
        if receiver.id == caller.id:
            raise DataError('these credits are yours already')
        self._book(caller, 'give', request, f'account:{receiver.name}', amount,
                   f'from {caller.name} to {receiver.name}')
        return self.of(caller)

    def request(self, caller: Caller, policy: str, amount: int, request: str) -> CreditStatement:
        """Pay for comparisons of a policy of the caller or of an owner of the same institution."""
        record = self._policies.get(policy)
        owner = self._accounts.account_by_id(record.owner_id)
        if not (owner.id == caller.id or same_institution(owner.institution,
                                                          caller.institution)):
            raise Unauthorised(f"policy '{policy}' is not one of {caller.institution}")
        if record.state is PolicyState.RETIRED:
            raise DataError(f"policy '{policy}' is retired and never compared again")
        self._book(caller, 'request', request, paid_for(policy), amount,
                   f'comparisons of {policy}')
        return self.of(caller)

    def _book(self, caller: Caller, kind: str, request: str, payee: str, amount: int,
              reason: str) -> None:
        if not 16 <= len(request) <= 64:
            raise DataError('a booking needs a request name of 16 to 64 characters')
        holder = f'account:{caller.name}'
        try:
            self._ledger.transfer(Transfer(f'{kind}:{caller.id}:{request}', holder, payee, amount,
                                           reason[:100]))
        except NotEnoughCredit as error:
            raise Conflict(f'{caller.name} has {self._ledger.balance(holder)} credits, and cannot '
                           f'spend {amount}') from error
