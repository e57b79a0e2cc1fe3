"""The weekly credits: a base for every owner of policies, and what sponsors add."""

from arena_robot.core.clock import Clock
from arena_robot.core.iso_time import to_utc
from arena_robot.server.base import Role
from arena_robot.server.config import Credits
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import MINT, Ledger, Transfer


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
