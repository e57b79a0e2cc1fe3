"""kill -9 at every state: what was entered is there again, and the session can be finished."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_conductor import Station, go, go_on

from arena_robot.core.episode import EndReason, Slot
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import KeptSession

HERE = Path(__file__).parent
STATES = [s for s in State if s not in (State.IDLE, State.DONE, State.ABORTED, State.TASK_ENTERED)]
AFTER = {State.RUNNING_A: State.SCORING_A, State.RUNNING_B: State.SCORING_B}
DRAFTED = (State.PREFERENCE, State.REVIEW, State.SCORING_A, State.SCORING_B, State.RESET)


def killed_at(state, folder):
    environment = {**os.environ, 'PYTHONPATH': ':'.join(map(str, (HERE, *HERE.parents[:2])))}
    process = subprocess.Popen(
        [sys.executable, '-W', 'ignore', str(HERE / 'killed_station.py'), str(folder),
         state.value], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment)
    try:
        line = process.stdout.readline().strip()
    finally:
        process.kill()
        _, errors = process.communicate(timeout=10.0)
    assert line == state.value, errors


@pytest.mark.parametrize('state', STATES, ids=lambda s: s.value)
def test_nothing_entered_is_lost(tmp_path, state):
    killed_at(state, tmp_path)
    station = Station(tmp_path)
    assert ('stop', None) in station.arm.log
    if state is State.SUBMITTING:
        assert station.conductor.waiting == 1
        station.conductor.deliver()
        assert station.store.today()[0].state is State.DONE
        return
    record = station.conductor.record
    assert record.state is AFTER.get(state, state)
    assert 'interrupted' in record.notice
    if state is not State.PREFLIGHT:
        assert (record.evaluator, record.prompt) == ('ada', 'put the cube in the bowl')
    if state in DRAFTED:
        assert record.draft == {'explanation': 'B was fas',
                                'notes': 'the cable was in the way'}
    if state in AFTER:
        slot = record.slots[Slot.A if state is State.RUNNING_A else Slot.B]
        assert slot.end is EndReason.INTERRUPTED
        assert slot.steps >= 40
        assert 'arm was stopped after about' in record.notice
    go_on(station.conductor)
    assert station.conductor.record.verified is True
    summary = json.loads(next((tmp_path / 'sessions').glob('*/session.json')).read_text())
    assert summary['state'] == 'done'


@pytest.mark.parametrize('final', ['done', 'aborted'])
def test_killed_between_the_last_line_of_the_journal_and_its_summary(tmp_path, monkeypatch,
                                                                     final):
    station = Station(tmp_path)
    go(station.conductor, State.SUBMITTING if final == 'done' else State.ASSIGNED)

    def killed(self):
        raise KeyboardInterrupt
    with monkeypatch.context() as patched:
        patched.setattr(KeptSession, 'write_summary', killed)
        with pytest.raises(KeyboardInterrupt):
            station.conductor.deliver() if final == 'done' else station.conductor.abort('late')
    path, = (tmp_path / 'sessions').glob('*/session.json')
    assert json.loads(path.read_text())['state'] != final
    station.store.release()
    Station(tmp_path)
    summary = json.loads(path.read_text())
    assert summary['state'] == final
    assert bool(summary['reveal']) == (final == 'done')
