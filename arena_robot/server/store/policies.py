"""The pool: policies and the changes of their states."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from arena_robot.core.clock import Clock
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import Conflict, DataError
from arena_robot.core.inferences import Inference
from arena_robot.policy.base import PolicySpec
from arena_robot.server.base import (
    NEEDS,
    PolicyActivity,
    PolicyFailure,
    PolicyRecord,
    PolicyState,
    as_json,
    needs_of,
)
from arena_robot.server.config import Approval
from arena_robot.server.store.database import Database, listed
from arena_robot.server.store.ledger import balance_of, paid_for
from arena_robot.server.store.schema import episodes, policies, relayed, sessions, stations
from arena_robot.server.store.sealed_pairs import publish_retired
from arena_robot.server.store.unsafe_reports import (
    owner_is_reported,
    reports_by_policy,
    why_suspended,
)
from arena_robot.server.store.webhooks import tell

LIVE = (PolicyState.PROBATION, PolicyState.POOL)
FAULTS = (EndReason.POLICY_ERROR.value, EndReason.SAFETY_STOP.value, EndReason.STOPPED.value)
TIMED, FAILURES = 5, 5    # newest rollouts whose answers are timed, failures that are named
_MOVES = {
    PolicyState.SUBMITTED: (PolicyState.PROBATION, PolicyState.POOL, PolicyState.SUSPENDED,
                            PolicyState.RETIRED),
    PolicyState.PROBATION: (PolicyState.POOL, PolicyState.SUSPENDED, PolicyState.RETIRED,
                            PolicyState.SUBMITTED),
    PolicyState.POOL: (PolicyState.SUSPENDED, PolicyState.RETIRED, PolicyState.SUBMITTED),
    PolicyState.SUSPENDED: (PolicyState.SUBMITTED, PolicyState.RETIRED),
    PolicyState.RETIRED: (),
    PolicyState.STUDY: (),
}

_IN_STATES = sa.select(policies).where(policies.c.state.in_(
    sa.bindparam('states', expanding=True))).order_by(policies.c.name)


@dataclass(frozen=True)
class NewPolicy:
    """
    What an owner submits; see :class:`arena_robot.server.base.PolicyRecord`.

    What is None is read from the policy's server when it is checked.
    """

    name: str
    address: str
    description: str = ''
    open_source: bool = False
    robot: str = 'any'
    action_space: str | None = None
    external_cameras: int | None = None
    wrist_camera: bool | None = None
    stereo: bool | None = None
    provenance: str | None = None

    def stated(self) -> dict[str, Any]:
        """Return the needs that the owner states."""
        return {name: value for name in NEEDS if (value := getattr(self, name)) is not None}

    def columns(self) -> dict[str, Any]:
        """Return what is stated, by column."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {**given, 'stated': ','.join(self.stated())}


class Policies:
    """Register and find policies, and change their states."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, new: NewPolicy, owner_id: int,
            state: PolicyState = PolicyState.SUBMITTED, token: str = '',
            tls_ca: str = '') -> PolicyRecord:
        """
        Store a policy; Conflict when the name is taken (also by a retired one).

        ``token`` is what the relay shows to it; it is sealed. ``tls_ca`` is the certificate of
        its private authority, PEM.
        """
        now = self._clock.now_ns()
        row = {**needs_of(PolicySpec()), **new.columns(), 'owner_id': owner_id,
               'state': state.value, 'reason': '', 'failures': 0, 'requested': 0, 'healthy': False,
               'checked_ns': 0,
               'created_ns': now, 'updated_ns': now, 'token': token, 'tls_ca': tls_ca}
        try:
            with self._database.write() as connection:
                connection.execute(sa.insert(policies).values(**row))
        except sa.exc.IntegrityError as error:
            raise Conflict(f"a policy named '{new.name}' exists; choose another name, or "
                           'change your own with: arena policy submit NAME ADDRESS --update'
                           ) from error
        return self.get(new.name)

    def get(self, name: str) -> PolicyRecord:
        """Return the policy of that name; DataError when there is none."""
        return self._one(policies.c.name == name, f"named '{name}'")

    def by_id(self, number: int) -> PolicyRecord:
        """Return a policy by number; DataError when there is none."""
        return self._one(policies.c.id == number, f'with number {number}')

    def by_ids(self, numbers: Iterable[int]) -> dict[int, PolicyRecord]:
        """Return policies by number, without those that are unknown here."""
        query = sa.select(policies).where(policies.c.id.in_(listed(numbers)))
        with self._database.read() as connection:
            return {row['id']: record(row) for row in connection.execute(query).mappings()}

    def credentials_of(self, number: int) -> tuple[str, str]:
        """Return the token that the relay shows to a policy and its authority, '' for none."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(policies.c.token, policies.c.tls_ca).where(
                policies.c.id == number)).first()
        return (row.token or '', row.tls_ca or '') if row else ('', '')

    def admit(self, number: int, spec: PolicySpec) -> None:
        """Store what a policy's server says; the pool assigns it by that."""
        with self._database.write() as connection:
            connection.execute(sa.update(policies).where(policies.c.id == number).values(
                **needs_of(spec), spec=as_json(spec), updated_ns=self._clock.now_ns()))

    def list(self, *states: PolicyState, owner_id: int | None = None) -> list[PolicyRecord]:
        """Return the policies in the given states (all when none is given), by name."""
        query = _IN_STATES if owner_id is None else _IN_STATES.where(
            policies.c.owner_id == owner_id)
        wanted = {'states': [state.value for state in states or PolicyState]}
        with self._database.read() as connection:
            return [record(row) for row in connection.execute(query, wanted).mappings()]

    def robots(self) -> set[str]:
        """Return the robots of all stations."""
        with self._database.read() as connection:
            return set(connection.execute(sa.select(stations.c.robot).distinct()).scalars())

    def update(self, name: str, **changes: Any) -> PolicyRecord:
        """Change fields of a policy; its state is moved with :meth:`move` alone."""
        allowed = {'address', 'description', 'open_source', 'robot', 'action_space',
                   'external_cameras', 'wrist_camera', 'stereo', 'stated', 'token', 'tls_ca',
                   'appeal', 'provenance'}
        wrong = set(changes) - allowed
        if wrong:
            raise DataError(f"cannot change {', '.join(sorted(wrong))} of a policy; "
                            f"these can: {', '.join(sorted(allowed))}")
        with self._database.write() as connection:
            connection.execute(sa.update(policies).where(policies.c.name == name).values(
                **changes, updated_ns=self._clock.now_ns()))
        return self.get(name)

    def move(self, name: str, to: PolicyState, reason: str = '') -> PolicyRecord:
        """Move a policy to its next state; Conflict when that step is not allowed."""
        with self._database.write() as connection:
            row = connection.execute(sa.select(policies.c.id, policies.c.state).where(
                policies.c.name == name).with_for_update()).first()
            if row is None:
                raise DataError(f"there is no policy named '{name}' on this server")
            state = PolicyState(row.state)
            if to is not state and to not in _MOVES[state]:
                raise Conflict(f"policy '{name}' is {state.value} and cannot become {to.value}")
            connection.execute(sa.update(policies).where(policies.c.name == name).values(
                state=to.value, reason=reason, failures=0, updated_ns=self._clock.now_ns()))
            if to is PolicyState.SUSPENDED and to is not state:
                _tell_suspended(connection, row.id, reason, self._clock.now_ns())
            if to is PolicyState.RETIRED:
                publish_retired(connection)
        return self.get(name)

    def set_health(self, number: int, healthy: bool, reason: str = '') -> None:
        """Store what a probe found; the reason of a suspended policy is left alone."""
        keep = policies.c.state == PolicyState.SUSPENDED.value
        with self._database.write() as connection:
            connection.execute(sa.update(policies).where(policies.c.id == number).values(
                healthy=healthy, checked_ns=self._clock.now_ns(),
                reason=sa.case((keep, policies.c.reason), else_=reason)))

    def waits_for_approval(self, number: int, rule: Approval) -> bool:
        """See :func:`waits_for_approval`."""
        with self._database.read() as connection:
            return waits_for_approval(connection, number, rule)

    def why_unsafe(self, number: int) -> str:
        """Return why reports that a policy was unsafe suspend it; '' when they do not."""
        with self._database.read() as connection:
            return why_suspended(reports_by_policy(connection).get(number, ()))

    def forget_failures(self, number: int) -> None:
        """Start to count a policy's failures anew."""
        with self._database.write() as connection:
            note_failures(connection, number, 0, self._clock.now_ns())

    def _one(self, clause: Any, what: str) -> PolicyRecord:
        with self._database.read() as connection:
            row = connection.execute(sa.select(policies).where(clause)).mappings().first()
        if row is None:
            raise DataError(f'there is no policy {what} on this server')
        return record(row)


def record(row: Any) -> PolicyRecord:
    """Return the record in a row of the table."""
    values = {k: v for k, v in row.items() if k not in (
        'created_ns', 'updated_ns', 'token', 'tls_ca')}
    values['has_token'], values['has_tls_ca'] = bool(row['token']), bool(row['tls_ca'])
    return PolicyRecord(**{**values, 'state': PolicyState(values['state'])})


def note_failures(connection: Connection, number: int, failures: int, now_ns: int) -> None:
    """Store how many of a policy's newest rollouts in a row failed."""
    connection.execute(sa.update(policies).where(
        policies.c.id == number, policies.c.failures != failures).values(
        failures=failures, updated_ns=now_ns))


def suspend(connection: Connection, number: int, reason: str, now_ns: int) -> bool:
    """Suspend a live policy inside the caller's transaction; tell whether it was live."""
    done = connection.execute(sa.update(policies).where(
        policies.c.id == number, policies.c.state.in_([s.value for s in LIVE])).values(
        state=PolicyState.SUSPENDED.value, reason=reason, updated_ns=now_ns))
    if done.rowcount:
        _tell_suspended(connection, number, reason, now_ns)
    return done.rowcount > 0


def _tell_suspended(connection: Connection, number: int, reason: str, now_ns: int) -> None:
    row = connection.execute(sa.select(policies.c.name, policies.c.owner_id).where(
        policies.c.id == number)).one()
    tell(connection, row.owner_id, 'policy_suspended', {'policy': row.name, 'reason': reason},
         now_ns)


def policy_names(connection: Connection) -> dict[int, str]:
    """Return the name of every policy by its number."""
    return {row.id: row.name for row in connection.execute(
        sa.select(policies.c.id, policies.c.name))}


def policy_owners(connection: Connection) -> dict[str, str]:
    """Return the number of each policy's owner, as text, by name; imported ones have none."""
    return {row.name: str(row.owner_id) for row in connection.execute(
        sa.select(policies.c.name, policies.c.owner_id).where(policies.c.address != ''))}


def policy_states(connection: Connection, numbers: Iterable[int]) -> set[PolicyState]:
    """Return the states that the policies of those numbers are in."""
    return {PolicyState(word) for word in connection.execute(sa.select(policies.c.state).where(
        policies.c.id.in_(list(numbers)))).scalars()}


def owner_of(connection: Connection, number: int) -> int:
    """Return the number of the account that owns a policy."""
    return int(connection.execute(sa.select(policies.c.owner_id).where(
        policies.c.id == number)).scalar_one())


def on_probation(connection: Connection, numbers: Iterable[int]) -> list[int]:
    """Return those of the policies of these numbers that are on probation."""
    return list(connection.execute(sa.select(policies.c.id).where(
        policies.c.id.in_(list(numbers)), policies.c.state == PolicyState.PROBATION.value
    ).order_by(policies.c.id)).scalars())


def waits_for_approval(connection: Connection, number: int, rule: Approval) -> bool:
    """
    Tell whether a maintainer has to approve a policy before it enters the pool.

    With ``first`` that is so as well while a report of an unsafe rollout stands on any policy of
    its owner: the same policy under another name is not let in.
    """
    policy = connection.execute(sa.select(policies.c.owner_id, policies.c.approved).where(
        policies.c.id == number)).one()
    if rule is Approval.NONE or policy.approved:
        return False
    known = connection.execute(sa.select(policies.c.id).where(
        policies.c.owner_id == policy.owner_id, policies.c.id != number,
        sa.or_(policies.c.approved, policies.c.state == PolicyState.POOL.value)).limit(1)).first()
    return (rule is Approval.ALL or known is None
            or owner_is_reported(connection, policy.owner_id))


def approve(connection: Connection, number: int, now_ns: int) -> None:
    """Note that a maintainer approved a policy for the pool."""
    connection.execute(sa.update(policies).where(policies.c.id == number).values(
        approved=True, updated_ns=now_ns))


def end_probation(connection: Connection, number: int, now_ns: int) -> None:
    """Move a policy from probation to the pool; others stay as they are."""
    connection.execute(sa.update(policies).where(
        policies.c.id == number, policies.c.state == PolicyState.PROBATION.value).values(
        state=PolicyState.POOL.value, updated_ns=now_ns))


def activity(connection: Connection, number: int) -> PolicyActivity:
    """Return what the owner of a policy sees of its sessions."""
    newest = connection.execute(sa.select(relayed.c.last_ns, relayed.c.exact).where(
        relayed.c.policy_id == number, relayed.c.queries > 0).order_by(
        relayed.c.last_ns.desc()).limit(TIMED)).all()
    took = [Inference.of(json.loads(line)).took_s for row in newest
            for line in row.exact.splitlines()]
    name = connection.execute(sa.select(policies.c.name).where(
        policies.c.id == number)).scalar_one()
    failed = connection.execute(sa.select(
        episodes.c.session_id, episodes.c.slot, episodes.c.end_reason, episodes.c.detail,
        sessions.c.created_ns, sa.not_(sessions.c.probation)).join_from(episodes, sessions).where(
        episodes.c.policy_id == number, episodes.c.end_reason.in_(FAULTS),
        sessions.c.accepted_ns.is_not(None)).order_by(
        sessions.c.created_ns.desc(), sessions.c.id).limit(FAILURES))
    return PolicyActivity(
        newest[0].last_ns if newest else 0, median(took) if took else None,
        balance_of(connection, paid_for(name)), tuple(PolicyFailure(*row) for row in failed))


def clean_prompts(connection: Connection, number: int) -> int:
    """
    Return on how many different tasks a policy had a clean session on probation.

    Clean is an accepted session, not withdrawn, in which the policy neither failed nor tripped
    safety, and in which nobody pressed STOP or called its rollout unsafe.
    """
    mine = sa.and_(episodes.c.session_id == sessions.c.id, episodes.c.policy_id == number)
    prompt = sa.func.lower(sa.func.trim(sessions.c.prompt))
    query = sa.select(sa.func.count(sa.distinct(prompt))).join_from(
        sessions, episodes, mine).where(
        sessions.c.probation, sessions.c.accepted_ns.is_not(None),
        sessions.c.withdrawn_ns.is_(None),
        episodes.c.end_reason.not_in(FAULTS),
        sa.not_(sa.case((episodes.c.slot == Slot.A.value, sessions.c.unsafe_a),
                        else_=sessions.c.unsafe_b)))
    return int(connection.execute(query).scalar_one())
