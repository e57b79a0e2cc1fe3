"""
Owners and their policies: submit, check, probe, suspend, retire.

:func:`conformance`, :func:`probe` and :func:`spec` ask a policy's own server.
"""

import json
import logging
import math
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from arena_robot.core.action import ActionSpace
from arena_robot.core.clock import Clock
from arena_robot.core.config import nearest
from arena_robot.core.conformance import FAIL
from arena_robot.core.errors import ArenaError, Conflict, DataError, Unauthorised
from arena_robot.core.verdict import MAX_TEXT_CHARS
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.conformance.probe import ProbeLimits
from arena_robot.policy.conformance.suite import run_suite
from arena_robot.policy.connect import connect
from arena_robot.policy.options import CallOptions
from arena_robot.robots.arms import ROBOTS
from arena_robot.server.base import (
    NEEDS,
    PROVENANCE,
    Caller,
    PolicyRecord,
    PolicyReview,
    PolicyState,
    PolicyTarget,
    Role,
    contradictions,
)
from arena_robot.server.config import Approval
from arena_robot.server.joining import LOOPBACK, SUFFIX, JoinedPolicies
from arena_robot.server.pool import addresses
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.policies import (
    LIVE,
    NewPolicy,
    Policies,
    activity,
    approve,
    waits_for_approval,
)
from arena_robot.server.store.unsafe_reports import (
    clear_reports,
    reports_by_policy,
    why_suspended,
)
from arena_robot.server.threads import SideCalls

log = logging.getLogger(__name__)

BY_MAINTAINER = 'by the maintainer '    # begins the reason that a maintainer gave
MAX_TOKEN_CHARS = 4096          # a header of gRPC has 8 KiB
MAX_AUTHORITY_CHARS = 65_536    # a chain of certificates has a few thousand
MOST_NAME = 200                 # the column of the database
MOST_SAID = 500                 # an address, or a sentence
NOT_IN_NAMES = '/\\<>&"\'`?#%'    # they mean something in an address, a path or HTML
REVIEWS, PROBES = 8, 32    # at once


@dataclass(frozen=True)
class PolicyChecks:
    """
    How a policy is asked.

    ``conformance`` and ``probe`` take a target and return what is wrong with the policy there
    ('' when nothing is); ``spec`` returns its spec or raises, None: needs are what owners state.
    """

    conformance: Callable[[PolicyTarget], str]
    probe: Callable[[PolicyTarget], str]
    spec: Callable[[PolicyTarget], PolicySpec] | None = None


class Pool:
    """
    Registers policies and changes their states.

    ``checks`` ask the policies. Without ``probation`` a policy that passes is in the pool at once,
    unless ``approval`` wants a maintainer to look first.
    After ``failures`` rollouts in a row that failed at the relay it is checked again. Reviews and
    probes run beside each other; ``failed`` is called with the name of one that raised. ``joined``
    are the policies whose machines dialled out.
    """

    def __init__(self, policies: Policies, checks: PolicyChecks,
                 allowed_networks: Iterable[str], own: Iterable[tuple[str, int]],
                 probation: bool = True, approval: Approval = Approval.NONE, failures: int = 3,
                 failed: Callable[[str], None] = lambda name: None,
                 joined: JoinedPolicies | None = None) -> None:
        self._joined = joined or JoinedPolicies()
        self._policies = policies
        self.checks = checks
        self._reviews = SideCalls('review', REVIEWS, lambda: failed('review'))
        self._probes = SideCalls('probe', PROBES, lambda: failed('probe'))
        self._networks = tuple(allowed_networks)
        self._own = tuple(own)
        self._probation = probation
        self._approval = approval
        self._failures = failures

    def submit(self, caller: Caller, new: NewPolicy, token: str = '',
               tls_ca: str = '') -> PolicyRecord:
        """
        Store a new policy as submitted; the next :meth:`review` checks it.

        ``token`` is what the relay and the checks show to it, ``tls_ca`` the certificate of the
        authority that they trust instead of the public ones, PEM.
        """
        _check_name(new.name)
        self._check(caller.id, new)
        return self._policies.add(new, caller.id, token=_checked_token(token),
                                  tls_ca=_checked_authority(tls_ca))

    def update(self, caller: Caller, new: NewPolicy, token: str | None = None,
               tls_ca: str | None = None) -> PolicyRecord:
        """
        Change a policy; another address or need sends it through the check again.

        ``token`` and ``tls_ca`` None keep those it has, '' removes them.
        """
        old = self.mine(caller, new.name)
        self._check(old.owner_id, new)
        values = new.columns()
        values.pop('name')
        if token is not None:
            values['token'] = _checked_token(token)
        if tls_ca is not None:
            values['tls_ca'] = _checked_authority(tls_ca)
        record = self._policies.update(new.name, **values)
        if any(getattr(old, name) != getattr(record, name) for name in ('address', *NEEDS)) \
                and old.state in (PolicyState.PROBATION, PolicyState.POOL):
            return self._policies.move(new.name, PolicyState.SUBMITTED, 'changed; to be checked')
        return record

    def resubmit(self, caller: Caller, name: str) -> PolicyRecord:
        """
        Send a suspended policy through the check again.

        Conflict while reports that it was unsafe suspend it, or a maintainer did: only a
        maintainer clears them, or has the policy checked again.
        """
        record = self.mine(caller, name)
        if why := self._policies.why_unsafe(record.id):
            raise Conflict(f"policy '{name}' is {why}")
        if record.reason.startswith(BY_MAINTAINER) and Role.MAINTAINER not in caller.roles:
            raise Conflict(f"policy '{name}' was suspended {record.reason}; only a maintainer "
                           'lets it be checked again')
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
        """
        Check every submitted policy and move it on: probation, or suspended with the reason.

        A policy that failed at the relay too often is checked as a new one is: it is suspended
        when the check fails, and its failures are forgotten otherwise.
        """
        return [review.result() for review in self.begin_reviews()]

    def begin_reviews(self) -> 'list[Future[PolicyRecord]]':
        """Begin the checks that are due and not running, without waiting for them."""
        due = [(record, self._review) for record in self._policies.list(PolicyState.SUBMITTED)]
        due += [(record, self._recheck) for record in self._policies.list(*LIVE)
                if record.healthy and record.failures >= self._failures]
        return [begun for record, check in due
                if (begun := self._reviews.begin(record.id, partial(check, record)))]

    def close(self) -> None:
        """Begin no further check."""
        self._reviews.close()
        self._probes.close()

    def _review(self, record: PolicyRecord) -> PolicyRecord:
        if self._policies.by_id(record.id).state is not PolicyState.SUBMITTED:
            return record    # retired while it waited for its turn
        wrong = self._admitted(record) or self._ask(self.checks.conformance, record)
        self._policies.set_health(record.id, not wrong)
        if wrong:
            return self._policies.move(record.name, PolicyState.SUSPENDED, wrong)
        # In one step: who waits for the review reads the first state that is not submitted.
        waits = self._probation or self._policies.waits_for_approval(record.id, self._approval)
        return self._policies.move(
            record.name, PolicyState.PROBATION if waits else PolicyState.POOL)

    def _admitted(self, record: PolicyRecord) -> str:
        """Store what the policy's server says it needs; return what contradicts its owner."""
        if self.checks.spec is None:
            return ''
        try:
            spec = self.checks.spec(self.reachable(record))
        except ArenaError as error:
            return str(error)
        declared = {name: getattr(record, name) for name in record.stated.split(',') if name}
        wrong = contradictions(declared, spec)
        if not wrong:
            self._policies.admit(record.id, spec)
        return wrong

    def probe(self) -> int:
        """Ask every live policy whether it is there; return how many are."""
        return sum(probe.result() for probe in self.begin_probes())

    def begin_probes(self) -> 'list[Future[bool]]':
        """Begin to ask the live policies that are not being asked, without waiting."""
        return [begun for record in self._policies.list(*LIVE)
                if (begun := self._probes.begin(record.id, partial(self._probed, record)))]

    def _probed(self, record: PolicyRecord) -> bool:
        wrong = self._ask(self.checks.probe, record)
        self._policies.set_health(record.id, not wrong, wrong)
        return not wrong

    def _recheck(self, record: PolicyRecord) -> PolicyRecord:
        wrong = self._ask(self.checks.conformance, record)
        self._policies.set_health(record.id, not wrong, wrong)
        if wrong:
            return self._policies.move(record.name, PolicyState.SUSPENDED,
                                f'{record.failures} rollouts in a row failed at the relay, and '
                                f"the server's own check: {wrong}")
        self._policies.forget_failures(record.id)
        return self._policies.by_id(record.id)

    def reachable(self, record: PolicyRecord) -> PolicyTarget:
        """Return where a policy may be called now, its IP address pinned; DataError."""
        secret = record.has_token or record.has_tls_ca
        return PolicyTarget(self._pinned(record.owner_id, record.address),
                            *(self._policies.credentials_of(record.id) if secret else ()))

    def _ask(self, check: Callable[[PolicyTarget], str], record: PolicyRecord) -> str:
        try:
            # The name may resolve to another address than when it was submitted.
            return check(self.reachable(record))
        except ArenaError as error:
            return str(error)

    def _pinned(self, owner_id: int, address: str) -> str:
        place = addresses.parse(address)
        if not place.host.endswith(SUFFIX):
            return addresses.pinned(address, self._networks, self._own)
        if place.secure:
            raise DataError(f'{address}: a joined policy is at grpc:// or openpi://; what is '
                            'encrypted is the call that it joined with')
        return addresses.at(place, LOOPBACK, self._joined.port(owner_id, place.host))

    def _check(self, owner_id: int, new: NewPolicy) -> None:
        if len(new.description) > 10_000:
            raise DataError('a description has up to 10000 characters')
        for key, said in json.loads(new.provenance or '{}').items():
            if key not in PROVENANCE:
                raise DataError(f"provenance: there is no '{key:.40}'.{nearest(key, PROVENANCE)}")
            if not said.isprintable() or len(said) > MOST_SAID:
                raise DataError(f'{key} has up to {MOST_SAID} printable characters')
        spaces = [s.value for s in ActionSpace]
        robots = ('any', *ROBOTS, *self._policies.robots())
        for value, known in ((new.robot, robots), (new.action_space, spaces)):
            if value is not None and value not in known:
                raise DataError(f"unknown '{value:.60}'.{nearest(value[:60], known)}")
        if new.external_cameras is not None and not 0 <= new.external_cameras <= 2:
            raise DataError(f'external_cameras is 0 to 2, found {new.external_cameras}')
        self._pinned(owner_id, new.address)


def _check_name(name: str) -> None:
    """Raise DataError for a name that cannot be a part of an address, a file name or a page."""
    wrong = sorted({c for c in name if c in NOT_IN_NAMES or not c.isprintable()})
    if wrong or not 0 < len(name) <= MOST_NAME or name[0] in '.-':
        has = f"it has {' '.join(map(repr, wrong))}" if wrong else f'found {name!r:.80}'
        raise DataError(f'a policy name has 1 to {MOST_NAME} printable characters, begins with '
                        f'neither . nor -, and has none of {NOT_IN_NAMES}; {has}')


def _checked_authority(text: str) -> str:
    """Return the certificate of a private authority; DataError when it is none."""
    if not text:
        return ''
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise DataError('the certificate of the authority is not PEM that can be read'
                        ) from error
    if len(text) > MAX_AUTHORITY_CHARS:
        raise DataError(f'the certificates of an authority have up to {MAX_AUTHORITY_CHARS} '
                        'characters')
    return text


def _checked_token(token: str) -> str:
    """Return the token that a policy requires; DataError when no header could carry it."""
    if len(token) > MAX_TOKEN_CHARS or not token.isascii() or not token.isprintable() \
            or ' ' in token:
        raise DataError(f'the token of a policy has up to {MAX_TOKEN_CHARS} printable ASCII '
                        'characters without spaces')
    return token


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
        """Return the reports on a policy, whether it waits for a maintainer, what it did."""
        with self._database.read() as connection:
            reports = tuple(reports_by_policy(connection).get(record.id, ()))
            waits = record.state is PolicyState.PROBATION and waits_for_approval(
                connection, record.id, self._rule)
            return PolicyReview(reports, waits, activity(connection, record.id))

    def appeal(self, caller: Caller, name: str, text: str) -> PolicyRecord:
        """Store what an owner says to the reports on a policy, for the maintainers."""
        record = self._policies.get(name)
        if record.owner_id != caller.id:
            raise Unauthorised(f"policy '{name}' belongs to somebody else")
        if not text.strip() or len(text) > MAX_TEXT_CHARS:
            raise DataError(f'an appeal has 1 to {MAX_TEXT_CHARS} characters')
        return self._policies.update(name, appeal=text.strip())

    def suspend(self, caller: Caller, name: str, why: str) -> PolicyRecord:
        """Suspend a policy; a maintainer says why, and only a maintainer has it checked again."""
        if Role.MAINTAINER not in caller.roles:
            raise Unauthorised('only a maintainer suspends a policy')
        if not why.strip() or len(why) > MAX_TEXT_CHARS:
            raise DataError(f'say why it is suspended, in 1 to {MAX_TEXT_CHARS} characters')
        return self._policies.move(name, PolicyState.SUSPENDED,
                                   f'{BY_MAINTAINER}{caller.name}: {why.strip()}')

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


BUDGET_S = 300.0    # a policy that compiles at its first query takes minutes
PROBE = CallOptions(connect_timeout_s=3.0, infer_timeout_s=5.0)


def probe(target: PolicyTarget) -> str:
    """Return '' when a policy answers with a spec, else what is wrong."""
    try:
        with connect(target.address, target.options(PROBE)) as policy:
            rate = policy.spec.control_rate_hz
    except ArenaError as error:
        return f'{error.code}: {error}'
    return '' if math.isfinite(rate) else 'the spec has no control rate'


def spec(target: PolicyTarget) -> PolicySpec:
    """Return what a policy's server says of it; raises PolicyError, ConfigError."""
    with connect(target.address, target.options(PROBE)) as policy:
        return policy.spec


def conformance(target: PolicyTarget) -> str:
    """Return '' when the policy passes the suite, else what it must change."""
    report = run_suite(target.address, ProbeLimits(
        calls=20, budget_s=BUDGET_S, options=target.options()))
    failed = [r for r in report.results if r.outcome == FAIL]
    return '; '.join(f"{r.check.replace('_', ' ')}: {r.received} ({r.change})" for r in failed)
