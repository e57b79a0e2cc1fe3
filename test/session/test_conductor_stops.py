"""Rollouts that are held back, stopped or lost, and buttons pressed at the wrong time."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from conducted_station import TASK, Station, go
from fake_station import FakePolicy

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import (
    Conflict,
    DriverError,
    PolicyTimeout,
    RecordingError,
    SessionError,
)
from arena_robot.core.verdict import scored
from arena_robot.records.session_file import RerunCause
from arena_robot.session.evaluator.checks import Control
from arena_robot.session.evaluator.desk import shown
from arena_robot.session.protocol import conductor as conductor_module
from arena_robot.session.protocol.states import State


def test_a_recorder_that_refuses_holds_the_rollout_back(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.START_PHOTOGRAPHED)
    station.recorder.fail['start'] = '1 GB free, 5 are needed'
    with pytest.raises(RecordingError, match='5 are needed'):
        station.conductor.run(Slot.A)
    assert station.conductor.record.state is State.START_PHOTOGRAPHED
    station.recorder.fail = {'stop': 'disk full'}
    station.conductor.run(Slot.A)
    assert station.conductor.record.state is State.SCORING_A
    assert 'disk full' in station.conductor.problem


def test_stop_and_abort_while_a_runs(tmp_path):
    station = Station(tmp_path, steps=400)
    go(station.conductor, State.START_PHOTOGRAPHED)
    station.hall.at[5] = station.conductor.stop
    assert station.conductor.run(Slot.A).end is EndReason.STOPPED
    assert station.conductor.record.slots[Slot.A].steps == 6
    station.conductor.score(Slot.A, scored(Slot.A, 0.0))
    station.conductor.confirm_reset()
    station.hall.at = {9: lambda: station.conductor.abort('the bowl broke')}
    station.conductor.run(Slot.B)
    assert station.conductor.record.state is State.ABORTED
    assert station.arm.log[-1] == ('stop', None)
    assert 'abort' in station.arena.calls
    data = json.loads(next((tmp_path / 'sessions').glob('*/session.json')).read_text())
    assert (data['state'], data['notice']) == ('aborted', 'the bowl broke')
    station.conductor.check()
    assert station.conductor.record.state is State.PREFLIGHT


def test_only_one_motion_at_a_time(tmp_path):
    station = Station(tmp_path, steps=400)
    go(station.conductor, State.START_PHOTOGRAPHED)
    refused = []

    def press_home():
        try:
            station.conductor.motions.home()
        except SessionError as error:
            refused.append(str(error))
        station.conductor.stop(EndReason.DONE)
    station.hall.at[3] = lambda: threading.Thread(target=press_home).start()
    station.conductor.run(Slot.A)
    assert refused == ['wait: A is running']


def test_a_stop_on_the_way_to_the_reset_pose(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.RESET)

    def slow(q, duration_s=None):
        station.conductor.stop()
        return 2.0
    station.arm.move_to = slow
    station.arm.q = np.ones(7)
    with pytest.raises(DriverError, match='was stopped'):
        station.conductor.prepare_reset()
    assert station.conductor.record.state is State.RESET
    assert sum(kind == 'stop' for kind, _ in station.arm.log[-2:]) == 2, 'stopped after the motion'


def test_a_stop_while_the_reset_is_compared_refuses_it(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.RESET)
    camera = station.cameras['left']
    look = camera.wait_frame

    def stopped_meanwhile(timeout_s):
        station.conductor.stop()
        return look(timeout_s)
    camera.wait_frame = stopped_meanwhile
    with pytest.raises(DriverError, match='stopped'):
        station.conductor.confirm_reset()
    assert not station.conductor.record.reset_confirmed


def test_a_stop_while_a_rollout_is_prepared_keeps_it_from_beginning(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.START_PHOTOGRAPHED)
    policy = station.arena.policy

    def stopped_meanwhile(session_id, slot):
        station.conductor.stop()
        return policy(session_id, slot)
    station.arena.policy = stopped_meanwhile
    moved = sum(kind == 'q' for kind, _ in station.arm.log)
    with pytest.raises(SessionError, match='STOP was pressed'):
        station.conductor.run(Slot.A)
    assert sum(kind == 'q' for kind, _ in station.arm.log) == moved
    assert station.conductor.record.state is State.START_PHOTOGRAPHED
    station.arena.policy = policy
    assert station.conductor.run(Slot.A).steps > 0


def test_a_stop_after_the_scene_was_confirmed_wants_it_confirmed_again(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.RESET)
    station.conductor.confirm_reset()
    station.conductor.stop()
    with pytest.raises(SessionError, match='STOP was pressed since the scene was confirmed'):
        station.conductor.run(Slot.B)
    station.conductor.confirm_reset()
    assert station.conductor.run(Slot.B).end is EndReason.TIMEOUT


def test_a_command_that_the_stop_refuses_is_no_failure_of_the_arm(tmp_path):
    station = Station(tmp_path, steps=400)
    go(station.conductor, State.START_PHOTOGRAPHED)
    act = station.arm.act

    def stopped_before_it_arrives(action, stamp_ns):
        if station.arm.acted == 6:
            station.conductor.motions.begin_stop()
            station.arm.halt()
        return act(action, stamp_ns)
    station.arm.act = stopped_before_it_arrives
    assert station.conductor.run(Slot.A).end is EndReason.STOPPED


def test_a_session_that_the_arena_cancelled_is_aborted_here(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.SCORING_A)
    station.conductor.heartbeat()
    station.arena.cut = True
    station.conductor.heartbeat()
    assert station.conductor.record.state is State.SCORING_A
    station.arena.cut, station.arena.cancelled = False, True
    station.conductor.heartbeat()
    assert station.conductor.record.state is State.ABORTED
    assert 'arena cancelled' in station.conductor.record.notice


def test_buttons_in_the_wrong_place(tmp_path):
    conductor = Station(tmp_path).conductor
    for press in (lambda: conductor.enter_task('ada', TASK), conductor.photograph,
                  conductor.submit, lambda: conductor.draft({'notes': 'x'}),
                  lambda: conductor.run(Slot.A)):
        with pytest.raises(SessionError, match='check the station'):
            press()
    go(conductor, State.ASSIGNED)
    with pytest.raises(SessionError, match="possible in 'start_photographed or reset'"):
        conductor.run(Slot.A)
    assert conductor.record.state is State.ASSIGNED


def test_one_evaluator_at_a_time():
    control = Control()
    control.check('')
    token = control.take('terminal')
    control.check(token)
    with pytest.raises(Conflict, match="'terminal' controls"):
        control.take('page')
    with pytest.raises(Conflict, match='take over'):
        control.check('')
    other = control.take('page', take_over=True)
    with pytest.raises(Conflict, match="'page'"):
        control.check(token)
    control.release(token)
    assert control.holder == 'page'
    control.release(other)
    assert control.holder == ''


def test_a_rollout_that_nobody_records_ends_and_the_evaluator_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(conductor_module, 'TICK_S', 0.01)
    station = Station(tmp_path, steps=100_000)
    go(station.conductor, State.START_PHOTOGRAPHED)
    station.recorder.gone = 'recorder_node has said nothing for 4.0 s'
    episode = station.conductor.run(Slot.A)
    assert (episode.end, episode.detail) == (EndReason.INTERRUPTED, station.recorder.gone)
    assert station.arm.log[-1][0] == 'stop'
    assert station.conductor.record.state is State.SCORING_A
    assert station.conductor.record.slots[Slot.A].detail == station.recorder.gone


@pytest.mark.parametrize(('recorded', 'words'), [
    (lambda whole: replace(whole, steps=11), '11 of 20 steps are recorded'),
    (lambda whole: replace(whole, slot='B'), 'another rollout was recorded: B of session'),
    (lambda whole: replace(whole, session_id='s9'), 'was recorded: A of session s9'),
    (RecordingError('nothing is being recorded'), 'nothing is being recorded')])
def test_a_rollout_that_is_not_recorded_whole_is_the_stations_fault(tmp_path, recorded, words):
    station = Station(tmp_path)
    go(station.conductor, State.START_PHOTOGRAPHED)
    if isinstance(recorded, RecordingError):
        station.recorder.fail['stop'] = str(recorded)
    else:
        station.recorder.recorded = recorded
    episode = station.conductor.run(Slot.A)
    assert (episode.end, episode.steps) == (EndReason.INTERRUPTED, 20)
    assert 'the recording of A is not whole: ' in episode.detail
    assert words in episode.detail
    assert 'ended as timeout' in episode.detail
    assert words in station.conductor.problem
    assert station.hall.episodes[-1] == (Slot.A, EndReason.INTERRUPTED)
    assert shown(station.conductor.record).slots[0].again == 'fault'
    station.recorder.fail, station.recorder.recorded = {}, lambda whole: whole
    station.conductor.rerun()
    station.conductor.prepare_reset()
    station.conductor.confirm_reset()
    assert station.conductor.run(Slot.A).end is EndReason.TIMEOUT
    assert station.conductor.record.reruns[0].cause is RerunCause.FAULT


def test_a_policy_that_failed_has_failed_whatever_is_recorded(tmp_path, monkeypatch):
    station = Station(tmp_path)
    go(station.conductor, State.START_PHOTOGRAPHED)
    station.recorder.recorded = lambda whole: replace(whole, slot='B')

    def failing(self, observation, episode=''):
        raise PolicyTimeout('too slow')
    monkeypatch.setattr(FakePolicy, 'infer', failing)
    episode = station.conductor.run(Slot.A)
    assert episode.end is EndReason.POLICY_ERROR
    assert 'the recording of A is not whole: another rollout' in episode.detail


def test_a_station_that_is_closed_in_a_rollout_writes_nothing_more(tmp_path, monkeypatch):
    monkeypatch.setattr(conductor_module, 'TICK_S', 0.001)
    failed = []
    monkeypatch.setattr(threading, 'excepthook', failed.append)
    station = Station(tmp_path, steps=400)
    go(station.conductor, State.START_PHOTOGRAPHED)

    def close():
        station.conductor.close()
        time.sleep(0.05)    # the journal's ticks go on meanwhile

    station.hall.at[5] = close
    with pytest.raises(SessionError, match='is not open'):
        station.conductor.run(Slot.A)
    assert failed == []


def test_a_rollout_may_be_made_shorter_but_not_longer(tmp_path):
    station = Station(tmp_path, steps=20)
    go(station.conductor, State.START_PHOTOGRAPHED)
    assert station.conductor.run(Slot.A, max_steps=7).steps == 7
    go_on = station.conductor
    go_on.score(Slot.A, scored(Slot.A, 0.5))
    go_on.prepare_reset()
    go_on.confirm_reset()
    assert go_on.run(Slot.B, max_steps=700).steps == 20
