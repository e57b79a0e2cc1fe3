"""
From a running session to its end: episodes, verdict, credits, reveal.

Whose fault the end of a rollout was is decided by what the relay saw and by nothing else.
"""

import logging
from collections.abc import Iterable
from enum import Enum

from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.errors import Conflict, NotRevealed, Unauthorised
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import MAX_TEXT_CHARS, Verdict, check_verdict
from arena_robot.server.base import Caller, PolicyState, Role, SessionState
from arena_robot.server.files import ManifestEntry, checked_manifest
from arena_robot.server.relay.record import RelayRecord
from arena_robot.server.sessions.acceptance import READ_S, Acceptance
from arena_robot.server.sessions.credits import charge_given_up, give_back
from arena_robot.server.store import relayed, verdicts
from arena_robot.server.store import sessions as store
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.files import manifests_of, store_manifest
from arena_robot.server.store.policies import note_failures, policy_names, policy_states, suspend
from arena_robot.server.store.relayed import RelayedRollout
from arena_robot.server.store.sessions import SessionRow, Sessions
from arena_robot.server.store.unsafe_reports import (
    note_unsafe,
    reports_by_policy,
    why_suspended,
)

log = logging.getLogger(__name__)


class SessionLifecycle:
    """Ends sessions. Every call can be repeated: the same again is accepted, another refused."""

    def __init__(self, database: Database, clock: Clock, acceptance: Acceptance,
                 record: RelayRecord, failures_to_suspend: int) -> None:
        self._database = database
        self._clock = clock
        self._acceptance = acceptance
        self._record = record
        self._sessions = Sessions(database, clock)
        self._failures_to_suspend = failures_to_suspend
        self._jumps = JumpDetector(clock)

    def session_of(self, caller: Caller, session_id: str) -> SessionRow:
        """Return a session of the calling station; Unauthorised when it is another's."""
        session = self._sessions.get(session_id)
        if Role.STATION not in caller.roles or session.station_id != caller.id:
            raise Unauthorised(f'session {session_id} is not one of this station')
        return session

    def open_session(self, caller: Caller, session_id: str) -> SessionRow:
        """Return a session that still takes files and endings; Conflict after its reveal."""
        session = self.session_of(caller, session_id)
        _refuse_closed(session)
        return session

    def episode(self, caller: Caller, episode: Episode,
                files: Iterable[ManifestEntry] = ()) -> None:
        """
        Store how a rollout ended and which files it has.

        Whose fault an end was is decided by what the relay saw. Before the reveal another list
        of files replaces the first.
        """
        self.session_of(caller, episode.session_id)
        manifest = checked_manifest(files)
        self._record.flush(episode.session_id)
        with self._database.write() as connection:
            session = store.load(connection, episode.session_id, lock=True)
            before = manifests_of(connection, session.id).get(episode.slot.value)
            if manifest.files and manifest != before:
                _refuse_closed(session)
                store_manifest(connection, session.id, episode.slot.value, manifest,
                               self._clock.now_ns())
            if self._sessions.add_episode(connection, episode):
                self._judge(connection, session, episode)
                if session.state is SessionState.DONE:    # the verdict came first
                    verdicts.store_scores(connection, session.id, session.verdict)
        self._acceptance.consider(episode.session_id)

    def _judge(self, connection: Connection, session: SessionRow, episode: Episode) -> None:
        seen = relayed.of_session(connection, session.id).get(episode.slot.value)
        fault = fault_of(episode.end, seen)
        store.store_fault(connection, session.id, episode.slot, fault.value)
        number = session.policy_a_id if episode.slot is Slot.A else session.policy_b_id
        # Only a rollout that reached the policy says anything about it.
        if seen is not None and (fault is Fault.POLICY or seen.queries) and judge_policy(
                connection, number, self._failures_to_suspend, self._clock.now_ns()):
            log.warning('a policy was suspended after repeated failures at the relay')

    def feedback(self, caller: Caller, session_id: str, verdict: Verdict) -> None:
        """
        Store a verdict, once; it counts when the session is accepted.

        A session that was cancelled because its station was silent accepts it too, at any time.
        """
        self.session_of(caller, session_id)
        check_verdict(verdict)
        self._record.flush(session_id)
        with self._database.write() as connection:
            session = store.load(connection, session_id, lock=True)
            if session.state is SessionState.DONE:
                if session.verdict != verdict:
                    raise Conflict(f'session {session_id} has another verdict already')
                return
            if session.state is not SessionState.CANCELLED:
                session = store.running(connection, session_id)
            verdicts.end(connection, session_id, SessionState.DONE, self._clock.now_ns(),
                      verdict)
            verdicts.store_scores(connection, session.id, verdict)
            self._report(connection, session, verdict)
            if verdict.valid and session.rollouts >= len(Slot):
                give_back(connection, session, self._clock.now_ns())
            else:
                charge_given_up(connection, session, self._clock.now_ns())
        self._acceptance.consider(session_id)
        self._record.forget(session_id)

    def _report(self, connection: Connection, session: SessionRow, verdict: Verdict) -> None:
        """Store what the verdict says of safety; suspend the policies that it is enough for."""
        now_ns = self._clock.now_ns()
        slots = note_unsafe(connection, session.id, verdict, now_ns)
        reports = reports_by_policy(connection) if slots else {}
        for slot in slots:
            number = session.policy_a_id if slot is Slot.A else session.policy_b_id
            why = why_suspended(reports[number])
            if why and suspend(connection, number, why, now_ns):
                log.warning('a policy was suspended: it was reported as unsafe')

    def abort(self, caller: Caller, session_id: str, reason: str) -> None:
        """Close a session without a verdict; again is accepted, after a verdict it is refused."""
        self.session_of(caller, session_id)
        self._close(session_id, SessionState.ABORTED, reason)
        self._record.forget(session_id)

    def cancel_overdue(self, timeout_s: float) -> list[str]:
        """Cancel the sessions whose stations fell silent; their episodes are kept."""
        if self._jumps.jump_s() > 0.0:
            self._sessions.touch_all()    # nobody was silent: somebody set the server's clock
        late = self._sessions.overdue(self._clock.now_ns() - int(timeout_s * 1e9))
        for session_id in late:
            self._close(session_id, SessionState.CANCELLED,
                        f'the station was not heard of for {timeout_s:g} s')
        return late

    def _close(self, session_id: str, state: SessionState, reason: str) -> None:
        self._record.flush(session_id)
        with self._database.write() as connection:
            session = store.load(connection, session_id, lock=True)
            if session.state is state:
                return
            session = store.running(connection, session_id)
            verdicts.end(connection, session_id, state, self._clock.now_ns(),
                      Verdict(valid=False, invalid_reason=reason[:MAX_TEXT_CHARS]))
            charge_given_up(connection, session, self._clock.now_ns())

    def reveal(self, caller: Caller, session_id: str) -> Reveal:
        """
        Return the names behind the slots of a session that is complete.

        Conflict while something of it may still arrive. NotRevealed for a session that does not
        count: its pair is revealed when both policies are retired.
        """
        session = self.session_of(caller, session_id)
        if session.state is not SessionState.DONE:
            raise Conflict(f'session {session_id} is {session.state.value}; the policies are '
                           'revealed after the verdict is stored')
        lacks = self._acceptance.consider(session_id, READ_S)
        session = self._sessions.get(session_id)
        if lacks.waits or (lacks.why and self._others_may_know(session)):
            raise Conflict(f'session {session_id} is incomplete: {lacks.why}; the policies are '
                           'revealed when everything has arrived')
        with self._database.read() as connection:
            names = policy_names(connection)
            retired = policy_states(connection, (session.policy_a_id, session.policy_b_id)) == {
                PolicyState.RETIRED}
        complete = session.accepted_ns is not None or (session.conflict and not session.incomplete)
        if not complete and not retired:
            raise NotRevealed(f'session {session_id} does not count '
                              f'({session.incomplete or "invalid"}); its policies are revealed '
                              'when both are retired')
        self._sessions.mark_revealed(session_id)
        return Reveal(session.nonce, names[session.policy_a_id], names[session.policy_b_id],
                      probation=session.probation, chosen=session.chosen)

    def _others_may_know(self, session: SessionRow) -> bool:
        """Tell whether another server's relay may still have to store what it saw of rollouts."""
        if self._database.is_sqlite or session.final:
            return False
        with self._database.read() as connection:
            return bool(store.episodes_of(connection, session.id))


def _refuse_closed(session: SessionRow) -> None:
    if session.revealed_ns is not None or session.accepted_ns is not None:
        raise Conflict(f'session {session.id} is closed: after its acceptance or reveal '
                       'nothing is added or changed')


class Fault(str, Enum):
    """Who caused that a rollout ended early; ``NONE`` when it did not."""

    NONE = ''
    POLICY = 'policy'
    NETWORK = 'network'
    STATION = 'station'


def fault_of(end: EndReason, seen: RelayedRollout | None) -> Fault:
    """
    Return whose fault an end was.

    A station's report alone never counts against a policy: the relay must have seen it fail.
    """
    if end in (EndReason.SAFETY_STOP, EndReason.DRIVER_ERROR, EndReason.INTERRUPTED):
        return Fault.STATION
    if end is not EndReason.POLICY_ERROR:
        return Fault.NONE
    if seen is None:
        return Fault.NETWORK
    if seen.failure:
        return Fault.POLICY
    if seen.refusals and not seen.cuts:
        return Fault.STATION
    return Fault.NETWORK if seen.cuts or not seen.queries else Fault.STATION


def judge_policy(connection: Connection, policy_id: int, limit: int, now_ns: int) -> bool:
    """
    Suspend a policy whose newest ``limit`` rollouts all failed at the relay; tell whether it was.

    Only failures at two stations or more suspend it. After as many at one station it is marked,
    and the server checks it itself.
    """
    newest = relayed.newest_of_policy(connection, policy_id, limit)
    failed = 0
    for rollout in newest:
        if not rollout.failure:
            break
        failed += 1
    note_failures(connection, policy_id, failed, now_ns)
    if failed < limit or len({rollout.station_id for rollout in newest}) < 2:
        return False
    return suspend(connection, policy_id, f'{failed} rollouts in a row failed at the relay, at '
                   f'several stations; the last: {newest[0].failure}', now_ns)
