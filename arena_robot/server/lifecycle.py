"""From a running session to its end: episodes, verdict, credit, probation, reveal."""

import logging
from collections.abc import Callable

from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import Conflict, Unauthorised
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import MAX_TEXT_CHARS, Verdict, check_verdict, is_same
from arena_robot.server.base import Caller, Role, SessionState
from arena_robot.server.store import sessions as store
from arena_robot.server.store.accounts import account_name
from arena_robot.server.store.database import Connection, Database
from arena_robot.server.store.ledger import MINT, SPENT, Transfer, book, lock, payer
from arena_robot.server.store.policies import (
    FAULTS,
    clean_prompts,
    end_probation,
    note_failure,
    note_success,
    policy_names,
)
from arena_robot.server.store.sessions import SessionRow, Sessions

log = logging.getLogger(__name__)


class SessionLifecycle:
    """
    Ends sessions. Every call can be repeated: the same again is accepted, another refused.

    ``stored`` is called after each new verdict.
    """

    def __init__(self, database: Database, clock: Clock, probation_sessions: int,
                 failures_to_suspend: int, stored: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._clock = clock
        self._sessions = Sessions(database, clock)
        self._probation_sessions = probation_sessions
        self._failures_to_suspend = failures_to_suspend
        self._stored = stored
        self._jumps = JumpDetector(clock)

    def session_of(self, caller: Caller, session_id: str) -> SessionRow:
        """Return a session of the calling station; Unauthorised when it is another's."""
        session = self._sessions.get(session_id)
        if Role.STATION not in caller.roles or session.station_id != caller.id:
            raise Unauthorised(f'session {session_id} is not one of this station')
        return session

    def episode(self, caller: Caller, episode: Episode) -> None:
        """Store how a rollout ended; a policy that keeps failing is suspended."""
        session = self.session_of(caller, episode.session_id)
        policy = session.policy_a_id if episode.slot is Slot.A else session.policy_b_id
        with self._database.write() as connection:
            if not self._sessions.add_episode(connection, episode):
                return
            self._catch_up(connection, episode.session_id)
            if episode.end.value not in FAULTS:
                note_success(connection, policy)
            elif note_failure(connection, policy, self._failures_to_suspend,
                              f'{episode.end.value}: {episode.detail}', self._clock.now_ns()):
                log.warning('a policy was suspended after repeated failures')

    def _catch_up(self, connection: Connection, session_id: str) -> None:
        """Do for an episode that came after the verdict what the verdict did for the others."""
        session = store.load(connection, session_id)
        if session.state is SessionState.DONE:
            store.store_scores(connection, session_id, session.verdict)
            if session.verdict.valid:
                self._promote(connection, session)

    def feedback(self, caller: Caller, session_id: str, verdict: Verdict) -> None:
        """
        Store a verdict, once; a valid one earns its evaluator a credit.

        It is never too late: a session that was cancelled because its station fell silent takes
        it as well.
        """
        self.session_of(caller, session_id)
        check_verdict(verdict)
        with self._database.write() as connection:
            session = store.load(connection, session_id, lock=True)
            if session.state is SessionState.DONE:
                if not is_same(session.verdict, verdict):
                    raise Conflict(f'session {session_id} has another verdict already')
                return
            if session.state is not SessionState.CANCELLED:
                session = store.running(connection, session_id)
            store.end(connection, session_id, SessionState.DONE, self._clock.now_ns(),
                      verdict)
            self._after(connection, session, verdict)
        self._stored()

    def _after(self, connection: Connection, session: SessionRow, verdict: Verdict) -> None:
        now = self._clock.now_ns()
        store.store_scores(connection, session.id, verdict)
        if verdict.valid:
            name = account_name(connection, session.evaluator_id)
            book(connection, Transfer(f'earn:{session.id}', MINT, f'account:{name}', 1,
                                      'valid session'), now)
            self._promote(connection, session)
        elif session.rollouts == 0:
            self._refund(connection, session)

    def _promote(self, connection: Connection, session: SessionRow) -> None:
        for number in (session.policy_a_id, session.policy_b_id):
            if clean_prompts(connection, number) >= self._probation_sessions:
                end_probation(connection, number, self._clock.now_ns())

    def abort(self, caller: Caller, session_id: str, reason: str) -> None:
        """Close a session without a verdict; again is accepted, after a verdict it is refused."""
        self.session_of(caller, session_id)
        self._close(session_id, SessionState.ABORTED, reason)

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
        with self._database.write() as connection:
            session = store.load(connection, session_id, lock=True)
            if session.state is state:
                return
            session = store.running(connection, session_id)
            store.end(connection, session_id, state, self._clock.now_ns(),
                      Verdict(valid=False, invalid_reason=reason[:MAX_TEXT_CHARS]))
            if session.rollouts == 0:
                self._refund(connection, session)

    def _refund(self, connection: Connection, session: SessionRow) -> None:
        owners = {slot: payer(connection, f'ask:{session.id}:{slot.value}') for slot in Slot}
        lock(connection, [SPENT, *(owner for owner in owners.values() if owner is not None)])
        for slot, owner in owners.items():
            if owner is not None:
                book(connection, Transfer(f'refund:{session.id}:{slot.value}', SPENT, owner, 1,
                                          'session without a rollout'), self._clock.now_ns())

    def reveal(self, caller: Caller, session_id: str) -> Reveal:
        """Return the names behind the slots, after the verdict; Conflict before."""
        session = self.session_of(caller, session_id)
        if session.state is not SessionState.DONE:
            raise Conflict(f'session {session_id} is {session.state.value}; the policies are '
                           'revealed after the verdict is stored')
        if not session.verdict.valid and session.rollouts == 0:
            raise Conflict(f'session {session_id} ended before any rollout; '
                           'its policies are not revealed')
        with self._database.read() as connection:
            names = policy_names(connection)
        self._sessions.mark_revealed(session_id)
        return Reveal(session.nonce, names[session.policy_a_id], names[session.policy_b_id])
