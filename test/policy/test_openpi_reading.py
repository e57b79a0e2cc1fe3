"""One thread reads the connections of a server while nobody is held up, more while somebody is."""

import contextlib
import threading
import time

import msgpack
import pytest
from policy_samples import Noted
from test_openpi import PlainClient, plain_array, plain_request
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.openpi import reading
from arena_robot.policy.options import ServeOptions

SPEC = PolicySpec(image_size=(24, 32), external_cameras=2, stereo=True, chunk_length=4)
PACKED = msgpack.packb(plain_request(), default=plain_array)


class Holding(Noted):
    """Answers at once, or when it is told to; notes its threads."""

    def __init__(self):
        super().__init__(SPEC)
        self.go, self.threads, self.held = threading.Event(), [], threading.Semaphore(0)
        self.go.set()

    def infer(self, observation, episode=''):
        self.threads.append(threading.get_ident())
        if not self.go.is_set():
            self.held.release()
            assert self.go.wait(20.0)
        return super().infer(observation, episode)


@pytest.fixture
def holding():
    policy = Holding()
    with SERVERS['openpi'](policy) as server:
        policy.port = server.port
        yield policy
        policy.go.set()


def test_one_thread_answers_the_quick_queries_of_all(holding, monkeypatch):
    monkeypatch.setattr(reading, 'QUICK_S', 1e3)
    monkeypatch.setattr(reading, 'HELD_UP_S', 1e3)
    clients = [PlainClient(holding.port) for _ in range(4)]
    for _ in range(5):
        for client in clients:
            client.socket.send(PACKED)
        assert all(isinstance(client.socket.recv(5.0), bytes) for client in clients)
    assert len(holding.threads) == 20
    assert len(set(holding.threads[1:])) == 1    # the first is not known to be quick
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize('quick_s', [0.0, 1e3])
def test_others_are_read_while_one_is_held_up(holding, monkeypatch, quick_s):
    monkeypatch.setattr(reading, 'QUICK_S', quick_s)
    first, second = PlainClient(holding.port), PlainClient(holding.port)
    assert len(first.call(plain_request())['actions']) == 4
    holding.go.clear()
    first.socket.send(PACKED)
    assert holding.held.acquire(timeout=5.0)
    assert second.reset('') == 'reset successful'
    third = PlainClient(holding.port)    # which connects meanwhile
    holding.go.set()
    for client in (first, second, third):
        if client is not first:
            client.socket.send(PACKED)
        assert isinstance(client.socket.recv(5.0), bytes)
        client.socket.close()


def test_policies_for_several_threads_are_asked_by_several():
    policy = Holding()
    policy.go.clear()
    with SERVERS['openpi'](policy, ServeOptions(parallel=True)) as server:
        clients = [PlainClient(server.port) for _ in range(5)]
        for client in clients:
            client.socket.send(PACKED)
        assert all(policy.held.acquire(timeout=5.0) for _ in clients)
        policy.go.set()
        assert all(isinstance(client.socket.recv(5.0), bytes) for client in clients)
        for client in clients:
            client.socket.close()


def test_a_caller_who_does_not_read_holds_up_no_other():
    policy = Noted(PolicySpec(image_size=(24, 32), external_cameras=2, stereo=True,
                              chunk_length=1024), 1024)
    session = msgpack.packb(plain_request(session_id='deaf'), default=plain_array)
    with SERVERS['openpi'](policy) as server, connect(
            f'ws://127.0.0.1:{server.port}', max_queue=1) as deaf:
        other = PlainClient(server.port)

        def send():
            with contextlib.suppress(ConnectionClosed, OSError):
                while True:
                    deaf.send(session)

        threading.Thread(target=send, daemon=True).start()
        before, same, end_s = 0, 0, time.monotonic() + 60.0
        while same < 30 and time.monotonic() < end_s:    # until its replies fill the line
            assert len(other.call(plain_request(session_id='other'))['actions']) == 1024
            asked = sum(episode == 'deaf' for _, episode in policy.asked)
            before, same = asked, same + 1 if asked == before and asked else 0
        assert same == 30
        assert before > 20
        deaf.socket.shutdown(2)
        other.socket.close()


def test_no_threads_are_left(holding):
    clients = [PlainClient(holding.port) for _ in range(6)]
    holding.go.clear()
    for client in clients:
        client.socket.send(PACKED)
    assert holding.held.acquire(timeout=5.0)
    holding.go.set()
    assert all(isinstance(client.socket.recv(5.0), bytes) for client in clients)
    end_s = time.monotonic() + 5.0
    while _readers() > 2 + reading.SPARE and time.monotonic() < end_s:
        time.sleep(0.01)
    assert _readers() <= 2 + reading.SPARE
    for client in clients:
        client.socket.close()


def _readers():
    return sum(one.name == 'openpi-reading' for one in threading.enumerate())
