"""What evaluators see and press, and the script that stands in for one."""

import dataclasses
import json

import pytest
from fake_desk import InProcessDesk
from test_conductor import TASK, Station, go
from test_session_machine import until

from arena_robot.core.episode import EndReason, Preference
from arena_robot.core.errors import Conflict, SessionError
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.session.arena.sealed import SealedTokens
from arena_robot.session.base import Check
from arena_robot.session.evaluator.checks import check_slot
from arena_robot.session.evaluator.desk import ENDS, HINTS, Button, one_per_part, shown
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.states import State


@pytest.fixture
def station(tmp_path):
    return Station(tmp_path)


@pytest.fixture
def desk(station):
    desk = InProcessDesk(station.conductor)
    desk.take('tester')
    return desk


def test_every_state_says_what_to_do():
    assert set(HINTS) == set(State)
    assert set(ENDS) == set(EndReason), 'how a rollout ended'


def test_a_credit_is_told_of_where_the_log_of_a_server_has_the_session():
    for receipt, told in (('{"entry": "x"}', True), ('', False)):
        record = until(State.SUBMITTING).revealed(Reveal('00ff', 'red', 'blue', receipt=receipt))
        assert ('one credit' in shown(record).message) is told


def test_no_part_is_good_and_bad_at_once():
    checks = (Check('left camera', False, 'no picture'), Check('arm', True, 'idle'),
              Check('left camera node', True, ''), Check('arm node', True, 'two', warning=True),
              Check('gripper node', False, 'gone'))
    assert one_per_part(checks) == (
        Check('left camera', False, 'no picture'), Check('arm', True, 'two', warning=True),
        Check('gripper', False, 'gone'))


def test_a_station_that_stops_slowly_says_how_slowly_while_a_policy_runs():
    running, over = SessionRecord(State.RUNNING_A), SessionRecord(State.SCORING_A)
    assert '0.2 to 0.35 s' in shown(running, backend='droid_nuc').message
    assert shown(running, backend='franka_rs').message == HINTS[State.RUNNING_A]
    assert shown(over, backend='droid_nuc').message == HINTS[State.SCORING_A]


def test_a_script_goes_through_a_session_and_prefers_the_higher_score(desk):
    scores = iter([0.2, 0.6])
    states = []
    script = Script('ada', TASK, lambda: next(scores) if not desk.state().state.running else 0.0)
    end = Scripted(desk, script, lambda state: states.append(state.state)).run()
    assert (end.state, end.verified) == (State.DONE, True)
    assert end.verdict.preference == 'B'
    assert end.verdict.explanation == 'the oracle saw A at 20 and B at 60 of 100'
    assert states[0] is State.IDLE
    assert states[-1] is State.DONE


def test_a_script_goes_on_from_where_it_finds_the_session(station, desk):
    go(station.conductor, State.SCORING_A)
    end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
    assert (end.state, end.verdict.preference) == (State.DONE, 'TIE')


def test_a_script_does_not_type_the_task_twice_while_policies_are_assigned(desk, monkeypatch):
    typed, late_ones, real = [], [], desk.open_session
    seen = desk.state

    def open_session(*words, **more):
        typed.append(words)
        real(*words, **more)

    def late():
        """Show the step before the assignment once more, as a message that is late does."""
        state = seen()
        if state.state is State.ASSIGNED and len(late_ones) < 3:
            late_ones.append(state)
            return dataclasses.replace(state, state=State.TASK_ENTERED)
        return state
    monkeypatch.setattr(desk, 'open_session', open_session)
    monkeypatch.setattr(desk, 'state', late)
    assert Scripted(desk, Script('ada', TASK, lambda: 0.5)).run().state is State.DONE
    assert len(typed) == 1


def test_a_script_repeats_the_checks_of_a_station_that_is_starting(desk, monkeypatch):
    seen, pressed, real = desk.state, [], desk.press

    def starting():
        state = seen()
        bad = state.state is State.PREFLIGHT and pressed.count(Button.CHECK) < 3
        return dataclasses.replace(state, checks=(Check('arm', False, 'no state yet'),)) \
            if bad else state

    def press(button, text=''):
        pressed.append(button)
        return real(button, text)
    monkeypatch.setattr(desk, 'press', press)
    monkeypatch.setattr(desk, 'state', starting)
    assert Scripted(desk, Script('ada', TASK, lambda: 0.5)).run().state is State.DONE
    assert pressed.count(Button.CHECK) == 3


def test_a_stuck_script_says_where(desk, monkeypatch):
    monkeypatch.setattr('arena_robot.session.evaluator.scripted.WAIT_S', 3.0)
    monkeypatch.setattr(desk, 'press', lambda *words: '')
    with pytest.raises(SessionError, match="stuck in 'idle'"):
        Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()


def test_a_session_may_be_opened_without_a_check_of_its_own(desk):
    desk.open_session('ada', TASK)
    assert desk.state().state is State.ASSIGNED
    assert [check.name for check in desk.state().checks][:2] == ['left camera', 'right camera']


def test_drafts_come_back_as_they_were_typed(station, desk):
    go(station.conductor, State.PREFERENCE)
    said = desk.state().verdict
    desk.draft({'progress_b': 0.3, 'preference': 'A', 'explanation': 'A was fas',
                'notes': 'cable'})
    desk.draft({})
    assert desk.state().draft == dataclasses.replace(
        said, progress_b=0.3, preference=Preference.A, explanation='A was fas', notes='cable')
    desk.draft({'progress_b': None, 'preference': None, 'notes': ''})
    assert desk.state().draft == dataclasses.replace(said, progress_b=None,
                                                     explanation='A was fas')


def test_bad_words_are_named(station, desk):
    go(station.conductor, State.PREFERENCE)
    with pytest.raises(SessionError, match="a slot is A or B, got 'C'"):
        check_slot('C')
    with pytest.raises(SessionError, match='choose A, TIE or B'):
        desk.judge(Verdict(explanation='A was faster than B'))
    with pytest.raises(SessionError, match="no button 'sumbit'"):
        desk.press('sumbit')
    with pytest.raises(Conflict, match='tester'):
        desk.conductor.controlled('somebody else').submit()


def test_slot_tokens_survive_a_restart_and_leave_no_trace(tmp_path):
    secret = {'A': 'secret-a', 'B': 'secret-b'}
    SealedTokens(tmp_path / 'arena').keep('s1', secret)
    [sealed] = (tmp_path / 'arena').glob('*.sealed')
    assert 'secret' not in sealed.read_text()
    assert (tmp_path / 'arena' / '.key').stat().st_mode & 0o077 == 0
    again = SealedTokens(tmp_path / 'arena')
    assert again.find('s1') == secret
    assert again.find('s2') is None
    again.forget('s1')
    again.forget('s1')
    assert again.find('s1') is None
    assert list((tmp_path / 'arena').glob('*.sealed')) == []


def test_what_is_shown_is_plain_json_after_a_session(station, desk):
    go(station.conductor)
    today = desk.today()
    assert today[0].state is State.DONE
    folder = station.folder / 'sessions' / today[0].session_id
    assert json.loads((folder / 'session.json').read_text())['reveal']['policy_a'] == \
        today[0].policy_a
