"""Reports, categories and releases on the site: kept, compared, corrected, frozen."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from roboarena_tables import SAMPLE, load
from test_site import Place, finished, write_audits

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.config import load as load_config
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.process import wait_until
from arena_robot.core.verdict import Verdict
from arena_robot.models.http import HttpCaller
from arena_robot.ranking.intervals.shares import pooled_shares
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.recording.episode.frames import rgb_frame, write_video
from arena_robot.records.roboarena_files import read_folder
from arena_robot.reports.policy_report.material import material_of
from arena_robot.reports.policy_report.statements import SECTIONS
from arena_robot.server.base import Role
from arena_robot.server.config import ServerConfig
from arena_robot.server.store import schema
from arena_robot.server.store.categories import Categories, StoredCategory
from arena_robot.server.store.reports import Reports
from arena_robot.server.upkeep import background_work
from arena_robot.server.upkeep.background_work import (
    BackgroundWork,
    reports_are_due,
    sessions_to_categorise,
)
from arena_robot.server.upkeep.backup import back_up, restore
from arena_robot.web.site.server_jobs import (
    SERVER_JOBS,
    categories_job,
    reports_job,
    server_material,
)

POLICY = 'pi0_fast_droid'


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp('site'))
    load(made.server.database, SAMPLE)
    write_audits(made)
    assert made.server.results.settle()
    accounts = made.server.accounts
    made.maintainer = accounts.issue(accounts.add_account('mia', 'upenn', [Role.MAINTAINER]))
    yield made
    made.close()


def saved(place, *words):
    return main(['report', *words, '--data', str(place.server.config.data), '--save'])


def test_a_report_is_kept_under_a_number_and_shown(place, capsys):
    place.get(f'/policies/{POLICY}/report', 404)
    reports = Reports(place.server.database, SystemClock())
    assert reports_are_due(place.server.config, place.server.results, reports)
    assert saved(place, '--all') == 0
    assert f'{POLICY}: report 1. Of ' in capsys.readouterr().out
    assert not reports_are_due(place.server.config, place.server.results, reports)
    assert saved(place, '--all') == 0
    assert capsys.readouterr().out == '', 'nothing new came'
    assert saved(place, POLICY, '--since', '2025-04-20') == 0
    assert saved(place, '--all', POLICY) == 2
    first = place.get(f'/policies/{POLICY}/reports/1').text
    newest = place.client.get(f'/policies/{POLICY}/report')
    assert newest.headers['location'] == f'/policies/{POLICY}/reports/2'
    cited = set(re.findall(r'/evaluations/([0-9a-f-]{36})"', first))
    assert len(cited) > 10
    for session_id in sorted(cited)[:3]:
        assert POLICY in place.get(f'/evaluations/{session_id}').text
    assert 'Common Failure Modes' in first
    assert 'changes?since=1' in place.get(f'/policies/{POLICY}/reports/2').text
    changes = place.get(f'/policies/{POLICY}/reports/2/changes?since=1').text
    assert 'What changed' in changes
    assert f'/policies/{POLICY}/reports/2' in place.get(f'/policies/{POLICY}').text
    assert place.get(f'/policies/{POLICY}/reports/1/report.md').text.startswith('# pi0')
    assert place.get(f'/api/policies/{POLICY}/reports/0').json()['since'] == '2025-04-20'
    place.get(f'/policies/{POLICY}/reports/9', 404)


@pytest.fixture
def started(monkeypatch):
    """Return what the server's background work starts: processes, with function and arguments."""
    processes = []

    def start(work, *arguments):
        process = SimpleNamespace(work=work, arguments=arguments, code=None, kill=lambda: None)
        processes.append(process)
        return process
    monkeypatch.setattr('arena_robot.core.bounded.started', start)
    return processes


def test_reports_are_made_in_the_background(place, started):
    worker = BackgroundWork(place.server.config, 'reports', reports_job, lambda: True)
    worker.step()
    assert not started, 'not at the start of the server'
    worker.step()
    [process] = started
    config = load_config(ServerConfig, *process.arguments)
    assert (process.work, config.data) == (reports_job, place.server.config.data.resolve())
    assert config.database_url().endswith('/arena.db')
    process.code = 1
    for _ in range(10):
        worker.step()
    assert len(started) == 1, 'after a failure it waits'


def test_what_somebody_typed_is_text_in_a_report(place):
    assert saved(place, 'crimson-7b') == 0
    page = place.get('/policies/crimson-7b/reports/2').text
    assert '<script>alert' not in page
    assert 'Directness by the audit (PPL)' in page
    assert f'/evaluations/{place.sessions[3]}#t=3.0">session' in page


def test_the_server_gives_the_sessions_that_its_tables_give(place):
    tables = {s.session_id: s for s in material_of(read_folder(SAMPLE).sessions).sessions}
    sessions = [s for s in server_material(place.server.database).sessions
                if s.session_id in tables]
    assert len(sessions) == len(tables)
    for session in sessions:
        table = tables[session.session_id]
        assert (session.policies, session.verdict, session.category) == (
            table.policies, table.verdict, table.category)


def test_two_policies_reports_stand_beside_each_other(place):
    opponent = 'paligemma_diffusion_droid'
    pair = f'a={POLICY}&b={opponent}'.replace('&', '&amp;')
    assert f'/reports/versus?{pair}' in place.get(f'/versus?a={POLICY}&b={opponent}').text
    page = place.get(f'/reports/versus?a={POLICY}&b={opponent}').text
    for title in SECTIONS:
        first, second = (page.index(f'aria-label="{title}: {name}"')
                         for name in (POLICY, opponent))
        assert first < second
    assert len(set(re.findall(r'/evaluations/([0-9a-f-]{36})', page))) > 10
    place.get(f'/reports/versus?a={POLICY}&b=nobody', 404)


def checked(place, token, word, **headers):
    return place.client.post(f'/policies/{POLICY}/reports/1/checks', headers=headers,
                             data={'token': token, 'said': word})


def test_people_check_citations_in_one_click_each(place):
    page = place.get(f'/policies/{POLICY}/reports/1').text
    assert 'People checked 0 of ' in page
    spot = re.search(r'value="holds (\d+\.\d+\.\d+)"', page)[1]
    accounts = place.server.accounts
    station = accounts.issue(accounts.station('bench'))
    for token, word, status in (
            ('nonsense', f'holds {spot}', 403), (station, f'holds {spot}', 403),
            (place.token, 'holds 0.0.99', 400), (place.token, spot, 400)):
        assert checked(place, token, word).status_code == status
    assert checked(place, place.token, f'fails {spot}').status_code == 303
    counts = checked(place, place.token, f'holds {spot}', accept='application/json').json()
    assert counts == {'holds': 1, 'fails': 0}, 'the newest word of a person counts'
    counts = checked(place, place.maintainer, f'fails {spot}', accept='application/json').json()
    assert counts == {'holds': 1, 'fails': 1}
    page = place.get(f'/policies/{POLICY}/reports/1').text
    assert 'yes 1, no 1' in page
    assert '0 are about their statement, 0 are not, 1 are disputed' in page
    assert 'yes 1' not in place.get(f'/policies/{POLICY}/reports/2').text, 'of that report alone'


def correct(place, session_id, token, category):
    return place.client.post(f'/evaluations/{session_id}/category',
                             data={'token': token, 'category': category})


def test_a_maintainers_correction_wins(place):
    session_id = place.sessions[1]
    assert 'Category: said by rules' in place.get(f'/evaluations/{session_id}').text
    assert 'open the drawer 1' not in place.get('/categories/tool-use').text
    for token, status in ((place.token, 403), ('nonsense', 403)):
        assert correct(place, session_id, token, 'Tool Use').status_code == status
    assert correct(place, session_id, place.maintainer, 'Juggling').status_code == 400
    assert correct(place, 'nope', place.maintainer, 'Tool Use').status_code == 404
    assert correct(place, session_id, place.maintainer, 'Tool Use').status_code == 303
    categories = Categories(place.server.database, SystemClock())
    assert not categories.store(session_id,
                                StoredCategory('Find / Search', 'model', 'm', '1', 0.9))
    page = place.get(f'/evaluations/{session_id}').text
    assert 'the maintainer mia' in page
    assert 'href="/categories/tool-use"' in page
    assert 'open the drawer 1' in place.get('/categories/tool-use').text
    assert place.server.results.settle()
    assert 'crimson-7b' in place.get('/api/by/category').json()['Tool Use']
    place.get('/categories/juggling', 400)
    with pytest.raises(DataError, match='Juggling'):
        categories.store(session_id, StoredCategory('Juggling'))


def test_a_model_categorises_what_it_has_not_seen(place, capsys, monkeypatch):
    bodies = []
    film = place.server.blobs.local_path(f'{place.sessions[4]}/A/left.mp4')
    pixels = rgb_frame(np.zeros((48, 64, 3), np.uint8))
    write_video(film, [(k * 66_000_000, pixels) for k in range(4)])

    def answer(self, method, path, **request):
        bodies.append(json.dumps(request['json']))
        if 'open the drawer 3' in bodies[-1]:
            return b'{"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}'
        return httpx.Response(200, json={'choices': [{'message': {'content': json.dumps({
            'category': 'Move / Slide', 'confidence': 0.75, 'lighting': 'dim', 'clutter': 'low',
            'visibility': 'unknown', 'objects': ['drawer'],
            'views': ['side']})}, 'finish_reason': 'stop'}]}).content
    monkeypatch.setattr(HttpCaller, 'call', answer)
    monkeypatch.setattr('arena_robot.models.chat.CACHE', '')
    for name, value in (('URL', 'http://127.0.0.1:9'), ('', 'seen')):
        monkeypatch.setenv(f'ARENA_MODEL_{name}'.rstrip('_'), value)
    call = ['results', 'categorise', '--data', str(place.server.config.data)]
    assert main(call) == 2
    assert main([*call, '--model', '--limit', '70', '--dry-run']) == 0
    assert '0 sessions categorised' in capsys.readouterr().out
    assert main([*call, '--model', '--limit', '5']) == 0
    printed = capsys.readouterr().out
    assert ('4 sessions categorised by seen, 1 without a fitting answer by rules; 7 calls'
            in printed)
    assert main([*call, '--model', '--limit', '3']) == 0
    assert '3 sessions categorised by seen; 3 calls' in capsys.readouterr().out
    shown = [body for body in bodies if 'data:image/' in body]
    assert len(bodies) == 10, 'the session without an answer is not asked again'
    [body] = shown
    assert 'open the drawer 4' in body, 'only one session has a film'
    shown = [place.get(f'/evaluations/{session_id}').text for session_id in place.sessions]
    assert sum('Category: said by seen' in page for page in shown) == 4, "one is a person's"
    assert any('lighting: dim' in page and 'objects: drawer' in page for page in shown)


def test_categories_by_a_model_in_the_background(place, monkeypatch, started):
    categories = Categories(place.server.database, SystemClock())
    config = replace(place.server.config, categorise_per_day=7 + categories.by_model_in_a_day())
    assert 'categories' not in background_work.background_work(
        place.server.config, SERVER_JOBS, None, None, None)
    worker = background_work.background_work(config, SERVER_JOBS, None, place.server.database,
                             SystemClock())['categories']
    monkeypatch.delenv('ARENA_MODEL_URL', raising=False)
    worker.step(), worker.step()
    assert not started, 'without an endpoint nothing is sent'
    monkeypatch.setenv('ARENA_MODEL_URL', 'http://127.0.0.1:9')
    monkeypatch.setenv('ARENA_MODEL', 'seen')
    worker.step()
    [process] = started
    given = load_config(ServerConfig, *process.arguments)
    assert (process.work, sessions_to_categorise(given, categories)) == (categories_job, 7)
    for session_id, _ in categories.unseen('', '', 5):
        categories.store(session_id, StoredCategory('Tool Use', 'model', 'other', '1', 0.5))
    assert sessions_to_categorise(config, categories) == 2, 'the others are for tomorrow'


def test_a_process_of_its_own_makes_the_reports(place, monkeypatch):
    monkeypatch.setattr(background_work, 'LONGEST_STEPS', 10**6)    # no step takes a minute here
    reports = Reports(place.server.database, SystemClock())
    before = len(reports.list('crimson-7b'))
    assert saved(place, 'crimson-7b', '--since', '2020-01-01') == 0
    with place.server.database.write() as connection:    # as if other sessions had come
        connection.execute(sa.update(schema.reports).where(
            schema.reports.c.policy == 'crimson-7b').values(sessions=1))
    worker = BackgroundWork(place.server.config, 'reports', reports_job,
                            lambda: len(reports.list('crimson-7b')) < before + 2)

    def made():
        worker.step()
        return len(reports.list('crimson-7b')) == before + 2
    try:
        assert wait_until(made, 120.0)
    finally:
        worker.close()


def test_little_data_are_pooled_more():
    many, few = pooled_shares([0.2, 0.9], [400, 4])
    assert 0.19 < many.share < 0.25
    assert few.share < 0.9
    assert few.high - few.low > many.high - many.low
    same = pooled_shares([0.5, 0.5, 0.5], [10, 20, 30])
    assert {round(score.share, 9) for score in same} == {0.5}
    assert pooled_shares([], []) == []
    [alone] = pooled_shares([1.0], [3])
    assert alone.low <= alone.share <= alone.high <= 1.0


FROZEN = ('release.json', 'sessions.csv')


def admin(made, *words):
    return main(['admin', *words, '--by', 'maya', '--data', str(made.server.config.data)])


def files(made, name='2026-11'):
    return {file: made.get(f'/data/{name}/{file}').content for file in FROZEN}


@pytest.fixture(scope='module')
def released(tmp_path_factory):
    """A server with a release, and what happened to its sessions afterwards."""
    made = Place(tmp_path_factory.mktemp('site'), verdicts=4)
    try:
        assert admin(made, 'release', '2026-11', '--doi', '10.5281/zenodo.7') == 0
        made.frozen = files(made)
        assert admin(made, 'hide', made.sessions[1], '--reason', 'a name') == 0
        assert admin(made, 'hide', made.sessions[2], '--reason', 'a name') == 0
        assert admin(made, 'hide', made.sessions[2], '--undo') == 0
        finished(made.server, made.caller, 'a later task', Verdict(
            progress_a=1.0, progress_b=0.0, preference=Preference.A, explanation='.'), 9)
        assert admin(made, 'release', '2026-12') == 0
        yield made
    finally:
        made.close()


def test_later_sessions_hides_and_undos_change_no_byte_of_a_release(released, capsys):
    assert admin(released, 'release', '2026-11') == 2
    assert 'never changes' in capsys.readouterr().err
    assert files(released) == released.frozen
    later = files(released, '2026-12')
    for name, old in released.frozen.items():
        assert b'a later task' in later[name]
        assert b'a later task' not in old
    assert 'doi = {10.5281/zenodo.7}' in released.get('/data/2026-11').text
    assert [row['name'] for row in released.get('/api/releases').json()] == ['2026-11', '2026-12']
    assert '<a href="/data/2026-11">' in released.get('/data').text
    released.get('/data/2026-10', 404)
    released.get('/data/2026-11/log.key', 404)


def test_a_release_is_checked_with_the_log(released, tmp_path, capsys):
    values, log = json.loads(released.frozen['release.json']), tmp_path / 'log.json'
    assert values['tasks']['open the drawer 1']['azure-fast'] in (
        {'wins': 0, 'ties': 0, 'losses': 1, 'progress': 0.75},
        {'wins': 1, 'ties': 0, 'losses': 0, 'progress': 0.25})
    assert values['release']['methods'][-1]['method'] == RECOMMENDED
    log.write_bytes(released.get('/api/log').content)
    paths = [tmp_path / name for name in FROZEN]
    command = ['results', 'verify', str(log), *(
        word for path in paths for word in ('--release', str(path)))]
    for path in paths:
        path.write_bytes(released.frozen[path.name])
    assert main(command) == 0
    assert capsys.readouterr().out.count('is of release 2026-11, unchanged') == len(paths)
    for path in paths:
        path.write_bytes(released.frozen[path.name].replace(b'drawer 3', b'drawer X'))
        assert main(command) == 2, path
        path.write_bytes(released.frozen[path.name])
    values['tasks']['open the drawer 1'] = {}
    paths[0].write_text(json.dumps(values))
    assert main(['results', 'verify', str(paths[0])]) == 2
    assert 'results by task do not follow' in capsys.readouterr().err


def test_a_backup_has_the_releases(released, tmp_path):
    back_up(released.server.config, tmp_path / 'backup', SystemClock())
    back = ServerConfig(data=tmp_path / 'back')
    restore(back, tmp_path / 'backup', SystemClock())
    assert {name: (back.data / 'blobs/releases/2026-11' / name).read_bytes()
            for name in FROZEN} == released.frozen
