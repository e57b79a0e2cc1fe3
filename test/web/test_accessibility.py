"""axe-core finds nothing serious on any page of site, console and report, light and dark."""

import importlib.util
import sys
from pathlib import Path

import pytest
from console_rig import Station
from site_audits import write_audits
from test_site import Place, finished
from test_site_pages import steps

from arena_robot.core.episode import Preference
from arena_robot.core.verdict import Verdict
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.scene_match import SceneMatch, write_scene_match
from arena_robot.reports.tournament import write_report
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.session.protocol.states import State
from arena_robot.web.console.serve import ConsoleServer

sys.path.insert(0, str(Path(__file__).parents[1] / 'reports'))
from test_tournament import NAMES, tournament, write_session

SITE = ('/', '/matrix', '/policies', '/policies/crimson-7b', '/policies/elsewhere',
        '/evaluations?origin=imported', '/evaluations/{id}', '/evaluations/{audited}',
        '/evaluations/import-1', '/versus',
        '/versus?a=crimson-7b&b=azure-fast', '/by/category', '/by/institution', '/history',
        '/data', '/audit', '/about', '/api', '/rules', '/owner', '/no/such/page')
CONSOLE = (State.IDLE, State.ASSIGNED, State.START_PHOTOGRAPHED, State.RUNNING_A, State.SCORING_A,
           State.RESET, State.PREFERENCE, State.REVIEW, State.SUBMITTING, State.DONE)
RUN = """
const done = arguments[arguments.length - 1];
const only = arguments[0] ? {runOnly: ['color-contrast']} : {};
axe.run(document, {resultTypes: ['violations'], ...only}).then((found) => done(
  found.violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map(
    (one) => [one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))])));
"""


@pytest.fixture(scope='module')
def source():
    found = importlib.util.find_spec('axe_core_python')
    if found is None:
        pytest.skip('axe-core-python is not installed (make setup installs it)')
    return (Path(found.submodule_search_locations[0]) / 'axe.min.js').read_text(encoding='utf-8')


def findings(browser, source):
    """Return the serious findings on the page that is open: all rules light, contrast dark."""
    found = []
    for theme in ('light', 'dark'):
        browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
        if theme == 'light':
            browser.execute_script(source)
        found += [(theme, *one) for one in browser.execute_async_script(RUN, theme == 'dark')]
    return found


@pytest.fixture
def pages(browser):
    browser.set_script_timeout(20.0)
    yield browser
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp('site'))
    for number in range(8):
        made.sessions.append(finished(made.server, made.caller, 'put the cup here', Verdict(
            progress_a=0.2, progress_b=0.8, preference=list(Preference)[number % 3],
            explanation='B was quicker'), 100 + number))
    insert_evaluations(made.server.database, made.server.sessions._clock, [RoboArenaSession(
        f'import-{k}', 'elsewhere', 'nowhere', True, Preference.A, 'penn', 'eve',
        '2025-03-21T11:02:24', '2025-03-21T11:12:24', 'fine', rollouts=()) for k in range(3)])
    home = made.server.blobs.local_path(f'{made.sessions[0]}/B/steps.npz').parent
    (home / 'steps.npz').write_bytes(steps(30))
    write_scene_match(home, SceneMatch(0.9, {'left_left': 0.9, 'wrist_left': 0.95}))
    write_audits(made)
    made.server.results.forget()
    yield made
    made.close()


def test_the_site(place, pages, source):
    found = {}
    for path in SITE:
        pages.get(place.web.address + path.format(
            id=place.sessions[0], audited=place.sessions[3]))
        pages.execute_script('for (const one of document.querySelectorAll("details")) '
                             'one.open = true')
        found[path] = findings(pages, source)
    assert not {path: one for path, one in found.items() if one}, found


def test_the_console(pages, source):
    from selenium.webdriver.support.ui import WebDriverWait
    station, found = Station(), {}
    with ConsoleServer(station, port=0) as server:
        pages.get(server.url)
        for state in CONSOLE:
            station.set(state)
            WebDriverWait(pages, 20.0, 0.05).until(lambda page: page.execute_script(
                'return document.querySelector("#panel h2")?.textContent')
                == station.now.message, state.value)
            found[state.value] = findings(pages, source)
        pages.get('about:blank')
    assert not {state: one for state, one in found.items() if one}, found


def test_the_report(pages, source, tmp_path):
    homes = [write_session(tmp_path, k, NAMES[a], NAMES[b], scores, checks=[])
             for k, (a, b, scores) in enumerate(
                 [(0, 1, (1.0, 0.4)), (1, 2, (0.3, 0.0)), (0, 2, (0.9, 0.0))], 1)]
    pages.get(write_report(tournament(homes), tmp_path / 'report').as_uri())
    assert findings(pages, source) == []


def test_a_finding_is_found(pages, source):
    pages.get('data:text/html,<html><body><img src="x"><p style="color:%23ddd">pale</p></body>')
    assert {one[1] for one in findings(pages, source)} >= {'image-alt', 'color-contrast'}
