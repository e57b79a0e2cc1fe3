"""A session typed into the terminal, keys included."""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / 'session'))

from fake_desk import InProcessDesk
from test_conductor import TASK, Station

from arena_robot.cli.station.session import run_with, session_arguments
from arena_robot.cli.station.session_terminal import Terminal, bar, state_lines, wrapped
from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, SessionError, StaleData
from arena_robot.core.verdict import OPTIONAL, Asked, Extras, Success, asked_at
from arena_robot.session.evaluator.desk import HINTS, Button, DeskState, RunView
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.protocol.states import State


class Evaluator:
    """Types lines, and keys into a pipe while a policy runs."""

    def __init__(self, monkeypatch, lines):
        self.lines, self.asked = list(lines), []
        reading, self.writing = os.pipe()
        self.stdin = os.fdopen(reading, 'r')
        monkeypatch.setattr(sys, 'stdin', self.stdin)
        monkeypatch.setattr('builtins.input', self.answer)

    def answer(self, question=''):
        self.asked.append(question)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def press(self, key):
        os.write(self.writing, key.encode())

    def close(self):
        os.close(self.writing)
        self.stdin.close()


@pytest.fixture
def desk(tmp_path):
    station = Station(tmp_path, steps=1_000_000)
    desk = InProcessDesk(station.conductor)
    desk.station = station
    desk.take('terminal')
    return desk


@pytest.fixture
def typed(monkeypatch):
    made = []

    def make(lines):
        made.append(Evaluator(monkeypatch, lines))
        return made[-1]
    yield make
    for opened in made:
        opened.close()


NOTHING = ['' for field in asked_at(Asked.JUDGE) if not field.required]
LINES = [TASK, '', '', 'fifty', '50', 'slow', 'y', 'm', '', '25', '', 'n', 'q',
         'A did it, B did not', *NOTHING, 'a', 'A did it, B did not', *NOTHING, 'x', 'b', '0',
         'looked again', '', 's']


def test_a_session_by_keys_and_lines(desk, typed, capsys):
    evaluator = typed(LINES)
    presses = iter('td')
    start = desk.start

    def started(slot):
        start(slot)
        evaluator.press(next(presses))
    desk.start = started
    assert Terminal(desk).lead('ada', '') == 0
    state = desk.state()
    assert [slot.end for slot in state.slots] == ['stopped', 'done']
    assert [state.verdict.progress_a, state.verdict.progress_b] == [0.5, 0.0]
    assert (state.verdict.preference, evaluator.lines) == ('A', [])
    assert (state.verdict.unsafe_a, state.verdict.unsafe_b) == (True, False)
    printed = capsys.readouterr().out
    assert 'A            you stopped it after ' in printed
    for words in ("'fifty' is not a number", 'choose A, TIE or B', 'matches the commitment',
                  '100  green', 'Keep a hand near STOP'):
        assert words in printed


def test_a_station_asks_what_its_file_says(tmp_path, typed, capsys):
    station = Station(tmp_path, extras=Extras(OPTIONAL, ('reach', 'grasp'), ('stuck', 'lost')))
    desk = InProcessDesk(station.conductor)
    desk.take('terminal')
    said_a = ['50', '', 'n', 'y', 'gr', '', '', '1', '2.5']
    said_b = ['0', '', 'n', 'n', '', 'st; broken', '', '', '']
    again = ['0', '', 'n', 'n', '', 'st; lo', '9', '', '']
    last = ['0', '', 'n', 'n', '', 'st; lo', '', '', '']
    typed([TASK, '', '', *said_a, '', *said_b, *again, *last, 'A', 'A did it, B did not',
           *NOTHING, 'b', '0', '', 'n', '', '', 'lo', '', '', '', 's'])
    assert Terminal(desk).lead('ada', '') == 0
    printed = capsys.readouterr().out
    assert "failure tags of B cannot be 'broken'; choose from: stuck, lost" in printed
    assert 'a time to success of B needs its success' in printed
    said = desk.state().verdict
    assert (said.success_a, said.stage_a, said.interventions_a, said.intervention_s_a) == (
        Success.YES, 'grasp', 1.0, 2.5)
    steps = desk.state().slots[0].steps
    assert said.time_to_success_s_a == pytest.approx(steps / 15.0, abs=1e-3)
    assert (said.success_b, said.failure_tags_b, said.time_to_success_s_b) == (
        None, 'lost', None), 'the second time less was said'
    assert 'Time by hand of A' in printed


def test_arm_and_gripper_are_brought_back_at_any_prompt(desk, typed, capsys):
    done = []
    desk.station.arm.recover = lambda: done.append('arm')
    desk.station.gripper.activate = lambda: done.append('gripper')
    typed([TASK, '!recover', 'yes', '!recover', 'clear', '!gripper', 'clear', '?'])
    assert Terminal(desk).lead('ada', '') == 1
    assert done == ['arm', 'gripper']
    printed = capsys.readouterr().out
    assert "type 'clear' when nobody and nothing is near it; typed was 'yes'" in printed
    assert desk.state().state is State.ASSIGNED


def test_a_stop_without_a_confirmation_says_to_use_the_hardware_stop(desk, typed, capsys):
    evaluator = typed(LINES)
    presses, start, stop, failed = iter('td'), desk.start, desk.stop, []

    def started(slot):
        start(slot)
        evaluator.press(next(presses))

    def stopped():
        if not failed:
            failed.append(1)
            evaluator.press('t')
            raise SessionError('session_node/e_stop did not answer within 10 s')
        stop()
    desk.start, desk.stop = started, stopped
    assert Terminal(desk).lead('ada', '') == 0
    assert [slot.end for slot in desk.state().slots] == ['stopped', 'done']
    assert ('! The arm has not confirmed that it is at rest. Use the hardware stop. '
            '(session_node/e_stop did not answer within 10 s)') in capsys.readouterr().out


def test_what_is_noticed_while_a_policy_runs_is_said_once(desk, capsys):
    desk.running = lambda: RunView(Slot.A, 3, 400)
    terminal = Terminal(desk)
    for notice in ('', 'no answer', 'no answer', ''):
        terminal._tell(DeskState(state=State.RUNNING_A, notice=notice))
    assert capsys.readouterr().out.count('! no answer') == 1


def test_a_failure_is_run_again_and_a_mistake_says_why(desk, typed, capsys):
    station = desk.station
    typed([TASK, '', '', '', '', 'r', 'the bowl was upside down', '', '?'])
    rollouts, start = [], desk.start

    def started(slot):
        rollouts.append(slot)
        desk.conductor.motions._config = dataclasses.replace(
            desk.conductor.motions._config, rollout=RolloutConfig(max_steps=20))
        if len(rollouts) == 1:
            station.cameras['wrist'].fail = StaleData('no frame; check its cable')
        start(slot)
        while desk.state().state.running:
            desk.wait_change(desk.state(), 0.1)
        station.cameras['wrist'].fail = None
    desk.start = started
    assert Terminal(desk).lead('ada', '') == 1
    assert rollouts == [Slot.A, Slot.A, Slot.A]
    assert [rerun.cause.value for rerun in desk.conductor.record.reruns] == ['fault', 'mistake']
    assert 'This says nothing about the policy' in capsys.readouterr().out


def test_a_script_takes_over_from_a_page_that_has_no_session_under_way(desk, capsys):
    parser = argparse.ArgumentParser()
    session_arguments(parser)
    desk.oracle, desk.watch_oracle = {'instruction': TASK, 'progress': 1.0}, lambda: None
    for _ in range(2):    # before a session, and after one
        desk.take('web page', True)
        with pytest.raises(Conflict, match=r"'web page' controls .* --take-over"):
            run_with(desk, parser.parse_args([]))
        assert run_with(desk, parser.parse_args(['--auto'])) == 0
    assert 'the reveal matches the commitment' in capsys.readouterr().out
    desk.take('web page', True)
    desk.press(Button.CHECK)
    desk.open_session('ada', TASK, True)
    with pytest.raises(Conflict, match='--take-over'):
        run_with(desk, parser.parse_args(['--auto']))
    assert run_with(desk, parser.parse_args(['--auto', '--take-over'])) == 0


def test_what_a_submitted_session_waits_for_is_named():
    lines = list(state_lines(DeskState(State.SUBMITTING, doing='videos of A')))
    assert lines[-1] == '  waiting for: videos of A'


def test_a_session_that_does_not_count_names_no_policy_and_doubts_no_commitment():
    named = DeskState(State.DONE, policy_a='azure', policy_b='olive', commitment='c')
    assert 'DOES NOT MATCH' in list(state_lines(named))[-1]
    assert not any('commitment' in line or 'A was' in line
                   for line in state_lines(dataclasses.replace(named, policy_a='', policy_b='')))


def test_who_evaluates_is_asked_and_never_guessed(desk, typed):
    evaluator = typed(['Grace', TASK, '?'])
    assert Terminal(desk).lead('', '') == 1
    assert evaluator.asked[0].startswith('Who evaluates?')
    assert desk.state().evaluator == 'Grace'


def test_a_red_scene_is_asked_about_once_more(desk, typed, monkeypatch):
    evaluator = typed([TASK, '', '', '50', '', '', '', 'n', '', 'y', '?'])
    begun, state = [], desk.state

    def roll(self, slot):
        begun.append(slot)
        desk.start(slot)
        desk.stop()
        while desk.state().state.running:
            desk.wait_change(desk.state(), 0.1)
    monkeypatch.setattr(Terminal, '_roll', roll)
    desk.state = lambda: dataclasses.replace(state(), match=0.2)
    assert Terminal(desk).lead('ada', '') == 1
    assert begun == [Slot.A, Slot.B]
    warnings = [question for question in evaluator.asked if 'anyway' in question]
    assert warnings == [
        'The scene is only 20 % like the start. Start B from it anyway? [y/n]: '] * 2


def test_nothing_is_wider_than_the_terminal():
    for state in State:
        seen = DeskState(state, message=HINTS[state], session_id='f' * 36, commitment='c' * 64,
                         notice='the arm node does not answer; ' * 5, policy_a='p' * 20,
                         policy_b='q' * 20)
        lines = list(wrapped(state_lines(seen), 80))
        assert max(map(len, lines)) < 80
        assert ' '.join(' '.join(lines).split()) == ' '.join(' '.join(state_lines(seen)).split())
    assert len(bar(RunView(Slot.A, 400, 400, 26.7))) < 80
    assert len(bar(RunView(Slot.A, 400, 400, 26.7), 60)) < 60


def test_leaving_leaves_the_session_as_it_is(desk, typed, capsys):
    typed(['?'])
    assert Terminal(desk).lead('ada', TASK) == 1
    assert desk.state().state is State.ASSIGNED
    assert 'stays as it is' in capsys.readouterr().out


def test_people_in_the_pictures_are_told_before_the_pair_is_asked_for(desk, typed, capsys):
    desk.consent = lambda: 'Pictures are kept for a year; ask Ada for deletion.'
    evaluator = typed(['?'])
    assert Terminal(desk).lead('ada', TASK) == 1
    assert 'Whoever is in the pictures: Pictures are kept for a year' in capsys.readouterr().out
    assert evaluator.asked == ['Press Enter once they know that: ']
    assert desk.state().state is State.PREFLIGHT
    typed(['', '?'])
    assert Terminal(desk).lead('ada', TASK) == 1
    assert desk.state().state is State.ASSIGNED


def test_what_arm_and_gripper_need_is_said_with_what_to_type():
    text = ' '.join(state_lines(DeskState(repairs=('recover', 'activate_gripper'))))
    assert 'The arm has stopped by itself' in text
    assert 'Type !recover at any prompt' in text
    assert 'Type !gripper at any prompt' in text


def test_ending_asks_why(desk, typed):
    typed(['!', 'the bowl broke'])
    assert Terminal(desk).lead('ada', TASK) == 1
    assert (desk.state().state, desk.state().notice) == (State.ABORTED, 'the bowl broke')


def test_a_bad_camera_is_mended_and_checked_again(desk, typed, capsys, monkeypatch):
    camera = desk.station.cameras['wrist']
    camera.fail = StaleData('no frame; check its cable')
    evaluator = typed(['', '?'])
    answer = evaluator.answer

    def mend(question=''):
        camera.fail = None
        return answer(question)
    monkeypatch.setattr('builtins.input', mend)
    assert Terminal(desk).lead('ada', TASK) == 1
    assert (desk.state().state, evaluator.lines) == (State.ASSIGNED, [])
    assert 'BAD wrist camera: wrist camera: no frame; check its cable' in capsys.readouterr().out


def test_the_bar():
    assert bar(RunView(Slot.A, 60, 400, 4.0)) == (
        'A ####..........................  60/400    4 s  t: stop  d: done ')
    assert '  0/1' in bar(RunView(Slot.B, 0, 0))
