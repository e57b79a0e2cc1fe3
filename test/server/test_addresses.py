import pytest

from arena_robot.core.errors import DataError
from arena_robot.server.addresses import Endpoint, check, parse

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
    'grpc://host:80/path', 'grpc://user@host:80', 'grpc://host:80?x=1', 'grpc://[::1:80',
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
