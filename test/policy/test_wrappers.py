"""Recording and timing; wrappers stack in any order."""

import urllib.error
import urllib.request

import numpy as np
import pytest
from policy_samples import Noted, observation, pictures

from arena_robot.core.errors import DataError, PolicyUnavailable, RecordingError
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.metered import MeteredPolicy, MetricsServer
from arena_robot.policy.recording import Recording, read
from arena_robot.policy.resizing import Resizing
from arena_robot.policy.timing import TimedPolicy, summarise


def test_a_recorded_call_reads_back(tmp_path):
    inner = Noted()
    policy = Recording(inner, tmp_path / 'calls')
    sent = observation(pictures(inner.spec, 24, 32), prompt='grüße')
    chunk = policy.infer(sent, 'episode-1')
    record, episode, answer = read(tmp_path / 'calls' / '000000.npz')
    assert (record.prompt, record.step, record.stamp_ns, episode) == ('grüße', 7, 103, 'episode-1')
    assert np.array_equal(record.images['wrist_left'].pixels, sent.images['wrist_left'].pixels)
    assert record.images['wrist_left'].stamp_ns == 100
    assert np.array_equal(record.arm.q, sent.arm.q)
    assert np.array_equal(answer.actions, chunk.actions)
    assert answer.space is chunk.space


def test_what_a_policy_writes_into_its_input_is_not_recorded(tmp_path):
    class Scales(Noted):
        def infer(self, observation, episode=''):
            observation.images['wrist_left'].pixels[:] = 0
            observation.arm.q[:] = 9.0
            return super().infer(observation, episode)

    sent = observation(pictures(Noted().spec, 24, 32))
    before = sent.images['wrist_left'].pixels.copy()
    Recording(Scales(), tmp_path).infer(sent)
    record, _, _ = read(tmp_path / '000000.npz')
    assert np.array_equal(record.images['wrist_left'].pixels, before)
    assert np.array_equal(record.arm.q, np.full(7, 0.1))


def test_a_recording_never_overwrites(tmp_path):
    Recording(Noted(), tmp_path).infer(observation())
    with pytest.raises(RecordingError, match='into a new folder'):
        Recording(Noted(), tmp_path).infer(observation())


def test_what_is_no_recording_is_said_so(tmp_path):
    (tmp_path / 'x.npz').write_bytes(b'nothing')
    with pytest.raises(DataError, match='not a recorded policy call'):
        read(tmp_path / 'x.npz')


def test_timing_counts_failures_too():
    class Failing(Noted):
        def infer(self, observation, episode=''):
            raise PolicyUnavailable('gone')

    policy = TimedPolicy(Failing())
    for _ in range(3):
        with pytest.raises(PolicyUnavailable):
            policy.infer(observation())
    assert policy.latency().count == 3


def test_the_summary_is_of_the_calls_given():
    latency = summarise([0.1, 0.2, 0.3])
    assert (latency.p50_s, latency.max_s) == (pytest.approx(0.2), 0.3)
    assert latency.jitter_s == pytest.approx(np.std([0.1, 0.2, 0.3]))
    assert summarise([]).count == 0


@pytest.mark.parametrize('order', ['CRTS', 'TCSR', 'SRTC', 'RSCT'])
def test_wrappers_stack_in_any_order(order, tmp_path, frames):
    make = {'C': ChunkExecutor, 'T': TimedPolicy, 'S': Resizing,
            'R': lambda inner: Recording(inner, tmp_path)}
    policy = inner = Noted(length=2)
    for letter in order:
        policy = make[letter](policy)
    gone = [policy.infer(observation(frames), 'e').actions[0, 0] for _ in range(2)]
    policy.reset('e')
    assert gone == [100, 101] if order[-1] == 'C' else gone[0] == 100
    assert inner.resets == ['e']
    assert inner.asked[0][0].images['left_left'].pixels.shape == (24, 32, 3)


def test_the_use_of_a_policy_is_counted_and_served_to_prometheus():
    class Sometimes(Noted):
        def infer(self, observation, episode=''):
            if observation.prompt == 'fail':
                raise ValueError('no')
            return super().infer(observation, episode)

    policy = MeteredPolicy(Sometimes())
    for episode in ('a', 'a', 'b'):
        policy.infer(observation(), episode)
    with pytest.raises(ValueError, match='no'):
        policy.infer(observation(prompt='fail'), 'c')
    use = policy.use()
    assert (use.queries, use.errors, use.rollouts, use.latency.count) == (4, 1, 3, 4)
    assert use.line().startswith('4 queries, ')
    with MetricsServer(policy.use, 0) as page:
        address = f'http://127.0.0.1:{page.port}'
        with urllib.request.urlopen(f'{address}/metrics', timeout=5) as reply:
            lines = reply.read().decode().splitlines()
        assert 'arena_policy_queries_total 4' in lines
        assert 'arena_policy_errors_total 1' in lines
        with pytest.raises(urllib.error.HTTPError, match='404'):
            urllib.request.urlopen(f'{address}/', timeout=5)
