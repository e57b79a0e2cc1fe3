"""State machine of one session: commands are checked, written to the journal, then applied."""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import Asked, Plain, Verdict, missing
from arena_robot.records.session_file import Repair
from arena_robot.session.base import Assignment, Reveal
from arena_robot.session.evaluator.checks import (
    check_draft,
    check_instruction,
    check_reason,
    check_said,
)
from arena_robot.session.protocol.journal import Log
from arena_robot.session.protocol.record import SessionRecord, apply, check_rerun, next_state
from arena_robot.session.protocol.states import Move, State


class Session:
    """
    The protocol as a state machine: every method is one possible event.

    A method checks its arguments and the state, writes the journal, and only then changes the
    record. After a SessionError nothing has changed. Methods may be called from any thread.
    """

    def __init__(self, log: Log, record: SessionRecord | None = None) -> None:
        self._log = log
        self._record = record or SessionRecord()
        self._lock = threading.RLock()
        self._owed = ''

    @property
    def record(self) -> SessionRecord:
        """Return the current record."""
        return self._record

    @property
    def state(self) -> State:
        """Return the current state."""
        return self._record.state

    def require(self, *states: State) -> None:
        """Raise SessionError unless the session is in one of ``states``."""
        if self.state not in states:
            raise SessionError(f"this is possible in '{' or '.join(states)}', not in "
                               f"'{self.state.value}'")

    def require_ready(self, slot: Slot) -> None:
        """Raise SessionError unless the rollout of a slot can begin."""
        record = self._record
        self.require(*([State.START_PHOTOGRAPHED] * (slot is Slot.A)), State.RESET)
        if record.state is State.RESET and slot is not record.next_slot:
            raise SessionError(f'{record.next_slot.value} is run next, not {slot.value}')
        if record.state is State.RESET and not record.reset_confirmed:
            raise SessionError(f'{slot.value} starts only after the scene was reset and confirmed')

    def checked(self, station: str, checks: Iterable[Mapping[str, Any]],
                evaluator: str = '') -> SessionRecord:
        """Store the result of a preflight: per part a ``name``, ``ok`` and ``detail``."""
        return self._keep(Move.CHECKED, station=station, checks=[dict(c) for c in checks],
                          evaluator=evaluator)

    def enter_task(self, evaluator: str, prompt: str, earlier: Iterable[str] = (),
                   repeat: bool = False, third_person: str = 'left') -> SessionRecord:
        """
        Store evaluator and instruction; see :func:`checks.check_instruction`.

        ``third_person`` is the outside camera that a policy with only one sees.
        """
        if not evaluator.strip():
            raise SessionError('type who evaluates')
        failed = [str(c['detail']) for c in self._record.checks if not c['ok']]
        if failed and self.state is State.PREFLIGHT:
            raise SessionError(f"the station is not ready: {'; '.join(failed)}")
        words = check_instruction(prompt, earlier, repeat)
        return self._keep(Move.TASK, evaluator=evaluator.strip(), prompt=words,
                          third_person=third_person)

    def assigned(self, assignment: Assignment, equal_latency: bool = False,
                 driver: str = '', robot: str = '') -> SessionRecord:
        """Store the pair, whether both are to take equally long, the arm's driver and its kind."""
        return self._keep(Move.ASSIGNED, session_id=assignment.session_id,
                          commitment=assignment.commitment, equal_latency=equal_latency,
                          driver=driver, robot=robot,
                          promise=assignment.promise, photo_code=assignment.photo_code)

    def photographed(self, views: Iterable[str]) -> SessionRecord:
        """Store that the start scene was photographed from ``views``."""
        return self._keep(Move.PHOTOGRAPHED, views=list(views))

    def started(self, slot: Slot) -> SessionRecord:
        """Store that a slot's rollout begins; see :meth:`require_ready`."""
        move = Move.STARTED_A if slot is Slot.A else Move.STARTED_B
        with self._lock:
            next_state(self.state, move)
            self.require_ready(slot)
            return self._keep(move)

    def ticked(self, steps: int) -> SessionRecord:
        """Store the step count of a rollout, without sync: it can be lost in a power failure."""
        return self._keep(Move.TICKED, steps=steps)

    def ended(self, episode: Episode) -> SessionRecord:
        """Store how the running rollout ended."""
        with self._lock:
            next_state(self.state, Move.ENDED)
            if episode.slot is not self.state.running:
                raise SessionError(f'{episode.slot.value} is not running')
            return self._keep(Move.ENDED, end=episode.end.value, detail=episode.detail,
                              steps=episode.steps, started_ns=episode.started_ns,
                              ended_ns=episode.ended_ns, waited=episode.waited)

    def score(self, slot: Slot, verdict: Verdict) -> SessionRecord:
        """Store the verdict on a slot's rollout; can be corrected until the submission."""
        move = Move.SCORED_A if slot is Slot.A else Move.SCORED_B
        with self._lock:
            next_state(self.state, move)
            if self._record.slots[slot].end is None:
                raise SessionError(f'{slot.value} did not run, so it has no progress')
            return self._keep(move, **check_said(verdict, Asked.SCORE, slot))

    def rerun(self, reason: str = '', folder: str = '') -> SessionRecord:
        """
        Run the slot that has just ended again, after a reset; its rollout is kept and not scored.

        ``reason`` is needed unless the station failed. ``folder`` will have its recording.
        """
        with self._lock:
            next_state(self.state, Move.RERUN)
            slot = Slot.A if self.state is State.SCORING_A else Slot.B
            record = self._record
            words = check_rerun(slot, record.slots[slot], record.reruns_of(slot), reason)
            return self._keep(Move.RERUN, **words, folder=folder)

    def matched(self, match: float, matches: Mapping[str, float]) -> SessionRecord:
        """Store the scene match, overall and by view, 0 to 1."""
        return self._keep(Move.MATCHED, match=float(match),
                          matches={k: float(v) for k, v in matches.items()})

    def confirm_reset(self) -> SessionRecord:
        """Store that the evaluator confirmed the reset."""
        return self._keep(Move.RESET)

    def judge(self, verdict: Verdict) -> SessionRecord:
        """Store the verdict on the pair, with its mandatory explanation."""
        return self._keep(Move.PREFERRED, **check_said(verdict, Asked.JUDGE))

    def draft(self, words: Mapping[str, Plain]) -> SessionRecord:
        """
        Store what was typed, by the names of :data:`checks.DRAFTED`; others stay unchanged.

        '' and None are stored too: a text that was cleared, a choice that was taken back.
        """
        with self._lock:
            next_state(self.state, Move.DRAFTED)
            kept = check_draft(words, self.state)
            return self._keep(Move.DRAFTED, **kept) if kept else self._record

    def invalidate(self, reason: str) -> SessionRecord:
        """Mark the comparison as not counting, with the reason; continues with the review."""
        return self._keep(Move.INVALIDATED, reason=check_reason(reason))

    def revalidate(self) -> SessionRecord:
        """Take back :meth:`invalidate`; only a session with nothing missing can count."""
        with self._lock:
            next_state(self.state, Move.REVALIDATED)
            lacks = missing(self._record.verdict)
            if lacks:
                raise SessionError(f"the session cannot count: it lacks {', '.join(lacks)}")
            return self._keep(Move.REVALIDATED)

    def submit(self) -> SessionRecord:
        """Submit the session; afterwards it cannot be changed."""
        with self._lock:
            next_state(self.state, Move.SUBMITTED)
            self._record.final_verdict()
            return self._keep(Move.SUBMITTED)

    def delivered(self, part: str, notice: str = '', promise: str = '') -> SessionRecord:
        """Store that the arena has ``'A'``, ``'B'`` or ``'feedback'``, or why not all of it."""
        return self._keep(Move.DELIVERED, part=part, promise=promise,
                          **({'notice': notice} if notice else {}))

    def revealed(self, reveal: Reveal) -> SessionRecord:
        """Store the names; ``record.verified`` is whether they match the commitment."""
        return self._keep(Move.REVEALED, nonce=reveal.nonce, policy_a=reveal.policy_a,
                          policy_b=reveal.policy_b, probation=reveal.probation,
                          objection=reveal.objection, chosen=reveal.chosen,
                          credited=bool(reveal.receipt))

    def unrevealed(self, reason: str) -> SessionRecord:
        """Store that the arena has everything and does not name the pair."""
        return self._keep(Move.UNREVEALED, reason=reason)

    def recovered(self, notice: str) -> SessionRecord:
        """Store that the session was interrupted, and the notice for the evaluator."""
        return self._keep(Move.RECOVERED, notice=notice)

    def clock_set(self, by_s: float) -> SessionRecord:
        """Store that somebody set the station's clock."""
        return self._keep(Move.CLOCK_SET, by_s=by_s, notice=(
            f"The station's clock was set by {by_s:+.1f} s. Motions and time-outs do not depend "
            'on it; the times in the records jump there.'))

    def repairing(self, what: str, by: str) -> Repair:
        """Store that ``by`` asked for a recovery or an activation; return it, for its end."""
        return self._keep(Move.REPAIRING, what=what, by=by).repairs[-1]

    def repaired(self, repair: Repair, result: str) -> SessionRecord:
        """Store how a repair ended."""
        return self._keep(Move.REPAIRED, what=repair.what, by=repair.by, asked_ns=repair.asked_ns,
                          result=result)

    def interrupted(self, notice: str) -> None:
        """Store that the session was interrupted, now or, on a full disk, by :meth:`settle`."""
        self._owed = notice
        with suppress(SessionError):
            self.settle()

    def settle(self) -> None:
        """Store what :meth:`interrupted` could not; SessionError while it still cannot."""
        with self._lock:
            if self._owed:
                self.recovered(self._owed)
                self._owed = ''

    def upkeep(self, jump_s: float) -> bool:
        """Store what is owed, and by how much the clock was set; tell whether that was stored."""
        with self._lock:
            self.settle()
            if not jump_s or self.state is State.IDLE or self.state.is_final:
                return False
            self.clock_set(jump_s)
            return True

    def abort(self, reason: str) -> SessionRecord:
        """End the session without a verdict; SessionError once the arena has one."""
        with self._lock:
            if self.state is State.SUBMITTING and 'feedback' in self._record.delivered:
                raise SessionError('the arena has the verdict; the session cannot be aborted')
            return self._keep(Move.ABORTED, reason=reason.strip() or 'aborted by the evaluator')

    def _keep(self, move: Move, **data: Any) -> SessionRecord:
        with self._lock:
            next_state(self.state, move)
            entry = self._log.append(move.value, data, sync=move is not Move.TICKED)
            self._record = apply(self._record, entry)
            return self._record
