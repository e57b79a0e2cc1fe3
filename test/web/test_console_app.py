"""The console's interface: what is shown, who may command, what is refused."""

import dataclasses
import gc
import os
import signal
from contextlib import contextmanager

import httpx
import pytest
from waiting import until

from arena_robot.cli.main import main
from arena_robot.core import tuning
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import Conflict, NotConnected, SessionError
from arena_robot.core.process import end_signals
from arena_robot.core.verdict import Extras, Verdict
from arena_robot.session.evaluator.desk import DeskState, RunView, SlotView
from arena_robot.session.protocol.states import State
from arena_robot.web.console import app as console_app
from arena_robot.web.console.app import ConsoleServer


class FakeDesk:
    """Writes down what is asked of it."""

    def __init__(self):
        self.now, self.log, self.fail, self.run = DeskState(), [], None, None

    def state(self):
        return self.now

    def wait_change(self, seen, timeout_s):
        self.log.append(('wait', timeout_s))
        return self.now

    def running(self):
        return self.run

    def take(self, name, take_over=False):
        self.now = dataclasses.replace(self.now, control=name)

    def views(self):
        return ('left_left', 'wrist_left')

    address = 'https://arena.example.org/'

    def site(self):
        return self.address

    def consent(self):
        return 'Cameras record you; ask Ada for deletion.'

    asks = Extras()

    def extras(self):
        return self.asks

    def frame(self, view):
        return b'jpeg' if view == 'left_left' else None

    reference = frame

    def frame_age_s(self, view):
        return self.age_s(view) if view == 'left_left' else None

    def age_s(self, view):
        return 0.02

    def clip(self, slot, view):
        return (b'one', b'second') if slot is Slot.A else ()

    def today(self):
        return [dataclasses.replace(DeskState(), state=State.DONE, instruction='close the drawer')]

    def start(self, slot, attended):
        self.attended = attended
        self.log.append(('start', slot))

    def __getattr__(self, name):
        def call(*words, **more):
            if self.fail:
                raise self.fail
            self.log.append((name, *words, *more.values()))
        return call


@pytest.fixture
def desk():
    return FakeDesk()


@pytest.fixture
def web(desk):
    with ConsoleServer(desk, port=0) as server, httpx.Client(base_url=server.url) as client:
        yield client


def seated(web):
    seat = web.post('/api/sit', json={'name': 'tablet'}).json()['seat']
    return {'X-Seat': seat}


def test_the_page_and_its_files(web):
    assert 'STOP' in web.get('/').text
    for name in ('console.css', 'console.js', 'panels.js', 'verdict.js', 'buttons.js', 'views.js',
                 'api.js', 'dom.js', 'stop.js', 'deliberate.js', 'line.js'):
        assert web.get(f'/static/{name}').status_code == 200
    assert web.get('/static/../console_app.py').status_code == 404


def test_an_audit_is_shown_once_its_session_is_done(desk):
    announced = [{'session_id': 's1', 'judge': 'local'}, {'session_id': 's2', 'judge': 'local'}]
    with ConsoleServer(desk, port=0, audits=lambda: announced) as server, httpx.Client(
            base_url=server.url) as client:
        for state in State:
            desk.now = DeskState(state, session_id='s1')
            assert client.get('/api/audit').json() == (announced[0] if state is State.DONE else {})
        desk.now = DeskState(State.DONE, session_id='other')
        assert client.get('/api/audit').json() == {}
        assert 'auditBox' in client.get('/static/audit.js').text


def test_the_state_is_plain_and_long_polls_wait(web, desk):
    desk.now = DeskState(State.REVIEW, slots=(SlotView(Slot.A, 'done', '', 7),
                                              SlotView(Slot.B)),
                         verdict=Verdict(progress_a=0.5), draft=Verdict(progress_b=0.25))
    first = web.get('/api/state').json()
    assert (first['state'], first['verdict']['progress_a']) == ('review', 0.5)
    assert first['draft']['progress_b'] == 0.25
    assert desk.log == []
    web.get('/api/state', params={'seen': first['version'], 'wait': 2.0})
    assert desk.log == [('wait', 2.0)]
    assert web.get('/api/state', params={'wait': 1000}).status_code == 422
    desk.run = RunView(Slot.A, 3, 400, 0.2)
    assert web.get('/api/state').json()['running']['steps'] == 3


def test_pictures(web):
    assert web.get('/api/frame/left_left').content == b'jpeg'
    assert web.get('/api/frame/left_left').headers['x-age-s'] == '0.020'
    assert web.get('/api/clip/A/left_left').content == b'\0\0\0\3one\0\0\0\6second'
    assert web.get('/api/clip/B/left_left').content == b''
    assert web.get('/api/clip/C/left_left').status_code == 422
    assert web.get('/api/frame/wrist_left').status_code == 404
    assert web.get('/api/reference/left_left').headers['content-type'] == 'image/jpeg'


def test_an_instruction_is_looked_at_while_it_is_typed(web):
    def look(text):
        return web.get('/api/instruction', params={'text': text}).json()
    assert 'one word' in look('grasp')['problem']
    assert look('open the drawer') == {'problem': '', 'repeat': False}
    assert look('Close  the drawer!')['repeat'] is True


def test_commands_need_the_seat_and_stop_does_not(web, desk):
    for path, words in (('press', {'button': 'check'}), ('submit', {}), ('start', {'slot': 'A'})):
        answer = web.post(f'/api/{path}', json=words)
        assert (answer.status_code, answer.json()['detail']) == (409, 'take control first')
    assert web.post('/api/stop').status_code == 200
    assert desk.log == [('stop',)]
    mine = seated(web)
    assert web.get('/api/state', headers=mine).json()['seated'] is True
    assert web.get('/api/state').json()['seated'] is False
    answer = web.post('/api/press', json={'button': 'check'}, headers={'X-Seat': 'guess'})
    assert answer.status_code == 409
    assert "'tablet' controls" in answer.json()['detail']
    assert web.post('/api/press', json={'button': 'check'}, headers=mine).status_code == 200


def test_a_second_browser_must_say_that_it_takes_over(web, desk):
    first = seated(web)
    assert web.post('/api/sit', json={'name': 'desk'}).status_code == 409
    second = web.post('/api/sit', json={'name': 'desk', 'take_over': True}).json()['seat']
    assert web.post('/api/submit', headers=first).status_code == 409
    assert web.post('/api/submit', headers={'X-Seat': second}).status_code == 200
    desk.now = dataclasses.replace(desk.now, control='terminal')
    answer = web.post('/api/sit', json={'name': 'desk'})
    assert (answer.status_code, "'terminal'" in answer.json()['detail']) == (409, True)


def test_every_command_reaches_the_desk(web, desk):
    mine = seated(web)
    calls = [
        ('open', {'evaluator': 'ada', 'instruction': 'close it', 'repeat': True,
                  'third_person': 'right'}),
        ('press', {'button': 'abort', 'text': 'broken'}), ('start', {'slot': 'B'}),
        ('score', {'slot': 'A', 'progress': 75, 'notes': 'slow'}),
        ('judge', {'preference': 'TIE', 'explanation': 'the same', 'notes': ''}),
        ('draft', {'explanation': 'the sa'}),
        ('draft', {'slot': 'B', 'progress': 10, 'notes': ''}),
        ('draft', {'evaluator': 'ada', 'instruction': ''}), ('submit', {})]
    for path, words in calls:
        assert web.post(f'/api/{path}', json=words, headers=mine).status_code == 200, path
    assert desk.log == [
        ('open_session', 'ada', 'close it', True, 'right'), ('press', 'abort', 'broken'),
        ('start', Slot.B), ('score', Slot.A, Verdict(progress_a=0.75, notes_a='slow')),
        ('judge', Verdict(preference=Preference.TIE, explanation='the same')),
        ('draft', {'explanation': 'the sa'}), ('draft', {'progress_b': 0.1, 'notes_b': ''}),
        ('draft', {'evaluator': 'ada', 'instruction': ''}), ('submit',)]


@pytest.mark.parametrize(('path', 'words'), [
    ('start', {'slot': 'C'}), ('start', {}), ('score', {'slot': 'A'}),
    ('score', {'slot': 'A', 'progress': 'much'}), ('score', {'slot': 'A', 'progress': None})])
def test_bad_words_are_named(web, desk, path, words):
    answer = web.post(f'/api/{path}', json=words, headers=seated(web))
    assert answer.status_code == 422
    assert desk.log == []


def test_a_refusal_keeps_its_words(web, desk):
    mine = seated(web)
    for error, code in ((SessionError('B did not run'), 400), (Conflict('closed'), 409)):
        desk.fail = error
        answer = web.post('/api/submit', headers=mine)
        assert (answer.status_code, answer.json()['detail']) == (code, str(error))


def test_another_name_for_this_machine_is_refused(desk):
    with ConsoleServer(desk, port=0) as server:
        assert httpx.get(server.url, headers={'Host': 'evil.example'}).status_code == 400


def test_a_token_is_asked_for(desk):
    with ConsoleServer(desk, port=0, token='sesame') as server, \
            httpx.Client(base_url=server.url.split('?')[0]) as web:
        for path in ('/', '/api/state', '/static/console.js'):
            assert web.get(path).status_code == 401
        assert web.post('/api/stop').status_code == 401
        assert web.get('/', params={'token': 'wrong'}).status_code == 401
        assert web.get('/api/state', headers={'Authorization': 'Bearer sesame'}).status_code == 200
        assert web.get('/', params={'token': 'sesame'}).status_code == 200
        assert web.get('/api/state').status_code == 200


def test_a_server_of_its_own(desk):
    with ConsoleServer(desk, port=0) as server:
        assert server.url.startswith('http://localhost:')
        port = int(server.url.rsplit(':', 1)[1].strip('/'))
        with pytest.raises(NotConnected, match='another with --port'):
            ConsoleServer(desk, port=port).open()
    with ConsoleServer(desk, '0.0.0.0', 0) as server:
        assert '?token=' in server.url


def test_the_desk_is_attended_while_the_page_in_the_seat_asks(web, desk, monkeypatch):
    monkeypatch.setattr(console_app, 'ATTENDED_S', 0.2)
    seat = web.post('/api/sit', json={}).json()['seat']
    web.post('/api/start', json={'slot': 'A'}, headers={'X-Seat': seat})
    assert desk.attended()
    until(lambda: not desk.attended())
    web.get('/api/state')
    assert not desk.attended()  # somebody else's page
    web.get('/api/state', headers={'X-Seat': seat})
    assert desk.attended()


class Page:
    """A page that is served until Ctrl-C, which comes at once."""

    @property
    def url(self):
        os.kill(os.getpid(), signal.SIGINT)
        return 'http://localhost:1/'

    def watch_views(self):
        pass


@contextmanager
def open_page(*_, **__):
    yield Page()


def test_what_exists_is_left_out_of_collections_before_the_page_is_served(monkeypatch, capsys):
    """Collections of it would hold up STOP."""
    pytest.importorskip('rclpy', reason='ROS 2 is not installed')
    done = []
    monkeypatch.setattr(tuning, 'keep_what_exists', lambda: done.append('kept'))
    monkeypatch.setattr('arena_robot.nodes.remote.desk.RemoteDesk', open_page)
    monkeypatch.setattr('arena_robot.nodes.remote.desk.RemoteAudits', lambda desk: tuple)
    monkeypatch.setattr('arena_robot.web.console.app.ConsoleServer', open_page)
    before = {number: signal.getsignal(number) for number in end_signals()}
    try:
        assert main(['console']) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert done == ['kept']
    assert "the evaluator's page: http" in capsys.readouterr().out


def test_what_exists_is_left_out():
    try:
        tuning.keep_what_exists()
        assert gc.get_freeze_count() > 10 * len(gc.get_objects())
    finally:
        gc.unfreeze()
