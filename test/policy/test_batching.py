"""Queries that wait together are answered in one call of a policy that has ``infer_batch``."""

import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from policy_samples import observation, pictures

from arena_robot.core.action import Chunk
from arena_robot.core.errors import BadReply, PolicyError, PolicyTimeout
from arena_robot.core.process import wait_until
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.metered import MeteredPolicy
from arena_robot.policy.serving import MAX_BATCH, Batches, ServedPolicy

SPEC = PolicySpec(image_size=(24, 32))
SEEN = observation(pictures(SPEC, 24, 32))
S = 20.0


class Together:
    """Answers batches with each episode's number; the first call waits for ``begin``."""

    spec = SPEC

    def __init__(self):
        self.batches, self.resets = [], []
        self.begin = threading.Event()
        self.inside = 0

    def infer(self, observation, episode=''):
        raise AssertionError('infer_batch is there')

    def infer_batch(self, observations, episodes):
        assert not self.inside, 'called from two threads at once'
        self.inside = 1
        self.batches.append(list(episodes))
        assert self.begin.wait(S)
        self.inside = 0
        return [self.answer(name) for name in episodes]

    def answer(self, name):
        return Chunk(np.full((2, 8), float(name.rpartition('-')[2])), self.spec.action_space)

    def reset(self, episode=''):
        assert not self.inside, 'reset during a call'
        self.resets.append(episode)


class OneBad(Together):
    """Cannot answer 'bad-1', and raises for the whole batch that it is in."""

    def answer(self, name):
        if name == 'bad-1':
            raise ValueError('no')
        if name == 'odd-2':
            return KeyError('this one alone')
        return super().answer(name)


def asked(policy, names):
    """Ask for each name from a thread of its own, all behind a first call; return the answers."""
    served = ServedPolicy(policy)

    def ask(name):
        try:
            return served.infer(SEEN, name, S).chunk.actions[0, 0]
        except PolicyError as error:
            return str(error)

    with ThreadPoolExecutor(len(names) + 1) as pool:
        first = pool.submit(ask, 'first-0')
        assert wait_until(lambda: policy.batches == [['first-0']], S)
        answers = []
        for k, name in enumerate(names, 1):
            answers.append(pool.submit(ask, name))
            assert wait_until(lambda k=k: len(served._batches._waiting) == k, S)
        policy.begin.set()
        assert first.result(S) == 0.0
        return [answer.result(S) for answer in answers]


def test_what_waits_is_one_call_in_the_order_of_arrival():
    policy = Together()
    assert asked(policy, ['a-3', 'b-1', 'c-2']) == [3.0, 1.0, 2.0]
    assert policy.batches == [['first-0'], ['a-3', 'b-1', 'c-2']]


def test_two_queries_of_an_episode_are_never_in_one_call_and_keep_their_order():
    policy = Together()
    assert asked(policy, ['a-1', 'b-2', 'a-1', 'c-3']) == [1.0, 2.0, 1.0, 3.0]
    assert policy.batches == [['first-0'], ['a-1', 'b-2', 'c-3'], ['a-1']]


def test_a_call_has_at_most_so_many_the_oldest_first():
    policy, names = Together(), [f'episode{k}-{k}' for k in range(MAX_BATCH + 1)]
    asked(policy, names)
    assert policy.batches == [['first-0'], names[:MAX_BATCH], names[MAX_BATCH:]]


def test_an_error_stays_with_its_own_observation():
    policy = OneBad()
    a, bad, odd, b = asked(policy, ['a-1', 'bad-1', 'odd-2', 'b-3'])
    assert (a, b) == (1.0, 3.0)
    assert 'infer failed in the policy with ValueError' in bad
    assert 'infer failed in the policy with KeyError' in odd


def test_one_answer_too_few_is_said():
    policy = Together()
    policy.infer_batch = lambda observations, episodes: []
    with pytest.raises(BadReply, match='got 1 observations and returned 0 answers'):
        ServedPolicy(policy).infer(SEEN, 'a-1', S)


def test_a_query_that_waits_too_long_is_given_up_and_not_asked():
    policy = Together()
    served = ServedPolicy(policy)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.infer, SEEN, 'first-0', S)
        assert wait_until(lambda: bool(policy.batches), S)
        with pytest.raises(PolicyTimeout, match=r'waited 0\.05 s for other callers'):
            served.infer(SEEN, 'late-1', 0.05)
        with pytest.raises(PolicyTimeout):
            served.reset('first-0', 0.05)
        policy.begin.set()
        assert first.result(S).queue_s < 1.0
    served.reset('first-0', S)
    assert (policy.batches, policy.resets) == ([['first-0']], ['first-0'])


def test_one_alone_does_not_wait_for_others():
    policy = Together()
    policy.begin.set()
    chunk, _, _ = Batches(policy.infer_batch, window_s=60.0).infer(SEEN, 'a-1', S)
    assert chunk.actions[0, 0] == 1.0


@pytest.mark.parametrize('protocol', ['grpc', 'openpi'])
def test_stations_at_a_server_are_answered_together_and_each_is_counted(protocol, monkeypatch):
    policy, log, begun, infer = Together(), io.StringIO(), [], Batches.infer
    monkeypatch.setattr(Batches, 'infer', lambda *args: begun.append(1) or infer(*args))
    metered = MeteredPolicy(policy, log)
    assert MeteredPolicy(policy.spec).infer_batch is None
    with SERVERS[protocol](metered) as server, ThreadPoolExecutor(5) as pool, \
            connect(server.address) as client:
        def ask(name):
            if protocol == 'grpc':
                return client.infer(SEEN, name).actions[0, 0]
            with connect(server.address) as own:
                return own.infer(SEEN).actions[0, 0]
        answers = [pool.submit(ask, f'station-{k}') for k in range(5)]
        assert wait_until(lambda: len(begun) == 5, S)
        time.sleep(0.1)
        policy.begin.set()
        chunks = [answer.result(S) for answer in answers]
    assert len(chunks) == 5
    assert sum(map(len, policy.batches)) == 5
    assert len(policy.batches) < 5
    assert metered.use().queries == 5
    assert [json.loads(line)['actions'] for line in log.getvalue().splitlines()] == [2] * 5
