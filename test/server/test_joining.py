"""A policy whose machine dials out is called over the call that it holds open."""

import contextlib
import dataclasses

import pytest
from arena_setting import FIRST, LAST, STATION, Setting, query
from waiting import until

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.policy.connect import SERVERS, connect, load_policy
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.resizing import Resizing
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role
from arena_robot.server.joining import Joining
from arena_robot.server.pool.policy_pool import conformance
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.session.arena.contract import PROMPT, observation


@pytest.fixture
def lab(tmp_path):
    made = Setting(tmp_path / 'server', '', {})
    otto = made.server.accounts.add_account('otto', 'mit', [Role.OWNER])
    made.tokens['otto'] = made.server.accounts.issue(otto)
    yield made
    made.close()


@contextlib.contextmanager
def joined(lab, who='owner', name='walk', protocol='grpc', target='', policy='random_walk'):
    """Serve a policy on this machine and join it; yield what was said and the joining."""
    said = []
    with SERVERS[protocol](load_policy(policy), ServeOptions(port=0)) as server:
        joining = Joining(target or lab.target, False, CallOptions(token=lab.tokens[who]), name,
                          server.port, said.append).open()
        try:
            until(lambda: said)
            yield said, joining
        finally:
            joining.close()


def submitted(lab, host, protocol='grpc', who='owner', name='walk'):
    return lab.calls(who)('RegisterPolicy', pb.Policy(name=name, address=f'{protocol}://{host}:1'))


@pytest.mark.parametrize('protocol', ['grpc', 'openpi'])
def test_a_joined_policy_passes_its_check_and_is_queried_by_a_station(lab, protocol):
    lab.server.pool.checks = type(lab.server.pool.checks)(conformance, lambda target: '')
    with joined(lab, protocol=protocol) as (said, _), joined(lab, name='still', policy='frozen',
                                                             protocol=protocol):
        assert said[0].startswith(f'joined {lab.target}; submit it with: arena policy submit NAME')
        for name in ('walk', 'still'):
            assert submitted(lab, f'{name}.joined', protocol, name=name).state == 'submitted'
        lab.server.pool.review()
        records = [lab.server.policies.get(name) for name in ('walk', 'still')]
        assert [record.reason for record in records] == ['', '']
        for record in records:
            lab.server.policies.move(record.name, PolicyState.POOL)
            lab.server.policies.set_health(record.id, True)
        arena = lab.arena()
        pair = arena.assign(STATION, 'ada', PROMPT)
        for slot in Slot:
            query(arena, pair.session_id, slot, FIRST, LAST)


def test_nobody_is_called_at_the_name_of_another_owners_machine(lab):
    with joined(lab), pytest.raises(DataError, match=r'walk\.joined has not joined this server'):
        submitted(lab, 'walk.joined', who='otto')
    with pytest.raises(DataError, match='arena policy serve POLICY --join SERVER --name walk'):
        submitted(lab, 'walk.joined')
    with joined(lab), pytest.raises(DataError, match='what is encrypted is the call'):
        submitted(lab, 'walk.joined', 'grpcs')


@pytest.mark.parametrize(('who', 'name', 'why'), [
    ('ada', 'walk', 'join is for maintainer or owner'),
    ('owner', 'No Name', "'No Name' is no name to join with"),
    ('owner', 'a' * 64, 'up to 63')])
def test_who_may_not_join_is_told_once(lab, who, name, why):
    with joined(lab, who, name) as (said, joining):
        until(lambda: joining.refused is not None)
        assert why in said[0]
        assert len(said) == 1


def test_a_revoked_token_ends_the_call(lab, monkeypatch):
    monkeypatch.setattr('arena_robot.server.service.TOKEN_FRESH_S', 0.1)
    with joined(lab) as (_, joining):
        assert lab.server.joined.port(lab.owner.id, 'walk.joined')
        lab.server.accounts.revoke_all(lab.owner)
        until(lambda: joining.refused is not None)
        with pytest.raises(DataError, match='has not joined'):
            lab.server.joined.port(lab.owner.id, 'walk.joined')


def test_who_joins_again_takes_the_place_and_a_lost_server_is_joined_again(lab, tmp_path):
    def called():
        address = lab.server.pool.reachable(lab.server.policies.get('walk')).address
        with connect(address) as policy:
            return Resizing(policy).infer(observation(), 'e').actions.shape

    with joined(lab, policy='echo') as (_, first):
        submitted(lab, 'walk.joined')
        shape = called()
        with joined(lab, policy='echo') as (said, _):
            until(lambda: first.refused is not None)
            assert 'joined again from elsewhere' in str(first.refused)
            assert called() == shape
            port = lab.server.port
            lab.server.close()
            until(lambda: 'again in' in said[-1])
            lab.server = ArenaServer(dataclasses.replace(lab.config, port=port), SystemClock(),
                                     lambda target: '', lambda target: '')
            lab.server.open()
            until(lambda: said[-1].startswith('joined '))
            assert called() == shape
