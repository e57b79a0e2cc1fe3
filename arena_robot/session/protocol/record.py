"""
Record of a session: the result of all entries of its journal.

Only :func:`apply` changes a record, by one entry, so a session that is read back after a crash is
the same as before.

A failure of the station (arm, gripper, camera, recorder, network, the programs themselves) says
nothing of the policy: its slot is run again. So is a rollout that the evaluator spoiled, with a
reason. Both are decided before the rollout is scored, are limited, and stay in the record, so a
rollout cannot be repeated until its result pleases.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.episode import MAX_RERUNS, EndReason, Episode, Slot
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.verdict import (
    NAMES,
    Asked,
    Plain,
    Verdict,
    asked_at,
    from_plain,
    missing,
    with_said,
)
from arena_robot.records.session_file import Entry, Repair, Rerun, RerunCause, SessionSlot
from arena_robot.session.base import UNREACHABLE, Reveal
from arena_robot.session.evaluator.checks import length_of
from arena_robot.session.protocol.states import TRANSITIONS, Move, State, possible

MAX_MISTAKES = 1    # of these
MIN_REASON_CHARS = 10    # more than a word
STATION_FAULTS = (EndReason.DRIVER_ERROR, EndReason.INTERRUPTED)


@dataclass(frozen=True)
class SessionRecord:
    """
    The record of a session.

    ``matches`` are scene match scores 0 to 1 by view and ``match`` their verdict;
    ``delivered`` are the parts the arena has; ``draft`` are the verdict's fields that were typed
    and are not yet final, also those that were cleared; ``draft_instruction`` is None before.
    ``verified`` is whether the reveal matches the commitment; None before, and without one.
    ``third_person`` is the outside camera that a policy with only one sees, ``photo_code`` what
    the arena wants to see in the start photograph.
    ``clock_jumps_s`` are by how much the station's clock was set. ``reruns`` were repeated.
    ``promises`` were signed by the server. ``repairs`` are recoveries and activations.
    ``robot`` is the kind of the arm, empty in journals of 0.1.0.
    ``credited`` tells that the server's log has the session, which earns its evaluator a credit.
    """

    state: State = State.IDLE
    session_id: str = ''
    station: str = ''
    evaluator: str = ''
    prompt: str = ''
    commitment: str = ''
    created_ns: int = 0
    updated_ns: int = 0
    checks: tuple[Mapping[str, Any], ...] = ()
    views: tuple[str, ...] = ()
    slots: Mapping[Slot, SessionSlot] = field(default_factory=lambda: {s: SessionSlot()
                                                                      for s in Slot})
    matches: Mapping[str, float] = field(default_factory=dict)
    match: float | None = None
    reset_confirmed: bool = False
    verdict: Verdict = field(default_factory=Verdict)
    draft: Mapping[str, Plain] = field(default_factory=dict)
    draft_instruction: str | None = None
    delivered: tuple[str, ...] = ()
    reveal: Reveal | None = None
    verified: bool | None = None
    notice: str = ''
    clock_jumps_s: tuple[float, ...] = ()
    reruns: tuple[Rerun, ...] = ()
    equal_latency: bool = False
    driver: str = ''
    robot: str = ''
    third_person: str = ''
    promises: tuple[str, ...] = ()
    photo_code: str = ''
    repairs: tuple[Repair, ...] = ()
    credited: bool = False

    @property
    def next_slot(self) -> Slot:
        """Return the slot that is run after the reset: A while it has no rollout, else B."""
        return Slot.A if self.slots[Slot.A].end is None else Slot.B

    def reruns_of(self, slot: Slot) -> tuple[Rerun, ...]:
        """Return the repeated rollouts of a slot, oldest first."""
        return tuple(rerun for rerun in self.reruns if rerun.slot is slot)

    def missing(self) -> tuple[str, ...]:
        """Return what is missing before a valid session can be submitted."""
        return missing(self.verdict) if self.verdict.valid else ()

    def final_verdict(self) -> Verdict:
        """Return the verdict to submit; SessionError while a valid session lacks a part of it."""
        if self.missing():
            raise SessionError(f"the session still needs: {', '.join(self.missing())}")
        return self.verdict if self.verdict.valid else dataclasses.replace(
            self.verdict, preference=None)

    def episode(self, slot: Slot) -> Episode | None:
        """
        Return the rollout of a slot as it ended, None when it did not run.

        It is the newest one, and its detail tells of those before it.
        """
        rollout, earlier = self.slots[slot], self.reruns_of(slot)
        if rollout.end is None and earlier:    # the session ended before the slot was run again
            rollout = earlier[-1].rollout
        if rollout.end is None:
            return None
        detail = '; '.join(text for text in (rollout.detail, rerun_sentence(earlier)) if text)
        return Episode(self.session_id, slot, self.prompt, rollout.steps, rollout.end,
                       rollout.started_ns, rollout.ended_ns, detail, len(earlier))


def apply(record: SessionRecord, entry: Entry) -> SessionRecord:
    """
    Return the record after one more entry.

    Raises SessionError when the protocol does not allow it in the record's state.
    """
    move = _move(entry.move)
    try:
        after = (State(entry.data['state']) if move is Move.SALVAGED
                 else next_state(record.state, move))
        changes = _CHANGES[move](record, entry)
    except (KeyError, ValueError, TypeError, OverflowError, DataError) as error:
        where = f'journal entry {entry.n} ({entry.move})'
        raise DataError(f'{where} is incomplete: {error}') from error
    created = record.created_ns or entry.stamp_ns
    return dataclasses.replace(record, **{'state': after, 'created_ns': created,
                                          'updated_ns': entry.stamp_ns, **changes})


def replay(entries: Iterable[Entry]) -> SessionRecord:
    """Return the record of a whole journal."""
    record = SessionRecord()
    for entry in entries:
        record = apply(record, entry)
    return record


def next_state(state: State, move: Move) -> State:
    """Return the state after ``move`` in ``state``; SessionError when it is not allowed."""
    if (state, move) not in TRANSITIONS:
        names = ', '.join(m.value for m in possible(state)) or 'nothing'
        raise SessionError(f"'{move.value}' is not possible while the session is "
                           f"'{state.value}'; possible now: {names}")
    return TRANSITIONS[state, move]


def _move(word: str) -> Move:
    try:
        return Move(word)
    except ValueError as error:
        raise DataError(f"the journal says '{word}', which this version does not know") from error


def _slot_change(record: SessionRecord, slot: Slot, **changes: Any) -> dict[str, Any]:
    rollout = dataclasses.replace(record.slots[slot], **changes)
    return {'slots': {**record.slots, slot: rollout}}


def _started(slot: Slot) -> Any:
    def change(record: SessionRecord, entry: Entry) -> dict[str, Any]:
        # Before B the scene is reset again.
        confirmed = slot is Slot.B and record.reset_confirmed
        return {**_slot_change(record, slot, started_ns=entry.stamp_ns), 'notice': '',
                'reset_confirmed': confirmed}
    return change


def _scored(slot: Slot) -> Any:
    def change(record: SessionRecord, entry: Entry) -> dict[str, Any]:
        return _said(record, entry, Asked.SCORE, slot)
    return change


def _ticked(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    return _slot_change(record, _running(record), steps=int(entry.data['steps']))


def _ended(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    data = entry.data
    return _slot_change(record, _running(record), end=EndReason(data['end']),
                        detail=str(data['detail']), steps=int(data['steps']),
                        started_ns=int(data['started_ns']), ended_ns=int(data['ended_ns']),
                        waited=data['waited'])


def _recovered(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    notice = str(entry.data['notice'])
    slot = record.state.running
    if slot is None:
        return {'notice': notice}
    return {**_slot_change(record, slot, end=EndReason.INTERRUPTED, detail=notice,
                           ended_ns=record.updated_ns), 'notice': notice}


def _rerun(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    data, slot = entry.data, Slot(entry.data['slot'])
    rerun = Rerun(slot, RerunCause(data['cause']), str(data['reason']), record.slots[slot],
                str(data['folder']), entry.stamp_ns)
    return {'slots': {**record.slots, slot: SessionSlot()}, 'reruns': (*record.reruns, rerun),
            'reset_confirmed': False, 'match': None, 'matches': {}, 'notice': '',
            'draft': _without(record.draft, (f.name for f in asked_at(Asked.SCORE, slot)))}


def _said(record: SessionRecord, entry: Entry, asked: Asked,
          slot: Slot | None = None) -> dict[str, Any]:
    """Return the change by an entry that holds the fields asked for at one moment."""
    fields = asked_at(asked, slot)
    words = {question.name: entry.data.get(question.key) if question.optional
             else entry.data[question.key] for question in fields
             if question.required or question.optional or question.key in entry.data}
    return {'verdict': with_said(record.verdict, words), 'notice': '',
            'draft': _without(record.draft, (question.name for question in fields))}


def _drafted(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    typed = {name: value for name, value in entry.data.items() if name in NAMES}
    from_plain(typed)   # an entry that cannot be read is named here
    return {'draft': {**record.draft, **typed},
            'evaluator': str(entry.data.get('evaluator', record.evaluator)),
            'draft_instruction': entry.data.get('instruction', record.draft_instruction)}


def _without(draft: Mapping[str, Plain], final: Iterable[str]) -> dict[str, Plain]:
    gone = set(final)
    return {name: value for name, value in draft.items() if name not in gone}


def _invalidated(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    words = {'valid': False, 'invalid_reason': str(entry.data['reason'])}
    verdict = with_said(record.verdict, words)
    return {'verdict': verdict, 'notice': '', 'draft': _without(record.draft, words)}


def _revalidated(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    return {'verdict': with_said(record.verdict, {'valid': True, 'invalid_reason': ''})}


def _revealed(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    data = entry.data
    reveal = Reveal(str(data['nonce']), str(data['policy_a']), str(data['policy_b']),
                    probation=bool(data.get('probation')), chosen=data.get('chosen'))
    if not record.commitment:
        lost = 'The reveal cannot be checked: the commitment is lost with a damaged line.'
        return {'reveal': reveal, 'verified': None,
                'notice': _added(record.notice, lost)}
    verified = reveal.fits(record.commitment)
    doubt = str(data.get('objection', ''))
    notice = _added(record.notice, doubt) if verified else (
        'the reveal does not match the commitment shown at the assignment: the pair was changed '
        "afterwards; tell the arena's maintainer, and do not count this session")
    return {'reveal': reveal, 'verified': verified, 'notice': notice,
            'credited': bool(data.get('credited'))}


def _promises(record: SessionRecord, entry: Entry) -> tuple[str, ...]:
    promise = str(entry.data.get('promise') or '')
    return (*record.promises, promise) if promise else record.promises


def _repaired(record: SessionRecord, entry: Entry) -> dict[str, Any]:
    """Return the change by an entry that has the whole repair: the one before may be lost."""
    data = entry.data
    repaired = Repair(str(data['what']), str(data['by']), int(data['asked_ns']), entry.stamp_ns,
                 str(data['result']))
    others = (repair for repair in record.repairs if repair.asked_ns != repaired.asked_ns)
    return {'repairs': (*others, repaired)}


def _added(notice: str, more: str) -> str:
    return notice if more in notice else f'{notice} {more}'.strip()


def _running(record: SessionRecord) -> Slot:
    slot = record.state.running
    if slot is None:
        raise ValueError('no rollout is running')
    return slot


_CHANGES: Mapping[Move, Any] = {
    Move.CHECKED: lambda r, e: {'station': str(e.data['station']),
                                'evaluator': str(e.data['evaluator']),
                                'checks': tuple(e.data['checks'])},
    Move.TASK: lambda r, e: {'evaluator': str(e.data['evaluator']),
                             'prompt': str(e.data['prompt']), 'draft_instruction': None,
                             'third_person': str(e.data['third_person']),
                             'notice': ''},
    Move.ASSIGNED: lambda r, e: {'session_id': str(e.data['session_id']),
                                 'commitment': str(e.data['commitment']),
                                 'equal_latency': bool(e.data['equal_latency']),
                                 'driver': str(e.data['driver']),
                                 'robot': str(e.data.get('robot', '')),
                                 'photo_code': str(e.data.get('photo_code', '')),
                                 'promises': _promises(r, e)},
    Move.PHOTOGRAPHED: lambda r, e: {'views': tuple(e.data['views']), 'notice': ''},
    Move.STARTED_A: _started(Slot.A),
    Move.STARTED_B: _started(Slot.B),
    Move.TICKED: _ticked,
    Move.ENDED: _ended,
    Move.RERUN: _rerun,
    Move.SCORED_A: _scored(Slot.A),
    Move.SCORED_B: _scored(Slot.B),
    Move.MATCHED: lambda r, e: {'match': float(e.data['match']),
                                'matches': dict(e.data['matches'])},
    Move.RESET: lambda r, e: {'reset_confirmed': True, 'notice': ''},
    Move.PREFERRED: lambda r, e: _said(r, e, Asked.JUDGE),
    Move.DRAFTED: _drafted,
    Move.INVALIDATED: _invalidated,
    Move.REVALIDATED: _revalidated,
    Move.SUBMITTED: lambda r, e: {'notice': ''},
    Move.DELIVERED: lambda r, e: {'delivered': (*r.delivered, str(e.data['part'])),
                                  'promises': _promises(r, e),
                                  'notice': str(e.data.get('notice', r.notice))},
    Move.REVEALED: _revealed,
    Move.UNREVEALED: lambda r, e: {'notice': str(e.data['reason'])},
    Move.RECOVERED: _recovered,
    Move.CLOCK_SET: lambda r, e: {
        'clock_jumps_s': (*r.clock_jumps_s, float(e.data['by_s'])),
        'notice': _added(r.notice, str(e.data['notice']))},
    Move.REPAIRING: lambda r, e: {'repairs': (*r.repairs, Repair(
        str(e.data['what']), str(e.data['by']), e.stamp_ns))},
    Move.REPAIRED: _repaired,
    Move.SALVAGED: lambda r, e: {
        'session_id': r.session_id or str(e.data.get('session_id', '')),
        'commitment': r.commitment or str(e.data.get('commitment', '')),
        'notice': _added(r.notice, str(e.data.get('notice', '')))},
    Move.ABORTED: lambda r, e: {'notice': str(e.data['reason'])},
}


def is_fault(rollout: SessionSlot) -> bool:
    """Return whether the station, not the policy, is why a rollout ended."""
    cut_off = rollout.end is EndReason.POLICY_ERROR and UNREACHABLE in rollout.detail
    return rollout.end in STATION_FAULTS or cut_off


def possible_cause(rollout: SessionSlot, earlier: Iterable[Rerun]) -> RerunCause | None:
    """Return the cause for repeating a rollout after ``earlier`` reruns; None: not allowed."""
    causes = [rerun.cause for rerun in earlier]
    if rollout.end is None or len(causes) >= MAX_RERUNS:
        return None
    if is_fault(rollout):
        return RerunCause.FAULT
    return RerunCause.MISTAKE if causes.count(RerunCause.MISTAKE) < MAX_MISTAKES else None


def check_rerun(slot: Slot, rollout: SessionSlot, earlier: Iterable[Rerun],
                reason: str) -> Mapping[str, str]:
    """Return cause and reason for the journal. Raises SessionError when it may not be repeated."""
    cause, words = possible_cause(rollout, earlier), ' '.join(reason.split())
    if cause is None:
        raise SessionError(
            f'{slot.value} cannot be run again: at most {MAX_RERUNS} times, {MAX_MISTAKES} of '
            'them for a mistake of yours. Score what you saw, or say that the session should not '
            'count')
    if cause is RerunCause.MISTAKE and length_of(words) < MIN_REASON_CHARS:
        raise SessionError(
            f'{slot.value} ended by itself or by you, so say what your mistake was, in a sentence '
            f'(at least {MIN_REASON_CHARS} characters): it stays in the record')
    return {'slot': slot.value, 'cause': cause.value, 'reason': words}


def rerun_sentence(reruns: Iterable[Rerun]) -> str:
    """Return a sentence on a slot's repeated rollouts; empty when there are none."""
    parts = []
    for rerun in reruns:
        end = rerun.rollout.end.value if rerun.rollout.end else 'unknown'
        why = rerun.reason or rerun.rollout.detail
        parts.append(f"{rerun.cause.value} ({end} after {rerun.rollout.steps} steps"
                     f"{': ' + why if why else ''})")
    times = '1 time' if len(parts) == 1 else f'{len(parts)} times'
    return f"run again {times}: {'; '.join(parts)}" if parts else ''
