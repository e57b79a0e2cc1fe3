"""Callers that send much, slowly or nothing: refused before it is read, and cut off."""

import contextlib
import re
import socket
import threading
import time

import grpc
import httpx
import pytest
from test_server_process import Process

from arena_robot.core.errors import ConfigError, Unauthorised
from arena_robot.server.access.listening import require_encryption
from arena_robot.server.access.rates import AtOnce, TooManyCalls
from arena_robot.server.client import Calls, ServerAddress
from arena_robot.server.config import ServerConfig, Tls
from arena_robot.server.proto import arena_server_pb2 as pb

HANDSHAKE_S = 1.0
MIB = 1 << 20


class BoundedProcess(Process):
    """A server process that waits for nobody longer than a second."""

    def configure(self):
        text = self.config.read_text()
        self.config.write_text(text.replace(
            'limits: {', f'limits: {{handshake_s: {HANDSHAKE_S}, connections_per_address: 80, '))

    def memory_mb(self):
        with open(f'/proc/{self.process.pid}/status') as file:
            return int(re.search(r'VmHWM:\s+(\d+)', file.read())[1]) / 1024


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    made = BoundedProcess(tmp_path_factory.mktemp('server'))
    yield made
    assert made.stop() == 0


def send_big(target, method, data, codes):
    channel = grpc.insecure_channel(target, (('grpc.max_send_message_length', -1),
                                             ('grpc.use_local_subchannel_pool', 1)))
    try:
        codes.append(channel.unary_unary(method)(data, timeout=20.0) and None)
    except grpc.RpcError as error:
        codes.append(error.code())
    channel.close()


@pytest.mark.alone
@pytest.mark.parametrize(('method', 'code'), [
    ('/arena.v1.ArenaService/Assign', grpc.StatusCode.PERMISSION_DENIED),
    ('/arena.v1.ArenaService/Upload', grpc.StatusCode.PERMISSION_DENIED),
    ('/arena.policy.v1.PolicyService/Infer', grpc.StatusCode.PERMISSION_DENIED),
    ('/arena.v1.ArenaService/Hello', None),
    ('/grpc.health.v1.Health/Check', None),
    ('/grpc.health.v1.Health/Watch', grpc.StatusCode.UNIMPLEMENTED)])
def test_messages_of_strangers_are_not_read(server, method, code):
    before, data, codes = server.memory_mb(), b'\x0a' * (31 * MIB), []
    threads = [threading.Thread(target=send_big, args=(server.target, method, data, codes))
               for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each address has its share of wrong tokens that are looked at.
    assert set(codes) <= {code, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(codes) == 24
    assert server.memory_mb() - before < 100


def closed_within(sockets, seconds):
    """Count the connections that the other end closes in time."""
    end, closed = time.monotonic() + seconds, 0
    for sock in sockets:
        sock.settimeout(max(0.01, end - time.monotonic()))
        try:
            while sock.recv(4096):
                pass
            closed += 1
        except ConnectionError:
            closed += 1
        except TimeoutError:
            pass
    return closed


@pytest.mark.parametrize('sent', [b'', b'PRI * HT', b'GET / HTTP/1.1\r\nHost: a\r\n'])
@pytest.mark.parametrize('which', ['port', 'site'])
def test_half_open_connections_are_closed(server, which, sent):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(
            ('127.0.0.1', getattr(server, which)))) for _ in range(200)]
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.sendall(sent)
        assert closed_within(sockets, 5.0 + HANDSHAKE_S) == 200
    with contextlib.closing(Calls(ServerAddress(server.target, ''))) as calls:
        assert calls('Hello', pb.HelloRequest()).now_ns > 0
    assert httpx.get(f'http://127.0.0.1:{server.site}/api').status_code == 200


def test_a_connection_that_was_answered_once_is_not_kept_for_ever(server):
    with socket.create_connection(('127.0.0.1', server.site)) as line:
        line.sendall(b'GET /api HTTP/1.1\r\nHost: a\r\n\r\nG')
        assert line.recv(100).startswith(b'HTTP/1.1 200')
        assert closed_within([line], 5.0 + HANDSHAKE_S) == 1


def test_an_address_has_few_connections_to_the_site(server):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(('127.0.0.1', server.site)))
                   for _ in range(120)]
        assert closed_within(sockets[:40], 0.8 * HANDSHAKE_S) == 40, 'the newest have their turn'


def test_a_large_form_is_refused_by_its_header(server):
    before = server.memory_mb()
    with socket.create_connection(('127.0.0.1', server.site)) as line:
        line.sendall(b'POST /owner HTTP/1.1\r\nHost: a\r\nContent-Length: 419430400\r\n\r\n')
        line.settimeout(5.0)
        assert b' 413 ' in line.recv(1000)
    assert server.memory_mb() - before < 20


def test_a_large_form_without_a_length_is_refused_while_it_comes(server):
    before, sent = server.memory_mb(), 0
    with socket.create_connection(('127.0.0.1', server.site)) as line:
        line.sendall(b'POST /owner HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                line.sendall(b'100000\r\n' + b'x' * MIB + b'\r\n')
                sent += 1
    assert sent < 50
    assert server.memory_mb() - before < 50


def test_calls_at_once_are_bounded():
    limit = AtOnce(2)
    for caller in 'aab':
        limit.begin(caller)
    with pytest.raises(TooManyCalls, match='2 calls of this token are running'):
        limit.begin('a')
    limit.end('a')
    limit.begin('a')


def test_a_wrong_token_is_refused_by_a_sentence(server):
    with contextlib.closing(Calls(ServerAddress(server.target, 'arena_no'))) as calls, \
            pytest.raises((Unauthorised, TooManyCalls)):
        calls.once('ListPolicies', pb.Empty())


@pytest.mark.parametrize('host', ['0.0.0.0', '::', 'arena.example.org'])
def test_beyond_this_machine_it_listens_with_tls_or_when_told_so(tmp_path, host):
    with pytest.raises(ConfigError, match='unencrypted'):
        require_encryption(ServerConfig(host=host))
    require_encryption(ServerConfig(host=host, insecure=True))
    require_encryption(ServerConfig(host=host, tls=Tls(tmp_path / 'c.pem', tmp_path / 'k.pem')))
    require_encryption(ServerConfig())
