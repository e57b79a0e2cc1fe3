"""How long the arm waits for a policy or a part, and what a person is told meanwhile."""

from concurrent import futures

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, LoopClock, Sink
from test_rollout import Bench

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, StaleData
from arena_robot.core.inferences import waited_share
from arena_robot.policy import chunks
from arena_robot.policy.base import PolicySpec
from arena_robot.session.loop import parts as parts_module
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

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
