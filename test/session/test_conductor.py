"""Whole sessions without ROS: what the evaluator presses, and what is on the disk then."""

import json
import threading
from random import Random

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, FakeSafety, LoopClock, Sink

from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import (
    Conflict,
    DriverError,
    RecordingError,
    ServerUnavailable,
    SessionError,
    StaleData,
)
from arena_robot.core.verdict import Verdict, scored
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.base import StationInfo
from arena_robot.session.evaluator.control import Control
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.ports import Check, NoRecorder, ScenePerson, SessionConfig
from arena_robot.session.protocol import conductor as conductor_module
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

NAMES = ('crimson-7b', 'azure-fast')
TASK = 'put the cube in the bowl'
WHY = 'A closed its gripper on the cube'


class Hall(Sink):
    """Hears everything."""

    def __init__(self):
        super().__init__()
        self.states, self.episodes, self.conductor = [], [], None

    def changed(self):
        if self.conductor and self.conductor.record.state.value not in self.states[-1:]:
            self.states.append(self.conductor.record.state.value)

    def episode(self, job, episode):
        self.episodes.append((job.slot, episode.end if episode else None))


class Recorder(NoRecorder):
    def __init__(self, sessions):
        super().__init__(sessions)
        self.log, self.fail, self.complete, self.gone = [], {}, True, ''

    def lost(self):
        return self.gone

    def ready(self, folder):
        return self.complete

    def start(self, session_id, slot):
        if 'start' in self.fail:
            raise RecordingError(self.fail['start'])
        super().start(session_id, slot)
        self.log.append(('start', slot))

    def stop(self, end, detail):
        if 'stop' in self.fail:
            raise RecordingError(self.fail['stop'])
        self.log.append(('stop', end))


class FlakyArena:
    """A local arena whose line can be cut."""

    def __init__(self, arena):
        self.arena, self.cut, self.cancelled, self.calls = arena, False, False, []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if self.cut:
                raise ServerUnavailable('no route to the arena')
            if name == 'heartbeat' and self.cancelled:
                raise Conflict('timed out')
            return getattr(self.arena, name)(*args)
        return call


class Station:
    def __init__(self, folder, steps=20):
        self.folder, self.clock = folder, LoopClock()
        self.clock.now = 1_790_000_000_000_000_000
        self.arm, self.gripper = FakeArm(self.clock), FakeGripper(self.clock)
        self.cameras = {role: FakeCamera(self.clock) for role in ('left', 'right', 'wrist')}
        parts = Parts(self.arm, self.gripper, self.cameras)
        config = SessionConfig(StationInfo('bench', 'panda'), RolloutConfig(max_steps=steps),
                               min_free_gb=0.0)
        pool = LocalArenaConfig(tuple(PolicyEntry(n, 'x') for n in NAMES))
        self.policies = []
        local = LocalArena(pool, self._connect, folder / 'arena', self.clock, Random(4))
        self.arena = FlakyArena(local)
        self.recorder, self.hall = Recorder(folder / 'sessions'), Hall()
        self.store = SessionStore(folder / 'sessions', self.clock)
        stage = RobotMotions(parts, FakeSafety(), self.clock, config)
        self.conductor = Conductor(stage, self.arena, self.store, self.recorder, ScenePerson(),
                                   self.hall, self.clock, config)
        self.hall.conductor = self.conductor
        self.conductor.open()

    def _connect(self, entry):
        self.policies.append(FakePolicy(self.clock))
        return self.policies[-1]


def go(conductor, until=State.DONE):
    """Press the buttons of a good session until it stands in a state."""
    buttons = [
        lambda: conductor.check(),
        lambda: conductor.enter_task('ada', TASK),
        lambda: conductor.photograph(),
        lambda: conductor.run(Slot.A),
        lambda: conductor.score(Slot.A, scored(Slot.A, 0.75, 'quick')),
        lambda: (conductor.prepare_reset(), conductor.confirm_reset(), conductor.run(Slot.B)),
        lambda: conductor.score(Slot.B, scored(Slot.B, 0.25)),
        lambda: conductor.judge(Verdict(preference=Preference.A, explanation=WHY)),
        lambda: conductor.submit(),
        lambda: conductor.deliver(),
    ]
    for press in buttons:
        if conductor.record.state is until:
            break
        press()
    assert conductor.record.state is until
    return conductor


def test_a_whole_session(tmp_path):
    station = Station(tmp_path)
    go(station.conductor)
    record = station.conductor.record
    assert record.verified is True
    assert record.match == pytest.approx(1.0)
    assert station.hall.states == [
        'idle', 'preflight', 'task_entered', 'assigned', 'start_photographed', 'running_a',
        'scoring_a', 'reset', 'running_b', 'scoring_b', 'preference', 'review',
        'submitting', 'done']
    assert station.hall.episodes == [(Slot.A, None), (Slot.A, EndReason.TIMEOUT),
                                     (Slot.B, None), (Slot.B, EndReason.TIMEOUT)]
    assert station.recorder.log == [
        ('stop', EndReason.INTERRUPTED), ('start', Slot.A), ('stop', EndReason.TIMEOUT),
        ('start', Slot.B), ('stop', EndReason.TIMEOUT)]
    folder = tmp_path / 'sessions' / record.session_id
    assert {p.name for p in folder.iterdir()} == {'journal.jsonl', 'session.json', 'A', 'B',
                                                  'start', 'reset'}
    assert len(list((folder / 'start').iterdir())) == 6
    data = json.loads((folder / 'session.json').read_text())
    assert (data['state'], data['verified'], data['preference']) == ('done', True, 'A')
    result = json.loads((tmp_path / 'arena' / f'{record.session_id}.json').read_text())
    assert [result['feedback'][f'progress_{one}'] for one in 'ab'] == [0.75, 0.25]
    assert {result['policy_a'], result['policy_b']} == set(NAMES)
    assert station.conductor.today()[0].session_id == record.session_id


def test_nothing_names_a_policy_before_the_reveal(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.SUBMITTING)
    for path in tmp_path.rglob('*'):
        assert not any(n in str(path) for n in NAMES)
        if path.is_file():
            assert not any(n.encode() in path.read_bytes() for n in NAMES)
    assert not any(n in repr(station.conductor.record) for n in NAMES)


@pytest.mark.parametrize('state', [s for s in State if s not in (
    State.IDLE, State.DONE, State.ABORTED, State.RUNNING_A, State.RUNNING_B, State.TASK_ENTERED)])
def test_a_station_that_stops_in_any_state_goes_on_there(tmp_path, state):
    first = Station(tmp_path)
    go(first.conductor, state)
    before = first.conductor.record
    first.conductor.close()
    second = Station(tmp_path)
    assert ('stop', None) in second.arm.log
    if state is State.SUBMITTING:
        assert second.conductor.record.state is State.IDLE
        assert second.conductor.waiting == 1
        second.conductor.deliver()
        assert second.conductor.waiting == 0
        assert second.store.today()[0].verified
        return
    record = second.conductor.record
    assert record.state is state
    assert 'interrupted' in record.notice
    for name in ('prompt', 'evaluator', 'commitment', 'slots', 'verdict'):
        assert getattr(record, name) == getattr(before, name)
    go_on(second.conductor)


def go_on(conductor):
    """Finish a session from wherever it stands."""
    steps = {
        State.PREFLIGHT: lambda: (conductor.check(), conductor.enter_task('ada', TASK)),
        State.ASSIGNED: conductor.photograph,
        State.START_PHOTOGRAPHED: lambda: conductor.run(Slot.A),
        State.SCORING_A: lambda: conductor.score(Slot.A, scored(Slot.A, 0.5)),
        State.RESET: lambda: (conductor.confirm_reset(), conductor.run(Slot.B)),
        State.SCORING_B: lambda: conductor.score(Slot.B, scored(Slot.B, 0.5)),
        State.PREFERENCE: lambda: conductor.judge(Verdict(
            preference=Preference.TIE, explanation='no difference was seen')),
        State.REVIEW: conductor.submit,
        State.SUBMITTING: conductor.deliver,
    }
    while conductor.record.state is not State.DONE:
        steps[conductor.record.state]()


def test_a_new_session_follows_the_last(tmp_path):
    conductor = go(Station(tmp_path).conductor)
    conductor.check()
    with pytest.raises(SessionError, match='earlier today'):
        conductor.enter_task('ada', TASK.upper())
    conductor.enter_task('ada', TASK, repeat=True)
    assert conductor.record.state is State.ASSIGNED


def test_a_dead_camera_is_named_before_anything_is_typed(tmp_path):
    station = Station(tmp_path)
    station.cameras['wrist'].fail = StaleData('no frame for 3.0 s; check its cable')
    record = station.conductor.check()
    bad = [c for c in record.checks if not c['ok']]
    assert [c['name'] for c in bad] == ['wrist camera']
    with pytest.raises(SessionError, match='check its cable'):
        station.conductor.enter_task('ada', TASK)
    station.cameras['wrist'].fail = None
    station.conductor.check(lambda: [Check('arena', False, 'arena: no route')])
    with pytest.raises(SessionError, match='no route'):
        station.conductor.enter_task('ada', TASK)
    go(station.conductor)


def test_an_arena_out_of_reach_keeps_the_instruction(tmp_path):
    station = Station(tmp_path)
    station.conductor.check()
    station.arena.cut = True
    with pytest.raises(ServerUnavailable, match='no route'):
        station.conductor.enter_task('ada', TASK)
    assert station.conductor.record.state is State.TASK_ENTERED
    assert station.conductor.record.prompt == TASK
    station.conductor.close()
    again = Station(tmp_path).conductor
    assert again.record.prompt == TASK
    assert 'Ask for the pair again' in again.record.notice
    assert again.enter_task('ada', TASK).state is State.ASSIGNED


def test_a_verdict_waits_for_the_arena_and_the_station_goes_on(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    station.arena.cut = True
    conductor.deliver()
    assert 'will be sent: no route to the arena' in conductor.problem
    conductor.check()
    assert conductor.record.state is State.PREFLIGHT
    assert conductor.waiting == 1
    conductor.deliver()
    assert conductor.waiting == 1
    station.arena.cut = False
    conductor.deliver()
    assert conductor.waiting == 0
    assert station.store.today()[-1].state is State.DONE
    assert station.arena.calls.count('feedback') == 1


def test_an_episode_is_sent_once_its_videos_are_made(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    station.recorder.complete = False
    conductor.deliver()
    assert 'videos of A are still being made' in conductor.problem
    assert 'upload' not in station.arena.calls
    station.clock.now += 130 * 10**9
    conductor.deliver()
    assert conductor.record.state is State.DONE


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
            station.conductor.stage.home()
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
                  conductor.submit, lambda: conductor.draft(Verdict(notes='x')),
                  lambda: conductor.run(Slot.A)):
        with pytest.raises(SessionError, match='check the station'):
            press()
    go(conductor, State.ASSIGNED)
    with pytest.raises(SessionError, match="possible in 'start_photographed'"):
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


def test_a_rollout_may_be_made_shorter_but_not_longer(tmp_path):
    station = Station(tmp_path, steps=20)
    go(station.conductor, State.START_PHOTOGRAPHED)
    assert station.conductor.run(Slot.A, max_steps=7).steps == 7
    go_on = station.conductor
    go_on.score(Slot.A, scored(Slot.A, 0.5))
    go_on.prepare_reset()
    go_on.confirm_reset()
    assert go_on.run(Slot.B, max_steps=700).steps == 20
