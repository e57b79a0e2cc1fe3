import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.clock import ManualClock
from arena_robot.core.config import build
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import (
    BadReply,
    ConfigError,
    DataError,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
    ServerError,
)
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.timing import AtLeast
from arena_robot.records.session_file import SessionSlot
from arena_robot.session.arena.contract import ArenaContract, observation, refused
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.arena.sealed import read_key, seal, unseal
from arena_robot.session.base import StationInfo, blinded
from arena_robot.session.protocol.record import is_fault

NAMES = ('crimson-7b', 'azure-fast', 'viridian')
CONFIG = LocalArenaConfig(tuple(PolicyEntry(n, f'grpc://{n}.example:50051') for n in NAMES))
STATION = StationInfo('bench', 'panda')
PROMPT = 'put the red cube in the bowl'


class Still:
    """A policy that stays where it is."""

    spec = PolicySpec()

    def __init__(self, error=None):
        self.error = error
        self.closed = False

    def infer(self, observation, episode=''):
        if self.error:
            raise self.error
        return Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        if self.error:
            raise self.error

    def close(self):
        self.closed = True


def make(folder, seed=1, connect=lambda entry: Still(), config=CONFIG):
    return LocalArena(config, connect, folder, ManualClock(5), Random(seed))


class TestLocalArena(ArenaContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self._root = tmp_path

    def arena(self):
        return make(self._root / 'arena')

    def folder(self, slot: Slot, session_id: str = '') -> Path:
        folder = self._root / slot.value
        folder.mkdir(exist_ok=True)
        return folder

    def names(self):
        return NAMES


def test_the_order_is_random_and_the_weights_count(tmp_path):
    pool = (PolicyEntry('rare', 'x', 0.1), PolicyEntry('often', 'x', 1.0),
            PolicyEntry('also', 'x', 1.0))
    asked = []
    arena = make(tmp_path, config=LocalArenaConfig(pool),
                 connect=lambda entry: asked.append(entry.name) or Still())
    for _ in range(200):
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        for slot in Slot:
            arena.policy(session_id, slot)
    firsts = asked[::2]
    assert all(a != b for a, b in zip(firsts, asked[1::2], strict=True))
    assert firsts.count('rare') < 30
    assert 60 < firsts.count('often') < 140


def test_no_file_of_an_open_session_names_a_policy(tmp_path):
    arena = make(tmp_path)
    pair = arena.assign(STATION, 'ada', PROMPT)
    arena.policy(pair.session_id, Slot.A).infer(observation())
    for path in tmp_path.rglob('*'):
        if path.is_file():
            raw = path.read_bytes()
            assert not any(n.encode() in raw or n.encode().hex().encode() in raw for n in NAMES)
    assert (tmp_path / '.key').stat().st_mode & 0o077 == 0


def test_a_restart_keeps_the_pair(tmp_path):
    pair = make(tmp_path).assign(STATION, 'ada', PROMPT)
    seen = []
    for seed in (1, 99):
        arena = make(tmp_path, seed, connect=lambda entry: seen.append(entry.name) or Still())
        for slot in Slot:
            arena.policy(pair.session_id, slot)
    assert seen[:2] == seen[2:]


def test_a_policy_taken_from_the_pool_is_told_without_its_name(tmp_path):
    pair = make(tmp_path).assign(STATION, 'ada', PROMPT)
    other = LocalArenaConfig((PolicyEntry('p', 'x'), PolicyEntry('q', 'x')))
    error = refused(ServerError, lambda: make(tmp_path, config=other).policy(
        pair.session_id, Slot.A))
    assert not any(name in str(error) for name in NAMES)


def test_policies_are_closed_with_their_session(tmp_path):
    made = []
    arena = make(tmp_path, connect=lambda entry: made.append(Still()) or made[-1])
    pair = arena.assign(STATION, 'ada', PROMPT)
    arena.policy(pair.session_id, Slot.A)
    arena.policy(pair.session_id, Slot.A)
    arena.abort(pair.session_id, 'enough')
    assert [p.closed for p in made] == [True, True]


def test_a_policy_that_cannot_be_closed_keeps_nothing_open(tmp_path):
    closed = []

    class Stuck(Still):
        def close(self):
            closed.append(self)
            raise PolicyUnavailable('no azure-fast at 10.0.0.7:50051')
    arena = make(tmp_path, connect=lambda entry: Stuck())
    pair = arena.assign(STATION, 'ada', PROMPT)
    arena.policy(pair.session_id, Slot.A)
    for _ in range(2):
        arena.abort(pair.session_id, 'enough')
    assert len(closed) == 2, 'each policy once'


def test_a_pool_needs_two():
    with pytest.raises(ConfigError, match='two policies or more'):
        build(LocalArenaConfig, {'policies': [{'name': 'a', 'address': 'x'}]})
    with pytest.raises(ConfigError, match='its own name'):
        build(LocalArenaConfig, {'policies': [{'name': 'a', 'address': 'x'}] * 2})
    with pytest.raises(ConfigError, match='more than 0'):
        build(LocalArenaConfig, {'policies': [{'name': 'a', 'address': 'x', 'weight': 0},
                                              {'name': 'b', 'address': 'x'}]})


@pytest.mark.parametrize(('raised', 'kind', 'words'), [
    (PolicyUnavailable('no azure-fast at 10.0.0.7:50051'), PolicyUnavailable, 'be reached'),
    (PolicyTimeout('azure-fast'), PolicyTimeout, 'in time'),
    (PolicyRefused('azure-fast wants (224, 224)'), PolicyRefused, 'refused'),
    (BadReply('azure-fast said (1, 3)'), BadReply, 'cannot be executed'),
    (RuntimeError('azure-fast: CUDA'), PolicyError, 'failed')])
def test_errors_lose_their_words(raised, kind, words):
    error = blinded(raised, Slot.B)
    assert type(error) is kind
    assert str(error).startswith('the policy of slot B ')
    assert words in str(error)


@pytest.mark.parametrize('kind', [PolicyEnded, PolicyUnavailable])
def test_a_policy_that_ended_is_told_from_a_network_that_failed(monkeypatch, kind):
    class Gone(Still):
        def infer(self, observation, episode=''):
            raise PolicyUnavailable('the connection was closed')
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    policy = AtLeast(Gone(), 0.0, f'grpc://127.0.0.1:{port}')
    if kind is PolicyUnavailable:
        def silent(where, timeout):
            raise TimeoutError('timed out')
        monkeypatch.setattr(socket, 'create_connection', silent)
    with pytest.raises(PolicyUnavailable) as caught:
        policy.infer(observation())
    assert type(caught.value) is kind
    lost = is_fault(SessionSlot(end=EndReason.POLICY_ERROR,
                                detail=str(blinded(caught.value, Slot.A))))
    assert lost is (kind is PolicyUnavailable)


def test_a_policy_that_cannot_be_connected_is_told_without_its_address(tmp_path):
    def connect(entry):
        raise PolicyUnavailable(f'nobody at {entry.address}')
    arena = make(tmp_path, connect=connect)
    pair = arena.assign(STATION, 'ada', PROMPT)
    error = refused(ServerError, lambda: arena.policy(pair.session_id, Slot.A))
    assert 'example' not in str(error)
    assert error.__context__ is None


@pytest.mark.parametrize(('spec', 'station', 'words'), [
    ({'depth': True}, {'depths': ('wrist',)}, 'depth (left_depth, wrist_depth)'),
    ({'depth': True}, {'depths': ('right',)}, 'depth (left_depth, wrist_depth)'),
    ({'wrist_camera': True}, {'wrist_camera': False}, 'a wrist camera'),
    ({'stereo': True}, {'stereo': False}, 'both eyes of every camera'),
    ({'external_cameras': 2}, {'external_cameras': 1}, '2 outside cameras')])
def test_cameras_that_the_station_lacks_are_said_before_anything_runs(
        tmp_path, spec, station, words):
    made = []

    def connect(entry):
        policy = Still()
        made.append(policy)
        policy.spec = PolicySpec(**(spec if entry.name == NAMES[0] else {'wrist_camera': False}))
        return policy
    pool = LocalArenaConfig(CONFIG.policies[:2])
    arena = make(tmp_path, connect=connect, config=pool)
    for slot in Slot:
        pair = arena.assign(replace(STATION, **station), 'ada', PROMPT)
        error = str(refused(ServerError, partial(arena.policy, pair.session_id, slot)))
        assert f'a policy of this pair asks for {words}, which this station' in error
        assert not any(name in error for name in NAMES)
        refused(ServerError, partial(arena.policy, pair.session_id, slot))
    assert len(made) == 8
    assert all(policy.closed for policy in made)
    pair = arena.assign(replace(STATION, depths=('right', 'wrist')), 'ada', PROMPT)
    assert arena.policy(pair.session_id, Slot.A).spec


def test_a_seal_opens_with_its_own_key_and_label_only(tmp_path):
    key = read_key(tmp_path / 'key')
    assert read_key(tmp_path / 'key') == key
    text = seal(key, 's1', {'A': 'crimson-7b' * 10})
    assert unseal(key, 's1', text) == {'A': 'crimson-7b' * 10}
    for bad in (lambda: unseal(key, 's2', text), lambda: unseal(bytes(32), 's1', text),
                lambda: unseal(key, 's1', text[:-2]), lambda: unseal(key, 's1', 'zz')):
        with pytest.raises(DataError, match='sealed record'):
            bad()
    (tmp_path / 'short').write_bytes(b'1')
    with pytest.raises(DataError, match='no key'):
        read_key(tmp_path / 'short')
