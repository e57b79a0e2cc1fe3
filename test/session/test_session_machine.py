"""Every way through the protocol, and every way that is not one."""

import itertools

import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import EndReason, Episode, Preference, Slot
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.verdict import Verdict, scored
from arena_robot.records.session_file import Entry, Repair
from arena_robot.session.base import Assignment, Reveal, commitment
from arena_robot.session.protocol.machine import Session
from arena_robot.session.protocol.record import SessionRecord, next_state, replay
from arena_robot.session.protocol.states import TRANSITIONS, Move, State, possible

PROMISE = commitment('00ff', 'red', 'blue')
OK = [{'name': 'arm', 'ok': True, 'detail': ''}]


class Memory:
    """A journal in memory; ``fail`` makes the next append refuse."""

    def __init__(self):
        self.entries = []
        self.fail = False
        self.clock = ManualClock(1_000)

    def append(self, move, data, sync=True):
        if self.fail:
            raise SessionError('disk full')
        self.clock.advance_ns(1_000)
        self.entries.append(Entry(len(self.entries), self.clock.now_ns(), move, data))
        return self.entries[-1]


class Noted(Session):
    """A session whose journal, :attr:`journal`, is in memory."""

    def __init__(self):
        self.journal = Memory()
        super().__init__(self.journal)


def episode(slot, end=EndReason.DONE):
    return Episode('s1', slot, 'put the cube in the bowl', 12, end, 100, 200)


STEPS = [
    (State.PREFLIGHT, lambda s: s.checked('lab', OK)),
    (State.TASK_ENTERED, lambda s: s.enter_task('ada', ' put  the cube in the bowl ')),
    (State.ASSIGNED, lambda s: s.assigned(Assignment('s1', PROMISE))),
    (State.START_PHOTOGRAPHED, lambda s: s.photographed(['left_left'])),
    (State.RUNNING_A, lambda s: s.started(Slot.A)),
    (State.RUNNING_A, lambda s: s.ticked(7)),
    (State.SCORING_A, lambda s: s.ended(episode(Slot.A))),
    (State.RESET, lambda s: s.score(Slot.A, scored(Slot.A, 0.5, 'slow'))),
    (State.RESET, lambda s: s.matched(0.8, {'left_left': 0.8})),
    (State.RESET, lambda s: s.confirm_reset()),
    (State.RUNNING_B, lambda s: s.started(Slot.B)),
    (State.SCORING_B, lambda s: s.ended(episode(Slot.B))),
    (State.PREFERENCE, lambda s: s.score(Slot.B, scored(Slot.B, 1.0))),
    (State.REVIEW, lambda s: s.judge(Verdict(
        preference=Preference.B, explanation='B closed the gripper in time'))),
    (State.SUBMITTING, lambda s: s.submit()),
    (State.SUBMITTING, lambda s: s.delivered('A')),
    (State.DONE, lambda s: s.revealed(Reveal('00ff', 'red', 'blue'))),
]


def until(state):
    session = Noted()
    for after, step in STEPS:
        if session.state is state:
            break
        step(session)
        assert session.state is after
    assert session.state is state
    return session


def test_a_session_from_beginning_to_end():
    session = until(State.DONE)
    record = session.record
    assert record.verified is True
    assert record.prompt == 'put the cube in the bowl'
    assert record.verdict.progress_a == 0.5
    assert record.slots[Slot.A].steps == 12
    assert record.match == 0.8
    assert record.reveal == Reveal('00ff', 'red', 'blue')


def test_the_journal_alone_gives_the_record_back():
    for state in State:
        if state is not State.ABORTED:
            session = until(state)
            assert replay(session.journal.entries) == session.record


# The calls that stand for the moves of the table, with words that would be accepted.
CALLS = {
    Move.CHECKED: lambda s: s.checked('lab', OK),
    Move.TASK: lambda s: s.enter_task('ada', 'put the cube in the bowl'),
    Move.ASSIGNED: lambda s: s.assigned(Assignment('s1', PROMISE)),
    Move.PHOTOGRAPHED: lambda s: s.photographed(['left_left']),
    Move.STARTED_A: lambda s: s.started(Slot.A),
    Move.STARTED_B: lambda s: s.started(Slot.B),
    Move.TICKED: lambda s: s.ticked(1),
    Move.ENDED: lambda s: s.ended(episode(s.state.running or Slot.A)),
    Move.RERUN: lambda s: s.rerun('I left the cube on the floor'),
    Move.SCORED_A: lambda s: s.score(Slot.A, scored(Slot.A, 0.25)),
    Move.SCORED_B: lambda s: s.score(Slot.B, scored(Slot.B, 0.25)),
    Move.MATCHED: lambda s: s.matched(0.5, {}),
    Move.RESET: lambda s: s.confirm_reset(),
    Move.PREFERRED: lambda s: s.judge(Verdict(
        preference=Preference.TIE, explanation='both did the same thing')),
    Move.DRAFTED: lambda s: s.draft({'explanation': 'both di'}),
    Move.INVALIDATED: lambda s: s.invalidate('a camera fell'),
    Move.REVALIDATED: lambda s: s.revalidate(),
    Move.SUBMITTED: lambda s: s.submit(),
    Move.DELIVERED: lambda s: s.delivered('B'),
    Move.REVEALED: lambda s: s.revealed(Reveal('00ff', 'red', 'blue')),
    Move.UNREVEALED: lambda s: s.unrevealed('it ended before any rollout'),
    Move.CLOCK_SET: lambda s: s.clock_set(-3600.0),
    Move.REPAIRING: lambda s: s.repairing('recover', 'ada, terminal'),
    Move.REPAIRED: lambda s: s.repaired(Repair('recover', 'ada, terminal', 5), 'done'),
    Move.RECOVERED: lambda s: s.recovered('the station was restarted'),
    Move.ABORTED: lambda s: s.abort('enough'),
}


# No call makes this one: the salvage of a damaged journal writes it.
MOVES = [move for move in Move if move is not Move.SALVAGED]


@pytest.mark.parametrize(('state', 'move'), list(itertools.product(State, MOVES)),
                         ids=lambda state: state.value)
def test_what_the_table_forbids_is_refused_and_changes_nothing(state, move):
    session = until(State.IDLE if state is State.ABORTED else state)
    if state is State.ABORTED:
        session.checked('lab', OK)
        session.abort('enough')
    before, written = session.record, len(session.journal.entries)
    allowed = (state, move) in TRANSITIONS
    if allowed and (state, move) == (State.RESET, Move.STARTED_A):
        session = until(State.SCORING_A)
        session.rerun('I left the cube on the floor')
        written = len(session.journal.entries)
    if allowed and state is State.RESET and move in (Move.STARTED_A, Move.STARTED_B):
        session.confirm_reset()
    if allowed:
        CALLS[move](session)
        assert session.state is TRANSITIONS[state, move]
        assert len(session.journal.entries) > written
    else:
        with pytest.raises(SessionError, match='possible now'):
            CALLS[move](session)
        assert session.record == before
        assert len(session.journal.entries) == written


def test_every_state_but_the_first_can_be_reached_and_every_open_one_left():
    assert set(TRANSITIONS.values()) == set(State) - {State.IDLE}
    for state in State:
        assert bool(possible(state)) is not state.is_final


def test_the_main_road_is_the_order_of_the_states():
    order = list(State)[:-1]
    for here, there in itertools.pairwise(order):
        assert any(TRANSITIONS.get((here, move)) is there for move in Move)


def test_nothing_takes_effect_when_the_journal_refuses():
    session = until(State.SCORING_A)
    session.journal.fail = True
    with pytest.raises(SessionError, match='disk full'):
        session.score(Slot.A, scored(Slot.A, 0.5))
    assert session.state is State.SCORING_A
    assert session.record.verdict.progress_a is None


def test_b_waits_for_a_confirmed_reset():
    session = until(State.SCORING_A)
    session.score(Slot.A, scored(Slot.A, 0.5))
    with pytest.raises(SessionError, match='reset and confirmed'):
        session.started(Slot.B)
    session.confirm_reset()
    assert session.started(Slot.B).state is State.RUNNING_B


def test_a_failed_check_holds_the_session_back():
    session = Noted()
    session.checked('lab', [{'name': 'wrist', 'ok': False, 'detail': 'wrist camera: no frames'}])
    with pytest.raises(SessionError, match='wrist camera: no frames'):
        session.enter_task('ada', 'put the cube in the bowl')
    session.checked('lab', OK)
    session.enter_task('ada', 'put the cube in the bowl')


@pytest.mark.parametrize('progress', [-0.01, 1.01, float('nan'), float('inf')])
def test_progress_has_a_range(progress):
    session = until(State.SCORING_A)
    with pytest.raises(SessionError, match='from 0 to 1'):
        session.score(Slot.A, scored(Slot.A, progress))


@pytest.mark.parametrize('words', ['', '   ', 'A better'])
def test_the_explanation_is_mandatory(words):
    session = until(State.PREFERENCE)
    with pytest.raises(SessionError, match=r'Why.*at least 10 characters'):
        session.judge(Verdict(preference=Preference.A, explanation=words))


def test_corrections_in_the_review_count():
    session = until(State.REVIEW)
    session.score(Slot.A, scored(Slot.A, 0.0, 'looked again'))
    session.judge(Verdict(preference=Preference.TIE, explanation='on second thought the same'))
    assert session.state is State.REVIEW
    feedback = session.record.final_verdict()
    assert (feedback.progress_a, feedback.progress_b) == (0.0, 1.0)
    assert feedback.preference is Preference.TIE
    assert (feedback.notes_a, feedback.notes) == ('looked again', '')


def test_an_invalid_session_is_submitted_without_scores():
    session = until(State.SCORING_A)
    with pytest.raises(SessionError, match='say why'):
        session.invalidate(' ')
    session.invalidate('the drawer broke')
    assert session.state is State.REVIEW
    with pytest.raises(SessionError, match='progress of A, progress of B'):
        session.revalidate()
    feedback = session.submit().final_verdict()
    assert (feedback.valid, feedback.preference) == (False, None)
    assert feedback.invalid_reason == 'the drawer broke'


def test_a_complete_session_can_be_made_valid_again():
    session = until(State.REVIEW)
    session.invalidate('I think the table moved')
    session.revalidate()
    assert session.submit().final_verdict().valid


def test_b_cannot_be_scored_before_it_ran():
    session = until(State.SCORING_A)
    session.invalidate('the drawer broke')
    with pytest.raises(SessionError, match='B did not run'):
        session.score(Slot.B, scored(Slot.B, 0.5))


def test_a_swapped_pair_is_told():
    session = until(State.SUBMITTING)
    record = session.revealed(Reveal('00ff', 'blue', 'red'))
    assert record.verified is False
    assert 'does not match the commitment' in record.notice


@pytest.mark.parametrize(('state', 'slot', 'after'), [
    (State.RUNNING_A, Slot.A, State.SCORING_A), (State.RUNNING_B, Slot.B, State.SCORING_B)])
def test_a_rollout_cut_off_by_a_crash_ends_interrupted(state, slot, after):
    session = until(state)
    session.ticked(45)
    record = session.recovered('the station was restarted')
    assert record.state is after
    assert record.slots[slot].end is EndReason.INTERRUPTED
    assert record.slots[slot].steps == 45
    assert record.notice == 'the station was restarted'


def test_a_verdict_that_was_delivered_cannot_be_taken_back():
    session = until(State.SUBMITTING)
    session.delivered('feedback')
    with pytest.raises(SessionError, match='cannot be aborted'):
        session.abort('too late')
    assert session.state is State.SUBMITTING


def test_the_end_of_the_other_slot_is_refused():
    session = until(State.RUNNING_A)
    with pytest.raises(SessionError, match='B is not running'):
        session.ended(episode(Slot.B))


def test_a_journal_of_another_version_is_named():
    with pytest.raises(DataError, match="'teleported'"):
        replay([Entry(0, 1, 'teleported', {})])
    with pytest.raises(DataError, match='incomplete'):
        replay([Entry(0, 1, 'checked', {})])
    with pytest.raises(SessionError, match='not possible'):
        next_state(SessionRecord().state, Move.SUBMITTED)
