"""The public site: what it shows, what it hides, what it refuses."""

import hashlib
import re
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from roboarena_tables import SAMPLE, WHOLE, load, needs_whole

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Preference, Slot
from arena_robot.core.errors import ConfigError, Conflict
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.records.audit_file import EpisodeAudit, read_audit, write_audit
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.config import ServerConfig
from arena_robot.server.files import FileId, ManifestEntry
from arena_robot.server.sessions.matching import Request
from arena_robot.server.store.browse import Browse, Filter
from arena_robot.server.store.policies import NewPolicy
from arena_robot.web.site import view_models
from arena_robot.web.site.charts import NO_LINE
from arena_robot.web.site.example_data import fill
from arena_robot.web.site.result_pages import deciding_clips
from arena_robot.web.site.serve import SiteServer
from arena_robot.web.site.view_models import Board

COMPUTED_S = 30.0    # pictures are drawn one after another, at a fifth of a processor
VIDEO = b'not really a film, but bytes' * 1000
NASTY = '<script>alert("x")</script> \'); DROP TABLE sessions;--'


def finished(server, caller, prompt, verdict, number, rollouts=2):
    """Run a session at the server without a network and return its id."""
    folder = server.config.data
    session = server.matching.assign(caller, Request(f'request-{number:020}', 'ada', prompt))
    for slot in list(Slot)[:rollouts]:
        server.slots.count_rollouts([session.id])
        for step in range(0, 120, 8):
            server.record.answered((session.id, slot.value), step, 0.1, 8)
        write_episode(folder, EpisodeFile(session.id, slot.value, prompt, steps=120))
        files = {'left.mp4': VIDEO, 'A_0.mcap': f'{session.id} {slot.value}'.encode(),
                 'episode.json': (folder / 'episode.json').read_bytes()}
        server.verdicts.episode(
            caller, Episode(session.id, slot, prompt, 120, EndReason.DONE, 0, 8 * 10**9),
            [ManifestEntry(name, len(data), hashlib.sha256(data).hexdigest())
             for name, data in files.items()])
        for name, data in files.items():
            file = FileId(session.id, slot.value, name)
            server.uploads.begin(file, len(data), hashlib.sha256(data).hexdigest())
            server.uploads.append(file, 0, data)
            server.uploads.finish(file)
    server.verdicts.feedback(caller, session.id, verdict)
    return session.id


class Place:
    """A server with a few finished sessions, and its site."""

    def __init__(self, folder, verdicts=6):
        folder.mkdir(parents=True, exist_ok=True)
        logo = folder / 'logo.svg'
        logo.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
        config = ServerConfig(data=folder, port=0, site_port=0, seed=3, probe_period_s=3600.0,
                              max_pace=0.0, title='Arena of <Penn>', contact='ada@upenn.edu',
                              terms='https://example.org/terms', logo=logo)
        self.server = ArenaServer(config, SystemClock(), lambda a: '', lambda a: '',
                                  read_recordings=lambda home: {'A': '', 'B': ''})
        self.server.open()
        accounts = self.server.accounts
        owner = accounts.add_account('olga', 'upenn', [Role.OWNER])
        self.token = accounts.issue(owner)
        self.maintainer = accounts.issue(accounts.add_account('maya', 'nyu', [Role.MAINTAINER]))
        accounts.add_account('ada', 'nyu', [Role.EVALUATOR])
        accounts.add_station(Station(0, 'bench', 'nyu', 'fr3'))
        self.caller = accounts.caller(accounts.issue(accounts.station('bench')))
        for name in ('crimson-7b', 'azure-fast'):
            record = self.server.policies.add(
                NewPolicy(name, 'grpc://127.0.0.1:9', description=NASTY), owner.id,
                PolicyState.POOL)
            self.server.policies.set_health(record.id, True)
        self.sessions = [finished(
            self.server, self.caller, f'open the drawer {k}' if k else NASTY,
            Verdict(progress_a=0.75, progress_b=0.25, preference=list(Preference)[k % 3],
                    explanation=NASTY), k)
            for k in range(verdicts)]
        self.web = SiteServer(self.server, '127.0.0.1', 0)
        self.web.open()
        self.client = httpx.Client(base_url=self.web.address, timeout=20.0)

    def get(self, path, status=200):
        """Ask for a page as a browser does: again while some of it is being computed."""
        until_s = time.monotonic() + COMPUTED_S
        while True:
            answer = self.client.get(path)
            pending = status == 200 and (
                answer.status_code == 503 or 'Some of this page is' in answer.text)
            if not pending or time.monotonic() > until_s:
                assert answer.status_code == status, answer.text[:500]
                return answer
            time.sleep(0.05)

    def close(self):
        self.client.close()
        self.web.close()
        self.server.close()


def write_audits(made):
    """Audit two sessions of a place: against the evaluator, and with him."""
    blobs = made.server.blobs
    for number, ends in ((3, (0.2, 0.9)), (4, (0.1, 0.8))):
        for slot, end in zip('AB', ends, strict=True):
            folder = blobs.local_path(f'{made.sessions[number]}/{slot}/x').parent
            write_audit(folder, EpisodeAudit(
                'x', 'fine', 'm', 'ok', 'paper', 0.005, 1e-8, times_s=tuple(np.arange(8.0)),
                phi=(0.0, 0.5, end, 0.2, 0.2, 0.2, 0.2, end), interval_s=1.0,
                metrics={'mp': max(0.5, end), 'ppl': end / 2, 'cra': 0.1, 'str': 0.4}))
    for slot in 'AB':
        folder = blobs.local_path(f'{made.sessions[3]}/{slot}/x').parent
        write_audit(folder, replace(read_audit(folder / 'audit' / 'fine.json'), judge='local'))


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp('site'))
    write_audits(made)
    yield made
    made.close()


def words_of(page):
    """Return the words of a page without its tags."""
    return re.sub(r'\s+', ' ', re.sub('<[^>]+>', ' ', page))


def test_audits_stand_beside_preferences(place):
    page = words_of(place.get(f'/evaluations/{place.sessions[3]}').text)
    assert 'Local, STR: the judge looks at the arm' in page
    assert 'Fine, STR' not in page
    assert 'Local agrees' not in page
    assert 'Local prefers' not in page
    assert '25 % at 1.0 s, 50 % at 1.0 s, 75 % at 2.0 s' in page
    assert '3.0 to 6.0 s' in page
    assert 'prefers B, against the evaluator' in page
    assert 'Fine agrees with the preference' in words_of(
        place.get(f'/evaluations/{place.sessions[4]}').text)
    picture = place.get(f'/plots/evaluations/{place.sessions[3]}.svg').text
    assert picture.count('class="mark fall') + picture.count('class="mark still') >= 3
    audit, local = place.get('/api/audit').json()
    assert (local['judge'], local['audited'], local['decisive'], local['against']) == (
        'local', 1, 0, [])
    assert 'arm' in local['untrusted']
    assert not audit['untrusted']
    assert (audit['judge'], audit['audited'], audit['agree'], audit['decisive']) == (
        'fine', 2, 1, 2)
    assert [session['session'] for session in audit['against']] == [place.sessions[3]]
    assert audit['institutions'] == [{'name': 'nyu', 'agree': 1, 'decisive': 2}]
    listed = place.get('/audit').text
    assert 'No evaluator is judged by it: the judge looks at the arm' in listed
    assert 'agree in <b>50 %</b> of 2 decisive' in listed
    assert f'/evaluations/{place.sessions[3]}' in listed
    profile, refused = place.get('/api/policies/crimson-7b/audit').json()
    assert [row[0] for row in profile['rows']][:1] == ['all']
    assert profile['rows'][0][2] == 2
    assert 'arm' in refused['refused']['str']
    assert profile['refused'] == {}
    policy = words_of(place.get('/policies/crimson-7b').text)
    assert 'Audit by the judge fine' in policy
    assert 'STR is not computed for some: the judge looks at the arm' in policy
    assert place.get('/api/policies/nobody/audit').json() == []


def test_the_leaderboard_and_its_json_agree(place):
    rows = place.get('/api/standings').json()['standings']
    assert {row['policy'] for row in rows} == {'crimson-7b', 'azure-fast'}
    page = place.get('/').text
    assert page.index(rows[0]['policy']) < page.index(rows[1]['policy'])
    assert place.get('/?method=davidson').status_code == 200
    assert 'no ranking method' in place.get('/?method=nope', 409).text
    refused = place.get('/?method=antigravity:geohash', 409).text
    assert 'is not the name of a ranking method' in refused
    assert 'antigravity' not in sys.modules, 'a request never loads a module'
    assert 'no two of 0 policies' in place.get('/?open_source=true').text


def test_the_matrix_counts_every_verdict_twice(place):
    table = place.get('/api/matrix').json()
    first, second = table['cells'][0][1], table['cells'][1][0]
    assert first['wins'] + first['ties'] + first['losses'] == 6
    assert (first['wins'], first['losses']) == (second['losses'], second['wins'])


def test_an_evaluation_with_both_videos(place):
    session_id = place.sessions[1]
    page = place.get(f'/evaluations/{session_id}').text
    for slot in 'AB':
        assert f'/files/{session_id}/{slot}/left.mp4' in page
    shown = place.get(f'/api/evaluations/{session_id}').json()
    lines = '\n'.join([shown['nonce'], shown['policy_a'], shown['policy_b']])
    assert hashlib.sha256(lines.encode()).hexdigest() == shown['commitment']
    whole = place.get(f'/files/{session_id}/A/left.mp4')
    assert whole.content == VIDEO
    part = place.client.get(f'/files/{session_id}/A/left.mp4', headers={'Range': 'bytes=10-19'})
    assert (part.status_code, part.content) == (206, VIDEO[10:20])


@pytest.mark.parametrize('path', [
    '/evaluations/nope', '/files/x/A/left.mp4', '/files/../A/left.mp4', '/policies/nobody'])
def test_what_is_not_there(place, path):
    assert place.client.get(path).status_code in (400, 404)


def test_the_first_page_shows_the_session_that_decides_and_why(place, monkeypatch):
    page = place.get('/').text
    assert 'the newest session with both videos; too little is known' in words_of(page)
    assert 'name="robot"' not in page, 'all stations have the same robot'
    results, browse = place.server.results, Browse(place.server.database)
    assert [e.verdict.preference for e in browse.page(Filter(policy='crimson-7b')).evaluations
            ][:2] == [Preference.TIE, Preference.B]
    known = tuple(replace(row, shown=replace(row.shown, left=1.0))
                  for row in view_models.board(results, RECOMMENDED).rows)
    monkeypatch.setattr(view_models, 'board', lambda *_: replace(Board(known, '', (), ())))
    decides = deciding_clips(results, browse)
    assert (decides.film.session_id, decides.film.preferred) == (place.sessions[4], 'B')
    assert 'have the two highest scores, and their sessions decide' in decides.why
    gone = replace(known[0], policy='nobody met it')
    monkeypatch.setattr(view_models, 'board', lambda *_: Board((gone, *known), '', (), ()))
    assert 'are next to each other in the standings' in deciding_clips(results, browse).why


def test_a_day_alone_has_no_plot_over_time(place):
    page = place.get('/history').text
    assert 'There is no plot yet' in page
    assert '/plots/history.svg' not in page
    place.client.get('/plots/history.svg')
    assert place.server.results.settle()
    assert NO_LINE in place.get('/plots/history.svg').text


def test_only_videos_are_given_out(place):
    session_id = place.sessions[0]
    assert place.client.get(f'/files/{session_id}/A/metadata.yaml').status_code == 404
    assert place.client.get(f'/files/{session_id}/A/..%2F..%2Farena.db').status_code == 404


def test_only_what_the_episodes_list_is_given_out(place):
    """A station stores a film beside the files of its episode; the site is no place for that."""
    uploads, file = place.server.uploads, FileId(place.sessions[0], 'A', 'film.mp4')
    uploads.begin(file, 4, hashlib.sha256(b'film').hexdigest())
    uploads.append(file, 0, b'film')
    assert uploads.finish(file).complete
    assert place.client.get(f'/files/{place.sessions[0]}/A/film.mp4').status_code == 404
    assert place.client.get(f'/files/{place.sessions[0]}/A/left.mp4').status_code == 200


def test_filters_and_pages(place):
    def ids(query):
        return [e['id'] for e in place.get(f'/api/evaluations?{query}').json()['evaluations']]
    everything = ids('')
    assert set(everything) == set(place.sessions)
    assert len(ids('text=DRAWER')) == 5
    assert ids('text=%25') == [], 'a wildcard is only a character'
    assert sum(len(ids(f'outcome={o}')) for o in ('A', 'B', 'TIE')) == 6
    assert ids('policy=nobody') == []
    assert len(ids('policy=crimson-7b&institution=nyu')) == 6
    paged, key = [], ''
    while True:
        page = place.get(f'/api/evaluations?limit=2&before={key}').json()
        paged += [e['id'] for e in page['evaluations']]
        key = page['next']
        if not key:
            break
    assert paged == everything
    for wrong in ('before=zz', 'outcome=maybe', 'before=1_%27;DROP'):
        answer = place.client.get(f'/api/evaluations?{wrong}')
        assert answer.status_code == (400 if wrong[0] == 'o' or 'zz' in wrong else 200)


def test_a_running_session_shows_nowhere(place):
    prompt = 'a task that is still being run'
    session = place.server.matching.assign(place.caller, Request('r' * 20, 'ada', prompt))
    assert prompt not in place.get('/evaluations').text
    place.get(f'/evaluations/{session.id}', 404)
    place.server.verdicts.abort(place.caller, session.id, 'enough')
    place.get(f'/evaluations/{session.id}', 404)


def test_a_session_that_never_ran_is_revealed_to_nobody_not_even_here(place):
    session_id = finished(place.server, place.caller, 'nothing happened',
                          Verdict(valid=False, invalid_reason='camera'), 99, rollouts=0)
    place.get(f'/evaluations/{session_id}', 404)


def test_the_owners_page_wants_a_token(place):
    assert 'grpc://' not in place.get('/owner').text
    shown = place.client.post('/owner', data={'token': place.token})
    assert shown.status_code == 200
    assert 'crimson-7b' in shown.text
    assert 'grpc://127.0.0.1:9' in shown.text
    assert '0.10 s <small>median' in shown.text
    assert 'when a station draws it' in shown.text
    assert not shown.cookies
    assert place.client.post('/owner', data={'token': 'guess'}).status_code == 403
    for path in ('/', '/evaluations', '/policies/crimson-7b', '/api/policies'):
        assert 'grpc://' not in place.get(path).text, "addresses are their owner's business"


def test_the_arena_has_its_own_title_contact_terms_and_logo(place):
    page = place.get('/').text
    assert '<img src="/logo" alt="" height="24"> Arena of &lt;Penn&gt;</a>' in page
    assert '<a href="mailto:ada@upenn.edu">contact</a>' in page
    assert '<a href="https://example.org/terms">terms</a>' in page
    assert place.get('/logo').headers['content-type'].startswith('image/svg')


@pytest.mark.parametrize('wrong', [{'terms': 'javascript:alert(1)'}, {'contact': 'ada'},
                                   {'logo': Path('logo.html')}])
def test_wrong_words_about_an_arena_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ServerConfig(**wrong)


def test_example_data_fill_a_new_server_and_say_so_on_every_page(place, tmp_path):
    config = ServerConfig(data=tmp_path, port=0, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        fill(server, SystemClock())
        with pytest.raises(Conflict, match='for a new server'):
            fill(server, SystemClock())
        with SiteServer(server, '127.0.0.1', 0) as web, httpx.Client(
                base_url=web.address, timeout=60.0, follow_redirects=True) as client:
            assert server.results.settle()
            for path in ('/', '/policies', '/policies/example-swift', '/evaluations', '/history',
                         '/policies/example-swift/report', '/by/category', '/matrix', '/owner'):
                page = client.get(path)
                assert (page.status_code, 'Example data.' in page.text) == (200, True), path
            front = client.get('/').text
    assert front.count('<video') == 2
    assert 'may be the best' in front
    assert 'Example data.' not in place.get('/').text


def test_a_maintainer_suspends_hides_and_undoes_on_a_page(place):
    def act(do, target, why='', token=place.maintainer, status=200):
        page = place.client.post('/admin', data={'token': token, 'do': do, 'target': target,
                                                 'why': why})
        assert page.status_code == status, page.text[:300]
        return page.text

    session_id = place.sessions[0]
    assert 'bench' not in place.get('/admin').text
    for token in (place.token, 'guess'):
        act('suspend', 'azure-fast', 'why', token, 403)
    page = place.client.post('/admin', data={'token': place.maintainer})
    assert '<td colspan="3">none</td>' in page.text.split('<h2>Hidden texts</h2>')[1][:400]
    assert page.headers['cache-control'] == 'no-store'
    assert all(word in page.text for word in ('bench', 'olga', 'GB free'))
    act('suspend', 'azure-fast', status=400)
    place.server.policies.add(NewPolicy('of-a-study', 'grpc://127.0.0.1:9'), 1, PolicyState.STUDY)
    assert 'is study and cannot become' in act('suspend', 'of-a-study', 'why', status=409)
    assert 'by the maintainer maya: the arm' in act('suspend', 'azure-fast', 'the arm')
    assert '"check again"' in act('suspend', 'azure-fast', 'the arm')
    act('check again', 'azure-fast')
    act('hide texts', session_id, 'markup')
    for path in (f'/evaluations/{session_id}', f'/api/evaluations/{session_id}', '/evaluations',
                 '/feed.xml', '/data/evaluations.jsonl'):
        assert 'hidden by a maintainer' in place.get(path).text, path
    assert place.get(f'/api/evaluations/{session_id}').json()['explanation'] == ''
    assert session_id not in place.get('/evaluations?text=DROP').text
    assert 'maya: markup' in place.client.post('/admin', data={'token': place.maintainer}).text
    assert 'maya: markup' not in act('show texts', session_id)
    assert place.get(f'/api/evaluations/{session_id}').json()['prompt'] == NASTY
    act('erase all', session_id, 'no such action', status=400)
    lines = [(line.call, line.outcome) for line in place.server.audit.lines(12)]
    assert ('hide texts', 'ok') in lines
    assert ('erase all', 'data') in lines
    place.server.policies.move('azure-fast', PolicyState.POOL)


def test_a_taken_port_is_named(place):
    port = int(place.web.address.rsplit(':', 1)[1])
    with pytest.raises(ConfigError, match=f'127.0.0.1:{port}'):
        SiteServer(place.server, '127.0.0.1', port).open()


def test_answers_are_not_held_back_for_the_readers_acknowledgement(place):
    """The last packet of an answer would leave 40 ms later."""
    listener = place.web._web.servers[0].sockets[0]
    assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 'accepted ones inherit it'


@pytest.mark.parametrize(('tables', 'better', 'worse'), [
    (SAMPLE, 'pi0_fast_droid', 'paligemma_binning_droid'),
    pytest.param(WHOLE, 'paligemma_fast_specialist_droid', 'paligemma_binning_droid',
                 marks=needs_whole)], ids=['sample', 'whole'])
def test_the_real_evaluations_are_ranked_within_five_seconds(tables, better, worse, tmp_path):
    started = time.process_time()  # the server computes in this process
    config = ServerConfig(data=tmp_path, port=0, probe_period_s=3600.0)
    with ArenaServer(config, SystemClock(), lambda a: '', lambda a: '') as server:
        load(server.database, tables)
        with SiteServer(server, '127.0.0.1', 0) as web:
            page = httpx.get(web.address, timeout=20.0).text
    assert time.process_time() - started < 5.0
    rows = page[page.index('<tbody'):]
    assert rows.index(better) < rows.index(worse)
    assert '6 of 7 policies may be the best; paligemma_binning_droid is behind.' in page


def test_a_reader_goes_through_the_site_in_a_browser(place, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    browser.get('about:blank')
    time.sleep(0.5)
    browser.get_log('browser')  # what the pages of other tests said
    browser.get(place.web.address)
    assert len(browser.find_elements(By.CSS_SELECTOR, '.board tbody tr')) == 2
    # A handful of sessions: no interval and no rank is claimed.
    assert [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, '.few')] == \
        ['too few to tell'] * 2
    assert not browser.find_elements(By.CSS_SELECTOR, '.bar')
    assert 'sessions at' in browser.find_element(By.TAG_NAME, 'main').text
    browser.find_element(By.LINK_TEXT, 'Evaluations').click()
    Select(browser.find_element(By.NAME, 'outcome')).select_by_visible_text('TIE')
    browser.find_element(By.NAME, 'text').send_keys('drawer')
    browser.find_element(By.XPATH, '//button[text()="Show"]').click()
    WebDriverWait(browser, 10).until(lambda b: 'outcome=TIE' in b.current_url and b.execute_script(
        'return document.readyState') == 'complete')
    tasks = browser.find_elements(By.CSS_SELECTOR, '.task')
    assert tasks
    assert all('drawer' in task.text for task in tasks)
    tasks[0].click()
    WebDriverWait(browser, 10).until(lambda b: '/evaluations/' in b.current_url)
    assert len(browser.find_elements(By.TAG_NAME, 'video')) == 2
    browser.find_element(By.TAG_NAME, 'summary').click()
    assert 'crimson-7b' in browser.find_element(By.TAG_NAME, 'pre').text
    severe = [entry for entry in browser.get_log('browser') if entry['level'] == 'SEVERE'
              and 'mp4' not in entry['message']]
    assert not severe
