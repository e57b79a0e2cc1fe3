"""Whole sessions without ROS: what the evaluator presses, and what is on the disk then."""

import json

import numpy as np
import pytest
from conducted_station import NAMES, TASK, Station, go
from fake_station import FakePolicy
from sample_episodes import random_arm

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import (
    ServerError,
    ServerUnavailable,
    SessionError,
    StaleData,
)
from arena_robot.core.verdict import Verdict, scored
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.examples.simple import RandomWalk
from arena_robot.policy.resizing import shown
from arena_robot.records.session_file import read_session
from arena_robot.robots.arms import MOST_JOINTS
from arena_robot.session.base import Check
from arena_robot.session.protocol.states import State


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
    assert (data['state'], data['verified'], data['verdict']['preference']) == ('done', True, 'A')
    result = json.loads((tmp_path / 'arena' / f'{record.session_id}.json').read_text())
    assert [result['feedback'][f'progress_{slot}'] for slot in 'ab'] == [0.75, 0.25]
    assert {result['policy_a'], result['policy_b']} == set(NAMES)
    assert station.conductor.today()[0].session_id == record.session_id


@pytest.mark.parametrize('joints', [1, 2, 6, 10, MOST_JOINTS])
def test_a_whole_session_of_an_arm_that_nobody_built(tmp_path, joints):
    robot, seen = random_arm(joints, 3), []
    station = Station(tmp_path, 8, guarded_robot=robot,
                      policy=lambda clock: RandomWalk(len(seen), speed=1.0))
    station.hall.step = lambda step, observation: seen.append((step, observation))
    go(station.conductor)
    assert station.hall.episodes[1::2] == [(slot, EndReason.TIMEOUT) for slot in Slot]
    assert len(seen) == 16
    low, high = robot.limits.q_min, robot.limits.q_max
    for step, observation in seen:
        assert step.requested.shape == (joints + 1,)
        assert observation.arm.q.shape == step.q_sent.shape == (joints,)
        assert np.all((low <= step.q_sent) & (step.q_sent <= high))
    assert not np.allclose(seen[-1][0].q_sent, robot.reset_joints)
    assert station.conductor.record.verified is True


def test_a_policy_of_another_arm_ends_its_rollout_with_a_sentence(tmp_path):
    station = Station(tmp_path, 8, guarded_robot=random_arm(6, 3))
    go(station.conductor, State.SCORING_A)
    assert station.hall.episodes[1] == (Slot.A, EndReason.POLICY_ERROR)
    assert 'cannot be executed' in station.conductor.record.slots['A'].detail


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


@pytest.mark.parametrize(('chosen', 'seen'), [('', 'left'), ('left', 'left'), ('right', 'right')])
def test_a_policy_with_one_outside_camera_sees_the_chosen_one(tmp_path, monkeypatch, chosen, seen):
    shown_to = []

    def infer(self, observation, episode=''):
        wanted = shown(observation, PolicySpec(image_size=None))
        shown_to.append(wanted.images['left_left'] is observation.images[f'{seen}_left'])
        return Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_POSITION)
    monkeypatch.setattr(FakePolicy, 'infer', infer)
    station = Station(tmp_path)
    station.conductor.check()
    assert station.conductor.shown().outside_cameras == ('left', 'right')
    with pytest.raises(SessionError, match="no outside camera 'top'; this station has left"):
        station.conductor.enter_task('ada', TASK, third_person='top')
    station.conductor.enter_task('ada', TASK, third_person=chosen)
    assert station.conductor.shown().third_person == seen
    station.conductor.photograph()
    station.conductor.run(Slot.A)
    assert shown_to
    assert all(shown_to)
    folder = tmp_path / 'sessions' / station.conductor.record.session_id
    assert read_session(folder).third_person == seen
    assert read_session(folder).robot == 'panda'


def test_both_rollouts_of_a_session_are_made_with_one_driver(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, until=State.SCORING_A)
    station.conductor.score(Slot.A, scored(Slot.A, 0.75))
    station.conductor.prepare_reset()
    station.conductor.confirm_reset()
    station.arm.backend = 'another'
    with pytest.raises(SessionError, match='driven by another now, and was by fake when'):
        station.conductor.run(Slot.B)
    assert station.conductor.record.state is State.RESET
    station.arm.backend = 'fake'
    assert station.conductor.run(Slot.B).slot is Slot.B


def test_a_dead_camera_is_named_before_anything_is_typed(tmp_path):
    station = Station(tmp_path)
    station.cameras['wrist'].fail = StaleData('no frame for 3.0 s; check its cable')
    record = station.conductor.check()
    bad = [c for c in record.checks if not c['ok']]
    assert [c['name'] for c in bad] == ['wrist camera']
    with pytest.raises(SessionError, match='check its cable'):
        station.conductor.enter_task('ada', TASK)
    station.cameras['wrist'].fail = None
    station.more_checks = [Check('arena', False, 'arena: no route')]
    station.conductor.check()
    with pytest.raises(SessionError, match='no route'):
        station.conductor.enter_task('ada', TASK)
    station.more_checks = []
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
    assert 'Request the pair again' in again.record.notice
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
    assert station.arena.calls.count('feedback') == 3    # twice cut off, then once


def test_the_next_session_can_begin_while_the_last_one_is_sent(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    sent = station.arena.upload

    def slow(*what):
        conductor.check()
        station.arena.upload = sent
        raise ServerError('the line is cut')
    station.arena.upload = slow
    conductor.deliver()
    assert (conductor.record.state, conductor.waiting) == (State.PREFLIGHT, 1)
    assert conductor.shown().notice == '', 'what the last one waits for'
    conductor.deliver()
    assert (conductor.waiting, station.store.today()[-1].state) == (0, State.DONE)


def test_an_episode_is_sent_once_its_videos_are_made(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    station.recorder.complete = False
    conductor.deliver()
    assert conductor.shown().doing == 'videos of A'
    assert 'upload' not in station.arena.calls
    station.clock.now += 901 * 10**9
    conductor.deliver()
    assert conductor.record.state is State.DONE
