"""A fixed cadence: what the arm does while a policy thinks, and that no step waits for it."""

import math
from concurrent import futures

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, LoopClock, Sink

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import CONTROL_RATE_HZ, EndReason, Slot
from arena_robot.core.errors import PolicyUnavailable
from arena_robot.core.inferences import Inference, waited_steps
from arena_robot.policy import chunks
from arena_robot.policy.base import PolicySpec
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

PERIOD_S = 1.0 / 15


class Later(futures.Future):
    """An answer that is there from an instant of a clock on."""

    def __init__(self, clock, ready_ns):
        super().__init__()
        self._clock, self._ready_ns = clock, ready_ns

    def done(self):
        return self._clock.now >= self._ready_ns

    def add_done_callback(self, fn):
        """Call it at once, at the time at which the answer will be there."""
        now, self._clock.now = self._clock.now, max(self._clock.now, self._ready_ns)
        fn(self)
        self._clock.now = now


class StillArm(FakeArm):
    """Stays where it is for an action that is no joint position."""

    def target(self, action):
        return action.values[:7] if action.space is ActionSpace.JOINT_POSITION else np.zeros(7)


class Thinker:
    """Answers after ``thinks_s`` of a clock; its actions count up."""

    def __init__(self, clock, thinks_s, length=4, spec=None):
        self.clock, self.thinks_s, self.length = clock, thinks_s, length
        self.spec = spec or PolicySpec()
        self.asked, self.ready_ns, self.fail = [], 0, None

    def infer(self, observation, episode=''):
        self.asked.append(observation.step)
        self.ready_ns = self.clock.now + round(self.thinks_s * 1e9)
        if self.fail:
            raise self.fail
        actions = np.full((self.length, self.spec.action_space.size), 0.1, np.float32)
        actions *= np.arange(1, self.length + 1, dtype=np.float32)[:, None] + 10 * len(self.asked)
        return Chunk(actions, self.spec.action_space)

    def reset(self, episode=''):
        self.ready_ns = 0


@pytest.fixture
def rolled(monkeypatch):
    def roll(thinks_s, steps=12, fail=None, **options):
        clock, sink = LoopClock(), Sink()
        policy = Thinker(clock, thinks_s, **options)
        policy.fail = fail

        class Worker:
            def submit(self, call):
                future = Later(clock, 0)
                try:
                    future.set_result(call())
                except PolicyUnavailable as error:
                    future.set_exception(error)
                future._ready_ns = policy.ready_ns
                return future

            def end(self):
                pass

        monkeypatch.setattr(chunks, 'CallThread', Worker)
        arm = StillArm(clock)
        parts = Parts(arm, FakeGripper(clock), {'left': FakeCamera(clock)})
        config = RolloutConfig(max_steps=steps, inference_timeout_s=1.0, cadenced=True)
        job = RolloutRequest('s1', Slot.A, 'put the cube in the bowl')
        episode = Rollout(job, parts, policy, clock, sink, config).run()
        return episode, policy, sink, arm
    return roll


def test_an_answer_within_the_step_is_used_in_it(rolled):
    episode, policy, sink, arm = rolled(0.03)
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 12)
    assert policy.asked == [0, 4, 8]
    assert [round(float(s.requested[0]), 1) for s in sink.steps[:5]] == [1.1, 1.2, 1.3, 1.4, 2.1]
    assert sum(kind == 'q' for kind, _ in arm.log) == 12


def test_the_arm_holds_while_a_policy_thinks_and_no_step_is_late(rolled):
    _, policy, sink, arm = rolled(0.2)
    assert policy.asked == [0, 7], 'the steps of the wait count, and no action is lost'
    assert [s.loop_s for s in sink.steps[1:]] == pytest.approx([PERIOD_S] * 11, abs=1e-3)
    assert {s.late_s for s in sink.steps} == {0.0}
    sent = [q[0] for kind, q in arm.log if kind == 'q']
    np.testing.assert_allclose(sent, [0, 0, 0, 1.1, 1.2, 1.3, 1.4, 1.4, 1.4, 1.4, 2.1, 2.2],
                               rtol=1e-6)


@pytest.mark.parametrize('space', list(ActionSpace))
def test_what_is_published_has_the_same_form_at_every_step(rolled, space):
    _, _, sink, _ = rolled(0.2, spec=PolicySpec(action_space=space))
    assert len(sink.steps) == 12
    assert sink.chunks == [(k, k, 1) for k in range(12)]
    assert {(s.chunk_index - s.index, s.chunk_step, s.inference_s) for s in sink.steps} == {
        (0, 0, 0.0)}
    assert {len(s.requested) for s in sink.steps} == {space.size}
    assert all(s.stamp_ns % 1_000_000 == 0 for s in sink.steps)


def test_an_action_that_was_asked_ahead_is_dropped_when_its_time_is_over(rolled):
    _, policy, sink, _ = rolled(0.1, spec=PolicySpec(pipelined=True))
    # Each chunk is used as soon as it is there, or too few of its actions would be left.
    assert policy.asked[:4] == [0, 3, 5, 7]
    assert [round(float(s.requested[0]), 1) for s in sink.steps[1:9]] == [
        1.1, 1.2, 1.3, 2.2, 2.3, 3.2, 3.3, 4.2]


def test_a_longer_chunk_is_executed_to_its_end(rolled):
    _, policy, sink, _ = rolled(0.1, length=6, spec=PolicySpec(pipelined=True))
    assert policy.asked[:3] == [0, 5, 9]
    assert [round(float(s.requested[0]), 1) for s in sink.steps[1:11]] == [
        1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 2.3, 2.4, 2.5, 2.6]


@pytest.mark.parametrize('chunk', [8, 10, 15])
@pytest.mark.parametrize('takes_s', [0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize('pipelined', [True, False])
def test_the_arm_waits_no_longer_than_it_must(rolled, chunk, takes_s, pipelined):
    space = ActionSpace.JOINT_VELOCITY
    _, policy, sink, _ = rolled(takes_s, steps=90, length=chunk, spec=PolicySpec(
        space, pipelined=pipelined))
    held = [s.index for s in sink.steps if not s.requested[:7].any()]
    late = math.ceil((takes_s - 0.04) * CONTROL_RATE_HZ)
    assert held[:late] == list(range(late)), 'the first chunk is waited for'
    chunks = len(policy.asked) - 1
    if pipelined:
        least = max(0.0, late + 1 - (chunk + 1) / 2)
        assert len(held) - late <= chunks * (least + 1.0 if least else 0.0)
    else:
        assert late * (chunks - 1) <= len(held) - late <= late * chunks
    made = [Inference(step, 0, takes_s, chunk) for step in policy.asked]
    assert waited_steps(made, 90) == len(held), 'so it is in the tables'


def test_answers_that_take_a_step_longer_now_and_then_are_not_waited_for(rolled):
    class Uneven(float):
        """Answers take 4 steps, and every third one 5."""

        made = 0

        def __mul__(self, ns):
            Uneven.made += 1
            return (0.30 if Uneven.made % 3 else 0.36) * ns

    _, policy, sink, _ = rolled(Uneven(), steps=120, length=10, spec=PolicySpec(
        ActionSpace.JOINT_VELOCITY, pipelined=True))
    held = [s.index for s in sink.steps if not s.requested[:7].any()]
    assert held == list(range(4)), 'only the first chunk is waited for'
    assert len(policy.asked) > 20


def test_a_policy_that_never_answers_ends_the_rollout(rolled):
    episode, *_ = rolled(1e9, steps=100)
    assert (episode.end, episode.steps) == (EndReason.POLICY_ERROR, 15)
    assert 'did not answer within 1 s' in episode.detail


def test_a_policy_that_fails_ends_the_rollout(rolled):
    episode, *_ = rolled(0.03, fail=PolicyUnavailable('gone'))
    assert (episode.end, episode.steps, episode.detail) == (EndReason.POLICY_ERROR, 0, 'gone')
