"""The site after another verdict: no page waits for new results; earlier days keep theirs."""

import dataclasses
import importlib.util
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from test_site import Place, finished
from waiting import until

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.server import renewed_values
from arena_robot.server.base import PolicyState
from arena_robot.server.renewed_values import RenewedValues
from arena_robot.server.results.standings import INTERVALS, DatedVotes, Results
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.verdicts import ALL
from arena_robot.server.transparency.log import TransparencyLog
from arena_robot.web.site import downloads, history
from arena_robot.web.site.app import site
from arena_robot.web.site.history import History, curves, is_line
from arena_robot.web.site.serve import site_parts

SOON_S = 3.0
POLICIES = ('p', 'q', 'r', 'late')
PAGES = ('/', '/?method=davidson', '/?open_source=true', '/?category=Open+/+Close',
         '/matrix', '/policies', '/policies/crimson-7b', '/versus?a=crimson-7b&b=azure-fast',
         '/by/category', '/by/institution', '/categories/open-close', '/history',
         '/rules', '/audit', '/plots/standings.svg', '/plots/matrix.svg', '/plots/history.svg',
         '/plots/by/category.svg', '/plots/versus.svg?a=crimson-7b&b=azure-fast', '/card.png',
         '/card/crimson-7b.png', '/badge/crimson-7b.svg', '/api/standings', '/api/matrix',
         '/api/history', '/api/by/category')
# Downloads of everything, redirections, what only frozen releases and sessions with uploaded files
# have, a file.
NOT_MEASURED = ('/data/sessions.csv', '/data/evaluations.jsonl', '/openapi.json', '/api/log',
                '/api/log/inclusion', '/api/log/consistency', '/policies/{name}/report',
                '/plots/evaluations/{session_id}.svg', '/api/evaluations/{session_id}/curves',
                '/files/{session_id}/{slot}/{path:path}', '/logo',
                '/data/{name}', '/data/{name}/{file}')


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def verdict(place, number):
    finished(place.server, place.caller, 'open the drawer', Verdict(
        progress_a=0.2, progress_b=0.8, preference=Preference.B, explanation='quicker'), number)


def counted(place):
    return int(re.search(r'Results of (\d+) verdicts', place.get('/').text)[1])


def test_no_page_waits_for_new_results_and_they_are_there_soon(place, monkeypatch):
    for path in PAGES:
        place.get(path)
    assert place.server.results.settle()
    before = counted(place)
    may_go_on, computing, read = threading.Event(), threading.Event(), Results.comparisons

    def held_up(self, chosen=ALL):
        computing.set()
        assert may_go_on.wait(60.0)
        return read(self, chosen)

    monkeypatch.setattr(Results, 'comparisons', held_up)
    try:
        verdict(place, 100)
        assert computing.wait(10.0), 'new results are computed'
        for path in PAGES:
            place.get(path)    # waited for ever if it waited
        assert counted(place) == before
    finally:
        may_go_on.set()
    until(lambda: counted(place) != before)
    assert place.server.results.settle()
    cells = place.get('/api/matrix').json()['cells'][0][1]
    assert cells['wins'] + cells['ties'] + cells['losses'] == before + 1


def test_a_verdict_is_on_every_page_within_the_stated_time(place):
    for path in PAGES:
        place.get(path)
    before = counted(place)
    verdict(place, 100)
    until(lambda: counted(place) != before, 'the verdict', SOON_S)
    assert counted(place) == before + 1
    assert f'{SOON_S:.0f}' == '3'
    assert 'within\nthree seconds after it counts' in Path(
        __file__).parents[2].joinpath('docs', 'site.md').read_text(encoding='utf-8')


@pytest.mark.parametrize(('path', 'most'), [
    ('/evaluations?text=drawer', 2), ('/policies/crimson-7b', 3),
    ('/versus?a=crimson-7b&b=azure-fast', 5)])
def test_a_page_asks_the_database_little(place, path, most):
    """For each answer a page waits several times for the threads that renew the results."""
    asked = []

    def note(_, __, statement, *___):
        if threading.current_thread().name != 'renewed values' and 'SELECT' in statement:
            asked.append(statement)
    place.get(path)
    assert place.server.results.settle()
    sa.event.listen(sa.Engine, 'before_cursor_execute', note)
    try:
        place.get(path)
    finally:
        sa.event.remove(sa.Engine, 'before_cursor_execute', note)
    assert 0 < len(asked) <= most, asked


def bench_pages():
    """Return the addresses that the bench asks for."""
    folder = Path(__file__).parents[2] / 'bench'
    spec = importlib.util.spec_from_file_location('server_site', folder / 'server_site.py')
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench.PAGES


def test_the_bench_measures_every_page_of_the_site(place):
    measured = [path.partition('?')[0] for path in bench_pages()]
    for route in site(site_parts(place.server)).routes:
        if 'GET' not in getattr(route, 'methods', ()) or route.path in NOT_MEASURED:
            continue
        assert any(route.path_regex.match(path) for path in measured), route.path


COMPUTING = ('/ranking/pairwise/', '/ranking/intervals/', '/ranking/evaluators/',
             '/ranking/hierarchical/', '/core/figures.py', '/ranking/plots.py',
             '/audit/aggregate.py', '/session/loop/match.py', '/store/redraws.py')
# These only put what is computed into words, or look a pair up.
READING = ('needed_words', '_about', 'between', '<genexpr>')


@pytest.fixture
def computed_in():
    """Threads in which functions that compute were called, each with those functions."""
    calls = {}

    def profile(frame, event, _):
        path = frame.f_code.co_filename
        name = frame.f_code.co_name
        if event == 'call' and name not in READING and any(part in path for part in COMPUTING):
            calls.setdefault(threading.current_thread().name, set()).add(
                f'{path.rpartition("/")[2]}:{name}')
    threading.setprofile(profile)
    yield calls
    threading.setprofile(None)


@pytest.mark.parametrize('verdicts', [12, 0])
def test_no_page_computes_in_the_request(computed_in, tmp_path, verdicts):
    """Fits, intervals, figures are made by threads of the results alone, at the first look too."""
    made, path_of = Place(tmp_path, verdicts), {}
    try:
        for path in bench_pages():
            for name, here in (('policy-03', 'crimson-7b'), ('policy-04', 'azure-fast'),
                               ('policy-19', 'crimson-7b'), ('policy-00', 'azure-fast'),
                               (f'{5:036}', (*made.sessions, 'none')[0])):
                path = path.replace(name, here)
            if '/reports/' in path or 'none' in path:    # no report or session is there
                continue
            before = set(computed_in)
            answer = made.client.get(path)
            assert answer.status_code in ((200, 503) if verdicts else (200, 409, 503)), path
            path_of |= dict.fromkeys({*computed_in} - before, path)
        assert made.server.results.settle()
    finally:
        made.close()
    allowed = {'renewed values', 'chores'} | {name for name in computed_in
                                              if name.startswith('recorded files')}
    found = {path_of.get(name, name): calls for name, calls in computed_in.items()
             if name not in allowed}
    assert 'renewed values' in computed_in
    assert found == {}


def test_the_log_is_hashed_and_put_together_in_no_request(place, monkeypatch):
    may_go_on = threading.Event()
    for path in ('/rules', '/api/log'):
        place.get(path)
    for name in ('head', 'bundle'):
        make = getattr(TransparencyLog, name)
        monkeypatch.setattr(TransparencyLog, name, lambda log, make=make: may_go_on.wait(60.0)
                            and make(log))
    size = place.get('/api/log').json()['head']['size']
    try:
        verdict(place, 100)
        for path in ('/rules', '/api/log'):
            place.get(path)    # waited for the log if it made anything of it
        assert place.get('/api/log').json()['head']['size'] == size
    finally:
        may_go_on.set()
    until(lambda: place.get('/api/log').json()['head']['size'] == size + 1)
    monkeypatch.setattr(downloads, 'FRESH_S', 0.0)
    verdict(place, 101)
    assert place.get('/api/log').json()['head']['size'] == size + 2, 'older ones are not given'


def test_two_policies_that_nobody_compared_have_a_page(place):
    accounts, policies = place.server.accounts, place.server.policies
    for name in ('new-1', 'new-2'):
        policies.add(NewPolicy(name, 'grpc://127.0.0.1:9'), accounts.caller(place.token).id,
                     PolicyState.POOL)
    page = place.get('/versus?a=new-1&b=new-2').text
    assert 'too few to tell' in page


def test_no_page_waits_for_a_slow_method(place, monkeypatch):
    """Who asks for a method that takes minutes is answered at once, and told to ask again."""
    may_go_on, compute = threading.Event(), Results._compute

    def held_up(self, method, *more):
        assert method in ('bt', 'davidson') or may_go_on.wait(60.0)
        return compute(self, method, *more)

    monkeypatch.setattr(Results, '_compute', held_up)
    monkeypatch.setattr(renewed_values, 'FIRST_S', 0.05)
    try:
        for path in ('/?method=hierarchical', '/api/standings?method=elo',
                     '/plots/standings.svg?method=hierarchical'):
            started = time.monotonic()
            answer = place.get(path, 503)
            assert time.monotonic() - started < SOON_S
            assert answer.headers['retry-after'] == '5'
        assert 'Load it again</a>' in place.get('/?method=hierarchical', 503).text
        place.get('/?method=davidson')
    finally:
        may_go_on.set()
    assert place.server.results.settle()
    assert 'This is hierarchical' in place.get('/?method=hierarchical').text


def test_the_page_of_a_session_says_what_was_deleted(place):
    session = place.sessions[0]
    place.get(f'/files/{session}/A/left.mp4')
    place.server.eraser.erase(session, 'A', 'a person in the pictures asked', 'maya')
    page = place.get(f'/evaluations/{session}').text
    assert '3 files of this session were deleted' in page
    assert 'a person in the pictures asked' in page
    assert f'/files/{session}/A/' not in page
    assert f'/files/{session}/B/' in page
    place.get(f'/files/{session}/A/left.mp4', 404)


def verdicts(count=120, days=6):
    rng = np.random.default_rng(0)
    for k in range(count):
        a, b = rng.choice(4 if k >= 110 else 3, 2, replace=False)
        yield Comparison(f's{k}', POLICIES[a], POLICIES[b], list(Preference)[rng.integers(3)],
                         evaluator=f'person {k % 7}', institution=f'lab {k % 3}', prompt='lift it',
                         created=f'2026-01-{1 + k * days // count:02}T00:00:00.000+00:00')


class Stored:
    """Results of given verdicts."""

    def __init__(self, words):
        self.words, self.version = words, 0
        self.kept = RenewedValues(lambda: self.version)

    def dated(self):
        return DatedVotes.of(self.words)

    def owners(self):
        return {}


def test_a_days_standings_are_those_of_its_verdicts_alone():
    words = list(verdicts())
    for day in History(Stored(words)).past():
        till = [verdict for verdict in words if verdict.created[:10] <= day.day]
        alone, _ = rank_comparable(Comparisons.from_words(till), RECOMMENDED, intervals=INTERVALS)
        assert (day.sessions, day.standings.items) == (len(till), alone.items)
        for name in ('scores', 'low', 'high', 'ranks'):
            np.testing.assert_allclose(getattr(day.standings, name), getattr(alone, name))
    assert 'late' in day.standings.items
    assert is_line(History(Stored(words)).past())
    assert not is_line(History(Stored(list(verdicts(20, 1)))).past())
    assert 'late' not in History(Stored(words)).past()[0].standings.items


def test_where_it_is_too_early_nothing_is_drawn():
    past = History(Stored(list(verdicts(3, 3)))).past()
    assert [day.sessions for day in past] == [1, 2, 3]
    assert curves(past) == {}


def test_a_day_is_computed_again_when_one_of_its_verdicts_is_another():
    stored = Stored(list(verdicts()))
    kept = History(stored)
    before = kept.past()
    stored.words[50] = dataclasses.replace(
        stored.words[50], preference={Preference.A: Preference.B}.get(
            stored.words[50].preference, Preference.A))
    stored.version += 1
    after = kept.past()
    same = [before_day is two for before_day, two in zip(before, after, strict=True)]
    assert same == [True, True, False, False, False, False]


def test_past_days_are_made_in_parts_the_newest_first(monkeypatch):
    whole = History(Stored(list(verdicts()))).past()
    monkeypatch.setattr(history, 'PART_S', 1e-9)
    parts, days = History(Stored(list(verdicts()))), [day.day for day in whole]
    for count in (1, 2, 3, 4, 5, 6, 6):
        assert [day.day for day in parts.past()] == days[-count:]
    assert parts.renew() == parts.past()


def test_standings_are_renewed_before_what_pages_add(tmp_path):
    order = []
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        results = Results(database)
        results.kept.always(lambda: order.append('of a page'))
        make = results.kept.get
        results.kept.get = lambda key, *more, **slow: order.append(key) or make(
            key, *more, **slow)
        results.open()
        try:
            assert results.kept.settle()
        finally:
            results.close()
    assert order.index('names') < order.index('of a page')
