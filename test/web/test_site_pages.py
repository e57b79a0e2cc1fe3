"""Past standings, plots, cards, badges, the session page's curves and its commitment."""

import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
from PIL import Image
from selenium.webdriver.support.ui import WebDriverWait
from test_site import NASTY, Place, finished
from test_site_results import film

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.plots import CardLine, card_figure, plot_standings
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.records.audit_file import EpisodeAudit, write_audit
from arena_robot.records.episode_file import SceneMatch, read_arrays, write_scene_match
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.reports.policy_report.statements import (
    CheckCounts,
    Citation,
    PolicyReport,
    ReportSection,
    Statement,
    report_to_json,
)
from arena_robot.server.results.standings import Results
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.server.store.reports import Reports
from arena_robot.server.store.schema import files
from arena_robot.web.site.history import FILE, MethodChanges, chosen_days
from arena_robot.web.site.recorded import rollout_of

MATHS = 'cost $x_{y$'


def steps(count=60, speed=0.5, **more):
    moving = np.arange(count) < count // 2
    data = io.BytesIO()
    np.savez_compressed(data, stamp_ns=np.arange(count) * 10**9 // 15,
                        gripper_position=np.linspace(0, 1, count),
                        joint_velocity=np.outer(moving * speed, np.ones(7)), **more)
    return data.getvalue()


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp('site')
    made = Place(folder)
    for number in range(12):
        made.sessions.append(finished(made.server, made.caller, 'lift the cup', Verdict(
            progress_a=0.2, progress_b=0.8, preference=list(Preference)[number % 3],
            explanation='B was quicker'), 100 + number))
    insert_evaluations(made.server.database, SystemClock(), [RoboArenaSession(
        f'import-{k}', MATHS, 'crimson-7b', True, Preference.A, 'penn', 'ada',
        f'2025-03-{21 + k}T11:02:24', f'2025-03-{21 + k}T11:12:24', 'fine', rollouts=())
        for k in range(2)])
    assert made.server.results.settle()
    blobs = made.server.blobs
    for slot, count in (('A', 60), ('B', 45)):
        home = blobs.local_path(f'{made.sessions[0]}/{slot}/left.mp4')
        home.write_bytes(film(folder / f'{slot}.mp4', count))
        home.with_name('steps.npz').write_bytes(steps(count))
        if slot == 'B':
            write_scene_match(home.parent, SceneMatch(0.82, {'left_left': 0.82, 'wrist_left': 1}))
    for number, judge in ((1, 'fine'), (2, 'sent')):
        home = blobs.local_path(f'{made.sessions[number]}/A/steps.npz')
        home.write_bytes(steps(30, **{
            'progress/stamp_ns': np.arange(20) * 10**8, 'progress/value': np.linspace(0, .7, 20)}
            if number == 1 else {}))
        write_audit(home.parent, EpisodeAudit(
            'x', judge, 'm', 'ok', 'paper', 0.1, 1e-8, times_s=(0.0, 1.0, 2.5),
            phi=(0.0, 0.4, 2.0), calibrated=number == 1))
    with made.server.database.write() as connection:
        connection.execute(sa.insert(files).values(
            session_id=made.sessions[2], slot='A', path='audit/sent.json', size=1, sha256='0' * 64,
            received=1, complete=True, updated_ns=0))
    yield made
    made.close()


def words_of(page):
    return re.sub(r'\s+', ' ', re.sub('<[^>]+>', ' ', page))


def test_a_policy_has_one_interval_on_all_pages_plots_and_in_the_report(place, tmp_path):
    row = next(r for r in place.get('/api/standings').json()['standings']
               if r['policy'] == 'crimson-7b')
    words = f"{row['low']:.2f} to {row['high']:.2f}"
    ranks = f"{row['rank_low']}–{row['rank_high']} tied"
    for path in ('/', '/policies/crimson-7b', '/plots/standings.svg', '/history'):
        assert words in place.get(path).text, path
        assert ranks in place.get(path).text, path
    assert ranks in place.get('/badge/crimson-7b.svg').text
    assert ranks in words_of(place.get('/policies').text)
    last = place.get('/api/history').json()['days'][-1]['standings']
    assert {row['policy']: (row['low'], row['high']) for row in last}['crimson-7b'] == (
        row['low'], row['high'])
    # The report ranks the same sessions by the same method.
    standings, _ = rank_comparable(Comparisons.from_words(place.server.results.comparisons()),
                                   RECOMMENDED, intervals=1000)
    plot_standings(standings, tmp_path / 'report.svg')
    k = standings.items.index('crimson-7b')
    assert (standings.low[k], standings.high[k]) == (row['low'], row['high'])


def test_of_too_few_no_page_states_a_rank(place):
    board = place.get('/').text
    assert board.index('crimson-7b</a>') < board.index(f'{MATHS}</a>'), 'it is listed last'
    name = 'cost%20%24x_%7By%24'
    assert 'too few to tell' in place.get(f'/badge/{name}.svg').text
    page = words_of(place.get(f'/policies/{name}').text)
    assert 'Rank, score too few to tell' in page
    rows = {r['policy']: r for r in place.get('/api/standings').json()['standings']}
    assert (rows[MATHS]['too_few'], rows[MATHS]['low']) == (True, None)


@pytest.mark.parametrize('path', ['standings.svg', 'matrix.svg', 'history.svg', 'by/category.svg',
                                  'by/institution.svg', 'standings.svg?method=elo'])
def test_plots_are_svg_and_names_are_no_formulas(place, path):
    if 'method' in path:    # who asks for a slow method first may be told to ask again
        place.client.get(f'/plots/{path}')
        assert place.server.results.settle()
    answer = place.get(f'/plots/{path}')
    assert answer.headers['content-type'] == 'image/svg+xml'
    ET.fromstring(answer.text)
    if 'history' not in path:    # two sessions are too few to be drawn
        assert MATHS in answer.text


@pytest.mark.parametrize('path', ['/card.png', '/card/crimson-7b.png'])
def test_links_have_a_card(place, path):
    with Image.open(io.BytesIO(place.get(path).content)) as picture:
        assert picture.size == (1200, 630)
    page = place.get('/policies/crimson-7b' if 'crimson' in path else '/').text
    assert f'property="og:image" content="{place.web.address}{path}"' in page
    place.get('/card/nobody.png', 400)
    figure = card_figure('x', [CardLine('a', '1', (0.2, 0.4, 0.9)), CardLine('b', '2')], 'y')
    assert len(figure.axes) == 1, 'an interval is drawn where one is stated'
    place.get('/badge/nobody.svg', 400)


def test_past_standings_are_those_of_the_sessions_of_then(place):
    days = place.get('/api/history').json()['days']
    assert [day['sessions'] for day in days] == [1, 2, len(place.sessions) + 2]
    assert all(row['too_few'] for row in days[0]['standings'])
    assert chosen_days([str(k) for k in range(100)])[::23] == ['0', '99']
    assert chosen_days([]) == []


def test_a_session_shows_what_was_recorded(place):
    session_id = place.sessions[0]
    curves = place.get(f'/api/evaluations/{session_id}/curves').json()
    assert curves['rollouts']['A']['gripper'][-1] == pytest.approx([59 / 15, 1.0], abs=1e-3)
    assert curves['rollouts']['B']['still'] == pytest.approx(0.5, abs=0.03)
    assert curves['matches']['left'] == pytest.approx(1.0)
    page = words_of(place.get(f'/evaluations/{session_id}').text)
    for words in ('Gripper', 'Fastest joint', 'Scene match', 'Stood still', 'task done',
                  'last run is shown. never never', 'SHA-256', 'A was preferred'):
        assert words in page, words
    assert 'Stood still No joint was faster than 0.02 rad/s.' in page, 'explained where it stands'
    full = words_of(place.get(f'/evaluations/{place.sessions[6]}').text)
    order = [full.index(words) for words in (
        'A was preferred', 'B was quicker', 'A · ', '✓ preferred', 'In numbers', 'nyu · ')]
    assert order == sorted(order), 'the verdict, the reason, both films, and then the rest'
    assert full.count('✓ preferred') == 1
    tie = words_of(place.get(f'/evaluations/{place.sessions[8]}').text)
    assert 'A tie: neither policy was preferred' in tie
    assert '✓' not in tie
    assert 'No curve of the progress' in page
    assert 'station found it 82 % like the start photograph (left camera, left eye 82 %' in page
    assert curves['station_match']['match'] == 0.82
    assert 'station sent no measurement' in place.get(f'/evaluations/{place.sessions[1]}').text
    ET.fromstring(place.get(f'/plots/evaluations/{session_id}.svg').text)
    place.get(f'/plots/evaluations/{place.sessions[5]}.svg', 404)
    bare = words_of(place.get('/evaluations/import-1').text)
    assert 'Run again' not in bare
    assert 'nobody committed' in bare


def test_progress_by_simulator_and_judge_is_drawn_over_the_gripper(place):
    session_id = place.sessions[1]
    curves = place.get(f'/api/evaluations/{session_id}/curves').json()['rollouts']
    assert curves['A']['progress'][-1] == [1.9, 0.7]
    assert curves['A']['judges'] == {'fine': [[0.0, 0.0], [1.0, 0.4], [2.5, 1.0]]}
    assert curves['B']['judges'] == {}
    page = words_of(place.get(f'/evaluations/{session_id}').text)
    places = [page.index(words) for words in (
        'Progress, by the simulator', 'Progress, by the judge fine', 'Gripper', 'Fastest joint')]
    assert places == sorted(places)
    assert 'No curve' not in page
    # A station does not judge its own session: what it uploaded as an audit is not shown.
    own_audit = words_of(place.get(f'/evaluations/{place.sessions[2]}').text)
    assert 'by the judge' not in own_audit
    assert 'No curve of the progress' in own_audit
    assert 'No curves: no' in words_of(place.get(f'/evaluations/{place.sessions[5]}').text)


@pytest.mark.parametrize('content', [b'', b'PK', b'PK\x05\x06' + bytes(18), 'bomb', 'lengths',
                                     'shape', 'objects'])
def test_a_broken_file_of_steps_is_refused(content):
    if content == 'bomb':
        data = io.BytesIO()
        with zipfile.ZipFile(data, 'w', zipfile.ZIP_DEFLATED) as archive:
            archive.writestr('stamp_ns.npy', bytes(20 << 20))
        content = data.getvalue()
    if content in ('shape', 'objects'):    # a header of a few bytes that asks for petabytes
        head, data = io.BytesIO(), io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {
            'shape': (10**15,), 'fortran_order': False,
            'descr': '<f8' if content == 'shape' else '|O'})
        with zipfile.ZipFile(data, 'w') as archive:
            archive.writestr('stamp_ns.npy', head.getvalue() + bytes(80))
        content = data.getvalue()
    if content == 'lengths':
        data = io.BytesIO()
        np.savez(data, stamp_ns=np.arange(5), gripper_position=np.ones(4),
                 joint_velocity=np.ones((5, 7)))
        content = data.getvalue()
    with pytest.raises(DataError, match=r'steps\.npz'):
        rollout_of(read_arrays(content, 'steps.npz'))


def test_downloads_say_how_often_a_slot_was_run_again_and_how_long_it_waited(place):
    lines = place.get('/data/sessions.csv').text.splitlines()
    columns = lines[0].split(',')
    assert columns[-6:] == ['reruns_a', 'reruns_b', 'waited_a', 'waited_b', 'robot', 'mark']
    rows = [json.loads(line) for line in place.get('/data/evaluations.jsonl').text.splitlines()]
    reruns = {row['id']: row['reruns'] for row in rows}
    assert reruns[place.sessions[0]] == {'A': 0, 'B': 0}
    assert reruns['import-1'] is None
    waited = {row['id']: row['waited'] for row in rows}
    assert all(0.0 <= share <= 1.0 for share in waited[place.sessions[0]].values())
    assert waited['import-1'] is None
    assert 'Waited for the policy' in place.get(f'/evaluations/{place.sessions[0]}').text
    robots = [line.split(',')[-2] for line in lines[1:]]
    assert robots == [row['robot'] for row in rows]
    assert set(zip((row['mark'] for row in rows), robots, strict=True)) == {
        ('', 'fr3'), ('imported', '')}


def test_above_the_menu_of_robots_stands_whether_they_may_be_ranked_together(place, monkeypatch):
    question = 'All kinds of robot in one table?'
    assert place.server.results.settle()
    said = words_of(place.get('/').text)
    assert f'{question} Cannot be told: no policies with 5 comparisons on each of two' in said
    monkeypatch.setattr('arena_robot.web.site.app.choices', lambda parts: ([], [], ['fr3']))
    assert question not in words_of(place.get('/').text)


def test_whether_robots_may_be_pooled_is_tested_over_all_of_them(place, monkeypatch):
    verdicts = [Comparison(f's{k}', 'p', 'q', Preference('ABBA'[k % 4]),
                           robot=('fr3', 'lift')[k // 2 % 2]) for k in range(80)]
    verdicts += [replace(row, session_id=f'{row.session_id}x', preference=Preference.A)
                 for row in verdicts if row.robot == 'lift']
    monkeypatch.setattr('arena_robot.server.results.standings.counted_verdicts',
                        lambda _, chosen: verdicts if chosen is None else [])
    assert 'p is better on lift and worse on fr3' in Results(place.server.database).pooling()


def test_every_address_for_programs_is_described(place):
    page = place.get('/api').text
    paths = place.get('/openapi.json').json()['paths']
    assert {'/api/standings', '/plots/history.svg', '/data/sessions.csv'} <= set(paths)
    assert '/policies' not in paths, 'pages are not for programs'
    for path, call in paths.items():
        assert path in page
        assert call['get'].get('description'), path


def test_a_change_of_the_method_is_announced(place, tmp_path):
    first = MethodChanges(tmp_path, SystemClock())
    first.open()
    assert (first.methods[0].method, first.announcement()) == (RECOMMENDED, '')
    (tmp_path / FILE).write_text('{"methods": [{"method": "elo", "since": "2026-01-01"}]}')
    for _ in range(2):    # and it stays, once
        reopened = MethodChanges(tmp_path, SystemClock())
        reopened.open()
        assert [change.method for change in reopened.methods] == ['elo', RECOMMENDED]
        assert f'from elo to {RECOMMENDED}' in reopened.announcement()
    (tmp_path / FILE).write_text('[]')
    with pytest.raises(DataError, match='restore it'):
        MethodChanges(tmp_path, SystemClock()).open()
    assert f'This is {"davidson"}' in place.get('/?method=davidson').text
    assert place.get('/api/standings').json()['recommended'] == RECOMMENDED


def test_the_browser_computes_the_commitment_and_the_cursor_follows(place, browser):
    from selenium.webdriver.support.ui import WebDriverWait
    browser.get(f'{place.web.address}/evaluations/{place.sessions[0]}')
    browser.execute_script('document.querySelector(".commitment").open = true')

    def said(press=''):
        return browser.execute_script(
            press + 'return document.querySelector(".check output").textContent')
    # Pressed again while the page still loads its scripts.
    WebDriverWait(browser, 20).until(
        lambda _: said('document.querySelector(".check button").click();'))
    lines = browser.execute_script('return document.querySelector("[data-reveal]").textContent')
    assert said() == f'It fits: {hashlib.sha256(lines.encode()).hexdigest()}'
    browser.execute_script('document.querySelector("[data-reveal]").textContent += "x";'
                           'document.querySelector(".check button").click()')
    WebDriverWait(browser, 20).until(lambda _: 'does not fit' in said())
    times = "return [...document.querySelectorAll('.films video')].map(%s)"
    WebDriverWait(browser, 20).until(
        lambda b: all(b.execute_script(times % 'v => v.readyState >= 1')))
    x = browser.execute_script(
        'const s = document.querySelector(".steer input"); s.value = 500;'
        's.dispatchEvent(new Event("input"));'
        'return Number(document.querySelector(".cursor").getAttribute("x1"))')
    first, second = browser.execute_script(times % 'v => v.currentTime')
    assert first == second == pytest.approx(2.0, abs=0.1)
    assert x == pytest.approx((58 + 640 - 8) / 2, abs=15)
    assert NASTY[:10] not in browser.title or browser.execute_script('return !window.x')
    a_citation_leads_to_its_moment(place, browser, times)


@pytest.mark.parametrize(('path', 'columns'), [('/', 7), ('/policies', 7), ('/rules', 9),
                                               ('/api', 3)])
def test_a_phone_shows_every_column(place, browser, path, columns):
    from selenium.webdriver.support.ui import WebDriverWait
    browser.set_window_size(390, 800)
    browser.get(place.web.address + path)
    try:
        WebDriverWait(browser, 20.0).until(lambda _: browser.execute_script(
            'return [...document.querySelectorAll(".board tbody tr:first-child td")].map((one) =>'
            '[one.offsetWidth > 0, one.getBoundingClientRect().right <= innerWidth])'
        ) == [[True, True]] * columns)
        if path == '/':
            assert browser.execute_script(
                'return document.querySelector(".board tbody tr").getBoundingClientRect().bottom'
                ' <= innerHeight'), 'the first policy is seen without scrolling'
    finally:
        browser.set_window_size(1280, 900)


def a_citation_leads_to_its_moment(place, browser, times):
    """Follow a report's citation to both films at its second, and say that it holds."""
    wait = WebDriverWait(browser, 20)
    Reports(place.server.database, SystemClock()).add('crimson-7b', 1, 'statistics', json.dumps(
        report_to_json(PolicyReport('crimson-7b', '2026-01-01', 1, (ReportSection('Strengths', (
            Statement('Seen.', citations=(Citation(place.sessions[0], 'quicker', at_s=2.4),)),)),),
            CheckCounts(citations=1)))))
    browser.get(f'{place.web.address}/policies/crimson-7b/report')
    browser.find_element('css selector', '#checks [name=token]').send_keys(place.token)
    output = browser.find_element('css selector', '.opinion output')
    wait.until(lambda _: browser.execute_script('return document.readyState') == 'complete')
    for word, then in (('holds', 'yes 1, no 0'), ('fails', 'yes 0, no 1')):
        browser.find_element('css selector', f'button[value="{word} 0.0.0"]').click()
        wait.until(lambda _, then=then: output.text == then)
    still = {'features': [{'name': 'prefers-reduced-motion', 'value': 'reduce'}]}
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', still)
    browser.find_element('css selector', '.report a').click()
    wait.until(lambda b: b.execute_script(times % 'v => v.currentTime') == pytest.approx(
        [2.4, 2.4], abs=0.05))
    assert browser.current_url.endswith('#t=2.4')
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})
    browser.refresh()    # who did not ask for less motion sees it play from there
    wait.until(lambda b: min(b.execute_script(times % 'v => v.currentTime')) > 2.5)
    assert browser.execute_script(times % 'v => v.played.start(0)') == pytest.approx(
        [2.4, 2.4], abs=0.05)
