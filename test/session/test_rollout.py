"""The control loop against made-up parts, on a clock that only the loop moves."""

import re
import threading
from concurrent import futures
from concurrent.futures import Future

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, LoopClock, Sink

from arena_robot.core.action import ActionSpace, Chunk, Clamp, ClampReason, SafeCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, LateCommand, StaleData
from arena_robot.core.inferences import waited_share
from arena_robot.core.observation import Image
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.guarded import guarded
from arena_robot.policy import chunks
from arena_robot.policy.base import PolicySpec
from arena_robot.robots.arms import PANDA
from arena_robot.safety import action_spaces
from arena_robot.session.loop import parts as parts_module
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest


class Bench:
    def __init__(self, steps=12, arm=FakeArm, **policy):
        self.clock = LoopClock()
        self.arm, self.gripper = arm(self.clock), FakeGripper(self.clock)
        self.camera = FakeCamera(self.clock)
        self.cameras = {'left': self.camera}
        self.policy, self.sink = FakePolicy(self.clock, **policy), Sink()
        self.parts = Parts(self.arm, self.gripper, self.cameras)
        job = RolloutRequest('s1', Slot.A, 'put the cube in the bowl')
        self.rollout = Rollout(job, self.parts, self.policy, self.clock, self.sink,
                               RolloutConfig(max_steps=steps, inference_timeout_s=1.0))


def test_it_runs_to_the_last_step_and_stops_the_arm():
    bench = Bench(steps=12)
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 12)
    assert bench.sink.chunks == [(0, 0, 4), (1, 4, 4), (2, 8, 4)]
    assert bench.policy.asked == [(0, 's1-A'), (4, 's1-A'), (8, 's1-A')]
    assert bench.policy.resets == ['s1-A']
    assert bench.arm.log[-1][0] == 'stop'
    assert sum(kind == 'q' for kind, _ in bench.arm.log) == 12
    assert bench.gripper.log == [0.0, 0.0, 1.0, 1.0] * 3


def test_a_step_tells_all_of_what_it_used_and_did():
    bench = Bench(steps=6)
    bench.rollout.run()
    step = bench.sink.steps[5]
    assert (step.index, step.chunk_index, step.chunk_step) == (5, 1, 1)
    assert step.image_stamps_ns == {'left_left': step.stamp_ns - 30_000_000,
                                    'left_right': step.stamp_ns - 30_000_000}
    assert step.arm_stamp_ns == step.stamp_ns - 1_000_000
    assert step.requested[7] == pytest.approx(0.5)
    assert step.gripper_sent == 0.0
    assert (step.inference_s, bench.sink.steps[4].inference_s) == (
        0.0, pytest.approx(0.02))
    assert step.loop_s == pytest.approx(1 / 15)
    np.testing.assert_array_equal(step.q_sent, np.full(7, 2.0))


def test_a_pipelined_policy_is_asked_ahead():
    bench = Bench(steps=12)
    bench.policy.spec = PolicySpec(pipelined=True)
    bench.rollout.run()
    assert [step for step, _ in bench.policy.asked] == [0, 2, 4, 6, 8, 10]
    assert bench.sink.chunks[:2] == [(0, 0, 4), (1, 2, 4)]
    assert [s.chunk_step for s in bench.sink.steps[:6]] == [0, 1, 2, 3, 2, 3]


def test_a_slow_policy_is_reported_and_never_caught_up_with():
    bench = Bench(steps=8, thinks_s=0.21)
    bench.rollout.run()
    loops = [s.loop_s for s in bench.sink.steps]
    assert loops[1] == pytest.approx(0.21)
    assert min(loops[1:]) >= 0.75 / 15
    assert bench.sink.steps[1].late_s == pytest.approx(0.21 - 1 / 15, abs=1e-6)


def test_an_action_that_safety_has_no_function_for_moves_nothing(monkeypatch):
    others = {space: to_target for space, to_target in action_spaces.TARGETS.items()
              if space is not ActionSpace.JOINT_POSITION}
    monkeypatch.setattr(action_spaces, 'TARGETS', others)
    bench = Bench(steps=12)
    bench.arm.act = guarded(bench.arm, PANDA, bench.clock).act
    episode = bench.rollout.run()
    assert episode.end is EndReason.SAFETY_STOP
    assert "'joint_position' is known to safety" in episode.detail
    assert {kind for kind, _ in bench.arm.log} == {'stop'}
    assert bench.gripper.log == []


class DistantArm(FakeArm):
    """Answers an action when the next one comes, as from behind a slow network; 0.1 rad short."""

    def __init__(self, clock):
        super().__init__(clock)
        self.open = []

    def act(self, action, stamp_ns):
        self.answer()
        self.log.append(('q', action.values[:7]))
        self.open.append((Future(), action.values[:7] - 0.1))
        return self.open[-1][0]

    def answer(self):
        for future, q in self.open:
            future.set_result(SafeCommand(q, (Clamp(ClampReason.WORKSPACE, (), (), 'the wall'),)))
        self.open.clear()


def test_a_step_is_recorded_with_what_the_arm_accepted_and_the_loop_does_not_wait_for_it():
    bench = Bench(steps=6, arm=DistantArm)
    arm = bench.arm
    recorded = []
    bench.sink.at = {n: lambda n=n: recorded.append((n, arm.acted_so_far())) for n in range(6)}
    arm.acted_so_far = lambda: sum(kind == 'q' for kind, _ in arm.log)
    stop = arm.stop

    def stopped():    # the last answer comes after the last step
        arm.answer()
        stop()
    arm.stop = stopped
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 6)
    assert recorded == [(n, min(n + 2, 6)) for n in range(6)], 'each once the next was sent'
    assert [s.loop_s for s in bench.sink.steps[2:]] == pytest.approx([1 / 15] * 4)
    for step in bench.sink.steps:
        np.testing.assert_allclose(step.q_sent, step.requested[:7] - 0.1)
        assert [clamp.detail for clamp in step.clamps] == ['the wall']


def test_a_command_that_was_not_taken_left_the_one_before_in_force():
    bench = Bench(steps=4)
    act, late = bench.arm.act, Future()
    late.set_exception(LateCommand('command is 0.3 s old'))
    bench.arm.act = lambda action, stamp_ns: late if len(bench.sink.steps) == 2 else act(
        action, stamp_ns)
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 4)
    before, not_taken = bench.sink.steps[1], bench.sink.steps[2]
    np.testing.assert_array_equal(not_taken.q_sent, before.q_sent)
    assert [(c.reason, c.detail) for c in not_taken.clamps] == [
        (ClampReason.NOT_TAKEN, 'command is 0.3 s old')]


def test_an_arm_that_never_answers_ends_it():
    bench = Bench(steps=100)
    bench.arm.act = lambda action, stamp_ns: Future()
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (EndReason.DRIVER_ERROR, 0)
    assert 'what became of the command of step 0' in episode.detail


@pytest.mark.parametrize('reason', [EndReason.STOPPED, EndReason.DONE])
def test_the_evaluator_ends_it(reason):
    bench = Bench(steps=100)
    bench.sink.at[5] = lambda: bench.rollout.stop(reason)
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (reason, 6)
    assert bench.arm.log[-1][0] == 'stop'
    assert bench.policy.resets == ['s1-A']


def test_a_stop_does_not_wait_for_a_policy_that_hangs():
    bench = Bench(steps=100)
    bench.policy.hang = threading.Event()
    timer = threading.Timer(0.1, bench.rollout.stop)
    timer.start()
    clock = SystemClock()
    before = clock.now_ns()
    done = []
    runner = threading.Thread(target=lambda: done.append(bench.rollout.run()))
    runner.start()
    timer.join(5.0)
    assert ('stop', None) in bench.arm.log
    assert (clock.now_ns() - before) * 1e-9 < 0.5
    bench.policy.hang.set()
    runner.join(5.0)
    assert (done[0].end, done[0].steps) == (EndReason.STOPPED, 0)
    assert not any(kind == 'q' for kind, _ in bench.arm.log)


def _policy_dies(bench):
    bench.policy.fail_at = 2


def _camera_dies(bench):
    def die():
        bench.camera.fail = StaleData('left camera: no frame for 0.5 s')
    bench.sink.at[3] = die


def _gripper_dies(bench):
    def gone(max_age_s=0.2):
        raise StaleData('newest gripper state is 0.4 s old')
    bench.sink.at[3] = lambda: setattr(bench.gripper, 'state', gone)


def _arm_dies(bench):
    def die():
        bench.arm.fail = DriverError('no route to the arm')
    bench.sink.at[3] = die


def _unsafe(bench):
    bench.arm.refuses = 5


def _bad_shape(bench):
    def break_it():
        bench.policy.infer = lambda observation, episode='': Chunk(
            np.zeros((2, 3), np.float32), ActionSpace.JOINT_POSITION)
    bench.sink.at[3] = break_it


def _not_finite(bench):
    def break_it():
        bench.policy.infer = lambda observation, episode='': Chunk(
            np.full((1, 8), np.nan, np.float32), ActionSpace.JOINT_POSITION)
    bench.sink.at[3] = break_it


def _silent(bench):
    def break_it():
        bench.policy.hang = threading.Event()
        threading.Timer(1.2, bench.policy.hang.set).start()
    bench.sink.at[3] = break_it


def _bug(bench):
    bench.sink.at[3] = lambda: 1 / 0


@pytest.mark.parametrize(('harm', 'end', 'detail'), [
    (_policy_dies, EndReason.POLICY_ERROR, 'gone'),
    (_camera_dies, EndReason.DRIVER_ERROR, 'left camera'),
    (_gripper_dies, EndReason.DRIVER_ERROR, 'newest gripper state'),
    (_arm_dies, EndReason.DRIVER_ERROR, 'no route'),
    (_unsafe, EndReason.SAFETY_STOP, 'too near the table'),
    (_bad_shape, EndReason.POLICY_ERROR, r'\(N, 8\), got \(2, 3\)'),
    (_not_finite, EndReason.POLICY_ERROR, 'not finite'),
    (_silent, EndReason.POLICY_ERROR, 'did not answer within 1 s'),
    (_bug, EndReason.INTERRUPTED, 'ZeroDivisionError')])
def test_an_error_ends_it_with_the_steps_so_far_and_a_still_arm(harm, end, detail):
    bench = Bench(steps=100)
    harm(bench)
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (end, 4)
    assert len(bench.sink.steps) == 4
    assert bench.arm.log[-1][0] == 'stop'
    assert re.search(detail, episode.detail)


def test_a_late_picture_is_waited_for_and_told():
    bench = Bench(steps=8)
    frame, stale = bench.camera.frame, [StaleData('newest is 0.3 s old')]

    def newest(max_age_s=0.2):
        if bench.rollout.steps == 3 and stale:
            raise stale.pop()
        return frame()

    def following(timeout_s):
        if bench.rollout.steps == 3:
            bench.clock.now += 150_000_000
        return frame()
    bench.camera.frame, bench.camera.wait_frame = newest, following
    episode = bench.rollout.run()
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 8)
    late = [step.index for step in bench.sink.steps if step.late_s > 0.01]
    assert late == [4]


def test_an_arm_that_does_not_take_the_stop_is_told():
    bench = Bench(steps=2)

    def deaf():
        raise DriverError('no answer')
    bench.arm.stop = deaf
    assert 'did not take the stop: no answer' in bench.rollout.run().detail


def test_stop_before_the_first_step():
    bench = Bench()
    bench.rollout.stop()
    assert bench.rollout.run().steps == 0
    assert not any(kind == 'q' for kind, _ in bench.arm.log)


class FreeCamera(FakeCamera):
    """Takes a picture each period at a phase of its own; each is on its way for a while."""

    def __init__(self, clock, phase_ms, way_ms):
        super().__init__(clock)
        self.phase_ns, self.way_ns = phase_ms * 1_000_000, way_ms * 1_000_000
        self.period_ns = round(1e9 / 15)

    def number(self):
        return (self.clock.now_ns() - self.way_ns - self.phase_ns) // self.period_ns

    def frame(self, max_age_s=0.2):
        image = Image(np.zeros((4, 4, 3), np.uint8), self.stamp_ns(self.number()))
        return StereoFrame(image, image, 0)

    def wait_frame(self, timeout_s):
        self.clock.now = self.stamp_ns(self.number() + 1) + self.way_ns
        return self.frame()

    def stamp_ns(self, number):
        return number * self.period_ns + self.phase_ns

    def arrivals(self):
        stamps = [self.stamp_ns(self.number() - back) for back in range(29, -1, -1)]
        return [(stamp, stamp + self.way_ns) for stamp in stamps]


@pytest.mark.parametrize(('phases_ms', 'ways_ms', 'oldest_ms'), [
    ((0, 0, 0), (20, 30, 45), 52), ((0, 20, 40), (25, 25, 25), 73), ((60, 5, 10), (10, 30, 8), 49),
])
def test_every_step_sees_fresh_pictures_whatever_the_phases_of_the_cameras(
        phases_ms, ways_ms, oldest_ms):
    bench = Bench(steps=60)
    bench.cameras.update({
        role: FreeCamera(bench.clock, phase, way) for role, phase, way in zip(
            ('left', 'right', 'wrist'), phases_ms, ways_ms, strict=True)})
    bench.rollout.run()
    oldest = [(s.stamp_ns - min(s.image_stamps_ns.values())) / 1e6 for s in bench.sink.steps]
    assert max(oldest) <= oldest_ms


def test_a_loop_that_was_held_up_finds_back_to_fresh_pictures():
    bench = Bench(steps=60)
    bench.cameras['left'] = FreeCamera(bench.clock, 0, 40)
    bench.sink.at[10] = lambda: setattr(bench.clock, 'now', bench.clock.now + 92_000_000)
    bench.rollout.run()
    age = [(s.stamp_ns - s.image_stamps_ns['left_left']) / 1e6 for s in bench.sink.steps]
    assert max(age[:10]) < 50
    assert max(age[11:16]) > 60
    assert max(age[30:]) < 50


def test_a_reason_given_with_the_stop_is_kept():
    bench = Bench()
    bench.rollout.stop(EndReason.INTERRUPTED, 'nobody records')
    episode = bench.rollout.run()
    assert (episode.end, episode.detail) == (EndReason.INTERRUPTED, 'nobody records')


PERIOD_S = 1.0 / 15


class Later(futures.Future):
    """An answer that is there from an instant of a clock on."""

    def __init__(self, clock, ready_ns):
        super().__init__()
        self.clock, self.ready_ns = clock, ready_ns

    def done(self):
        return self.clock.now >= self.ready_ns

    def add_done_callback(self, fn):
        """Call it at once, at the time at which the answer will be there."""
        now, self.clock.now = self.clock.now, max(self.clock.now, self.ready_ns)
        fn(self)
        self.clock.now = now


class Thinker:
    """Answers after ``thinks_s`` of a clock."""

    def __init__(self, clock, thinks_s, spec):
        self.clock, self.thinks_s, self.spec = clock, thinks_s, spec
        self.asked, self.ready_ns = [], 0

    def infer(self, observation, episode=''):
        self.asked.append(observation.step)
        self.ready_ns = self.clock.now + round(self.thinks_s * 1e9)
        actions = np.ones((self.spec.chunk_length, 8), np.float32)
        return Chunk(actions, self.spec.action_space)

    def reset(self, episode=''):
        self.ready_ns = 0


@pytest.fixture
def rolled(monkeypatch):
    def roll(thinks_s, steps, **options):
        clock, sink = LoopClock(), Sink()
        policy = Thinker(clock, thinks_s, PolicySpec(ActionSpace.JOINT_VELOCITY, **options))

        class Worker:
            def submit(self, call):
                future = Later(clock, 0)
                future.set_result(call())
                future.ready_ns = policy.ready_ns
                return future

            def end(self):
                pass

        def wait(ends, timeout_s, _):
            clock.now = max(clock.now, ends[0].ready_ns)

        monkeypatch.setattr(chunks, 'CallThread', Worker)
        monkeypatch.setattr(chunks.futures, 'wait', wait)
        parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
        job = RolloutRequest('s1', Slot.A, 'put the cube in the bowl')
        episode = Rollout(job, parts, policy, clock, sink,
                          RolloutConfig(max_steps=steps)).run()
        assert (episode.end, episode.steps) == (EndReason.TIMEOUT, steps)
        return episode, policy, sink
    return roll


def test_the_loop_asks_when_a_chunk_is_used_up_and_keeps_exact_values(rolled):
    episode, policy, sink = rolled(0.2, 12, chunk_length=4)
    assert policy.asked == [0, 4, 8]
    assert sink.chunks == [(0, 0, 4), (1, 4, 4), (2, 8, 4)]
    assert [s.inference_s for s in sink.steps] == pytest.approx([0.2, 0, 0, 0] * 3)
    assert [(s.chunk_index, s.chunk_step) for s in sink.steps] == [
        (n, k) for n in range(3) for k in range(4)]
    assert [s.loop_s for s in sink.steps[1:5]] == pytest.approx([0.2, *[PERIOD_S] * 3], abs=1e-6)
    assert episode.waited == pytest.approx(0.6 / (0.6 + 9 * PERIOD_S), abs=0.01)


@pytest.mark.parametrize('length', [8, 10, 15])
@pytest.mark.parametrize('takes_s', [0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize('pipelined', [True, False])
def test_the_arm_waits_no_longer_than_it_must(rolled, length, takes_s, pipelined):
    episode, policy, sink = rolled(takes_s, 90, chunk_length=length, pipelined=pipelined)
    waits = [s.inference_s for s in sink.steps]
    assert waits[0] == pytest.approx(takes_s), 'the first chunk is waited for'
    asked = len(policy.asked) - 1
    if pipelined:    # asked one step after a chunk began at the earliest
        least_s = max(0.0, takes_s - (length - 1) / 2 * PERIOD_S)
        assert sum(waits[1:]) <= asked * (least_s + PERIOD_S if least_s else 0.0)
    else:
        assert sum(waits[1:]) == pytest.approx(asked * takes_s)
    assert episode.waited == pytest.approx(waited_share(waits, 90), abs=0.01)


def test_a_part_that_is_waited_for_is_told_while_it_lasts(monkeypatch):
    monkeypatch.setattr(parts_module, 'SILENT_S', 0.0)
    bench, sentences = Bench(steps=8), []
    state = bench.arm.state

    def stale(max_age_s=0.1):
        bench.arm.state = state
        raise StaleData('too old')

    def waited(timeout_s):
        sentences.append(bench.rollout.waiting())
        return state()
    bench.arm.wait_state = waited
    bench.sink.at[3] = lambda: setattr(bench.arm, 'state', stale)
    assert bench.rollout.run().end is EndReason.TIMEOUT
    assert sentences == ['The arm has sent nothing new for half a second; the arm holds.']
    assert bench.rollout.waiting() == ''


def test_a_failure_is_told_before_the_arm_has_taken_the_stop():
    bench, sentences = Bench(steps=100), []
    stop = bench.arm.stop

    def take_long():
        sentences.append(bench.rollout.waiting())
        stop()
    bench.arm.stop = take_long
    bench.sink.at[3] = lambda: setattr(bench.arm, 'fail', DriverError('no route to the arm'))
    assert bench.rollout.run().end is EndReason.DRIVER_ERROR
    assert sentences == ['no route to the arm. The arm has not confirmed yet that it is at rest.']
