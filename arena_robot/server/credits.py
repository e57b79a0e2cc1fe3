"""Credits: the weekly grants to owners and sponsors, and what a pair that was given up costs."""

import logging

from arena_robot.core.clock import Clock
from arena_robot.core.iso_time import to_utc
from arena_robot.server.base import Role
from arena_robot.server.config import Credits
from arena_robot.server.store import redraws
from arena_robot.server.store.accounts import Accounts, account_name
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.ledger import (
    MINT,
    SPENT,
    Ledger,
    NotEnoughCredit,
    Transfer,
    book,
    payer,
)
from arena_robot.server.store.sessions import SessionRow

log = logging.getLogger(__name__)


def grant_weekly(database: Database, clock: Clock, plan: Credits) -> int:
    """Book this week's credits that are not booked yet; return how many grants were made."""
    year, week, _ = to_utc(clock.now_ns()).isocalendar()
    owners = Accounts(database, clock).names_with(Role.OWNER)
    grants = [('base', name, plan.weekly_base) for name in owners]
    grants += [('sponsor', name, amount) for name, amount in sorted(plan.sponsors.items())]
    ledger = Ledger(database, clock)
    return sum(ledger.transfer(Transfer(f'{kind}:{year}-W{week:02}:{name}', MINT,
                                        f'account:{name}', amount, f'weekly {kind}'))
               for kind, name, amount in grants if amount > 0)


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
