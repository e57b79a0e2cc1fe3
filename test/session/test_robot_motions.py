"""What a session does with the robot beside rollouts: the confirmation that the arm is at rest."""

import contextlib
import dataclasses
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, LoopClock, Sink

from arena_robot.core.action import ActionSpace, ArmCommand, Chunk
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import (
    DriverError,
    PolicyUnavailable,
    ReadTimeout,
    SafetyError,
    StaleData,
)
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.robots.arms import PANDA, RESET_JOINTS
from arena_robot.safety.filter import Safety
from arena_robot.safety.watchdog import CommandWatchdog, StopOwner
from arena_robot.session.base import SessionConfig, StationInfo
from arena_robot.session.loop.parts import OPENING_S, Parts, move_to_reset
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutRequest


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


class BlockingArm(FakeArm):
    """Takes ``busy_s`` for each command, as a driver that waits for a server."""

    busy_s, begun = 0.0, None

    def command(self, command):
        self.begun.set()
        time.sleep(self.busy_s)
        return super().command(command)

    def recover(self):
        self.log.append(('recover', None))


@pytest.fixture
def shared():
    """Return motions, their arm behind the safety layer as others command it, and its driver."""
    clock = LoopClock()
    driver = BlockingArm(clock)
    driver.begun, driver.q = threading.Event(), np.array(RESET_JOINTS)
    arm = GuardedArm(driver, Safety(PANDA.limits, clock), CommandWatchdog(clock, 0.5), PANDA)
    config = SessionConfig(StationInfo('bench', 'panda'))
    parts = Parts(arm, FakeGripper(clock), {'left': FakeCamera(clock)})
    return RobotMotions(parts, clock, config), arm, driver, clock


def late(arm, clock):
    """Send a target that is newer than everything before it."""
    clock.now += 10_000_000
    arm.command(ArmCommand(np.array(RESET_JOINTS) + 0.02, clock.now_ns()))


@pytest.mark.parametrize('busy_s', [0.0, 0.06])
def test_what_is_commanded_after_a_stop_moves_nothing_however_new(shared, busy_s):
    stage, arm, driver, clock = shared
    driver.busy_s = busy_s

    def send():
        with contextlib.suppress(SafetyError):    # where the stop comes meanwhile
            late(arm, clock)
    sender = threading.Thread(target=send)
    sender.start()
    assert driver.begun.wait(5.0)
    stage.stop()
    sender.join()
    moved = sum(kind == 'q' for kind, _ in driver.log)
    for _ in range(20):
        with pytest.raises(SafetyError, match='STOP was pressed'):
            late(arm, clock)
    with pytest.raises(SafetyError, match='STOP was pressed'):
        arm.move_to(np.array(RESET_JOINTS) + 0.1)
    assert sum(kind == 'q' for kind, _ in driver.log) == moved
    assert driver.log[-1] == ('stop', None), 'the last word that the driver heard'


def test_only_the_next_step_that_moves_the_arm_ends_a_stop(shared):
    stage, arm, _, clock = shared
    stage.stop()
    stage.recover()
    with pytest.raises(SafetyError, match='STOP was pressed'):
        late(arm, clock)
    stage.home()
    late(arm, clock)
    stage.stop(EndReason.DONE)    # nobody pressed STOP
    late(arm, clock)
    stage.stop()
    with stage.rollout(RolloutRequest('s1', Slot.A, 'close it'), FakePolicy(clock), Sink()):
        late(arm, clock)


def test_no_step_of_a_session_ends_a_stop_of_the_lab(shared):
    stage, arm, driver, _ = shared
    arm.halt('~/stop was called', StopOwner.LAB)
    stage.stop()
    driver.q = np.array(RESET_JOINTS) + 0.1
    with pytest.raises(SafetyError, match=r'halted: ~/stop was called$'):
        stage.home()
    arm.resume(StopOwner.LAB)
    stage.home()


def test_a_stop_while_the_one_before_is_released_stays(shared):
    stage, arm, _, clock = shared
    stage.stop()
    resume = arm.resume

    def stopped_meanwhile():
        stage.begin_stop().result(5.0)    # the arm has heard it before it is released
        resume()
    arm.resume = stopped_meanwhile
    with pytest.raises(DriverError, match='stopped: nothing further is done'):
        stage.home()
    with pytest.raises(SafetyError, match='STOP was pressed'):
        late(arm, clock)


def test_stops_that_wait_for_an_arm_that_hangs_take_one_thread():
    stage, arm = motions([0.0])
    asked, answers = threading.Semaphore(0), threading.Event()

    def hang():
        asked.release()
        assert answers.wait(10.0)
    arm.halt = hang
    stops = [stage.begin_stop()]
    assert asked.acquire(timeout=10.0)
    stops += [stage.begin_stop() for _ in range(20)]
    rests = [stage.begin_rest() for _ in range(20)]
    assert stage.stops == 41
    assert [thread.name for thread in threading.enumerate()].count('stop') == 1
    assert not any(call.done() for call in (*stops, *rests))
    answers.set()
    assert {call.result(10.0) for call in (*stops, *rests)} == {None}
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
    arm.halt = first_answer_is_lost
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


RESET = [0, -np.pi / 5, 0, -4 * np.pi / 5, 0, 3 * np.pi / 5, 0]


@pytest.fixture
def parts():
    clock = LoopClock()
    return Parts(FakeArm(clock), FakeGripper(clock), {})


def test_the_arm_goes_to_its_reset_pose(parts):
    move_to_reset(parts, parts.arm.clock, RESET_JOINTS)
    kind, goal = parts.arm.log[0]
    assert kind == 'move'
    np.testing.assert_allclose(goal, RESET)
    assert parts.gripper.log == [0.0]


def test_an_arm_close_to_its_reset_pose_is_moved_to_it_all_the_same(parts):
    arm, clock = parts.arm, parts.arm.clock
    arm.q = np.array(RESET) + 0.04
    begin_ns = clock.steady_ns()

    def arrives_in_the_end(max_age_s=0.1):
        if clock.steady_ns() - begin_ns >= 1_900_000_000:
            arm.q = np.array(RESET)
        return FakeArm.state(arm)
    arm.move_to = lambda q, duration_s=None: 2.0
    arm.state = arrives_in_the_end
    move_to_reset(parts, clock, RESET_JOINTS)
    np.testing.assert_allclose(arm.q, RESET)


def test_an_arm_that_rests_at_its_reset_pose_is_left_there(parts):
    parts.arm.q = np.array(RESET) + 0.004
    move_to_reset(parts, parts.arm.clock, RESET_JOINTS)
    assert parts.arm.log == []
    assert parts.gripper.log == [0.0]


def test_an_arm_that_must_be_recovered_is_asked_to_move_and_says_so(parts):
    arm = parts.arm
    arm.q = np.array(RESET)
    arm.state = lambda max_age_s=0.1: replace(FakeArm.state(arm), mode=RobotMode.REFLEX)

    def refused(q, duration_s=None):
        raise DriverError('the arm is in REFLEX')
    arm.move_to = refused
    with pytest.raises(DriverError, match='REFLEX'):
        move_to_reset(parts, arm.clock, RESET_JOINTS)


def test_an_arm_that_passes_its_reset_pose_is_moved_to_it(parts):
    arm = parts.arm
    arm.q, moved = np.array(RESET), []

    def moving(max_age_s=0.1):
        return replace(FakeArm.state(arm), dq=np.full(7, 0.0 if moved else 0.2))

    def move_to(q, duration_s=None):
        moved.append(q)
        return 1.0
    arm.state, arm.move_to = moving, move_to
    move_to_reset(parts, arm.clock, RESET_JOINTS)
    assert len(moved) == 1


@pytest.mark.parametrize(('state', 'opens'), [
    ({'position': 0.0}, False), ({'position': 0.5}, True),
    ({'position': 0.01, 'is_moving': True}, True)])
def test_only_a_gripper_that_must_open_is_waited_for(parts, state, opens):
    clock, gripper = parts.arm.clock, parts.gripper
    parts.arm.q = np.array(RESET)
    gripper.state = lambda max_age_s=0.2: replace(FakeGripper.state(gripper), **state)
    begin_ns = clock.steady_ns()
    move_to_reset(parts, clock, RESET_JOINTS)
    assert (clock.steady_ns() - begin_ns >= OPENING_S * 1e9) is opens
    assert gripper.log == [0.0], 'it is told to open in any case'


def test_a_gripper_that_is_silent_keeps_no_arm_from_its_reset_pose(parts):
    clock = parts.arm.clock

    def silent(max_age_s=0.2):
        raise StaleData('nothing came for a second')
    parts.gripper.state, parts.gripper.wait_state = silent, silent
    begin_ns = clock.steady_ns()
    move_to_reset(parts, clock, RESET_JOINTS)
    np.testing.assert_allclose(parts.arm.q, RESET)
    assert clock.steady_ns() - begin_ns >= OPENING_S * 1e9


def test_an_arm_that_is_held_back_is_told(parts):
    parts.arm.move_to = lambda q, duration_s=None: 1.0
    with pytest.raises(DriverError, match='did not reach its reset pose'):
        move_to_reset(parts, parts.arm.clock, RESET_JOINTS)
    assert parts.arm.log[-1][0] == 'stop'
