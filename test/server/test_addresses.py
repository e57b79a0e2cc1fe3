"""Where policies are: addresses that may be called, and machines that dial out."""

import contextlib
import dataclasses

import pytest
from arena_setting import FIRST, LAST, STATION, Setting, query
from waiting import until

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.policy.address import parse_address
from arena_robot.policy.connect import SERVERS, connect, load_policy
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.resizing import Resizing
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role
from arena_robot.server.joining import Joining
from arena_robot.server.pool.addresses import Endpoint, check, parse, pinned
from arena_robot.server.pool.policy_pool import addresses, conformance
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.session.arena.contract import PROMPT, observation

LOOPBACK = ('127.0.0.0/8', '::1/128')


@pytest.mark.parametrize(('text', 'endpoint'), [
    ('grpc://127.0.0.1:8000', Endpoint('grpc', '127.0.0.1', 8000)),
    ('grpcs://gpu.example.org:443', Endpoint('grpcs', 'gpu.example.org', 443)),
    ('openpi://[::1]:8000', Endpoint('openpi', '::1', 8000)),
])
def test_addresses_are_taken_apart(text, endpoint):
    assert parse(text) == endpoint


@pytest.mark.parametrize('text', [
    '', 'localhost:8000', 'http://host:1', 'grpc://host', 'grpc://:80', 'grpc://host:99999',
    'grpc://host:80/path', 'grpc://host:80?action_space=joint_velocity', 'openpi://host:80/a b',
    'openpi://host:80?action_space=sideways', 'grpc://user@host:80', 'grpc://host:80?x=1',
    'lerobot://8.8.8.8:80?checkpoint=a&policy_type=act&action_space=joint_position', 'grpc://[::1:80',
    "grpc://x'; DROP TABLE policies;--:80", '<script>alert(1)</script>'])
def test_anything_else_is_refused(text):
    with pytest.raises(DataError):
        parse(text)


def test_private_networks_must_be_named():
    assert check('grpc://127.0.0.1:8000', LOOPBACK).port == 8000
    for address in ('grpc://127.0.0.1:8000', 'grpc://10.1.2.3:80', 'grpc://192.168.0.9:80',
                    'grpc://169.254.169.254:80', 'grpc://[::1]:80', 'grpc://0.0.0.0:80'):
        with pytest.raises(DataError, match='not public'):
            check(address, ())
    assert check('grpc://10.1.2.3:80', ('10.0.0.0/8',)).host == '10.1.2.3'
    assert check('grpc://8.8.8.8:80', ()).host == '8.8.8.8'


@pytest.mark.parametrize('host', ['127.0.0.1', '0.0.0.0'])
def test_the_server_never_calls_itself(host):
    with pytest.raises(DataError, match='this server itself'):
        check('grpc://127.0.0.1:50061', LOOPBACK, [(host, 50061)])
    assert check('grpc://127.0.0.1:50062', LOOPBACK, [(host, 50061)])


def test_a_name_that_does_not_resolve():
    with pytest.raises(DataError, match='cannot find the host'):
        check('grpc://no-such-host.invalid:80', LOOPBACK)


@pytest.mark.parametrize('extra', [
    '?connect_to=127.0.0.1', '?connect_to=127.0.0.1%253A48749', '?x=1',
    '?', '#', '#?connect_to=127.0.0.1', '\n?connect_to=127.0.0.1'])
@pytest.mark.parametrize('scheme', ['grpc', 'openpi'])
def test_an_owner_cannot_say_where_an_address_leads(scheme, extra):
    for look in (check, pinned):
        with pytest.raises(DataError, match='a policy address is'):
            look(f'{scheme}://8.8.8.8:9000{extra}', ())


def test_what_is_called_is_written_from_the_checked_parts():
    assert pinned('grpc://8.8.8.8:80', ()) == 'grpc://8.8.8.8:80?connect_to=8.8.8.8'
    parsed = parse_address(pinned('openpi://[::1]:80/', LOOPBACK))
    assert (parsed.target, parsed.applied(CallOptions()).connect_to) == ('[::1]:80', '::1')
    text = 'openpis://8.8.8.8:443/pi0/droid?action_space=joint_velocity&auth=bearer'
    assert pinned(text, ()) == f'{text}&connect_to=8.8.8.8'
    options = parse_address(pinned(text, ())).applied(CallOptions())
    assert (options.action_space.value, options.auth) == ('joint_velocity', 'bearer')


@pytest.mark.parametrize('query', [
    'connect_to=8.8.8.8&connect_to=10.0.0.1', 'connect_to=127.0.0.1%3A48749', 'connect_to=',
    'connect_to=localhost'])
def test_only_one_ip_address_is_connected_to(query):
    with pytest.raises(ConfigError, match='connect_to is one IP address'):
        parse_address(f'grpc://8.8.8.8:9000?{query}')


def test_ipv4_comes_first_in_the_order_of_the_resolver(monkeypatch):
    ips = ['2600:1f18::1', '99.80.1.1', '34.1.2.3', '99.80.1.1']
    monkeypatch.setattr(addresses.socket, 'getaddrinfo',
                        lambda *_, **__: [(0, 0, 0, '', (ip, 80)) for ip in ips])
    assert check('grpc://policy.example:80', ()).ip == '99.80.1.1'
    assert [str(ip) for ip in addresses.resolve('policy.example', 80)] == [
        '99.80.1.1', '34.1.2.3', '2600:1f18::1']


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

        def has_gone():
            try:
                lab.server.joined.port(lab.owner.id, 'walk.joined')
            except DataError as error:
                return 'has not joined' in str(error)
            return False

        until(has_gone)


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
