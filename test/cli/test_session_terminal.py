"""A session typed into the terminal, keys included."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / 'session'))

from fake_desk import InProcessDesk
from test_conductor import TASK, Station

from arena_robot.cli.session_terminal import Terminal
from arena_robot.cli.session_text import bar
from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError, StaleData
from arena_robot.core.verdict import Asked, asked_at
from arena_robot.session.evaluator.desk import RunView
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
    for one in made:
        one.close()


NOTHING = ['' for one in asked_at(Asked.JUDGE) if not one.required]
LINES = [TASK, '', '', 'fifty', '50', 'slow', 'm', '', '25', '', 'q', 'A did it, B did not',
         *NOTHING, 'a', 'A did it, B did not', *NOTHING, 'x', 'b', '0', 'looked again', 's']


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
    said = capsys.readouterr().out
    for words in ("'fifty' is not a number", 'choose A, TIE or B', 'matches the commitment',
                  '100  green', 'Keep a hand near STOP'):
        assert words in said


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


def test_leaving_leaves_the_session_as_it_is(desk, typed, capsys):
    typed(['?'])
    assert Terminal(desk).lead('ada', TASK) == 1
    assert desk.state().state is State.ASSIGNED
    assert 'stays as it is' in capsys.readouterr().out


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
    assert bar(RunView(Slot.A, 60, 400, 1 / 15, 0.0, 0.0, 4.0)) == (
        'A ####..........................  60/400  15.0 Hz    4.0 s  t: stop  d: done ')
    assert '0.0 Hz' in bar(RunView(Slot.B, 0, 0))
