"""axe-core finds nothing serious on any page; all fit a phone, and can be used by keyboard."""

import importlib.util
import sys
from pathlib import Path

import pytest
from console_rig import Page, Station
from fastapi.responses import HTMLResponse
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from test_console_stop import QUESTIONS
from test_site import Place, finished, write_audits
from test_site_pages import steps

from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import Verdict
from arena_robot.records.episode_file import SceneMatch, write_scene_match
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.reports.tournament import write_report
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.session.base import Check
from arena_robot.session.protocol.states import State
from arena_robot.web.console.app import ConsoleServer
from arena_robot.web.site.app import site
from arena_robot.web.site.serve import site_parts

sys.path.insert(0, str(Path(__file__).parents[1] / 'reports'))
from test_tournament import NAMES, tournament, write_session

SITE = ('/', '/?category=Pick+and+Place&equal_score=true', '/matrix', '/policies',
        '/policies/crimson-7b', '/policies/elsewhere',
        '/evaluations?origin=imported', '/evaluations/{id}', '/evaluations/{audited}',
        '/evaluations/import-1', '/versus',
        '/versus?a=crimson-7b&b=azure-fast', '/by/category', '/by/institution', '/history',
        '/policies/crimson-7b/reports/2', '/policies/crimson-7b/reports/2/changes?since=1',
        '/reports/versus?a=crimson-7b&b=azure-fast',
        '/categories/open-close', '/data', '/data/2026-11', '/audit', '/about', '/api', '/rules',
        '/owner', '/no/such/page')
ELSEWHERE = ('/admin', '/join')    # signed in: below, and in test_join.py
BAD = (Check('arm', False, 'arm: no state'), Check('server', True, 'its clock', warning=True))
CONSOLE = [(state, '', {}) for state in State] + [
    (State.PREFLIGHT, '', {'checks': BAD, 'notice': 'something to know'}),
    (State.RESET, '[data-mode=blend]', {'moved_cameras': ('left',)}), *QUESTIONS[-3:]]
JUDGED = {'curve': [[0.0, 0.0], [1.0, 0.5], [2.0, 0.9]], 'last': 0.9, 'best': 0.9, 'falls': [1.0],
          'still': [], 'detail': ''}
AUDIT = {'session_id': 'f' * 32, 'judge': 'local', 'calibrated': True, 'audit': 'A',
         'preference': 'B', 'slots': {'A': JUDGED, 'B': JUDGED}}
# States whose colours another one has too.
ALIKE = (State.TASK_ENTERED, State.ASSIGNED, State.START_PHOTOGRAPHED, State.RUNNING_B,
         State.SCORING_B, State.SUBMITTING, State.ABORTED)
RUN = """
const done = arguments[arguments.length - 1];
const only = arguments[0] ? {runOnly: ['color-contrast']} : {};
axe.run(document, {resultTypes: ['violations'], ...only}).then((found) => done(
  found.violations.filter((one) => ['serious', 'critical'].includes(one.impact)
                          || ['heading-order', 'empty-table-header'].includes(one.id)).map(
    (one) => [one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))])));
"""
# Notes which of what can be used takes the focus, and which of that does not show it; of radio
# buttons of a group the keyboard reaches one.
WATCH = """
const looks = (node) => { const style = getComputedStyle(node); return ['outlineStyle',
  'outlineWidth', 'boxShadow', 'borderColor', 'textDecorationLine'].map((k) => style[k]).join(); };
const text = (node) => node.outerHTML.slice(0, 160);
if (document.activeElement) document.activeElement.blur();
window.unreached = new Map();
for (const node of document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'))
  if (!node.disabled && node.type !== 'radio' && node.checkVisibility({visibilityProperty: true}))
    window.unreached.set(node, looks(node));
window.unseen = [];
document.addEventListener('focusin', ({target}) => {
  if (window.unreached.get(target) === looks(target)) window.unseen.push(text(target));
  window.unreached.delete(target);
});
window.left = () => [[...window.unreached.keys()].filter((node) => node.isConnected).map(text),
                     window.unseen];
return window.unreached.size;
"""


@pytest.fixture(scope='module')
def source():
    spec = importlib.util.find_spec('axe_core_python')
    if spec is None:
        pytest.skip('axe-core-python is not installed (make setup installs it)')
    return (Path(spec.submodule_search_locations[0]) / 'axe.min.js').read_text(encoding='utf-8')


def findings(browser, source, themes=('light', 'dark')):
    """Return what is serious on the page: all rules light, contrast dark, too wide for a phone."""
    problems = []
    for theme in themes:
        browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
        if theme == 'light':
            browser.execute_script(source)
            if browser.execute_script('return location.protocol === "http:" && '
                                      '!document.querySelector("meta[name=description]")'):
                problems.append((theme, 'no description'))
        problems += [(theme, *row) for row in browser.execute_async_script(RUN, theme == 'dark')]
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': 390, 'height': 844, 'deviceScaleFactor': 1, 'mobile': False})
    wide = browser.execute_script('return document.documentElement.scrollWidth - innerWidth')
    browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})
    return problems + [('phone', f'{wide} px too wide')] * (wide > 0) + keyboard(browser)


def keyboard(browser):
    """Return what Tab does not reach, or what does not show that it has the focus, twice."""
    return tabbed(browser) and tabbed(browser)    # a busy browser shows a focus late


def tabbed(browser):
    """Return what Tab does not reach, or what does not show that it has the focus."""
    count = browser.execute_script(WATCH)
    for _ in range(4):    # the controls of films take the focus as well
        ActionChains(browser, duration=0).send_keys(Keys.TAB * (count + 10)).perform()
        unreached, unseen = browser.execute_script('return window.left()')
        if not unreached:
            break
    return [(words, node) for words, nodes in (('not reached by Tab', unreached),
                                               ('no focus is shown', unseen))
            for node in nodes[:3]]


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
    insert_evaluations(made.server.database, SystemClock(), [RoboArenaSession(
        f'import-{k}', 'elsewhere', 'nowhere', True, Preference.A, 'penn', 'eve',
        '2025-03-21T11:02:24', '2025-03-21T11:12:24', 'fine', rollouts=()) for k in range(3)])
    home = made.server.blobs.local_path(f'{made.sessions[0]}/B/steps.npz').parent
    (home / 'steps.npz').write_bytes(steps(30))
    write_scene_match(home, SceneMatch(0.9, {'left_left': 0.9, 'wrist_left': 0.95}))
    write_audits(made)
    assert made.server.results.settle()
    for words in (['--since', '2026-01-01'], []):
        assert main(['report', 'crimson-7b', *words, '--data', str(made.server.config.data),
                     '--save']) == 0
    for words in (['report', 'azure-fast', '--save'],
                  ['admin', 'release', '2026-11', '--doi', '10.5281/zenodo.7', '--by', 'maya']):
        assert main([*words, '--data', str(made.server.config.data)]) == 0
    yield made
    made.close()


def test_the_site(place, pages, source):
    by_path = {}
    for path in SITE:
        pages.get(place.web.address + path.format(
            id=place.sessions[0], audited=place.sessions[3]))
        pages.execute_script('for (const one of document.querySelectorAll("details")) '
                             'one.open = true')
        by_path[path] = findings(pages, source)
    by_path['signed in'] = signed_in(place, pages, source)
    by_path['maintainer'] = signed_in(place, pages, source, '/admin', place.maintainer)
    assert not {path: rows for path, rows in by_path.items() if rows}, by_path


def test_every_page_of_the_site_is_looked_at(place):
    routes = [route for route in site(site_parts(place.server)).routes
              if getattr(route, 'response_class', None) is HTMLResponse
              and 'GET' in route.methods]
    paths = {path.format(id='1', audited='2').partition('?')[0] for path in SITE} | {*ELSEWHERE}
    assert len(routes) > 15
    assert not [route.path for route in routes
                if not any(route.path_regex.match(path) for path in paths)]


def signed_in(place, pages, source, path='/owner', token=''):
    """Return what is found on the page of an owner's policies, or that of the maintainers."""
    pages.get(f'{place.web.address}{path}')
    pages.find_element('css selector', '[name=token]').send_keys(token or place.token, Keys.ENTER)
    WebDriverWait(pages, 20.0).until(lambda page: 'olga' in page.page_source)
    return findings(pages, source)


def test_the_console(pages, source):
    station, by_state = Station(), {}
    with ConsoleServer(station, port=0, audits=lambda: [AUDIT]) as server:
        page = Page(pages, station, server.url)
        for state, css, more in CONSOLE:
            page.shows(state, **more)
            if css:
                page.press(css)
            themes = ('light',) if state in ALIKE else ('light', 'dark')
            by_state[state.value, css] = findings(pages, source, themes)
        page.press('#no')
        by_state |= alarmed(page, station, source) | audited(page, source)
        by_state |= watched(page, station, source) | lost(page, source)
        station.end()
        pages.get('about:blank')
    assert not {case: rows for case, rows in by_state.items() if rows}, by_state


def alarmed(page, station, source):
    """Return what is found while STOP waits, and a refusal is shown."""
    station.rest.clear()
    page.shows(State.START_PHOTOGRAPHED)
    station.fail = SessionError('refused')
    page.press('#again')
    page.until(lambda: 'refused' in page.find('#problem').text, 'no problem')
    page.find('#stop').click()
    page.until(lambda: page.find('#alarm').is_displayed(), 'no alarm')
    station.rest.set()
    station.fail = None
    return {'alarm': findings(page.browser, source)}


def audited(page, source):
    """Return what is found beside an audit and the sessions of today."""
    page.shows(State.DONE)
    page.until(lambda: 'The audit prefers A' in page.find('#audit').text, 'no audit')
    page.find('#history summary').click()
    page.until(lambda: 'close the drawer' in page.find('#today').text, 'no sessions')
    return {'audit': findings(page.browser, source)}


def lost(page, source):
    """Return what is found while the station does not answer."""
    page.press('#no')
    page.browser.execute_cdp_cmd('Network.enable', {})
    try:
        page.browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': ['*/api/state*']})
        page.until(lambda: 'does not answer' in page.find('#problem').text, 'not lost')
        return {'lost': findings(page.browser, source)}
    finally:
        page.browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': []})
        page.browser.execute_cdp_cmd('Network.disable', {})


def watched(page, station, source):
    """Return what is found on a page that somebody else's session is watched on."""
    station.take('terminal')
    page.until(lambda: 'You are watching' in page.find('#panel').text, 'in control')
    page.find('#seat').click()
    page.until(lambda: page.find('#ask').is_displayed(), 'no question')
    return {'watched': findings(page.browser, source)}


def test_the_report(pages, source, tmp_path):
    homes = [write_session(tmp_path, k, NAMES[a], NAMES[b], scores, checks=[])
             for k, (a, b, scores) in enumerate(
                 [(0, 1, (1.0, 0.4)), (1, 2, (0.3, 0.0)), (0, 2, (0.9, 0.0))], 1)]
    pages.get(write_report(tournament(homes), tmp_path / 'report').as_uri())
    assert findings(pages, source) == []


def test_a_finding_is_found(pages, source):
    pages.get('data:text/html,<!doctype html><html><body><img src="x">'
              '<p style="color:%23ddd">pale</p>'
              '<a href="/" style="outline:none">unseen</a><a href="/" inert>unreached</a>'
              '<p style="position:absolute;left:0;width:400px">wide</p></body>')
    found = findings(pages, source)
    assert {row[1] for row in found} >= {'image-alt', 'color-contrast', '10 px too wide'}
    assert {row[0] for row in found} >= {'not reached by Tab', 'no focus is shown'}
