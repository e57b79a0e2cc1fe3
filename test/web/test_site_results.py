"""Pages beside the leaderboard, downloads, and what readers without eyes or a mouse need."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import av
import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from test_site import NASTY, Place, finished

from arena_robot.core.clock import DAY_NS, SystemClock
from arena_robot.core.episode import Preference
from arena_robot.core.task_categories import objects
from arena_robot.core.verdict import Verdict
from arena_robot.nodes.ranking import SiteSource
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import mean_progress
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import place_words
from arena_robot.recording.episode.frames import write_video
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_tables
from arena_robot.server import renewed_values
from arena_robot.server.base import Caller, Role
from arena_robot.server.results.standings import INTERVALS, Results
from arena_robot.server.store import schema
from arena_robot.server.store.browse import MARKS, Evaluation
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.server.store.relayed import days_served

FORMULA = '=HYPERLINK("http://x","y")'
PAGES = ('/', '/matrix', '/policies', '/policies/crimson-7b', '/policies/elsewhere',
         '/evaluations', '/evaluations/{id}', '/versus', '/versus?a=crimson-7b&b=azure-fast',
         '/by/category', '/by/institution', '/data', '/about', '/owner', '/no/such/page')


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp('site'))
    prompt = 'put the cup on the plate'
    for number in range(12):
        made.sessions.append(finished(made.server, made.caller, prompt, Verdict(
            progress_a=0.2 if number > 3 else 1.0, progress_b=0.8 if number > 3 else 1.0,
            preference=Preference.B,
            explanation=FORMULA),
            100 + number))
    insert_evaluations(made.server.database, SystemClock(), [RoboArenaSession(
        f'import-{k}', 'elsewhere', 'nowhere', True, Preference.A, 'penn', 'eve',
        '2025-03-21T11:02:24', '2025-03-21T11:12:24', 'fine', rollouts=()) for k in range(3)])
    assert made.server.results.settle()
    yield made
    made.close()


def words_of(page):
    return re.sub(r'\s+', ' ', re.sub('<[^>]+>', ' ', page))


def test_a_policy_shows_how_it_answers_and_clips(place):
    page = place.get('/policies/azure-fast').text
    words = words_of(page)
    assert 'Answered 18 of 18 newest rollouts' in words
    assert 'A query took 100 ms 99th percentile 100 ms' in words
    assert 'Actions a query 8.0' in words
    for title, progress in (('Successes', '100 of 100'), ('Failures', '2[05] of 100')):
        part = words[words.index(title):][:300]
        assert re.search(f'put the cup on the plate · {progress}', part), part
    assert page.count('<figure class="clip">') == 4
    assert 'Successes' not in place.get('/policies/elsewhere').text, 'nothing is known of it'


def test_an_institution_that_weighs_much_is_seen(place):
    assert place.client.get('/by/institution').status_code == 200
    assert place.server.results.settle()
    page = place.get('/by/institution').text
    assert 'spread as over 1.3 institutions of equal size; nyu has 86 % of them' in words_of(page)
    assert 'href="/?without=penn"' in page
    without, _ = rank_comparable(Comparisons.from_words([
        c for c in place.server.results.comparisons() if c.institution != 'penn']), RECOMMENDED,
        intervals=INTERVALS)
    cells = re.findall(r'azure-fast</a></th><td class="rank">[^<]*</td><td>([^<]*)</td>'
                       '<td>([^<]*)</td>', page.replace('<wbr>', ''))
    assert cells == [('–', place_words(without, without.items.index('azure-fast')))]


def test_evaluations_are_filtered_by_robot_where_there_are_two(place):
    for path in ('/', '/evaluations'):
        assert re.findall(r'<option>(\w+)</option>', place.get(path).text.split(
            '<select name="robot">')[1].split('</select>')[0]) == ['fr3', 'panda']
    found = place.get('/api/evaluations?robot=panda').json()['evaluations']
    assert {e['id'] for e in found} == {f'import-{k}' for k in range(3)}
    assert place.get('/api/evaluations?robot=ur5').json()['evaluations'] == []


def test_a_card_says_on_which_days_its_policy_answered(place):
    page = place.get('/policies/azure-fast').text
    assert 'Answered in 30 days 100 % of 18 sessions that asked it' in words_of(page)
    assert ': 18 of 18"><b style="height:100%">' in page
    database, relayed = place.server.database, schema.relayed
    number = place.server.policies.get('azure-fast').id
    with database.write() as connection, connection.begin_nested() as changes:
        mine = sa.select(relayed.c.id).where(relayed.c.policy_id == number).order_by(
            relayed.c.id).limit(4)
        newest_ns = connection.scalar(sa.select(sa.func.max(relayed.c.last_ns)))
        for k, row in enumerate(connection.execute(mine).scalars().all()):
            connection.execute(sa.update(relayed).where(relayed.c.id == row).values(
                failure='no answer' if k else '',
                last_ns=newest_ns - (40 if k > 2 else 2) * DAY_NS))
        days = days_served(connection, number, newest_ns)
        assert [(day.asked, day.answered) for day in days] == [(3, 1), (14, 14)]
        assert days[0].day < days[1].day
        changes.rollback()


def test_each_category_has_a_scene_and_its_standings(place):
    assert place.client.get('/by/category').status_code == 200
    assert place.server.results.settle()
    page = place.get('/by/category').text
    gallery = page[page.index('<h2>Scenes</h2>'):]
    assert gallery.count('<figure class="clip">') == 2
    assert f'src="/files/{place.sessions[-1]}/A/left.mp4#t=0.1"' in gallery
    counts = re.findall(r'· (\d+) sessions ·\s+<a href="/\?category=[^"]+">standings</a>', gallery)
    assert sum(map(int, counts)) == len(place.sessions)


def test_verbs_objects_and_the_standings_of_a_category(place):
    assert objects('put the two red cups on a plate, then close the drawer 3') == (
        'cups', 'plate', 'drawer')
    assert objects('move left') == objects('') == ()
    for path in ('/by/category', '/categories/open-close'):
        assert place.client.get(path).status_code == 200
    assert place.server.results.settle()
    page = words_of(place.get('/by/category').text)
    assert re.search('Verbs Word .* put 12 .*open 5 .*Objects .*(cup|plate) 12 .*drawer 5', page)
    answer = place.get('/api/standings?category=Open+/+Close').json()['standings']
    page = place.get('/categories/open-close').text
    shown = page[page.index('Standings in this category'):page.index('Comparisons won')]
    assert [shown.index(row['policy'].replace('_', '_<wbr>')) for row in answer] == sorted(
        shown.index(row['policy']) for row in answer)
    assert f"{answer[0]['score']:.2f}" in shown
    assert f">{answer[0]['n']}</td>" in shown


def test_every_page_says_what_it_is_and_where_it_is(place):
    seen = {}
    for path, current in (('/', 'page'), ('/policies', 'page'), ('/policies/azure-fast', 'true'),
                          ('/categories/sorting-classification', 'true'), ('/history', ''),
                          (f'/evaluations/{place.sessions[-1]}', 'true')):
        page = place.get(path).text
        seen[path] = re.search('<meta name="description" [^>]*content="([^"]+)"', page)[1]
        navigation = page[page.index('<nav'):page.index('</nav>')]
        assert re.findall('aria-current="([a-z]+)"', navigation) == [current] * bool(current)
    assert len(set(seen.values())) == len(seen)
    assert 'too few to tell 4 policies apart' in seen['/']


def test_the_first_page_sorts_names_the_newest_and_has_seven_places_to_go(place):
    def order(column):
        page = place.get(f'/?sort={column}').text
        rows = page[page.index('<tbody'):page.index('</tbody')]
        return re.findall('/policies/([^"]+)"', rows), page

    by_score, page = order('score')
    by_comparisons, _ = order('comparisons')
    by_progress, _ = order('progress')
    imported = {'elsewhere', 'nowhere'}    # fewer comparisons, and nobody scored their progress
    assert by_score[0] == 'elsewhere'
    assert set(by_comparisons[2:]) == set(by_progress[2:]) == imported
    assert 'These sessions are too few to tell 4 policies apart.' in page
    assert page.count('aria-sort="descending"') == 1
    newest = page[page.index('Newest evaluations'):]
    assert newest.count('class="task"') == 3
    assert place.sessions[-1] in newest
    navigation = page[page.index('<nav'):page.index('</nav>')]
    assert navigation.count('<a ') <= 7
    assert navigation.count('aria-current="page"') == 1
    refused = httpx.get(f'{place.web.address}/?sort=colour')
    assert refused.status_code == 400
    assert 'known: score, comparisons, progress' in refused.text


@pytest.mark.parametrize(('query', 'keeps'), [
    ('category=Open+/+Close', lambda e: e['category'] == 'Open / Close'),
    ('lab=penn', lambda e: e['institution'] == 'penn'),
    ('without=penn', lambda e: e['institution'] != 'penn'),
    ('robot=panda', lambda e: e['mark'] == 'imported'),
    ('since=2025-04-01', lambda e: e['created_ns'] > 1743465600 * 10**9),
    ('equal_score=true', lambda e: e['progress_a'] is not None
     and e['progress_a'] == e['progress_b']),
    ('category=Open+/+Close&without=nyu', lambda e: False)])
def test_a_part_of_the_sessions_is_ranked_as_if_there_were_no_others(place, query, keeps):
    listed = place.get('/api/evaluations?limit=200').json()['evaluations']
    kept = {e['id'] for e in listed if keeps(e)}
    assert len(kept) < len(listed)
    assert place.client.get(f'/?{query}').status_code in (200, 409, 503)
    assert place.server.results.settle()
    page = place.get(f'/?{query}').text
    assert 'are counted here, so scores and' in page
    answer = place.client.get(f'/api/standings?{query}')
    if len(kept) < 2:
        assert (answer.status_code, answer.json()['code']) == (409, 'ranking')
        return
    votes = Comparisons.from_words([c for c in place.server.results.comparisons()
                                    if c.session_id in kept])
    alone, _ = rank_comparable(votes, RECOMMENDED, intervals=INTERVALS)
    rows = answer.json()['standings']
    assert [row['policy'] for row in rows] == [alone.items[k] for k in alone.order]
    assert [row['score'] for row in rows] == [alone.scores[k] for k in alone.order]
    assert answer.json()['diagnostics']['progress'] == mean_progress(votes)
    assert f'?method={RECOMMENDED}&amp;{query.replace("/", "%2F")}' in page, 'links keep it'


def test_columns_are_chosen_and_a_part_that_is_not_computed_says_when(place, monkeypatch):
    page = place.get('/?columns=plot&columns=comparisons').text
    board = page[page.index('<table'):page.index('</table>')]
    assert 'data-label="Comparisons"' in board
    assert 'class="wide"' in board
    assert 'Progress' not in board
    assert '95 % interval' not in board
    assert 'known: score, plot, interval' in place.get('/?columns=colour', 400).text
    assert 'since is a day such as 2026-01-31' in place.get('/?since=yesterday', 400).text
    monkeypatch.setattr(renewed_values, 'FIRST_S', 0.0)
    page = place.get('/?since=2025-02-03', 503).text
    assert 'this is being computed in the background, which takes' in page
    assert 'Load it again</a>' in page
    assert place.server.results.settle()
    assert 'Only sessions since 2025-02-03 are counted' in place.get('/?since=2025-02-03').text


def test_of_an_imported_policy_only_what_is_known_is_shown(place):
    page = place.get('/policies/elsewhere').text
    assert 'not known here' in page
    assert 'open source' not in page.split('<main>')[1].split('</main>')[0]
    assert 'joint_position' not in page
    card = place.get('/api/policies/elsewhere').json()
    assert card['imported'] is True
    assert (card['open_source'], card['action_space'], card['robot'], card['owner']) == (
        None, None, None, None)
    policy = place.get('/api/policies/crimson-7b').json()
    assert (policy['imported'], policy['open_source'], policy['owner']) == (False, False, 'olga')
    assert 'elsewhere' not in place.get('/?open_source=true').text


def test_the_index_has_every_policy_and_says_what_is_imported(place):
    page = place.get('/policies').text
    for name in ('crimson-7b', 'azure-fast', 'elsewhere', 'nowhere'):
        assert f'/policies/{name}"' in page
    assert page.count('imported; not known') == 2


def test_imported_sessions_are_counted_and_marked(place):
    page = place.get('/').text
    assert '21 sessions (3 imported)' in place.get('/plots/standings.svg').text.replace('\n', ' ')
    for path in ('/', '/matrix', '/policies', '/by/category', '/history'):
        assert 'Of 21 counted sessions 3 are' in place.get(path).text, path
    assert '18</td>' in page
    assert 'counted sessions' not in place.get('/?open_source=true').text
    assert 'not through the relay of this server: 3 imported' in place.get(
        '/versus?a=elsewhere&b=nowhere').text
    assert 'Of these sessions' not in place.get('/versus?a=crimson-7b&b=azure-fast').text
    listed = place.get('/api/evaluations?origin=imported').json()['evaluations']
    assert {row['id'] for row in listed} == {'import-0', 'import-1', 'import-2'}
    assert len(place.get('/api/evaluations?origin=relayed&limit=99').json()['evaluations']) == 18
    assert 'an origin is one of relayed, imported' in place.get('/evaluations?origin=x', 400).text
    diagnostics = place.get('/api/standings').json()['diagnostics']
    assert diagnostics['origins'] == {'imported': 3, 'relayed': 18}
    assert diagnostics['needed']['sessions'] in (18, 21)
    assert 'more sessions are needed (in 9 of 10 cases' in page
    assert diagnostics['fragility'] in page
    assert ' verdicts' in diagnostics['fragility']


def test_ranks_know_who_owns_the_policies_and_scores_do_not(place):
    results = Results(place.server.database)
    items = results.votes().items
    owners = {name: ('xenia', 'yves')[k % 2] for k, name in enumerate(items)}
    results.owners = lambda: owners
    found, _ = results.standings()
    told, untold = (rank_comparable(results.votes(), RECOMMENDED, intervals=INTERVALS,
                                    owners=known)[0] for known in (owners, {}))
    np.testing.assert_array_equal(found.ranks, told.ranks)
    assert list(found.ranks) != list(untold.ranks)
    np.testing.assert_array_equal(found.scores, untold.scores)


def test_two_policies_meet_on_a_page_with_their_videos_in_step(place):
    page = place.get('/versus?a=crimson-7b&b=azure-fast').text
    matrix = place.get('/api/matrix').json()
    i, j = matrix['policies'].index('crimson-7b'), matrix['policies'].index('azure-fast')
    cell = matrix['cells'][i][j]
    shown = [int(n) for n in re.findall(r'<dd>(\d+)</dd>', page)[:3]]
    assert shown == [cell['wins'], cell['ties'], cell['losses']]
    assert page.count('<video') == 10
    assert '95 % interval' in page
    assert place.get('/versus?a=azure-fast&b=crimson-7b').status_code == 200


def test_two_policies_are_drawn_with_the_numbers_of_their_page(place):
    words = [element.text for element in ET.fromstring(place.get(
        '/plots/versus.svg?a=crimson-7b&b=azure-fast').text).iter()
        if element.tag.endswith('text')]
    page = re.sub(r'\s+', ' ', re.sub('<[^>]+>', ' ', place.get(
        '/versus?a=crimson-7b&b=azure-fast').text))
    match = re.search(r'ties half (\d+) % 95 % interval (\d+) to (\d+) %', page)
    assert '{} % [{}, {}], n = 18'.format(*match.groups()) in words
    assert 'too few to tell, n = 3' in place.get('/plots/versus.svg?a=elsewhere&b=nowhere').text
    place.get('/plots/versus.svg?a=crimson-7b&b=nobody', 400)


def test_of_few_comparisons_no_share_is_stated(place):
    page = place.get('/versus?a=elsewhere&b=nowhere').text
    assert 'too few to tell' in page
    assert '100 %' not in page
    institutions = place.get('/by/institution').text
    assert 'too few to tell' in institutions.split('<h2>penn</h2>')[1]
    assert place.get('/api/by/institution').json()['penn']['elsewhere'] == {
        'wins': 3, 'ties': 0, 'losses': 0}


@pytest.mark.parametrize('query', ['?a=crimson-7b&b=crimson-7b', '?a=crimson-7b', '?a=&b='])
def test_the_page_of_two_policies_asks_for_two(place, query):
    assert 'preferred</dt>' not in place.get(f'/versus{query}').text


def test_the_table_can_be_ranked_and_names_no_evaluator(place, tmp_path):
    text = place.get('/data/sessions.csv').text
    path = tmp_path / 'sessions.csv'
    path.write_text(text, encoding='utf-8')
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(place.get('/api/evaluations?limit=200').json()['evaluations'])
    assert len(read_tables(path, None).comparisons()) >= 12
    assert 'ada' not in {cell for row in rows for cell in row.values()}, 'evaluators are not named'


def test_json_lines_have_the_text_itself(place):
    lines = [json.loads(line) for line in place.get('/data/evaluations.jsonl').text.splitlines()]
    assert FORMULA in {row['explanation'] for row in lines}
    assert {row['id'] for row in lines} >= set(place.sessions[-12:])


def test_the_feed_is_valid_xml_whatever_people_typed(place):
    answer = place.get('/feed.xml')
    assert answer.headers['content-type'].startswith('application/rss+xml')
    items = ET.fromstring(answer.text).findall('./channel/item')
    assert items[0].findtext('title')
    assert all(item.findtext('link').startswith(str(place.client.base_url).rstrip('/'))
               for item in items)


def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(place):
    page = place.client.get('/no/such/page')
    assert (page.status_code, page.headers['content-type'][:9]) == (404, 'text/html')
    assert 'That did not work' in page.text
    assert page.headers['content-security-policy']
    assert place.client.get('/api/nothing').json()['message'] == 'Not Found: /api/nothing'
    assert place.client.get('/evaluations?limit=many').status_code == 400
    assert place.client.get('/by/colour').status_code == 400


@pytest.mark.parametrize('path', ['/', '/api/standings', '/data/sessions.csv', '/no/such/page'])
def test_head_answers_what_get_does_without_a_body(place, path):
    with httpx.Client(base_url=place.client.base_url) as client:
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b'')
        assert head.headers['content-type'] == get.headers['content-type']


def test_what_people_typed_stays_text_on_every_page(place):
    for path in (*PAGES, '/evaluations?text=%3Cscript%3Ealert(1)%3C/script%3E'):
        answer = place.client.get(path.format(id=place.sessions[0]))
        assert NASTY[:20] not in answer.text
        assert not re.search('<script(?! src="/static/)', answer.text)
        loaded = re.sub('<a [^>]*>', '', answer.text)
        assert not re.search(r'(src|href)="(https?:)?//', loaded), 'no external resources'
        assert "default-src 'self'" in answer.headers['content-security-policy']


def film(path, count):
    """Write a video of ``count`` frames at 15 Hz and return its bytes."""
    frames = ((k * 10**9 // 15, av.VideoFrame.from_ndarray(
        np.full((90, 160, 3), 4 * k % 256, np.uint8), format='rgb24')) for k in range(count))
    write_video(path, frames, 15.0)
    return path.read_bytes()


def test_both_videos_of_a_session_play_and_jump_together(place, browser, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    files = place.server.blobs
    for evaluation in place.get('/api/evaluations?limit=200').json()['evaluations']:
        for slot, count in (('A', 60), ('B', 45)):
            path = files.local_path(f"{evaluation['id']}/{slot}/left.mp4")
            if path is not None and path.exists():
                path.write_bytes(film(tmp_path / f'{slot}.mp4', count))
    browser.get(f'{place.web.address}/versus?a=crimson-7b&b=azure-fast')
    times = "return [...document.querySelector('.films').querySelectorAll('video')].map(%s)"
    WebDriverWait(browser, 20).until(
        lambda b: all(b.execute_script(times % 'v => v.readyState >= 1')))
    button = browser.find_element(By.CSS_SELECTOR, '.steer button')
    button.click()
    WebDriverWait(browser, 20).until(
        lambda b: min(b.execute_script(times % 'v => v.currentTime')) > 0.2)
    assert button.text == 'Pause both'
    browser.execute_script("const s = document.querySelector('.steer input'); s.value = 500;"
                           "s.dispatchEvent(new Event('input'))")
    first, second = browser.execute_script(times % 'v => v.currentTime')
    assert first == second == pytest.approx(2.0, abs=0.1)
    assert button.text == 'Play both'
    clips_play_under_the_mouse(place, browser)


def clips_play_under_the_mouse(place, browser):
    """Point at a clip of a policy's page, and away from it."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f'{place.web.address}/policies/crimson-7b')
    clip = browser.find_element('css selector', '.clip video')
    paused = 'return arguments[0].paused'
    browser.execute_script('arguments[0].scrollIntoView({block: "center"})', clip)
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script('return arguments[0].readyState >= 1', clip))
    assert browser.execute_script(paused, clip)
    ActionChains(browser).move_to_element(clip).perform()
    WebDriverWait(browser, 20).until(lambda b: not b.execute_script(paused, clip))
    ActionChains(browser).move_by_offset(0, 0).move_to_element(
        browser.find_element('css selector', 'h2')).perform()
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(paused, clip))
    clip.send_keys('')    # gives it the keyboard's focus
    WebDriverWait(browser, 20).until(lambda b: not b.execute_script(paused, clip))


@pytest.fixture
def imported(tmp_path):
    made = Place(tmp_path / 'site')
    insert_evaluations(made.server.database, SystemClock(), [RoboArenaSession(
        'import-1', FORMULA, 'nowhere', True, Preference.A, '@institution', 'eve',
        '2025-03-21T11:02:24', '2025-03-21T11:12:24', '+fine', rollouts=())])
    made.server.results.forget()
    yield made
    made.close()


def counted(imported):
    return {c.session_id for c in imported.server.results.comparisons()}


def table(imported):
    return list(csv.DictReader(io.StringIO(imported.get('/data/sessions.csv').text)))


def test_a_withdrawn_session_leaves_the_downloads_and_the_ranking_node(imported, tmp_path):
    over = SiteSource(imported.web.address)
    before = over.version()
    assert {c.session_id for c in over.comparisons()} == counted(imported)
    assert len(counted(imported)) == 7
    gone = imported.sessions[2]
    imported.server.acceptance.correct(
        Caller(1, 'root', 'local', frozenset({Role.MAINTAINER})), gone, 'wrong robot', True)
    assert gone not in counted(imported)
    assert over.version() != before
    assert {c.session_id for c in over.comparisons()} == counted(imported)
    rows = {row['session_uuid']: row for row in table(imported)}
    assert (rows[gone]['valid'], rows[gone]['mark']) == ('0', 'withdrawn')
    assert (rows['import-1']['valid'], rows['import-1']['mark']) == ('1', 'imported')
    assert {name for name, row in rows.items() if row['valid'] == '1'} == counted(imported)
    path = tmp_path / 'sessions.csv'
    path.write_text(imported.get('/data/sessions.csv').text, encoding='utf-8')
    assert {c.session_id for c in read_tables(path).comparisons()} == counted(imported)


def test_pages_without_news_are_not_fetched_again(imported, monkeypatch):
    over = SiteSource(imported.web.address)
    first = over.comparisons()
    monkeypatch.setattr(over, '_pages', lambda: pytest.fail('nothing changed'))
    assert over.comparisons() == first


def test_of_all_marks_only_imported_counts():
    evaluation = Evaluation('s', 0, '', '', '', 'p', 'q', '', '', Verdict(preference=Preference.A))
    assert evaluation.counts
    assert {mark for mark in MARKS if replace(evaluation, mark=mark).counts} == {'imported'}
    assert not replace(evaluation, verdict=Verdict(valid=False, invalid_reason='x')).counts


def test_no_cell_of_any_column_is_a_formula(imported):
    cells = [cell for row in table(imported) for cell in row.values() if cell]
    assert not [cell for cell in cells if cell[0] in '=+-@\t\r']
    row = next(r for r in table(imported) if r['session_uuid'] == 'import-1')
    assert (row['policy_a'], row['institution']) == (f"'{FORMULA}", "'@institution")
