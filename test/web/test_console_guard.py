"""Which pages may use the console, and the line for STOP: a WebSocket beside the requests."""

import json
import threading

import httpx
import pytest
from console_rig import WAIT_S
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from arena_robot.core.errors import SessionError
from arena_robot.web.console.app import ConsoleServer


def line(url, **more):
    return connect(f'{url.replace("http", "ws", 1)}api/stop_line', open_timeout=WAIT_S, **more)


def ask(line, words):
    line.send(json.dumps(words))
    return json.loads(line.recv(WAIT_S))


@pytest.mark.parametrize('origin', ['http://evil.example', 'null', 'http://localhost:1'])
def test_a_page_of_another_origin_is_refused(url, station, origin):
    for path in ('stop', 'sit', 'open', 'press', 'start', 'submit', 'score', 'judge', 'draft'):
        answer = httpx.post(f'{url}api/{path}', headers={'Origin': origin}, json={})
        assert answer.status_code == 403, path
        assert 'open the console itself' in answer.json()['detail']
    assert httpx.get(f'{url}api/state', headers={'Origin': origin}).status_code == 403
    with pytest.raises(InvalidStatus), line(url, origin=origin):
        pass
    assert station.stops == 0


def test_the_consoles_own_page_and_programs_are_not(url, station):
    origin = url.rstrip('/')
    for headers in ({'Origin': origin}, {}):
        assert httpx.post(f'{url}api/stop', headers=headers).json() == {'at_rest': True}
    with line(url, origin=origin) as first, line(url) as second:
        assert ask(first, {'stop': 'x'}) == ask(second, {'stop': 'x'}) == {
            'stop': 'x', 'at_rest': True}
    assert station.stops == 4, 'one name from two pages is two presses'


def test_the_line_needs_the_token(station):
    with ConsoleServer(station, port=0, token='sesame') as server:
        url = server.url.split('?')[0]
        for headers in ({}, {'Cookie': 'arena_console=wrong'}):
            with pytest.raises(InvalidStatus), line(url, additional_headers=headers):
                pass
        with line(url, additional_headers={'Cookie': 'arena_console=sesame'}) as socket:
            assert ask(socket, {'stop': 'a'})['at_rest']


@pytest.mark.parametrize('path', ['', 'api/state', 'static/console.js', 'api/frame/left_left'])
def test_a_page_loads_only_the_consoles_own_files(url, path):
    headers = httpx.get(url + path).headers
    rules = headers['content-security-policy']
    host = url.split('/')[2]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
                 f"connect-src 'self' ws://{host} wss://{host}"):
        assert rule in rules
    assert 'unsafe' not in rules
    assert headers['x-frame-options'] == 'DENY'
    assert headers['x-content-type-options'] == 'nosniff'
    assert headers['referrer-policy'] == 'same-origin', 'the link holds the token'


def test_one_press_by_both_ways_stops_once(url, station):
    with line(url) as socket:
        station.rest.clear()
        socket.send(json.dumps({'stop': 'p1'}))
        answers = []
        request = threading.Thread(target=lambda: answers.append(
            httpx.post(f'{url}api/stop', params={'press': 'p1'}, timeout=WAIT_S).json()))
        request.start()
        assert ask(socket, {'ping': 7}) == {'ping': 7}, 'the line waits for the arm'
        station.rest.set()
        assert json.loads(socket.recv(WAIT_S)) == {'stop': 'p1', 'at_rest': True}
        request.join()
        assert (answers, station.stops) == ([{'at_rest': True}], 1)
        assert ask(socket, {'stop': 'p2'})['at_rest']
        assert station.stops == 2


@pytest.mark.parametrize('at_rest', [True, False])
def test_a_client_with_one_name_for_all_presses_stops_each_time(url, station, at_rest):
    if not at_rest:
        station.rest.clear()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        httpx.post(f'{url}api/stop', params={'press': 'foot'}, timeout=WAIT_S).json()))
        for _ in range(3)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        assert station.pressed.acquire(timeout=WAIT_S), f'press {number} did not reach the arm'
    station.rest.set()
    with line(url) as socket:
        for thread in threads:
            thread.join()
        assert answers == [{'at_rest': True}] * 3
        assert [ask(socket, {'stop': 'hand'})['at_rest'] for _ in range(2)] == [True, True]
    assert station.stops == 5


def test_a_refusal_comes_by_the_line(url, station):
    station.silent = SessionError('the arm node does not answer')
    with line(url) as socket:
        assert ask(socket, {'stop': 'p1'}) == {
            'stop': 'p1', 'at_rest': False, 'detail': 'the arm node does not answer'}
        station.silent = None
        assert ask(socket, {'stop': 'p2'})['at_rest']


@pytest.mark.parametrize('text', ['x', '[]', '"stop"', '1'])
def test_what_is_no_message_closes_the_line(url, station, text):
    with line(url) as socket:
        socket.send(text)
        with pytest.raises(ConnectionClosed, match='expected'):
            socket.recv(WAIT_S)
    assert httpx.post(f'{url}api/stop').json() == {'at_rest': True}
