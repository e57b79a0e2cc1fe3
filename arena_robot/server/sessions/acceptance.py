"""
Which judged sessions count.

A session counts once it is proven (:mod:`arena_robot.server.sessions.evidence`) and the
evaluator has no interest in its policies. It is then accepted: it gets an entry in the log, and
its evaluator a credit. Until then it is incomplete; it is checked again whenever a part of it
arrives, and periodically for an hour.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arena_robot.core.clock import DAY_NS, Clock
from arena_robot.core.errors import ArenaError, Conflict, DataError, Unauthorised
from arena_robot.server.base import Caller, Role, SessionState, conflict
from arena_robot.server.config import Approval
from arena_robot.server.relay.record import RelayRecord
from arena_robot.server.sessions.credits import charge_given_up, give_back
from arena_robot.server.sessions.evidence import Missing, missing, too_quick, waits
from arena_robot.server.sessions.recordings import Recordings
from arena_robot.server.store import sessions, verdicts
from arena_robot.server.store.accounts import (
    account_name,
    account_names,
    account_of,
    station_name,
    station_names,
)
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.files import SessionEvidence, collect
from arena_robot.server.store.ledger import (
    MINT,
    SPENT,
    NotEnoughCredit,
    Transfer,
    balance_of,
    book,
    lock,
    paid_for,
)
from arena_robot.server.store.log import of_session as log_of_session
from arena_robot.server.store.policies import (
    clean_prompts,
    end_probation,
    on_probation,
    owner_of,
    policy_names,
    waits_for_approval,
)
from arena_robot.server.store.relayed import overlapping
from arena_robot.server.store.sealed_pairs import publish_retired
from arena_robot.server.store.sessions import SessionRow, note_waits
from arena_robot.server.store.webhooks import tell
from arena_robot.server.transparency.log import TransparencyLog, correction_entry, session_entry

log = logging.getLogger(__name__)

# How long after its end a session that does not count is checked again periodically. Work that a
# killed server left, or that another server process holds, is finished by then.
LOOKED_AT_NS = 3600 * 10**9
# A station that was off for weeks still sends what it has.
LOOK_BACK_NS = 30 * DAY_NS
# Corrections of one session, and the characters of each: the log keeps them for ever.
CORRECTIONS, CORRECTION_CHARS = 5, 500
# How often one call checks a session whose station goes on changing it.
CHECKS = 5
# How long a station waits in a call while its recordings are read; its calls end after 15 s.
READ_S = 8.0


@dataclass(frozen=True)
class CountingRules:
    """See :class:`arena_robot.server.config.ServerConfig` for each of them."""

    conflicts: Iterable[str] = ()
    max_pace: float = 0.0
    probation_sessions: int = 3
    approve_policies: Approval = Approval.FIRST


class Acceptance:
    """Decides which sessions count; ``changed`` is called when the results changed."""

    def __init__(self, database: Database, clock: Clock, blobs: Blobs, record: RelayRecord,
                 transparency: TransparencyLog, rules: CountingRules, recordings: Recordings,
                 changed: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._clock = clock
        self._blobs = blobs
        self._record = record
        self._log = transparency
        self._rules = rules
        self._recordings = recordings
        self._conflicts = tuple(rules.conflicts)
        self._changed = changed

    def consider(self, session_id: str, wait_s: float = 0.0) -> Missing:
        """
        Accept a session if it counts now; store and return what is missing otherwise.

        Waits up to ``wait_s`` while its recordings are read.
        """
        for _ in range(CHECKS):
            lacks = self._considered(session_id, wait_s)
            if lacks is not None:
                return lacks
        return Missing('its files change while they are checked', waits=True)

    def _considered(self, session_id: str, wait_s: float) -> Missing | None:
        """Check a session once; None when it changed while its files were read."""
        self._record.flush(session_id)
        with self._database.read() as connection:
            session = sessions.load(connection, session_id)
            if not _open(session):
                return Missing()
            evidence = collect(connection, session_id)
            elsewhere = overlapping(connection, session) if self._rules.max_pace > 0.0 else ''
        lacks = missing(evidence, session_id, self._blobs, self._rules.max_pace)
        if not lacks.why:
            lacks = Missing(elsewhere or too_quick(evidence, session.ended_ns,
                                                   self._rules.max_pace))
        if not lacks.why:
            lacks = self._recordings.missing(session_id, evidence, self.consider, wait_s)
        with self._database.write() as connection:
            session = sessions.load(connection, session_id, lock=True)
            if not _open(session):
                return Missing()
            interest = self._interest(connection, session)
            if lacks.why or interest:
                verdicts.mark_incomplete(connection, session_id, lacks.why, interest)
                return lacks
            if collect(connection, session_id) != evidence:
                return None    # the log would name what was there before
            self._accept(connection, session, evidence)
        self._changed()
        return lacks

    def consider_all(self) -> None:
        """Look again at every session that waits; then enter what counted without an entry."""
        with self._database.read() as connection:
            waiting = verdicts.incomplete_sessions(connection,
                                                   self._clock.now_ns() - LOOK_BACK_NS)
        for session_id in waiting:
            try:
                self.consider(session_id)
                self._settle(session_id)
            except ArenaError as error:
                log.warning('session %s could not be looked at: %s', session_id, error)
        with self._database.write() as connection:
            publish_retired(connection)
        enter_imported(self._database, self._log)

    def _settle(self, session_id: str) -> None:
        with self._database.write() as connection:
            session = sessions.load(connection, session_id, lock=True)
            now, newest = self._clock.now_ns(), max(session.ended_ns or 0, session.seen_ns)
            if _open(session) and newest < now - LOOKED_AT_NS:
                verdicts.mark_final(connection, session_id)
                charge_given_up(connection, session, now)

    def told(self, session_id: str) -> tuple[bool, str]:
        """Return whether a session counts, and why not."""
        self.consider(session_id, READ_S)
        with self._database.read() as connection:
            session = sessions.load(connection, session_id)
        return counts(session), why_not(session)

    def correct(self, caller: Caller, session_id: str, text: str, withdraw: bool) -> None:
        """
        Append a correction to an accepted session; ``withdraw`` makes it count no longer.

        For the session's evaluator and maintainers; only a maintainer withdraws. The site shows
        the names of what counts, revealed at the station or not, and nobody who knows the winner
        may choose what counts. Raises Unauthorised, Conflict, DataError.
        """
        text = text.strip()
        if not text or len(text) > CORRECTION_CHARS:
            raise DataError(f'a correction has 1 to {CORRECTION_CHARS} characters, found '
                            f'{len(text)}')
        with self._database.write() as connection:
            session = sessions.load(connection, session_id, lock=True)
            if Role.MAINTAINER not in caller.roles and (
                    Role.STATION in caller.roles or caller.id != session.evaluator_id):
                raise Unauthorised('only the evaluator of a session or a maintainer corrects it')
            if session.accepted_ns is None:
                raise Conflict(f'session {session_id} does not count; there is nothing to correct')
            if withdraw and Role.MAINTAINER not in caller.roles:
                raise Unauthorised(f'session {session_id} counts, and its policies are named on '
                                   'the site; only a maintainer withdraws it: append a correction '
                                   'that says why, and ask the maintainer')
            if session.withdrawn_ns is not None or not withdraw:
                self._refuse_many(connection, session_id)
            now = self._clock.now_ns()
            self._log.append(connection, [(session_id, correction_entry(
                session_id, caller.name, text, withdraw, now))])
            if withdraw:
                verdicts.mark_withdrawn(connection, session_id, now)
        self._changed()

    def promote(self, connection: Connection, number: int) -> bool:
        """
        Move a policy from probation to the pool when it may enter; tell whether it may.

        It had enough clean sessions, and a maintainer approved it where the rules ask for that.
        """
        wanted = self._rules.probation_sessions
        if (wanted and clean_prompts(connection, number) < wanted) or waits_for_approval(
                connection, number, self._rules.approve_policies):
            return False
        end_probation(connection, number, self._clock.now_ns())
        return True

    @staticmethod
    def _refuse_many(connection: Connection, session_id: str) -> None:
        count = len(log_of_session(connection, session_id)) - 1
        if count >= CORRECTIONS:
            raise Conflict(f'session {session_id} has {count} corrections, and takes no more; ask '
                           'a maintainer to withdraw it if it is wrong')

    def _interest(self, connection: Connection, session: SessionRow) -> str:
        evaluator = account_of(connection, session.evaluator_id)
        for number in (session.policy_a_id, session.policy_b_id):
            owner = account_of(connection, owner_of(connection, number))
            if rule := conflict(evaluator, owner, self._conflicts):
                return rule
        return ''

    def _accept(self, connection: Connection, session: SessionRow,
                evidence: SessionEvidence) -> None:
        now, pair = self._clock.now_ns(), (session.policy_a_id, session.policy_b_id)
        verdicts.mark_accepted(connection, session.id, now)
        note_waits(connection, session.id, waits(evidence))
        for number in on_probation(connection, pair):
            self.promote(connection, number)
        give_back(connection, session, now)
        name = account_name(connection, session.evaluator_id)
        owners = {slot: f'account:{account_of(connection, owner_of(connection, number)).name}'
                  for slot, number in zip('AB', pair, strict=True)}
        names = policy_names(connection)
        for number in pair:
            tell(connection, owner_of(connection, number), 'session_finished',
                 {'policy': names[number], 'session': session.id}, now)
        paid = {slot: holder for slot, number in zip('AB', pair, strict=True)
                if balance_of(connection, holder := paid_for(names[number])) > 0}
        lock(connection, [f'account:{name}', *owners.values(), *paid.values()])
        book(connection, Transfer(f'earn:{session.id}', MINT, f'account:{name}', 1,
                                  'session that counts'), now)
        for slot, owner in owners.items():
            _charge(connection, Transfer(f'ask:{session.id}:{slot}', paid.get(slot, owner), SPENT,
                                         1, 'policy requested'), now)
        # Last: until the transaction ends, no other session of any server is entered.
        _enter(self._log, connection, session, evidence, now)


def _charge(connection: Connection, transfer: Transfer, now_ns: int) -> None:
    try:
        with connection.begin_nested():
            book(connection, transfer, now_ns)
    except NotEnoughCredit:
        log.info('%s is free of charge: no credit', transfer.name)


def enter_imported(database: Database, transparency: TransparencyLog) -> None:
    """Give an entry to all that counts without one: imported sessions."""
    last: SessionRow | None = None
    while True:
        with database.write() as connection:
            transparency.lock(connection)  # nobody else enters the same sessions
            batch = verdicts.accepted_without_entry(connection, last)
            policies, people, stations = (
                policy_names(connection), account_names(connection), station_names(connection)
            ) if batch else ({}, {}, {})
            transparency.append(connection, [(session.id, session_entry(
                session, people[session.evaluator_id], stations[session.station_id], None,
                (policies[session.policy_a_id], policies[session.policy_b_id]),
                session.accepted_ns or 0)) for session in batch])
        if not batch:
            return
        last = batch[-1]


def _enter(transparency: TransparencyLog, connection: Connection, session: SessionRow,
           evidence: SessionEvidence, accepted_ns: int) -> None:
    names = policy_names(connection)
    transparency.append(connection, [(session.id, session_entry(
        session, account_name(connection, session.evaluator_id),
        station_name(connection, session.station_id), evidence,
        (names[session.policy_a_id], names[session.policy_b_id]), accepted_ns))])


def counts(session: SessionRow) -> bool:
    """Tell whether a session is part of the results."""
    return (session.accepted_ns is not None and session.withdrawn_ns is None
            and not session.probation and not session.study_sha256)


def why_not(session: SessionRow) -> str:
    """Return why a session does not count, one sentence; '' when it does."""
    if session.state is not SessionState.DONE:
        return f'the session is {session.state.value}'
    if not session.verdict.valid:
        return 'the session was marked as invalid'
    if session.withdrawn_ns is not None:
        return 'the session was withdrawn'
    if session.conflict:
        return f'conflict of interest: {session.conflict}'
    if session.accepted_ns is None:
        return f'incomplete: {session.incomplete or "it was not looked at yet"}'
    if session.study_sha256:
        return 'it is of a local study'
    return 'a policy is on probation' if session.probation else ''


def _open(session: SessionRow) -> bool:
    return (session.state is SessionState.DONE and bool(session.verdict.valid)
            and session.accepted_ns is None and not session.imported)
