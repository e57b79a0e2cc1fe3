"""The chat client against an endpoint written from the protocol."""

import contextlib
import json
import logging
import socket
import threading
import time

import numpy as np
import pytest
from http_server import ChatServer, said, streamed

from arena_robot.core.errors import (
    BudgetSpent,
    ConfigError,
    ModelBadReply,
    ModelError,
    ModelUnavailable,
)
from arena_robot.models.chat import ChatClient, ChatSettings, Picture, parse_json, system, user
from arena_robot.models.http import HttpSettings

SECRET = 'sk-very-secret-key'
FAST = HttpSettings(timeout_s=2.0, attempts=3, backoff_s=0.0)
HELLO = [system('be brief'), user('hello', Picture.of(np.zeros((8, 8, 3), np.uint8)))]
NUMBER = {'type': 'object', 'properties': {'value': {'type': 'number', 'minimum': 0,
                                                     'maximum': 100}},
          'required': ['value'], 'additionalProperties': False}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv('ARENA_MODEL_KEY', SECRET)


def client(server, **settings):
    return ChatClient(ChatSettings(base_url=server.url, model='m', http=FAST, **settings))


def test_an_answer_with_tokens_cost_and_transcript(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / 'transcript.jsonl'
    with ChatServer(lambda r: said(f'hi {SECRET}')) as server:
        chat = client(server, price_in=1.0, price_out=10.0, transcript=str(path))
        reply = chat.ask(HELLO)
        chat.close()
    assert reply.text.startswith('hi')
    assert reply.cost == pytest.approx((100 + 200) / 1e6)
    sent = server.requests[0]
    assert sent['messages'][0] == {'role': 'system', 'content': 'be brief'}
    assert sent['messages'][1]['content'][1]['image_url']['url'].startswith(
        'data:image/jpeg;base64,')
    assert server.keys == [f'Bearer {SECRET}']
    line = path.read_text()
    assert SECRET not in line
    assert json.loads(line)['messages'][1]['content'][1]['bytes'] > 0
    assert SECRET not in caplog.text
    assert SECRET not in repr(chat.http)


def test_the_cache_pays_once_and_tells_requests_apart(tmp_path):
    with ChatServer(lambda r: said('x')) as server:
        for _ in range(2):
            chat = client(server, cache=str(tmp_path / 'c'), transcript=str(tmp_path / 't'))
            chat.ask(HELLO)
            chat.close()
        assert chat.usage.cached == 1
        notes = [json.loads(line) for line in (tmp_path / 't').read_text().splitlines()]
        assert [note.get('cached', False) for note in notes] == [False, True]
        assert len(server.requests) == 1
        chat = client(server, cache=str(tmp_path / 'c'), temperature=0.5)
        chat.ask(HELLO)
        chat.ask(HELLO, attempt=1)
        chat.close()
    assert len(server.requests) == 3
    assert all(SECRET not in p.read_text() for p in (tmp_path / 'c').iterdir())


def test_a_budget_stops_before_it_is_exceeded():
    with ChatServer(lambda r: said('x')) as server:
        chat = client(server, price_in=1e4, price_out=1e4, budget=23.0)
        chat.ask(HELLO)
        chat.ask(HELLO)
        with pytest.raises(BudgetSpent, match='raise the budget'):
            chat.ask(HELLO, attempt=chat.usage.calls)
        chat.close()
    assert len(server.requests) == 2
    assert chat.usage.cost <= 23.0
    with pytest.raises(ConfigError, match='prices'):
        ChatSettings(base_url='http://a', model='m', budget=1.0)


def test_a_bad_answer_is_paid_for_and_written_down_too(tmp_path):
    path = tmp_path / 'transcript.jsonl'
    with ChatServer(lambda r: said('x', finish_reason='length')) as server:
        chat = client(server, price_in=1.0, price_out=1.0, transcript=str(path))
        with pytest.raises(ModelBadReply, match='cut off'):
            chat.ask(HELLO)
        chat.close()
    assert chat.usage.cost == pytest.approx(120 / 1e6)
    assert 'cut off' in json.loads(path.read_text())['error']


def test_dry_run_sends_nothing():
    with ChatServer(lambda r: said('x')) as server:
        chat = client(server, dry_run=True, price_in=1.0, price_out=1.0)
        shown = chat.preview(HELLO, NUMBER)
        assert '"be brief"' in shown
        assert f'cost at most {chat.cost_bound(HELLO):.4f}' in shown
        with pytest.raises(ModelError, match='dry run'):
            chat.ask(HELLO)
        chat.close()
    assert server.requests == []


def test_retries_wait_with_jitter_and_as_long_as_asked():
    answers = [(503, {}, b'busy'), (429, {'Retry-After': '7'}, b'slow down'), said('x')]
    waits = []
    with ChatServer(lambda r: answers.pop(0)) as server:
        chat = ChatClient(ChatSettings(base_url=server.url, model='m', http=HttpSettings(
            timeout_s=2.0, attempts=3, backoff_s=1.0)))
        chat.http.sleep, chat.http.jitter = waits.append, lambda: 0.25
        assert chat.ask(HELLO).text == 'x'
        chat.close()
    assert waits == [0.75, 7.0]


def test_no_server_and_a_refusal():
    with ChatServer(lambda r: (401, {}, f'bad key {SECRET}'.encode())) as server:
        chat = client(server)
        with pytest.raises(ModelError, match='HTTP 401') as refused:
            chat.ask(HELLO)
        chat.close()
        assert SECRET not in str(refused.value)
        assert len(server.requests) == 1
    chat = client(server)
    with pytest.raises(ModelUnavailable, match='3 attempts'):
        chat.ask(HELLO)
    chat.close()


@pytest.mark.parametrize('start', [
    b'', b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n'], ids=['head', 'body'])
def test_a_server_that_trickles_holds_nobody(start):
    """A byte now and then keeps a read from timing out; the attempt as a whole has a time."""
    done = threading.Event()

    def trickle(listener):
        with contextlib.suppress(OSError):
            while not done.is_set():
                other, _ = listener.accept()
                threading.Thread(target=drip, args=(other,), daemon=True).start()

    def drip(other):
        with contextlib.suppress(OSError), other:
            other.sendall(start or b'HTTP/1.1 200 OK\r\nX-Slow: ')
            while not done.wait(0.05):
                other.sendall(b'a')

    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        chat = ChatClient(ChatSettings(
            base_url=f'http://127.0.0.1:{listener.getsockname()[1]}', model='m',
            http=HttpSettings(timeout_s=0.5, attempts=2, backoff_s=0.0)))
        began = time.monotonic()
        with pytest.raises(ModelUnavailable, match=r'no whole answer within 0\.5 s'):
            chat.ask(HELLO)
        assert time.monotonic() - began < 5.0
        done.set()
        chat.close()


def test_a_redirect_takes_the_key_nowhere():
    with ChatServer(lambda r: said('x')) as other, ChatServer(
            lambda r: (307, {'Location': other.url + '/chat/completions'}, b'')) as server:
        chat = client(server)
        with pytest.raises(ModelError):
            chat.ask(HELLO)
        chat.close()
    assert other.requests == []


def test_rate_limit():
    waits, now = [], [0.0]
    with ChatServer(lambda r: said('x')) as server:
        chat = ChatClient(ChatSettings(base_url=server.url, model='m', http=HttpSettings(
            requests_per_minute=30.0)))
        chat.http.now, chat.http.sleep = lambda: now[0], waits.append
        for _ in range(3):
            chat.ask(HELLO)
        chat.close()
    assert waits == [2.0, 4.0]


def test_schema_output_is_given_up_where_it_is_not_known():
    def answer(request):
        if 'response_format' in request:
            return 400, {}, b'response_format is not supported'
        return said('{"value": 3}')
    with ChatServer(answer) as server:
        chat = client(server)
        assert chat.ask_json(HELLO, NUMBER)[0] == {'value': 3}
        chat.ask_json(HELLO, NUMBER)
        chat.close()
    assert ['response_format' in r for r in server.requests] == [True, False, False]


def test_a_stream_is_read_whole_or_until_it_is_enough(tmp_path):
    written = []
    text = ' '.join(f'word {k} ünd' for k in range(200))
    with ChatServer(lambda r: streamed(text, written, 0.002)) as server:
        chat = ChatClient(ChatSettings(server.url, 'm', cache=str(tmp_path), price_out=1e6))
        reply = chat.ask(HELLO, enough=lambda text: 'word 9 ' in text)
        assert reply.cut
        assert reply.text.startswith('word 0 ünd word 1')
        assert 'word 9 ' in reply.text
        assert len(reply.text) < 250
        assert reply.tokens_out == -(-len(reply.text) // 4) == round(reply.cost)
        assert not reply.counted
        time.sleep(0.3)
        assert len(written) < 250, 'the server wrote on'
        whole = chat.ask(HELLO, enough=lambda text: False)
        assert (whole.text, whole.cut, whole.tokens_in) == (text, False, 100)
        assert chat.ask(HELLO).cached, 'only what came whole is kept'
        chat.close()
    assert server.requests[0]['stream']
    assert len(server.requests) == 2


@pytest.mark.parametrize(('answer', 'found'), [
    (lambda: streamed('five', [], finish=None), 'cut off'),
    (lambda: streamed('five', [], finish='length'), 'cut off'),
    (lambda: (200, {}, b'data: {"choices": [{}]}\n\n'), 'no text'),
    (lambda: (200, {}, b'data: {"choices"\n\n'), 'no text')])
def test_a_broken_stream_gives_no_text(answer, found):
    with ChatServer(lambda r: answer()) as server:
        chat = client(server)
        with pytest.raises(ModelBadReply, match=found):
            chat.ask(HELLO, enough=lambda text: False)
        assert chat.usage.calls == 1
        chat.close()


def test_a_server_without_streams_answers_whole():
    def answer(request):
        if request.get('stream') and refused:
            return 400, {}, b'stream is not supported'
        return said('{"value": 3}')
    for refused in (False, True):
        with ChatServer(answer) as server:
            chat = client(server)
            for _ in range(2):
                assert chat.ask(HELLO, NUMBER, enough=lambda text: True).text == '{"value": 3}'
            chat.close()
        assert ['stream' in r for r in server.requests] == (
            [True, False, False] if refused else [True, True])
        assert all('response_format' in r for r in server.requests)


BAD_TEXTS = [
    '', ' ', 'fifty', '{"value": 50', '{"value": NaN}', '{"value": Infinity}', '{"value": 1e999}',
    '{"value": "50"}', '{"value": true}', '{"value": null}', '{"value": 101}', '{"value": -1}',
    '{"value": [50]}', '{"valeu": 50}', '{"value": 50, "and": 1}', '{"value": 50, "value": 60}',
    '[50]', '50', 'null', '{"value": 50} and more', 'Sure! {"value": 50}',
    '```json\n{"value": 50}\n```\n```json\n{"value": 60}\n```', '```json\n{"value": 5',
    "{'value': 50}", '{"value": 5O}', '{"value": 0x32}', '[' * 100_000]
BAD_BODIES = [
    b'', b'null', b'<html>busy</html>', b'{"choices": []}', b'{"choices": [{}]}',
    b'{"choices": [{"message": null}]}', b'{"choices": [{"message": "50"}]}',
    b'{"choices": [{"message": {"content": null}}]}', b'{"choices": {"0": {}}}',
    b'{"choices": [{"message": {"content": [{"value": 50}]}}]}', b'\xff\xfe',
    b'{"choices": [{"message": {"content": "{\\"value\\": 50}", "refusal": "no"}}]}',
    b'{"error": {"message": "overloaded"}}']


@pytest.mark.parametrize('answer', [*(said(t) for t in BAD_TEXTS),
                                    *((200, {}, b) for b in BAD_BODIES)])
def test_malformed_answers_never_give_a_number(answer):
    with ChatServer(lambda r: answer) as server:
        chat = client(server)
        with pytest.raises(ModelBadReply):
            chat.ask_json(HELLO, NUMBER, attempts=2)
        chat.close()
    assert len(server.requests) == 2


def test_a_fenced_answer_is_read():
    assert parse_json('Here:\n```json\n{"value": 7}\n```', NUMBER) == {'value': 7}


def test_an_endpoint_must_be_named(monkeypatch):
    monkeypatch.delenv('ARENA_MODEL_URL', raising=False)
    with pytest.raises(ConfigError, match='ARENA_MODEL_URL'):
        ChatClient(ChatSettings())
    monkeypatch.setenv('ARENA_MODEL_URL', 'ftp://x')
    monkeypatch.setenv('ARENA_MODEL', 'm')
    with pytest.raises(ConfigError, match='http'):
        ChatClient(ChatSettings())
