"""
What people decide about a policy: the pool's approval, and reports that it was unsafe.

Everything that is decided here is in the audit log with who decided it.
"""

from collections.abc import Callable

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError, Unauthorised
from arena_robot.core.verdict import MAX_TEXT_CHARS
from arena_robot.server.base import Caller, PolicyRecord, PolicyReview, PolicyState, Role
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.policies import Approval, Policies, approve, waits_for_approval
from arena_robot.server.store.unsafe_reports import (
    clear_reports,
    reports_by_policy,
    why_suspended,
)


class PolicyReviews:
    """
    Appeals of owners, decisions of maintainers.

    ``promote`` moves a policy from probation to the pool when it may enter.
    """

    def __init__(self, database: Database, clock: Clock, policies: Policies,
                 promote: Callable[[Connection, int], bool], rule: Approval) -> None:
        self._database = database
        self._clock = clock
        self._policies = policies
        self._promote = promote
        self._rule = rule

    def of(self, record: PolicyRecord) -> PolicyReview:
        """Return the reports on a policy, and whether it waits for a maintainer."""
        with self._database.read() as connection:
            reports = tuple(reports_by_policy(connection).get(record.id, ()))
            waits = record.state is PolicyState.PROBATION and waits_for_approval(
                connection, record.id, self._rule)
        return PolicyReview(reports, waits)

    def appeal(self, caller: Caller, name: str, text: str) -> PolicyRecord:
        """Store what an owner says to the reports on a policy, for the maintainers."""
        record = self._policies.get(name)
        if record.owner_id != caller.id:
            raise Unauthorised(f"policy '{name}' belongs to somebody else")
        if not text.strip() or len(text) > MAX_TEXT_CHARS:
            raise DataError(f'an appeal has 1 to {MAX_TEXT_CHARS} characters')
        return self._policies.update(name, appeal=text.strip())

    def decide(self, caller: Caller, name: str, approved: bool, clear_why: str) -> PolicyRecord:
        """
        Approve a policy for the pool, or clear the reports on it with a reason.

        A policy that the reports suspended is then checked and tested again, as a new one.
        """
        if Role.MAINTAINER not in caller.roles:
            raise Unauthorised('only a maintainer decides this')
        if not approved and not clear_why.strip():
            raise DataError('say what is decided: approve, or clear the reports with a reason')
        record = self._policies.get(name)
        with self._database.write() as connection:
            now_ns = self._clock.now_ns()
            suspended = bool(why_suspended(reports_by_policy(connection).get(record.id, ())))
            if clear_why.strip():
                clear_reports(connection, record.id, caller.name, clear_why.strip(), now_ns)
            if approved:
                approve(connection, record.id, now_ns)
                self._promote(connection, record.id)
        if clear_why.strip() and suspended and record.state is PolicyState.SUSPENDED:
            return self._policies.move(name, PolicyState.SUBMITTED)
        return self._policies.get(name)
