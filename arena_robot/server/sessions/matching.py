"""From a station's request to a blind pair: which policies fit, conflicts, draw, credits."""

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import Conflict, DataError, Unauthorised
from arena_robot.core.observation import OUTSIDE
from arena_robot.core.pair import commitment
from arena_robot.core.task_categories import categorise
from arena_robot.policy.base import PolicySpec
from arena_robot.robots.arms import ROBOTS
from arena_robot.server.base import (
    Account,
    Caller,
    NoPair,
    PolicyRecord,
    PolicyState,
    Role,
    Station,
    check_rules,
    conflict,
    of_json,
)
from arena_robot.server.config import Weights
from arena_robot.server.sealing import Seal, random_seal
from arena_robot.server.sessions.assignment import Aim, Candidate, Posterior, choose
from arena_robot.server.store import redraws, sealed_pairs
from arena_robot.server.store.accounts import Accounts, digest
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.ledger import Ledger, paid_for
from arena_robot.server.store.policies import Policies
from arena_robot.server.store.sessions import NewSession, SessionRow, Sessions, load
from arena_robot.server.store.unsafe_reports import reported_at

log = logging.getLogger(__name__)

PROMPT_CHARS = 500    # a policy reads it, and the log keeps it for ever
# One is being run; the verdicts of the others may still wait in the station's outbox.
OPEN_SESSIONS = 8
# Judged sessions of an evaluator whose files the station has still to send.
WAITING_SESSIONS = 30
# Of a code that is written on paper: none that looks like another one.
CODE_LETTERS, CODE_LENGTH = 'ACEFHJKLMNPRTUVWXY3479', 4
PosteriorOf = Callable[[Sequence[PolicyRecord]], Posterior | None]


@dataclass(frozen=True)
class Request:
    """A station's request; ``request`` is its unique name, so that it can be repeated."""

    request: str
    evaluator: str
    prompt: str
    equal_latency: bool = False
    third_person: str = ''


@dataclass(frozen=True)
class DrawRules:
    """
    How pairs are drawn.

    Conflicts of interest that exclude a policy, how often a pair may be given up a day, how many
    sessions an evaluator and a station may run a day, what the comparisons are for, and the share
    of sessions whose start photograph has to show a code.
    """

    conflicts: tuple[str, ...] = ()
    redraws_per_day: int = 6
    evaluator_sessions_per_day: int = 100
    station_sessions_per_day: int = 300
    aim: Aim = field(default_factory=Aim)
    photo_code_share: float = 0.05

    def __post_init__(self) -> None:
        check_rules(self.conflicts)


@dataclass(frozen=True)
class _Pair:
    """Policies of slots A and B; ``repeats`` is the given-up session that had them, or ''."""

    a: PolicyRecord
    b: PolicyRecord
    chosen: bool | None
    repeats: str = ''


class Matching:
    """Assigns pairs; ``posterior`` tells what the ranking knows, or None."""

    def __init__(self, database: Database, clock: Clock, weights: Weights,
                 rng: np.random.Generator, posterior: PosteriorOf = lambda _: None,
                 rules: DrawRules = DrawRules(), seal: Seal | None = None) -> None:
        self._rules = rules
        self._seal = seal or random_seal()
        self._database = database
        self._clock = clock
        self._weights = weights
        self._rng = rng
        self._posterior = posterior
        self._draw = threading.Lock()
        self._accounts = Accounts(database, clock)
        self._policies = Policies(database, clock)
        self._sessions = Sessions(database, clock)
        self._ledger = Ledger(database, clock)

    def assign(self, caller: Caller, request: Request) -> SessionRow:
        """
        Return a new session for the calling station, or the one this request led to before.

        A pair that the evaluator gave up comes again, in the same order. Raises Unauthorised for
        anybody but a station or an evaluator of another institution, DataError for a prompt that
        cannot be one, Conflict while too many of the station's sessions are open or after too
        many were given up, NoPair when fewer than two policies fit.
        """
        station, evaluator = self._who(caller, request.evaluator)
        prompt = checked_prompt(request.prompt)
        before = self._sessions.by_request(request.request)
        if before is not None:
            if before.station_id != station.id or before.prompt != prompt:
                raise Conflict('this request was made before with another instruction')
            return before
        allowed = self._allowed(station, evaluator)
        drawn = self._drawn(allowed)
        with self._database.write() as connection:
            count = self._sessions.open_at(connection, station.id)
            # The station's row is locked now: the same request, made twice at once, is seen here.
            session_id = self._sessions.id_of_request(connection, request.request)
            if session_id is not None:
                return load(connection, session_id)
            _refuse_many(count, station)
            pair = self._again(connection, evaluator, allowed) or drawn
            self._refuse_redraws(connection, evaluator)
            self._refuse_quota(connection, evaluator, station)
            session_id = self._sessions.create(
                connection, self._new(request, station, evaluator, prompt, pair))
            return load(connection, session_id)

    def _who(self, caller: Caller, evaluator: str) -> tuple[Station, Account]:
        if Role.STATION not in caller.roles:
            raise Unauthorised("only a station can ask for a pair; use the station's token")
        account = self._accounts.account(evaluator)
        if Role.EVALUATOR not in account.roles or account.institution != caller.institution:
            raise Unauthorised(f"'{evaluator}' is not an evaluator of {caller.institution}; "
                               'ask the maintainer to add the account')
        return self._accounts.station(caller.name), account

    def _allowed(self, station: Station, evaluator: Account) -> list[PolicyRecord]:
        """Return the policies that fit the station and in which the evaluator has no interest."""
        states = [PolicyState.POOL] + ([PolicyState.PROBATION] if station.test_driver else [])
        fitting = [p for p in self._policies.list(*states) if p.healthy and fits(p, station)]
        conflicts = {number: conflict(evaluator, owner, self._rules.conflicts)
                 for number, owner in self._accounts.owners().items()}
        with self._database.read() as connection:
            unsafe = reported_at(connection, station.id)
        fitting = [p for p in fitting if p.id not in unsafe]
        allowed = [p for p in fitting if not conflicts[p.owner_id]]
        if len(allowed) < 2 <= len(fitting):
            rules = ', '.join(sorted({rule for rule in conflicts.values() if rule}))
            raise NoPair(f'fewer than two policies are free of a conflict of interest with '
                         f"evaluator '{evaluator.name}' (rules: {rules}); another evaluator can "
                         'judge them')
        return allowed

    def _again(self, connection: Connection, evaluator: Account, allowed: Sequence[PolicyRecord],
               ) -> _Pair | None:
        by_id = {p.id: p for p in allowed}
        for session_id, a, b, chosen in redraws.pairs_to_repeat(connection, evaluator.id):
            if a in by_id and b in by_id:
                return _Pair(by_id[a], by_id[b], chosen, session_id)
        return None

    def _refuse_redraws(self, connection: Connection, evaluator: Account) -> None:
        given_up = redraws.count_since(connection, evaluator.id, self._clock.now_ns() - DAY_NS)
        if given_up >= self._rules.redraws_per_day:
            raise Conflict(f'{given_up} sessions of {evaluator.name} were aborted, invalid, or '
                           'judged without two rollouts and their files within 24 hours; up to '
                           f'{self._rules.redraws_per_day} are accepted: send the files that are '
                           'missing, continue tomorrow, or ask the maintainer')
        waiting = redraws.count_waiting(connection, evaluator.id)
        if waiting >= WAITING_SESSIONS:
            raise Conflict(f'{waiting} judged sessions of {evaluator.name} wait for their files; '
                           'leave the station on until it has sent them, then start the next one')

    def _refuse_quota(self, connection: Connection, evaluator: Account, station: Station) -> None:
        since_ns = self._clock.now_ns() - DAY_NS
        for holder, column, number, most in (
                (f'evaluator {evaluator.name}', 'evaluator_id', evaluator.id,
                 self._rules.evaluator_sessions_per_day),
                (f'station {station.name}', 'station_id', station.id,
                 self._rules.station_sessions_per_day)):
            if redraws.count_counting(connection, column, number, since_ns) >= most:
                raise Conflict(f'{holder} began {most} sessions within 24 hours that count or may '
                               'count yet, which is the most that this server takes in a day; '
                               'continue when 24 hours have passed since the first of them, or '
                               'ask the maintainer for a larger quota')

    def _photo_code(self) -> str:
        with self._draw:
            asked = self._rng.random() < self._rules.photo_code_share
        return ''.join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH)) if asked else ''

    def _drawn(self, fitting: Sequence[PolicyRecord]) -> _Pair:
        balances, owners = self._ledger.of_accounts(), self._accounts.owners()
        with self._database.read() as connection:
            open_requests = sealed_pairs.requested(connection)
        candidates = [Candidate(p.id, p.owner_id, p.requested + open_requests[p.id],
                                min(1.0, balances.get(f'account:{owners[p.owner_id].name}', 0)
                                    / self._weights.full_credit),
                                p.state is PolicyState.PROBATION,
                                balances.get(paid_for(p.name), 0) > 0) for p in fitting]
        by_id = {p.id: p for p in fitting}
        posterior = self._posterior(fitting)
        with self._draw:
            a, b = choose(candidates, self._rng, self._weights, posterior, self._rules.aim)
        return _Pair(by_id[a.id], by_id[b.id], posterior is not None)

    def _new(self, asked: Request, station: Station, evaluator: Account, prompt: str,
             pair: _Pair) -> NewSession:
        nonce, request, a, b = secrets.token_hex(32), asked.request, pair.a, pair.b
        probation = PolicyState.PROBATION in (a.state, b.state)
        return NewSession(
            equal_latency_s=0.0 if asked.equal_latency else None,
            request=request, station_id=station.id, evaluator_id=evaluator.id,
            institution=evaluator.institution, prompt=prompt, policy_a_id=a.id, policy_b_id=b.id,
            nonce=nonce, commitment=commitment(nonce, a.name, b.name, probation),
            category=categorise(prompt), token_a=self._token(request, 'A'),
            token_b=self._token(request, 'B'), repeats=pair.repeats or None,
            probation=probation, third_person=checked_camera(asked.third_person),
            photo_code=self._photo_code(), chosen=pair.chosen)

    def tokens(self, session: SessionRow) -> tuple[str, str]:
        """
        Return the tokens of a session's slots; they are derived anew, only digests are kept.

        Conflict when the key that they were made with is gone.
        """
        tokens = [next((token for token in self._seal.derived(f'{session.request}:{slot}')
                       if digest(token) == kept), '')
                 for slot, kept in (('A', session.token_a), ('B', session.token_b))]
        if not all(tokens):
            raise Conflict(f'the tokens of session {session.id} were made with another key; abort '
                           'it and start a new one')
        return tokens[0], tokens[1]

    def _token(self, request: str, slot: str) -> str:
        return next(self._seal.derived(f'{request}:{slot}'))


def _refuse_many(count: int, station: Station) -> None:
    if count >= OPEN_SESSIONS:
        raise Conflict(f'station {station.name} has {count} sessions open; '
                       'finish or abort one first')


def fits(policy: PolicyRecord, station: Station) -> bool:
    """Tell whether a station has the robot and the cameras that a policy needs."""
    spec = of_json(policy.spec)
    return (_drives(policy, spec, station.robot)
            and policy.external_cameras <= station.external_cameras
            and (station.wrist_camera or not policy.wrist_camera)
            and (station.stereo or not policy.stereo)
            and (station.depth or spec is None or not spec.depths()))


def _drives(policy: PolicyRecord, spec: PolicySpec | None, robot: str) -> bool:
    """
    Tell whether a policy drives a robot: ``any`` is any of DROID's, or what its spec allows.

    A policy whose actions are in a layout drives the robot that has it.
    """
    if spec is not None and spec.layout and spec.layout.partition('/')[0] != robot:
        return False
    if policy.robot != 'any' or (spec is not None and spec.layout):
        return policy.robot in ('any', robot)
    joints = PolicySpec.joints if spec is None else spec.joints
    known = ROBOTS.get(robot)
    return joints == 0 or (known is not None and known.joints == joints)


def checked_camera(role: str) -> str:
    """Return the role of an outside camera, '' when none is said; DataError for another one."""
    if role not in ('', *OUTSIDE):
        raise DataError(f"an outside camera is {' or '.join(OUTSIDE)}, found '{role:.20}'")
    return role


def checked_prompt(prompt: str) -> str:
    """Return the instruction without surrounding space; DataError when it cannot be one."""
    text = prompt.strip()
    if not text or len(text) > PROMPT_CHARS or any(ord(c) < 32 for c in text):
        raise DataError(f'an instruction has 1 to {PROMPT_CHARS} characters on one line, '
                        f'found {len(text)}')
    return text

