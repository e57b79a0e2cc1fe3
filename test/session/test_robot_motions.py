"""What a session does with the robot beside rollouts: the confirmation that the arm is at rest."""

import contextlib
import dataclasses
import threading

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, LoopClock, Sink

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, PolicyUnavailable, ReadTimeout, SessionError
from arena_robot.session.base import StationInfo
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutRequest
from arena_robot.session.ports import SessionConfig


class BrakingArm(FakeArm):
    """Moves with the speeds of a list, one per reading; the last one stays."""

    def __init__(self, clock, speeds):
        super().__init__(clock)
        self.speeds = list(speeds)

    def wait_state(self, timeout_s):
        speed = self.speeds.pop(0) if len(self.speeds) > 1 else self.speeds[0]
        return dataclasses.replace(self.state(), dq=np.array([0, 0, -speed, 0, 0, 0, 0], float))


def motions(speeds):
    clock = LoopClock()
    arm = BrakingArm(clock, speeds)
    config = SessionConfig(StationInfo('bench', 'panda'))
    return RobotMotions(Parts(arm, None, {}), clock, config), arm


@pytest.mark.parametrize('raised', [PolicyUnavailable('azure-fast at 10.0.0.7'),
                                    RuntimeError('azure-fast: CUDA')])
def test_nothing_that_a_policy_raises_is_shown_or_logged(raised, caplog):
    clock = LoopClock()
    parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
    stage = RobotMotions(parts, clock, SessionConfig(StationInfo('bench', 'panda')))
    policy = FakePolicy(clock)

    def fail(*args):
        raise raised
    policy.infer = policy.reset = fail
    with caplog.at_level('DEBUG'):
        episode = stage.run(RolloutRequest('s1', Slot.A, 'close it'), policy, Sink())
    assert episode.end is EndReason.POLICY_ERROR
    assert episode.detail.startswith('the policy of slot A ')
    assert caplog.text
    assert 'azure' not in caplog.text


def test_a_chunk_that_cannot_be_executed_does_not_tell_its_shape():
    clock = LoopClock()
    parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
    stage = RobotMotions(parts, clock, SessionConfig(StationInfo('bench', 'panda')))
    policy = FakePolicy(clock)
    policy.infer = lambda *args: Chunk(np.zeros((2, 3), np.float32), ActionSpace.JOINT_POSITION)
    episode = stage.run(RolloutRequest('s1', Slot.A, 'close it'), policy, Sink())
    assert episode.detail == ('the policy of slot A answered with something that cannot be '
                              'executed')


def test_rest_is_what_the_arm_measures():
    stage, arm = motions([0.8, 0.3, 0.019, 0.0])
    stage.wait_rest()
    assert arm.speeds == [0.0], 'asked until the first reading at rest'


def test_an_arm_that_goes_on_is_not_at_rest():
    stage, _ = motions([0.5])
    with pytest.raises(DriverError, match=r'moves at 0.50 rad/s.*hardware stop'):
        stage.wait_rest(0.05)


def test_an_arm_that_is_silent_is_not_at_rest():
    stage, arm = motions([0.0])

    def wait_state(timeout_s):
        raise ReadTimeout('no state')
    arm.wait_state = wait_state
    with pytest.raises(ReadTimeout):
        stage.wait_rest()


def test_stops_that_wait_for_an_arm_that_hangs_take_one_thread():
    stage, arm = motions([0.0])
    asked, answers = threading.Semaphore(0), threading.Event()

    def hang():
        asked.release()
        assert answers.wait(10.0)
    arm.stop = hang
    stops = [stage.begin_stop()]
    assert asked.acquire(timeout=10.0)
    stops += [stage.begin_stop() for _ in range(20)]
    rests = [stage.begin_rest() for _ in range(20)]
    assert stage.stops == 41
    assert [thread.name for thread in threading.enumerate()].count('stop') == 1
    assert not any(one.done() for one in (*stops, *rests))
    answers.set()
    assert {one.result(10.0) for one in (*stops, *rests)} == {None}
    assert asked.acquire(blocking=False), 'a stop that came later is sent again'
    assert not asked.acquire(blocking=False)


@pytest.mark.parametrize('running', [False, True])
def test_a_press_long_after_a_lost_answer_sends_its_own_request(running, monkeypatch):
    monkeypatch.setattr('arena_robot.session.loop.robot_motions.ANSWER_S', 0.0)
    stage, arm = motions([0.0])
    asked, answers = threading.Semaphore(0), threading.Event()

    def first_answer_is_lost():
        asked.release()
        if not first.locked():
            return
        first.release()
        assert answers.wait(10.0)
    first = threading.Lock()
    first.acquire()
    arm.stop = first_answer_is_lost
    with contextlib.ExitStack() as stack:
        if running:
            stack.enter_context(stage.rollout(RolloutRequest('s1', Slot.A, 'close it'),
                                              FakePolicy(LoopClock()), Sink()))
        lost = stage.begin_stop()
        assert asked.acquire(timeout=10.0)
        stage.begin_rest().result(5.0)
        assert not lost.done()
        answers.set()
        assert lost.result(10.0) is None


def test_a_robot_that_is_driven_in_another_way_now_makes_no_second_rollout():
    clock = LoopClock()
    parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
    said = ['']
    config = SessionConfig(StationInfo('bench', 'panda'))
    stage = RobotMotions(parts, clock, config, refusal=lambda: said[0])
    job, policy = RolloutRequest('s1', Slot.A, 'close it'), FakePolicy(clock)
    with stage.rollout(job, policy, Sink()):
        pass
    said[0] = "arm_node runs with backend 'libfranka', session_node's is 'franka_rs'"
    with pytest.raises(SessionError, match='libfranka'), stage.rollout(job, policy, Sink()):
        pytest.fail('it began')
    said[0] = ''
    with stage.rollout(job, policy, Sink()):
        pass
