"""Every field of a verdict on its way from the evaluator's page to the page of the site."""

import csv
import html
import sys
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent / 'session'))
sys.path.insert(0, str(Path(__file__).parent / 'server'))

from arena_setting import Setting, proven, recorded
from fake_desk import InProcessDesk
from fake_station import FakePolicy
from test_conductor import TASK, Station

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ConfigError
from arena_robot.core.verdict import (
    FIELDS,
    NAMES,
    OPTIONAL,
    Asked,
    Extras,
    Kind,
    Verdict,
    asked_at,
    from_plain,
    need_fields,
    to_plain,
)
from arena_robot.nodes.lib.session_messages import (
    desk_state,
    draft_request,
    drafted_words,
    feedback_message,
    state_message,
    verdict_of,
)
from arena_robot.records.session_file import JOURNAL, read_journal, read_session
from arena_robot.server.base import PolicyState
from arena_robot.server.results.exports import export_tables, materialise
from arena_robot.server.store.browse import Browse
from arena_robot.session.protocol.record import replay
from arena_robot.session.protocol.states import State
from arena_robot.web.console.app import ConsoleServer
from arena_robot.web.site.serve import SiteServer

EXTRAS = Extras(OPTIONAL, ('ö <b> & reach', 'grasp'), ('ö <b> & stuck', 'collision', 'lost'))
COLUMNS = {'valid': 'valid', 'preference': 'preference', 'explanation': 'feedback_text'}


def sample(place, field):
    """Return a value of a field that no other field has."""
    if field.kind is Kind.SHARE:
        return (31 + place) / 100
    if field.kind is Kind.CHOICE:
        return list(field.choices)[0 if field.key == 'success' else place % len(field.choices)]
    if field.kind is Kind.NUMBER:
        return 2 + place if field.whole else place + 0.25
    if field.kind is Kind.LISTED:
        return '; '.join(EXTRAS.words(field)[:1 + field.many])
    return field.name != 'valid' if field.kind is Kind.FLAG else f'ö <b> & {field.name} {place}'


SAID = from_plain({field.name: sample(place, field) for place, field in enumerate(FIELDS)})


class WiredDesk(InProcessDesk):
    """Passes everything through the ROS messages, as a desk in another process does."""

    def state(self):
        return desk_state(state_message(super().state()))

    def score(self, slot, verdict):
        super().score(slot, verdict_of(feedback_message(verdict)))

    def judge(self, verdict):
        super().judge(verdict_of(feedback_message(verdict)))

    def draft(self, words):
        super().draft(drafted_words(draft_request(words)))

    def views(self):
        return ()


class ServedArena:
    """The server as the station's arena, with made-up policies."""

    def __init__(self, setting, clock):
        self.setting, self.arena, self.clock = setting, setting.arena(), clock

    def policy(self, session_id, slot):
        self.setting.server.slots.count_rollouts([session_id])
        record = self.setting.server.record

        class Relayed(FakePolicy):
            def infer(self, observation, episode=''):
                chunk = super().infer(observation, episode)
                record.answered((session_id, slot.value), observation.step, 0.02, len(chunk))
                return chunk
        return Relayed(self.clock)

    def upload(self, session_id, episode, folder):
        recorded(folder, session_id, slot=episode.slot, steps=episode.steps)
        self.arena.upload(session_id, episode, folder)

    def __getattr__(self, name):
        return getattr(self.arena, name)


class Walk:
    """A station with its page, the arena server and its site; one session on the way."""

    def __init__(self, folder):
        self.folder = folder
        self.setting = Setting(folder / 'server', '', dict.fromkeys('xyz', 'grpc://127.0.0.1:9'),
                               read=proven)
        self.station = Station(folder / 'station', extras=EXTRAS)
        self.station.arena.arena = ServedArena(self.setting, self.station.clock)
        self.desk = WiredDesk(self.station.conductor)
        self.console = ConsoleServer(self.desk, port=0)
        self.site = SiteServer(self.setting.server, '127.0.0.1', 0)

    def __enter__(self):
        self.console.open()
        self.site.open()
        self.page = httpx.Client(base_url=self.console.url, timeout=20.0)
        self.page.headers['X-Seat'] = self.page.post('/api/sit', json={}).json()['seat']
        return self

    def __exit__(self, *_):
        self.page.close()
        self.console.close()
        self.site.close()
        self.setting.close()

    def post(self, path, **words):
        answer = self.page.post(f'/api/{path}', json=words)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def reach(self, state):
        """Wait for a state; the page gives its commands without waiting for what they do."""
        for _ in range(2000):
            if self.desk.state().state is state:
                return
            self.desk.wait_change(self.desk.state(), 0.01)
        raise AssertionError(f'{self.desk.state().state} instead of {state}: {self.desk.errors}')

    def words(self, moment, slot=None):
        """Return what is typed for the fields asked at one moment, as the page's list has them."""
        listed = [field for field in self.page.get('/api/options').json()['fields']
                  if (field['asked'], field['slot']) == (moment.value, slot and slot.value)]
        assert [field['name'] for field in listed] == [
            field.name for field in asked_at(moment, slot) if field.slot is slot]
        plain = to_plain(SAID)
        return {field['key']: 100 * plain[field['name']] if field['kind'] == 'share'
                else plain[field['name']] for field in listed}

    def session(self, valid):
        """Lead a session by the page and return its id and the verdict that was submitted."""
        self.post('press', button='check')
        self.post('open', evaluator='ada', instruction=TASK)
        self.post('press', button='photograph')
        for slot, scoring in ((Slot.A, State.SCORING_A), (Slot.B, State.SCORING_B)):
            self.post('start', slot=slot.value)
            self.reach(scoring)
            self.drafted(Asked.SCORE, slot)
            self.post('score', slot=slot.value, **self.words(Asked.SCORE, slot))
            if slot is Slot.A:
                self.post('press', button='confirm_reset')
        self.drafted(Asked.JUDGE)
        self.post('judge', **self.words(Asked.JUDGE))
        if not valid:
            self.post('press', button='invalidate', text=SAID.invalid_reason)
        self.post('submit')
        self.reach(State.DONE)
        gone = {'valid', 'invalid_reason'} if valid else {'preference'}
        start = to_plain(Verdict())
        plain = {name: start[name] if name in gone else value
                 for name, value in to_plain(SAID).items()}
        return self.desk.state().session_id, from_plain({**plain, 'valid': valid})

    def drafted(self, moment, slot=None):
        """Type a draft; it comes back to a page that is opened anew."""
        words = self.words(moment, slot)
        self.post('draft', **({'slot': slot.value} if slot else {}), **words)
        draft = self.page.get('/api/state').json()['draft']
        for field in asked_at(moment, slot):
            if field.slot is slot:
                assert draft[field.name] == to_plain(SAID)[field.name], field.name
                self.post('draft', **({'slot': slot.value} if slot else {}), **{field.key: ''
                          if field.kind is not Kind.SHARE else None})
                draft = self.page.get('/api/state').json()['draft']
                assert draft[field.name] == to_plain(Verdict())[field.name], field.name


@pytest.fixture
def walk(tmp_path):
    with Walk(tmp_path) as walk:
        yield walk


@pytest.mark.parametrize('valid', [True, False])
def test_every_field_comes_from_the_page_to_the_site(walk, valid, tmp_path):
    session_id, verdict = walk.session(valid)
    assert walk.desk.state().verdict == (
        verdict if valid
        else from_plain({**to_plain(verdict), 'preference': SAID.preference.value}))
    folder = walk.station.folder / 'sessions' / session_id
    record = replay(read_journal(folder / JOURNAL))
    assert record.final_verdict() == verdict
    assert read_session(folder).verdict == record.verdict
    assert walk.setting.server.sessions.get(session_id).verdict == verdict
    server = walk.setting.server
    if not valid:    # its names are told once both policies have left the pool
        for name in 'xyz':
            server.policies.move(name, PolicyState.RETIRED)
    browse = Browse(server.database)
    assert browse.evaluation(session_id)[0].verdict == verdict
    [downloaded] = materialise(browse, server.uploads, server.blobs,
                               tmp_path / 'download')
    assert read_session(downloaded).verdict == verdict
    check_tables(server.database, tmp_path / 'csv', verdict)
    check_site(httpx.Client(base_url=walk.site.address), session_id, verdict)


def check_tables(database, folder, verdict):
    sessions, episodes = ([*csv.DictReader(path.open(encoding='utf-8'))]
                          for path in export_tables(database, folder))
    plain = {**to_plain(verdict), 'valid': int(verdict.valid)}
    for name, column in COLUMNS.items():
        assert sessions[0][column] == str(plain[name] or '0' * (name == 'valid')), name
    scores = {row['letter']: float(row['partial_success']) for row in episodes}
    assert scores == {'A': verdict.progress_a, 'B': verdict.progress_b}
    for row in episodes:
        for key in OPTIONAL:
            column = 'binary_success' if key == 'success' else key
            said = verdict.of_slot(key, row['letter'])
            assert row[column] == ('1' if key == 'success' else str(said)), key


def check_site(site, session_id, verdict):
    shown = site.get(f'/api/evaluations/{session_id}').json()
    page = html.unescape(site.get(f'/evaluations/{session_id}').text)
    for field in FIELDS:
        value = getattr(verdict, field.name)
        assert shown[field.name] == field.plain(value), field.name
        if field.on_site and field.is_said(value):
            where = (f'<b>{100 * value:.0f}</b> of 100' if field.key == 'progress'
                     else value if field.key in ('explanation', 'invalid_reason')    # on top
                     else f'<dt>{field.label}</dt><dd>{field.words(value)}</dd>')
            assert where in page, field.name
    assert '<b> & ' in page
    site.close()


def test_the_two_walks_say_every_field():
    for field in FIELDS:
        assert getattr(SAID, field.name) not in (None, ''), field.name
    texts = [getattr(SAID, field.name) for field in FIELDS
             if field.kind in (Kind.TEXT, Kind.SHARE)]
    assert len(set(texts)) == len(texts)


def test_a_field_that_is_missing_somewhere_is_named():
    with pytest.raises(ConfigError, match='the message lacks notes_b, declared in core/verdict'):
        need_fields('the message', set(NAMES) - {'notes_b'})
    with pytest.raises(ConfigError, match='the message has colour, which is no field'):
        need_fields('the message', [*NAMES, 'header', 'colour'], ['header'])
