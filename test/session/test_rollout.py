"""The control loop against made-up parts, on a clock that only the loop moves."""

import re
import threading
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, LoopClock, Sink

from arena_robot.core.action import ActionSpace, Chunk, Clamp, ClampReason, SafeCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, LateCommand, StaleData
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.guarded import guarded
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


def test_a_reason_given_with_the_stop_is_kept():
    bench = Bench()
    bench.rollout.stop(EndReason.INTERRUPTED, 'nobody records')
    episode = bench.rollout.run()
    assert (episode.end, episode.detail) == (EndReason.INTERRUPTED, 'nobody records')


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


LAYOUTS = """
name: lab
title: a lab's Panda
arms: {arm: {robot: panda}}
grippers: {gripper: {type: robotiq_2f85, closed: 0.0, open: 1.0}}
cameras: {}
layouts:
  steps:
    slices:
      - {name: gripper, size: 1}
      - {name: arm.joint_position, size: 7, unit: deg, meaning: delta_target}
  fast:
    rate: 30
    slices:
      - {name: arm.joint_position, size: 7, unit: rad}
      - {name: gripper, size: 1}
"""


class LaggingArm(FakeArm):
    """Has gone half of the way to a target when it is read again."""

    def __init__(self, clock):
        super().__init__(clock)
        self.q, self.fell = np.array(PANDA.reset_joints), False

    def command(self, command):
        self.q = self.q + 0.5 * (command.q - self.q)
        return command

    def state(self, max_age_s=0.1):
        state = super().state(max_age_s)
        return replace(state, mode=RobotMode.REFLEX, errors=('joint_reflex',)) if self.fell \
            else state


class Layouts:
    """Rollouts of an arm behind the safety layer, by a policy in a layout of the file above."""

    def __init__(self, folder, robot_type=''):
        (folder / 'lab.yaml').write_text(LAYOUTS)
        self.bench = Bench(arm=LaggingArm)
        self.arm = guarded(self.bench.arm, PANDA, self.bench.clock,
                           robot_type or str(folder / 'lab.yaml'))
        self.spec = PolicySpec(layout='panda/steps', chunk_length=1)

    def run(self, degrees, at=None):
        """Return the episode and the sink of a rollout that asks for these changes of joint 1."""
        policy, sink, asked = FakePolicy(self.bench.clock), Sink(), iter(degrees)
        policy.spec = self.spec

        def infer(observation, episode=''):
            numbers = [0.2, next(asked), *[0.0] * 6]
            return Chunk(np.array([numbers], np.float32), self.spec.action_space)
        policy.infer = infer
        sink.layouts = []
        sink.chunk = lambda index, step, chunk: sink.layouts.append(
            (chunk.layout, chunk.actions[0, 0]))
        rollout = Rollout(RolloutRequest('s1', Slot.A, 'lift the cube'),
                          Parts(self.arm, self.bench.gripper, self.bench.cameras), policy,
                          self.bench.clock, sink, RolloutConfig(max_steps=len(degrees)))
        sink.at = {3: lambda: at(rollout)} if at else {}
        return rollout.run(), sink


def test_changes_of_the_last_target_add_up_from_where_the_arm_is(tmp_path):
    layouts, start = Layouts(tmp_path), PANDA.reset_joints[0]
    episode, sink = layouts.run([1.0, 1.0, -0.5, 2.0])
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 4)
    total = start + np.radians([1.0, 2.0, 1.5, 3.5])
    np.testing.assert_allclose([step.q_sent[0] for step in sink.steps], total, atol=1e-6)
    np.testing.assert_allclose([step.requested[0] for step in sink.steps], total, atol=1e-6)
    assert [step.requested[-1] for step in sink.steps] == pytest.approx([0.8] * 4)
    assert layouts.bench.gripper.log == [1.0] * 4, '0.2 is nearly closed where 0 is closed'
    assert sink.layouts == [('panda/steps', np.float32(0.2))] * 4


def test_a_change_of_the_last_target_adds_to_what_safety_made_of_it(tmp_path):
    _, sink = Layouts(tmp_path).run([40.0, 40.0, 40.0, -1.0])
    sent = np.array([step.q_sent[0] for step in sink.steps])
    assert [bool(step.clamps) for step in sink.steps] == [True, True, True, False]
    assert sent[2] < PANDA.reset_joints[0] + np.radians(40.0)
    assert sent[3] == pytest.approx(sent[2] - np.radians(1.0), abs=1e-6)


def _stopped(layouts, rollout):
    rollout.stop()


def _reflex(layouts, rollout):
    layouts.bench.arm.fell = True


@pytest.mark.parametrize(('harm', 'end'), [
    (None, EndReason.TIMEOUT), (_stopped, EndReason.STOPPED), (_reflex, EndReason.SAFETY_STOP)])
def test_after_a_stop_and_a_reflex_changes_begin_where_the_arm_is(tmp_path, harm, end):
    layouts = Layouts(tmp_path)
    episode, _ = layouts.run([2.0] * 8, at=harm and (lambda rollout: harm(layouts, rollout)))
    assert episode.end is end
    arm = layouts.bench.arm
    arm.fell, arm.q = False, arm.q - 0.5    # somebody led it elsewhere
    began = arm.q[0]
    _, sink = layouts.run([2.0, 2.0])
    np.testing.assert_allclose([step.q_sent[0] for step in sink.steps],
                               began + np.radians([2.0, 4.0]), atol=1e-6)


class SlowAnswer(Future):
    """Is there when it is waited for, and not before."""

    def result(self, timeout=None):
        if timeout and not self.done():
            self.set_result(self.later)
        return super().result(timeout)


def test_a_change_of_the_last_target_waits_for_what_became_of_it(tmp_path):
    layouts, start = Layouts(tmp_path), PANDA.reset_joints[0]
    act = layouts.arm.act

    def later(action, stamp_ns):
        answer = SlowAnswer()
        answer.later = act(action, stamp_ns).result()
        return answer
    layouts.arm.act = later
    _, sink = layouts.run([1.0] * 4)
    np.testing.assert_allclose([step.q_sent[0] for step in sink.steps],
                               start + np.radians([1.0, 2.0, 3.0, 4.0]), atol=1e-6)


@pytest.mark.parametrize(('spec', 'robot_type', 'says'), [
    ({'layout': 'panda/stepps'}, '', "layout 'panda/stepps'; this arm is panda with the layouts "
                                     'steps, fast'),
    ({'layout': 'so101/steps'}, '', 'this arm is panda'),
    ({'layout': 'panda/fast'}, '', 'of 30 Hz, and the control loop runs at 15 Hz'),
    ({'action_space': ActionSpace.JOINT_VELOCITY}, '', 'become joint_position, and the spec'),
    ({}, 'panda', 'robot_type is panda, which has none'),
])
def test_a_layout_on_which_policy_and_arm_do_not_agree_moves_nothing(
        tmp_path, spec, robot_type, says):
    layouts = Layouts(tmp_path, robot_type)
    layouts.spec = replace(layouts.spec, **spec)
    episode, sink = layouts.run([1.0] * 3)
    assert (episode.end, episode.steps, sink.layouts) == (EndReason.POLICY_ERROR, 0, [])
    assert says in episode.detail
    assert {kind for kind, _ in layouts.bench.arm.log} == {'stop'}
    assert layouts.bench.gripper.log == []
