import pytest

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.policy.address import parse_address
from arena_robot.policy.options import CallOptions
from arena_robot.server.pool.addresses import Endpoint, check, parse, pinned
from arena_robot.server.pool.policy_pool import addresses

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
    'openpi://host:80?action_space=sideways', 'grpc://user@host:80', 'grpc://host:80?x=1', 'grpc://[::1:80',
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
