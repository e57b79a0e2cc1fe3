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
    Asked,
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
from arena_robot.web.console.serve import ConsoleServer
from arena_robot.web.site.serve import SiteServer

COLUMNS = {'valid': 'valid', 'preference': 'preference', 'explanation': 'feedback_text'}


def sample(place, one):
    """Return a value of a field that no other field has."""
    if one.kind is Kind.SHARE:
        return (31 + place) / 100
    if one.kind is Kind.CHOICE:
        return list(one.choices)[place % len(one.choices)]
    return one.name != 'valid' if one.kind is Kind.FLAG else f'ö <b> & {one.name} {place}'


SAID = from_plain({one.name: sample(place, one) for place, one in enumerate(FIELDS)})


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
        self.station = Station(folder / 'station')
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

    def words(self, asked, slot=None):
        """Return what is typed for the fields asked at one moment, as the page's list has them."""
        listed = [one for one in self.page.get('/api/options').json()['fields']
                  if (one['asked'], one['slot']) == (asked.value, slot and slot.value)]
        assert [one['name'] for one in listed] == [
            one.name for one in asked_at(asked, slot) if one.slot is slot]
        plain = to_plain(SAID)
        return {one['key']: 100 * plain[one['name']] if one['kind'] == 'share'
                else plain[one['name']] for one in listed}

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

    def drafted(self, asked, slot=None):
        """Type a draft; it comes back to a page that is opened anew."""
        words = self.words(asked, slot)
        self.post('draft', **({'slot': slot.value} if slot else {}), **words)
        draft = self.page.get('/api/state').json()['draft']
        for one in asked_at(asked, slot):
            if one.slot is slot:
                assert draft[one.name] == to_plain(SAID)[one.name], one.name
                self.post('draft', **({'slot': slot.value} if slot else {}), **{one.key: ''
                          if one.kind is not Kind.SHARE else None})
                draft = self.page.get('/api/state').json()['draft']
                assert draft[one.name] == to_plain(Verdict())[one.name], one.name


@pytest.fixture
def walk(tmp_path):
    with Walk(tmp_path) as walk:
        yield walk


@pytest.mark.parametrize('valid', [True, False])
def test_every_field_comes_from_the_page_to_the_site(walk, valid, tmp_path):
    session_id, said = walk.session(valid)
    assert walk.desk.state().verdict == (
        said if valid else from_plain({**to_plain(said), 'preference': SAID.preference.value}))
    folder = walk.station.folder / 'sessions' / session_id
    record = replay(read_journal(folder / JOURNAL))
    assert record.final_verdict() == said
    assert read_session(folder).verdict == record.verdict
    assert walk.setting.server.sessions.get(session_id).verdict == said
    server = walk.setting.server
    if not valid:    # its names are told once both policies have left the pool
        for name in 'xyz':
            server.policies.move(name, PolicyState.RETIRED)
    browse = Browse(server.database)
    assert browse.evaluation(session_id)[0].verdict == said
    [downloaded] = materialise(browse, server.uploads, server.blobs,
                               tmp_path / 'download')
    assert read_session(downloaded).verdict == said
    check_tables(server.database, tmp_path / 'csv', said)
    check_site(httpx.Client(base_url=walk.site.address), session_id, said)


def check_tables(database, folder, said):
    sessions, episodes = ([*csv.DictReader(path.open(encoding='utf-8'))]
                          for path in export_tables(database, folder))
    plain = {**to_plain(said), 'valid': int(said.valid)}
    for name, column in COLUMNS.items():
        assert sessions[0][column] == str(plain[name] or '0' * (name == 'valid')), name
    scores = {row['letter']: float(row['partial_success']) for row in episodes}
    assert scores == {'A': said.progress_a, 'B': said.progress_b}


def check_site(site, session_id, said):
    shown = site.get(f'/api/evaluations/{session_id}').json()
    page = html.unescape(site.get(f'/evaluations/{session_id}').text)
    for one in FIELDS:
        value = getattr(said, one.name)
        assert shown[one.name] == one.plain(value), one.name
        if one.on_site and one.is_said(value):
            where = (f'<b>{100 * value:.0f}</b> of 100' if one.key == 'progress'
                     else f'<dt>{one.label}</dt><dd>{one.words(value)}</dd>')
            assert where in page, one.name
    assert '<b> & ' in page
    site.close()


def test_the_two_walks_say_every_field():
    for one in FIELDS:
        assert getattr(SAID, one.name) not in (None, ''), one.name
    texts = [getattr(SAID, one.name) for one in FIELDS if one.kind in (Kind.TEXT, Kind.SHARE)]
    assert len(set(texts)) == len(texts)


def test_a_field_that_is_missing_somewhere_is_named():
    with pytest.raises(ConfigError, match='the message lacks notes_b, declared in core/verdict'):
        need_fields('the message', set(NAMES) - {'notes_b'})
    with pytest.raises(ConfigError, match='the message has colour, which is no field'):
        need_fields('the message', [*NAMES, 'header', 'colour'], ['header'])
