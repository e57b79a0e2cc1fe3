"""Owners and their policies: submit, check, probe, suspend, retire."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import nearest
from arena_robot.core.errors import ArenaError, DataError, Unauthorised
from arena_robot.safety.robots import ROBOTS
from arena_robot.server import addresses
from arena_robot.server.base import Caller, PolicyRecord, PolicyState, Role
from arena_robot.server.store.policies import NewPolicy, Policies
from arena_robot.server.target import PolicyTarget

log = logging.getLogger(__name__)

KNOWN_ROBOTS = ('any', *ROBOTS)
Check = Callable[[PolicyTarget], str]
MAX_TOKEN_CHARS = 4096


class Pool:
    """
    Registers policies and changes their states.

    ``conformance`` and ``probe`` take a target and return what is wrong with the policy there
    ('' when nothing is). Without ``probation`` a policy that passes is in the pool at once.
    After ``failures`` rollouts in a row that failed at the relay it is checked again.
    """

    def __init__(self, policies: Policies, conformance: Check, probe: Check,
                 allowed_networks: Iterable[str], own: Iterable[tuple[str, int]],
                 probation: bool = True, failures: int = 3) -> None:
        self._policies = policies
        self._conformance = conformance
        self._probe = probe
        self._networks = tuple(allowed_networks)
        self._own = tuple(own)
        self._probation = probation
        self._failures = failures

    def submit(self, caller: Caller, new: NewPolicy, token: str = '') -> PolicyRecord:
        """
        Store a new policy as submitted; the next :meth:`review` checks it.

        ``token`` is what the relay and the checks show to it.
        """
        self._check(new)
        return self._policies.add(new, caller.id, token=_checked_token(token))

    def update(self, caller: Caller, new: NewPolicy, token: str | None = None) -> PolicyRecord:
        """
        Change a policy; another address or action space sends it through the check again.

        ``token`` None keeps the one it has, '' removes it.
        """
        old = self.mine(caller, new.name)
        self._check(new)
        values = asdict(new)
        values.pop('name')
        if token is not None:
            values['token'] = _checked_token(token)
        record = self._policies.update(new.name, **values)
        if (old.address, old.action_space) != (new.address, new.action_space) \
                and old.state in (PolicyState.PROBATION, PolicyState.POOL):
            return self._policies.move(new.name, PolicyState.SUBMITTED, 'changed; to be checked')
        return record

    def resubmit(self, caller: Caller, name: str) -> PolicyRecord:
        """Send a suspended policy through the check again."""
        self.mine(caller, name)
        return self._policies.move(name, PolicyState.SUBMITTED)

    def retire(self, caller: Caller, name: str) -> PolicyRecord:
        """Retire a policy; its results stay."""
        self.mine(caller, name)
        return self._policies.move(name, PolicyState.RETIRED)

    def visible(self, caller: Caller) -> list[PolicyRecord]:
        """Return the caller's own policies; a maintainer sees all."""
        if Role.MAINTAINER in caller.roles:
            return self._policies.list()
        return self._policies.list(owner_id=caller.id)

    def mine(self, caller: Caller, name: str) -> PolicyRecord:
        """Return a policy that the caller may change; Unauthorised when it is another's."""
        record = self._policies.get(name)
        if record.owner_id != caller.id and Role.MAINTAINER not in caller.roles:
            raise Unauthorised(f"policy '{name}' belongs to somebody else")
        return record

    def review(self) -> list[PolicyRecord]:
        """Check every submitted policy and move it on: probation, or suspended with the reason."""
        return [self._review(record) for record in self._policies.list(PolicyState.SUBMITTED)]

    def _review(self, record: PolicyRecord) -> PolicyRecord:
        wrong = self._ask(self._conformance, record)
        self._policies.set_health(record.id, not wrong)
        if wrong:
            return self._policies.move(record.name, PolicyState.SUSPENDED, wrong)
        moved = self._policies.move(record.name, PolicyState.PROBATION)
        return moved if self._probation else self._policies.move(record.name, PolicyState.POOL)

    def probe(self) -> int:
        """
        Ask every live policy whether it is there; return how many are.

        One that failed at the relay too often is checked as a new one is: it is suspended when
        the server's own check fails, and its failures are forgotten otherwise.
        """
        healthy = 0
        for record in self._policies.list(PolicyState.PROBATION, PolicyState.POOL):
            wrong = self._ask(self._probe, record)
            if record.failures >= self._failures and not wrong:
                self._recheck(record)
                continue
            self._policies.set_health(record.id, not wrong, wrong)
            healthy += not wrong
        return healthy

    def _recheck(self, record: PolicyRecord) -> None:
        wrong = self._ask(self._conformance, record)
        self._policies.set_health(record.id, not wrong, wrong)
        if wrong:
            self._policies.move(record.name, PolicyState.SUSPENDED,
                                f'{record.failures} rollouts in a row failed at the relay, and '
                                f"the server's own check: {wrong}")
        else:
            self._policies.forget_failures(record.id)

    def reachable(self, record: PolicyRecord) -> PolicyTarget:
        """Return where a policy may be called now, its IP address pinned; DataError."""
        return PolicyTarget(addresses.pinned(record.address, self._networks, self._own),
                            self._policies.token_of(record.id) if record.has_token else '')

    def _ask(self, check: Check, record: PolicyRecord) -> str:
        try:
            # The name may resolve to another address than when it was submitted.
            return check(self.reachable(record))
        except ArenaError as error:
            return str(error)

    def _check(self, new: NewPolicy) -> None:
        if not new.name or len(new.name) > 200 or not new.name.isprintable():
            raise DataError(f'a policy name has 1 to 200 printable characters: {new.name!r:.80}')
        if len(new.description) > 10_000:
            raise DataError('a description has up to 10000 characters')
        spaces = [s.value for s in ActionSpace]
        for value, known in ((new.robot, KNOWN_ROBOTS), (new.action_space, spaces)):
            if value not in known:
                raise DataError(f"unknown '{value:.60}'.{nearest(value[:60], known)}")
        if not 0 <= new.external_cameras <= 2:
            raise DataError(f'external_cameras is 0 to 2, found {new.external_cameras}')
        addresses.check(new.address, self._networks, self._own)


def _checked_token(token: str) -> str:
    """Return the token that a policy requires; DataError when no header could carry it."""
    if len(token) > MAX_TOKEN_CHARS or not token.isascii() or not token.isprintable() \
            or ' ' in token:
        raise DataError(f'the token of a policy has up to {MAX_TOKEN_CHARS} printable ASCII '
                        'characters without spaces')
    return token
