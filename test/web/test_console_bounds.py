"""The console under load and with odd requests: STOP is answered, large bodies are not read."""

import contextlib
import json
import socket
import threading
import time

import httpx
import pytest
from console_rig import WAIT_S
from websockets.sync.client import connect

from arena_robot.web.bounds import BodyLimit

WATCHERS = 60
STOP_S = 0.5


@pytest.fixture
def watched(url, station):
    """Sixty pages wait for news; there are forty threads for them."""
    over, waiting = threading.Event(), threading.Semaphore(0)
    station.rest.set()

    def wait_change(seen, timeout_s):
        waiting.release()
        over.wait(WAIT_S)
        return seen
    station.wait_change = wait_change
    with httpx.Client(base_url=url, timeout=WAIT_S, limits=httpx.Limits()) as client:
        seen = client.get('api/state').json()['version']
        threads = [threading.Thread(target=client.get, args=('api/state',), kwargs={
            'params': {'seen': seen, 'wait': 10}}) for _ in range(WATCHERS)]
        for thread in threads:
            thread.start()
        for _ in range(40):
            assert waiting.acquire(timeout=WAIT_S)
        yield url, client
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.alone
def test_stop_by_request_is_answered_beside_sixty_watchers(watched):
    begin_s = time.monotonic()
    assert watched[1].post('api/stop', timeout=5.0).json() == {'at_rest': True}
    assert time.monotonic() - begin_s <= STOP_S


@pytest.mark.alone
def test_stop_by_the_line_is_answered_beside_sixty_watchers(watched):
    with connect(f'{watched[0].replace("http", "ws", 1)}api/stop_line') as line:
        begin_s = time.monotonic()
        line.send(json.dumps({'stop': 'one'}))
        assert json.loads(line.recv(5.0))['at_rest']
        assert time.monotonic() - begin_s <= STOP_S


def dial(url):
    return socket.create_connection(('127.0.0.1', int(url.rstrip('/').rpartition(':')[2])))


HALF_A_HEADER = b'POST /api/stop HTTP/1.1\r\nHost: localhost\r\n'
HALF_A_BODY = HALF_A_HEADER + b'Content-Length: 9\r\n\r\n{'


@pytest.mark.alone
@pytest.mark.parametrize('begun', [b'', HALF_A_HEADER, HALF_A_BODY])
def test_stop_is_answered_beside_300_connections_that_ask_nothing_whole(url, station, begun):
    station.rest.set()
    with contextlib.ExitStack() as open_lines:
        for _ in range(300):
            line = open_lines.enter_context(dial(url))
            with contextlib.suppress(ConnectionError):
                line.sendall(begun)
        for _ in range(3):
            begin_s = time.monotonic()
            assert httpx.post(f'{url}api/stop', timeout=5.0).json() == {'at_rest': True}
            assert time.monotonic() - begin_s <= STOP_S


def test_a_large_body_is_refused_by_its_header(url):
    with dial(url) as line:
        line.sendall(b'POST /api/judge HTTP/1.1\r\nHost: localhost\r\n'
                     b'Content-Length: 419430400\r\n\r\n')
        line.settimeout(5.0)
        assert b' 413 ' in line.recv(1000)


def test_a_large_body_without_a_length_is_refused_while_it_comes(url):
    sent = []
    with dial(url) as line, contextlib.suppress(ConnectionError):
        line.sendall(b'POST /api/judge HTTP/1.1\r\nHost: localhost\r\n'
                     b'Transfer-Encoding: chunked\r\n\r\n')
        for k in range(400):
            line.sendall(b'100000\r\n' + b'x' * (1 << 20) + b'\r\n')
            sent.append(k)
    assert len(sent) < 50


def test_the_longest_words_fit(url):
    words = ('explanation', 'notes', 'invalid_reason', 'notes_a', 'notes_b')
    answer = httpx.post(f'{url}api/judge', json=dict.fromkeys(words, '\u00e4' * 10_000))
    assert answer.status_code == 409    # control was not taken; the body was read


def test_a_slow_body_is_given_up():
    import asyncio

    async def app(scope, receive, send):
        raise AssertionError('it must not be called')

    async def never():
        await asyncio.sleep(60.0)

    sent = []

    async def send(message):
        sent.append(message)

    scope = {'type': 'http', 'method': 'POST', 'path': '/', 'headers': [(b'content-length', b'9')]}
    asyncio.run(BodyLimit(app, 100, body_s=0.05)(scope, never, send))
    assert sent[0]['status'] == 408
