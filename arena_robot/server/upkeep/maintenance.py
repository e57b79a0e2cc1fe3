"""What a maintainer looks at, and does with one button: suspend, check again, hide, show."""

from collections.abc import Callable

from arena_robot.core.clock import Clock
from arena_robot.core.errors import ArenaError, DataError, Unauthorised
from arena_robot.server.base import Caller, Role
from arena_robot.server.config import ServerConfig
from arena_robot.server.pool.policy_pool import PolicyReviews, Pool
from arena_robot.server.store.audit import Audit
from arena_robot.server.store.database import Database
from arena_robot.server.store.overview import Overview, overview
from arena_robot.server.store.sessions import hide_texts


class Maintenance:
    """The state of a server, and the actions of its maintainers; each is in the audit log."""

    def __init__(self, database: Database, clock: Clock, pool: Pool, reviews: PolicyReviews,
                 audit: Audit, config: ServerConfig) -> None:
        self._database, self._clock, self._audit, self._config = database, clock, audit, config
        self._actions: dict[str, Callable[[Caller, str, str], object]] = {
            'suspend': reviews.suspend,
            'check again': lambda caller, name, _: pool.resubmit(caller, name),
            'hide texts': self._hide,
            'show texts': lambda caller, name, _: hide_texts(database, name, caller.name, '')}

    def overview(self) -> Overview:
        """Return the state of the server."""
        with self._database.read() as connection:
            return overview(connection, self._config.data, self._clock.now_ns(),
                            self._config.approve_policies)

    def act(self, caller: Caller, action: str, target: str, why: str) -> None:
        """Do an action to a policy or a session; raises Unauthorised, DataError, Conflict."""
        try:
            if Role.MAINTAINER not in caller.roles:
                raise Unauthorised('only a maintainer does this')
            if action not in self._actions:
                raise DataError(f"there is no action '{action:.40}'; known: "
                                f"{', '.join(self._actions)}")
            self._actions[action](caller, target, why)
        except ArenaError as error:
            self._audit.write(caller.actor, action, target, error.code, str(error))
            raise
        self._audit.write(caller.actor, action, target, 'ok', why)

    def _hide(self, caller: Caller, session_id: str, why: str) -> None:
        if not why.strip():
            raise DataError('say why the texts are hidden')
        hide_texts(self._database, session_id, caller.name, why)
