"""Webhooks: what owners are told of, signed, tried again, and to allowed addresses only."""

import json
import re
import socket
import sqlite3
import ssl
import threading
import time
from pathlib import Path

import pytest
from arena_setting import NAMES, STATION, Setting, roll
from http_server import HttpServer
from waiting import until

from arena_robot.cli.main import main
from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.server import app
from arena_robot.server.base import PolicyState, Role
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store import webhooks
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.policies import suspend
from arena_robot.server.store.webhooks import EVENTS, PAUSES_S, SIGNATURE, Webhooks, tell
from arena_robot.session.arena.contract import PROMPT, VERDICT

DOCS = Path(__file__).parents[2] / 'docs' / 'server.md'


class Receiver(HttpServer):
    """Keeps what was posted, and answers with the next of ``codes``, then 204."""

    def __init__(self, *codes):
        super().__init__(None)
        self.codes, self.posts = list(codes), []

    def respond(self, path, body, headers):
        self.posts.append((path, body, headers[SIGNATURE]))
        return self.codes.pop(0) if self.codes else 204, {}, b''

    def events(self):
        return [json.loads(body) for _, body, _ in self.posts]


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture
def desk(database, clock):
    """Accounts 1 and 2, and webhooks of a clock that stands still."""
    accounts = Accounts(database, clock)
    for name in ('olga', 'otto'):
        accounts.add_account(name, 'upenn', [Role.OWNER])
    made = Webhooks(database, clock, lambda host, port: '127.0.0.1')
    yield made
    made.close()


def keep(desk, account=1, event='test', **values):
    with desk._database.write() as connection:
        tell(connection, account, event, values, desk._clock.now_ns())


def send(desk):
    for sending in desk.step():
        sending.result(10.0)


def later(desk, seconds):
    desk._clock.advance_ns(int(seconds * 1e9))
    send(desk)


def test_an_event_arrives_once_with_a_signature_that_the_page_checks(desk, receiver):
    check = {}
    exec(re.search(r'```python\n(.+?is_from_arena.+?)```', DOCS.read_text(), re.DOTALL)[1], check)
    hook = desk.set(1, f'{receiver.url}/arena?lab=1')
    keep(desk, event='policy_suspended', policy='pi0', reason='it läuft nicht')
    send(desk)
    send(desk)
    (path, body, header), = receiver.posts
    assert path == '/arena?lab=1'
    event = json.loads(body)
    assert len(event.pop('id')) == 32
    assert event == {'event': 'policy_suspended', 'created_ns': desk._clock.now_ns(),
                     'policy': 'pi0', 'reason': 'it läuft nicht'}
    now_s, is_from_arena = desk._clock.now_ns() / 1e9, check['is_from_arena']
    assert is_from_arena(hook.secret, header, body, now_s)
    assert not is_from_arena('another', header, body, now_s)
    assert not is_from_arena(hook.secret, header, body + b' ', now_s)
    assert not is_from_arena(hook.secret, header, body, now_s + 301.0)
    assert not is_from_arena(hook.secret, header.replace('t=1', 't=2'), body, now_s + 1e9)
    assert (desk.of(1).waiting, desk.of(1).secret) == (0, '')


def test_a_failure_is_tried_again_after_growing_pauses_and_then_given_up(desk, receiver):
    receiver.codes = [500] * 99
    desk.set(1, receiver.url)
    keep(desk)
    send(desk)
    assert desk.of(1).failure == f'{receiver.url}: it answered 500'
    for count, pause_s in enumerate(PAUSES_S, 1):
        later(desk, pause_s - 1.0)
        assert (len(receiver.posts), desk.of(1).waiting) == (count, 1)
        later(desk, 1.0)
    assert (len(receiver.posts), desk.of(1).waiting) == (len(PAUSES_S) + 1, 0)
    assert len({body for _, body, _ in receiver.posts}) == 1
    assert list(PAUSES_S) == sorted(PAUSES_S)
    assert sum(PAUSES_S) > 86_400.0


def test_what_waits_behind_a_failure_comes_in_its_order(desk, receiver):
    receiver.codes = [500, 301]
    desk.set(1, receiver.url)
    for number in range(3):
        keep(desk, policy=str(number))
    send(desk)
    send(desk)
    assert len(receiver.posts) == 1, 'the others do not overtake it'
    later(desk, PAUSES_S[0])
    later(desk, PAUSES_S[1])
    assert [event['policy'] for event in receiver.events()] == ['0', '0', '0', '1', '2']


def test_events_wait_while_the_server_is_down(tmp_path, pool, receiver):
    receiver.codes = [500]
    setting = Setting(tmp_path / 'server', '', pool)
    try:
        setting.server.webhooks.set(setting.owner.id, receiver.url)
        setting.server.policies.move(NAMES[0], PolicyState.SUSPENDED, 'by maya: slow')
        number = setting.server.policies.get(NAMES[1]).id
        with setting.server.database.write() as connection:
            assert [suspend(connection, number, 'it failed', 1) for _ in range(2)] == [True, False]
        send(setting.server.webhooks)
    finally:
        setting.close()
    again = webhooks.Webhooks(setting.server.database, ManualClock(
        time.time_ns() + int(PAUSES_S[0] * 1e9)), lambda host, port: '127.0.0.1')
    with setting.server.database:
        send(again)
        assert again.of(setting.owner.id).waiting == 0
    first, second, other = receiver.events()
    assert first == second
    assert (other['policy'], other['reason']) == (NAMES[1], 'it failed')
    assert (first['event'], first['policy'], first['reason']) == (
        'policy_suspended', NAMES[0], 'by maya: slow')


def silent(answer):
    """Return a socket that takes connections and sends only ``answer``, again and again."""
    line = socket.create_server(('127.0.0.1', 0))

    def serve():
        try:
            while True:
                peer, _ = line.accept()
                threading.Thread(target=drip, args=(peer,), daemon=True).start()
        except OSError:
            return

    def drip(peer):
        try:
            while True:
                if answer:
                    peer.sendall(answer)
                time.sleep(0.1)
        except OSError:
            return
    threading.Thread(target=serve, daemon=True).start()
    return line


@pytest.mark.parametrize('answer', [b'', b'H'], ids=['nothing', 'a byte now and then'])
def test_a_hook_that_never_answers_holds_nobody_up(desk, receiver, monkeypatch, answer):
    monkeypatch.setattr(webhooks, 'TIMEOUT_S', 0.6)
    with silent(answer) as line:
        desk.set(1, f'http://127.0.0.1:{line.getsockname()[1]}')
        desk.set(2, receiver.url)
        for account in (1, 2):
            keep(desk, account)
        began = time.monotonic()
        sending = desk.step()
        assert time.monotonic() - began < 0.3, 'the step itself waits'
        until(lambda: receiver.posts)
        assert not all(one.done() for one in sending), 'the other one was not waited for'
        for one in sending:
            one.result(5.0)
    assert (desk.of(1).waiting, desk.of(2).waiting) == (1, 0)
    assert desk.of(1).failure.startswith('http://127.0.0.1')


def test_over_tls_the_receiver_must_be_known(desk, receiver, tmp_path, monkeypatch):
    trustme = pytest.importorskip('trustme', reason='trustme is missing: make setup')
    authority, served = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert('localhost').configure_cert(served)
    receiver._server.socket = served.wrap_socket(receiver._server.socket, server_side=True)
    desk.set(1, receiver.url.replace('http://127.0.0.1', 'https://localhost'))
    keep(desk)
    send(desk)
    assert 'CERTIFICATE_VERIFY_FAILED' in desk.of(1).failure
    authority.cert_pem.write_to_path(tmp_path / 'ca.pem')
    monkeypatch.setenv('SSL_CERT_FILE', str(tmp_path / 'ca.pem'))
    later(desk, PAUSES_S[0])
    assert [event['event'] for event in receiver.events()] == ['test']
    desk.set(1, receiver.url.replace('http://', 'https://'))
    keep(desk)
    send(desk)
    assert 'CERTIFICATE_VERIFY_FAILED' in desk.of(1).failure, 'the name is another one'


@pytest.mark.parametrize(('url', 'words'), [
    ('http://10.1.2.3/x', 'not public'), ('https://192.168.0.9', 'not public'),
    ('http://169.254.169.254/latest', 'not public'), ('http://[fd00::1]/', 'not public'),
    ('ftp://8.8.8.8/', 'https://host/path'), ('https://', 'https://host/path'),
    ('https://user:word@8.8.8.8/', 'https://host/path'), ('https://8.8.8.8/a b', 'host/path'),
    ('https://8.8.8.8:99999/', 'no address'), ('https://8.8.8.8/' + 'a' * 500, 'https://host'),
    ('https://8.8.8.8/\r\nX: 1', 'host/path'), ('SELF', 'this server itself')])
def test_addresses_that_a_policy_may_not_have_are_refused(setting, url, words):
    setting.server._own[:] = [('127.0.0.1', 50061)]
    with pytest.raises(DataError, match=words):
        setting.calls('owner')('SetWebhook', pb.WebhookRequest(
            url=url.replace('SELF', 'http://127.0.0.1:50061/')))
    assert setting.server.webhooks.of(setting.owner.id).url == ''


def test_an_address_that_leads_elsewhere_later_is_not_called(desk, receiver):
    desk.set(1, receiver.url)

    def refuse(host, port):
        raise DataError('not public')
    desk._allowed = refuse
    keep(desk)
    send(desk)
    assert not receiver.posts
    assert 'not public' in desk.of(1).failure


def test_no_payload_names_a_policy_before_its_pair_is_public(setting, receiver, folder):
    server = setting.server
    server.webhooks.set(setting.owner.id, receiver.url)
    arena = setting.arena()

    def told():
        send(server.webhooks)
        return b'\n'.join(body for _, body, _ in receiver.posts).decode()
    pair = arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        roll(arena, pair.session_id, slot, folder)
        assert not any(text in told() for text in (*NAMES, pair.session_id))
    invalid = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.abort(invalid, 'the cup broke')
    assert not told()
    arena.feedback(pair.session_id, VERDICT)
    shown = arena.reveal(pair.session_id)
    assert server.sessions.get(pair.session_id).accepted_ns
    assert invalid not in told()
    assert sorted((event['event'], event['policy'], event['session'])
                  for event in receiver.events()) == sorted(
        ('session_finished', name, pair.session_id) for name in (shown.policy_a, shown.policy_b))


def test_who_sends_a_study_is_told_once_without_its_policies(setting, receiver):
    ada = setting.calls('ada')
    ada('SetWebhook', pb.WebhookRequest(url=receiver.url))
    for letter in 'ab':
        ada('StoreLocal', pb.LocalSession(
            study='cup', study_sha256=64 * 'a', policy_a='left-net', policy_b='right-net',
            prompt='put it in', started_ns=1, ended_ns=2, verdict=pb.FeedbackRequest(
                session_id=20 * letter, valid=True, success_a='yes', success_b='no',
                preference='A')))
    send(setting.server.webhooks)
    event, = receiver.events()
    assert (event['event'], event['study'], event['sha256']) == (
        'study_arrived', 'cup', 64 * 'a')
    assert b'-net' not in receiver.posts[0][1]


def test_the_verb_adds_tests_lists_and_removes(tmp_path, receiver, monkeypatch, capsys):
    monkeypatch.setattr(app, 'RECORD_S', 0.2)
    setting = Setting(tmp_path / 'server', '', {})
    monkeypatch.setenv('ARENA_TOKEN', setting.tokens['owner'])

    def verb(*words, code=0):
        assert main(['policy', 'webhook', *words, '--server', setting.target]) == code
        return capsys.readouterr().out
    assert 'nowhere' in verb()
    assert main(['policy', 'webhook', '--test', '--server', setting.target]) == 2
    assert 'arena policy webhook URL' in capsys.readouterr().err
    secret = json.loads(verb(receiver.url, '--json'))['secret']
    assert len(secret) > 40
    assert secret not in verb()
    with sqlite3.connect(tmp_path / 'server' / 'arena.db') as connection:
        (kept,), = connection.execute('SELECT secret FROM webhooks')
    assert kept
    assert secret not in kept, 'it is not sealed'
    assert verb('--test') == f'events are sent to {receiver.url}\nthe test arrived\n'
    receiver.codes = [500]
    assert 'it answered 500' in verb('--test', code=1)
    assert 'the test arrived\n1 wait' in verb('--test'), 'another one failed, not this'
    assert [event['event'] for event in receiver.events()] == ['test'] * 3
    assert 'nowhere' in verb('--remove')
    assert setting.server.webhooks.of(setting.owner.id).waiting == 0
    setting.close()


def test_the_page_lists_the_events():
    rows = re.findall(r'^\| `(\w+)` \| (.+) \|$', DOCS.read_text(), re.MULTILINE)
    assert {name: words for name, words in rows if name in EVENTS} == EVENTS
