"""Both policies of a pair take as long as the slower one, and are warmed up, without telling."""

import asyncio
import contextlib
import json
import time
from random import Random

import numpy as np
import pytest

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import PolicyUnavailable
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.timing import MEASURED
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.config import ServerConfig
from arena_robot.server.relay.upstreams import Preparing
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, VERDICT, _episode, observation
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.base import StationInfo

SLOW_S = 0.12
STATION = StationInfo('bench', 'fr3', equal_latency=True)


class Takes:
    """Answers after ``takes_s``."""

    def __init__(self, takes_s, warm_up=0):
        self.takes_s, self.asked, self.forgotten = takes_s, [], []
        self.spec = PolicySpec(chunk_length=4, warm_up=warm_up)

    def infer(self, observation, episode=''):
        self.asked.append(episode)
        time.sleep(self.takes_s)
        return Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        self.forgotten.append(episode)


def took(policy):
    """Return how long an answer takes."""
    began_s = time.monotonic()
    policy.infer(observation(), 'e')
    return time.monotonic() - began_s


def local(folder, policies):
    config = LocalArenaConfig(tuple(PolicyEntry(name, 'x') for name in policies))
    return LocalArena(config, lambda entry: policies[entry.name], folder, ManualClock(5),
                      Random(1))


@pytest.mark.parametrize('equal', [True, False])
def test_a_station_without_a_server_makes_both_take_as_long_as_the_slower(tmp_path, equal):
    policies = {'slow': Takes(SLOW_S), 'quick': Takes(0.0, warm_up=3)}
    station = StationInfo('bench', 'fr3', equal_latency=equal)
    pair = local(tmp_path, policies).assign(station, 'ada', PROMPT)
    arena = local(tmp_path, policies)    # after a restart
    took_s = [took(arena.policy(pair.session_id, slot)) for slot in Slot]
    assert (min(took_s) >= SLOW_S) is equal
    measured = MEASURED * equal
    assert len(policies['quick'].asked) == 3 + measured + 1, 'warm-up, measured, of the rollout'
    assert len(policies['slow'].asked) == measured + 1
    assert len(policies['quick'].forgotten) == 1
    # Another restart measures nothing anew.
    again = local(tmp_path, policies)
    again.policy(pair.session_id, Slot.A)
    assert len(policies['slow'].asked) == measured + 1
    for slot in Slot:
        again.upload(pair.session_id, _episode(pair, slot), tmp_path)
    again.feedback(pair.session_id, VERDICT)
    again.reveal(pair.session_id)
    kept = json.loads((tmp_path / f'{pair.session_id}.json').read_text())
    latency_s = kept.get('equal_latency_s')
    assert (latency_s is None) is not equal
    assert not equal or latency_s >= SLOW_S


def test_a_policy_that_cannot_be_prepared_is_not_waited_for():
    async def find(target):
        raise PolicyUnavailable('gone')

    async def prepared():
        return await Preparing(find).ready('s', [('a', None), ('b', None)], equal=True)

    assert asyncio.run(prepared()) == 0.0


def test_the_relay_makes_both_take_as_long_as_the_slower(tmp_path):
    policies = {'slow': Takes(SLOW_S), 'quick': Takes(0.0)}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ArenaServer(
            ServerConfig(data=tmp_path, port=0, site_port=0, probe_period_s=3600.0),
            SystemClock(), lambda a: '', lambda a: ''))
        owner = server.accounts.add_account('olga', 'upenn', [Role.OWNER])
        ada = server.accounts.issue(server.accounts.add_account('ada', 'nyu', [Role.EVALUATOR]))
        token = server.accounts.issue(server.accounts.add_station(
            Station(0, 'bench', 'nyu', 'fr3')))
        for name, policy in policies.items():
            at = stack.enter_context(GrpcPolicyServer(policy)).address
            record = server.policies.add(NewPolicy(name, at), owner.id, PolicyState.POOL)
            server.policies.set_health(record.id, True)
        arena = stack.enter_context(contextlib.closing(RemoteArena(
            ServerAddress(f'127.0.0.1:{server.port}', token), SystemClock())))
        arena.sign_in(ada)
        pair = arena.assign(STATION, 'ada', PROMPT)
        assert min(took(arena.policy(pair.session_id, slot)) for slot in Slot) >= SLOW_S
        kept = server.sessions.get(pair.session_id).equal_latency_s
        assert SLOW_S <= kept < SLOW_S + 5.0
        assert [len(policy.asked) for policy in policies.values()] == [MEASURED + 1] * 2
        assert len({name for policy in policies.values() for name in policy.asked[:MEASURED]}) == 2
