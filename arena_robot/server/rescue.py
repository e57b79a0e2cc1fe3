"""A maintainer's token without a token, for a person at the server's own machine."""

from arena_robot.core.clock import Clock
from arena_robot.core.errors import Conflict, DataError
from arena_robot.server.base import Role
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.database import Database


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
