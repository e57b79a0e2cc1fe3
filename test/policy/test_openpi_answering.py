"""Pings are answered while a policy thinks; what comes meanwhile is answered in turn."""

import asyncio
import ssl
import threading

import msgpack
import numpy as np
import pytest
from policy_samples import Noted
from test_openpi import PlainClient, plain_array, plain_request
from waiting import until
from websockets.asyncio.client import connect as asyncio_connect
from websockets.exceptions import ConnectionClosedError

from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.options import ServeOptions

SPEC = PolicySpec(image_size=(24, 32), external_cameras=2, stereo=True, chunk_length=4)


class Thinking(Noted):
    """Answers when it is told to."""

    def __init__(self):
        super().__init__(SPEC)
        self.go = threading.Event()
        self.threads = set()

    def infer(self, observation, episode=''):
        self.threads.add(threading.current_thread())
        assert self.go.wait(20.0)
        return super().infer(observation, episode)


@pytest.fixture
def thinking():
    inner = Thinking()
    with SERVERS['openpi'](inner) as server:
        client = PlainClient(server.port)
        client.inner = inner
        yield client
        inner.go.set()
        client.socket.close()


def packed(**changes):
    return msgpack.packb(plain_request(**changes), default=plain_array)


def test_pings_are_answered_while_the_policy_thinks(thinking):
    thinking.socket.send(packed())
    for _ in range(3):
        assert thinking.socket.ping().wait(5.0)
    assert not thinking.inner.asked
    thinking.inner.go.set()
    assert isinstance(thinking.socket.recv(5.0), bytes)
    assert len(thinking.call(plain_request())['actions']) == 4


def test_pings_over_tls_are_answered_too(tls):
    cert, key, authority = tls
    trusted, inner = ssl.create_default_context(cafile=authority), Thinking()

    async def ask(port):
        async with asyncio_connect(f'wss://127.0.0.1:{port}', ssl=trusted) as line:
            assert await line.recv()
            await line.send(packed())
            for _ in range(3):
                assert await asyncio.wait_for(await line.ping(), 5.0)
            assert not inner.asked
            inner.go.set()
            assert isinstance(await line.recv(), bytes)

    with SERVERS['openpi'](inner, ServeOptions(tls_cert=cert, tls_key=key)) as server:
        asyncio.run(asyncio.wait_for(ask(server.port), 20.0))


def test_what_comes_while_the_policy_thinks_is_answered_in_turn(thinking):
    for number in range(3):
        thinking.socket.send(packed(prompt=f'number {number}'))
    assert thinking.socket.ping().wait(5.0)
    thinking.inner.go.set()
    for _ in range(3):
        assert isinstance(thinking.socket.recv(5.0), bytes)
    assert [seen.prompt for seen, _ in thinking.inner.asked] == [
        'number 0', 'number 1', 'number 2']


def test_two_messages_of_one_read_come_before_what_is_read_meanwhile(thinking):
    line = thinking.socket
    with line.protocol_mutex:
        for number in range(2):
            line.protocol.send_binary(packed(prompt=f'number {number}'))
        line.socket.sendall(b''.join(line.protocol.data_to_send()))
    line.send(packed(prompt='number 2'))
    assert line.ping().wait(5.0)
    thinking.inner.go.set()
    for _ in range(3):
        assert isinstance(line.recv(5.0), bytes)
    assert [seen.prompt for seen, _ in thinking.inner.asked] == [
        'number 0', 'number 1', 'number 2']


def test_a_message_in_fragments_is_whole(thinking):
    thinking.inner.go.set()
    data = packed()
    thinking.socket.send([data[:10], data[10:5000], b'', data[5000:]])
    assert isinstance(thinking.socket.recv(5.0), bytes)
    thinking.socket.send(['not ', 'msgpack'])
    assert 'found text' in thinking.socket.recv(5.0)
    assert len(thinking.call(plain_request())['actions']) == 4


def test_a_fault_of_the_server_closes_the_line_and_no_other(thinking, monkeypatch, caplog):
    other = PlainClient(thinking.socket.remote_address[1])
    thinking.inner.go.set()
    monkeypatch.setattr('arena_robot.policy.openpi.wire.session_of',
                        lambda request: 1 // len(request['prompt']))
    thinking.socket.send(packed(prompt=''))
    with pytest.raises(ConnectionClosedError, match='1011'):
        thinking.socket.recv(5.0)
    until(lambda: 'connection handler failed' in caplog.text)
    monkeypatch.undo()
    assert np.isfinite(other.call(plain_request())['actions']).all()
    other.socket.close()


def test_a_caller_who_leaves_while_the_policy_thinks_is_forgotten(thinking):
    thinking.socket.send(packed(session_id=None))
    until(lambda: thinking.inner.threads)
    thinking.socket.socket.shutdown(2)
    thinking.inner.go.set()
    until(lambda: thinking.inner.resets)
    assert [episode for _, episode in thinking.inner.asked] == thinking.inner.resets
