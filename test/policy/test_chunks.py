"""One action per control step, as DROID does it."""

import dataclasses
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from policy_samples import Noted, observation

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, PolicyTimeout, PolicyUnavailable
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkExecutor, with_binary_gripper
from arena_robot.policy.resizing import Resizing


class Unseen:
    """An observation that must not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f'{name} was read between queries')


def test_all_actions_are_executed_before_the_next_query():
    inner = Noted(length=4)
    executor = ChunkExecutor(inner)
    seen = []
    for tick in range(12):
        looked_at = observation() if tick % 4 == 0 else Unseen()
        seen.append(executor.step(looked_at))
    assert len(inner.asked) == 3
    assert [step.requested[0] for step in seen] == [
        100, 101, 102, 103, 200, 201, 202, 203, 300, 301, 302, 303]
    assert [(step.chunk_index, step.chunk_step) for step in seen[3:6]] == [(0, 3), (1, 0), (1, 1)]


def test_no_image_work_between_queries(frames):
    executor = ChunkExecutor(Resizing(Noted(length=3)))
    executor.step(observation(frames))
    assert executor.step(Unseen()).inference_s == 0.0


@pytest.mark.parametrize(('asked', 'sent'), [
    (0.5, 0.0), (np.nextafter(0.5, 1.0), 1.0), (0.0, 0.0), (1.0, 1.0), (-3.0, 0.0), (0.51, 1.0)])
def test_the_gripper_closes_strictly_above_a_half(asked, sent):
    values = np.append(np.linspace(-0.3, 0.3, 7), asked)
    made = with_binary_gripper(values)
    assert made[-1] == sent
    assert np.array_equal(made[:-1], values[:-1])
    assert values[-1] == asked


def test_the_request_is_kept_as_it_was():
    class Half(Noted):
        def infer(self, observation, episode=''):
            return Chunk(np.full((1, 8), 0.7, np.float32), ActionSpace.JOINT_POSITION)

    step = ChunkExecutor(Half()).step(observation())
    assert step.action.values[-1] == 1.0
    assert step.requested[-1] == pytest.approx(0.7)


def test_an_executor_is_a_policy_of_single_actions():
    executor = ChunkExecutor(Noted(length=4))
    assert executor.spec.chunk_length == 1
    chunk = executor.infer(observation())
    assert chunk.actions.shape == (1, 8)
    assert chunk.actions.dtype == np.float32


def test_episodes_have_chunks_of_their_own():
    inner = Noted(length=2)
    executor = ChunkExecutor(inner)
    order = [executor.step(observation(), name).requested[0] for name in 'abab']
    assert order == [100, 200, 101, 201]


def test_a_reset_drops_the_rest_of_the_chunk():
    inner = Noted(length=4)
    executor = ChunkExecutor(inner)
    executor.step(observation(), 'a')
    executor.reset('a')
    assert inner.resets == ['a']
    assert executor.step(observation(), 'a').requested[0] == 200


def test_a_failed_query_can_be_tried_again():
    class Flaky(Noted):
        def infer(self, observation, episode=''):
            chunk = super().infer(observation, episode)
            if len(self.asked) == 1:
                raise PolicyUnavailable('gone')
            return chunk

    executor = ChunkExecutor(Flaky())
    with pytest.raises(PolicyUnavailable):
        executor.step(observation())
    assert executor.step(observation()).chunk_index == 0


def pipelined(length, **kwargs):
    return Noted(PolicySpec(chunk_length=length, pipelined=True, **kwargs), length)


def test_pipelining_asks_ahead_and_drops_what_is_over():
    inner = pipelined(6)
    executor = ChunkExecutor(inner, lead_steps=2, now_s=lambda: 0.0)
    steps = [executor.step(observation()) for _ in range(14)]
    executor.close()
    assert [step.requested[0] for step in steps] == [
        100, 101, 102, 103, 104, 105, 202, 203, 204, 205, 302, 303, 304, 305]


@pytest.mark.parametrize(('took_s', 'asked'), [
    (0.05, [0, 6]), (0.12, [0, 5]), (0.3, [0, 4, 8]), (5.0, [0, 4, 8])])
def test_the_next_query_is_made_as_early_as_answers_take_and_half_a_chunk_at_most(took_s, asked):
    class Slow(Noted):
        def infer(self, observation, episode=''):
            chunk = super().infer(observation, episode)
            self.now_s += took_s
            return chunk

    inner = Slow(pipelined(8).spec, 8)
    inner.now_s = 0.0
    executor = ChunkExecutor(inner, lead_steps=2, now_s=lambda: inner.now_s)
    for number in range(10):
        executor.step(dataclasses.replace(observation(), step=number))
        executor.reset('another')    # waits for a query that is under way
    executor.close()
    assert [seen.step for seen, _ in inner.asked] == asked


def test_pipelining_is_off_unless_the_spec_allows_it():
    inner = Noted(length=6)
    executor = ChunkExecutor(inner, lead_steps=2)
    for _ in range(6):
        executor.step(observation())
    assert len(inner.asked) == 1


def test_short_chunks_are_not_pipelined():
    inner = pipelined(2)
    executor = ChunkExecutor(inner, lead_steps=2)
    assert [executor.step(observation()).requested[0] for _ in range(4)] == [100, 101, 200, 201]


def test_an_error_ahead_arrives_when_its_chunk_is_due():
    class Failing(Noted):
        def infer(self, observation, episode=''):
            chunk = super().infer(observation, episode)
            if len(self.asked) == 2:
                raise PolicyUnavailable('gone')
            return chunk

    executor = ChunkExecutor(Failing(PolicySpec(chunk_length=4, pipelined=True)), lead_steps=1)
    for _ in range(4):
        executor.step(observation())
    with pytest.raises(PolicyUnavailable):
        executor.step(observation())
    assert executor.step(observation()).requested[0] == 300
    executor.close()


def test_a_chunk_ahead_is_not_waited_for_for_ever():
    release = threading.Event()

    class Slow(Noted):
        def infer(self, observation, episode=''):
            if self.asked:
                release.wait(5.0)
            return super().infer(observation, episode)

    executor = ChunkExecutor(Slow(PolicySpec(chunk_length=4, pipelined=True)), 1, timeout_s=0.05)
    for _ in range(4):
        executor.step(observation())
    started = time.monotonic()
    with pytest.raises(PolicyTimeout, match=r'0\.05 s'):
        executor.step(observation())
    assert time.monotonic() - started < 2.0
    release.set()
    executor.reset()
    executor.close()


class Hanging(Noted):
    """A policy that answers nothing until it is released."""

    def __init__(self):
        super().__init__(length=4)
        self.entered, self.release = threading.Event(), threading.Event()

    def infer(self, observation, episode=''):
        self.entered.set()
        self.release.wait(30.0)
        return super().infer(observation, episode)


def test_a_cancel_ends_the_wait_at_once_and_a_reset_still_works():
    inner = Hanging()
    executor = ChunkExecutor(inner, timeout_s=20.0)
    threading.Thread(target=lambda: (inner.entered.wait(5.0), executor.cancel())).start()
    started = time.monotonic()
    with pytest.raises(PolicyTimeout, match='cancelled'):
        executor.step(observation())
    assert time.monotonic() - started < 5.0
    with pytest.raises(PolicyTimeout, match=r'not reset within 0\.05 s'):
        executor.reset('', 0.05)
    inner.release.set()
    executor.reset('a', 5.0)
    executor.close()
    assert inner.resets[-1] == 'a'


def test_a_policy_that_hangs_does_not_keep_the_process_alive():
    code = ('import time\n'
            'from types import SimpleNamespace\n'
            'from arena_robot.core.errors import PolicyTimeout\n'
            'from arena_robot.policy.chunks import ChunkExecutor\n'
            'class Hangs:\n'
            '    def infer(self, observation, episode):\n'
            '        time.sleep(60)\n'
            'try:\n'
            '    ChunkExecutor(Hangs(), timeout_s=0.05).step(SimpleNamespace(step=0))\n'
            'except PolicyTimeout:\n'
            '    print("timed out")\n')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          timeout=30, check=True)
    assert done.stdout == 'timed out\n'


@pytest.mark.parametrize('actions', [
    np.zeros((0, 8)), np.zeros(8), np.zeros((2, 9)), np.full((1, 8), np.nan)])
def test_a_chunk_that_cannot_be_executed_is_a_bad_reply(actions):
    class Odd(Noted):
        def infer(self, observation, episode=''):
            return Chunk(actions, ActionSpace.JOINT_POSITION)

    with pytest.raises(BadReply):
        ChunkExecutor(Odd()).step(observation())
