"""
The evaluator's page, by hand: a browser clicks through a whole session on the simulated station.

With ARENA_SCREENSHOTS set to a folder, the pictures of docs/evaluators.md are made there.
"""

import os
import time
from pathlib import Path

import pytest

pytest.importorskip('arena_msgs', reason='arena_msgs is not built: make setup')
pytestmark = pytest.mark.filterwarnings('ignore:module .sre_:DeprecationWarning')

TASK = 'put the yellow cube in the bowl'
WHY = 'A moved towards the cube, B stood still'
WAIT_S = 30.0


@pytest.fixture
def desk(tmp_path):
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.simulation.simulated_station import SimulatedStation
    os.environ.setdefault('MUJOCO_GL', 'egl')
    data = tmp_path / 'station'
    with SimulatedStation(data=data, seed=0, max_steps=400), \
            RemoteDesk(patience_s=60.0) as desk:
        desk.watch_views()
        desk.data = data
        yield desk


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        browser.get(url)

    def find(self, css):
        return self.browser.find_element('css selector', css)

    def until(self, look, what):
        def tried(_):
            try:
                return look()
            except Exception as error:    # stale elements while the panel is being replaced
                if 'element' not in str(error).lower():
                    raise
                return False
        from selenium.webdriver.support.ui import WebDriverWait
        try:
            return WebDriverWait(self.browser, WAIT_S, 0.1).until(tried)
        except Exception as error:
            self.photo('failure')
            raise AssertionError(f'{what}; {self.find("#state").text}: '
                                 f'{self.find("#problem").text}') from error

    def state(self, label):
        self.until(lambda: self.find('#state').text == label.upper(), f'no state {label}')

    def press(self, css='#primary'):
        self.until(lambda: self.find(css).is_enabled() and (self.find(css).click() or True),
                   f'cannot press {css}')

    def type(self, css, words):
        box = self.until(lambda: self.find(css), f'no {css}')
        box.clear()
        box.send_keys(words)

    def photo(self, name):
        folder = os.environ.get('ARENA_SCREENSHOTS')
        if folder:
            time.sleep(0.6)
            self.browser.save_screenshot(str(Path(folder) / f'console_{name}.png'))


@pytest.fixture
def page(browser, desk):
    from arena_robot.web.console.serve import ConsoleServer
    with ConsoleServer(desk, port=0) as server:
        yield Page(browser, server.url)


def test_a_session_by_hand(page, desk):
    enter_the_task(page, desk)
    run_a(page, desk)
    reset_the_scene(page)
    run_b(page, desk)
    give_the_verdict(page)
    see_the_reveal(page, desk)


def enter_the_task(page, desk):
    from arena_robot.web.console.app import NAME
    page.state('idle')
    page.press('#seat')
    page.press()
    page.state('check')
    page.type('#evaluator', 'Ada')
    page.type('#instruction', 'grasp')
    page.until(lambda: 'one word' in page.find('#instruction-hint').text, 'no hint')
    page.type('#instruction', TASK)
    for who, watching in (('somebody else', True), (NAME, False)):
        desk.take(who, True)
        page.until(lambda watching=watching: (
            'You are watching' in page.find('#panel').text) == watching, f'{who} took over')
    assert page.find('#instruction').get_attribute('value') == TASK, 'what was typed is gone'
    assert page.browser.switch_to.active_element.get_attribute('id') == 'instruction'
    page.until(lambda: page.find('#instruction-hint').text == 'Good.', 'no praise')
    page.photo('1_task')


def run_a(page, desk):
    page.press()
    page.state('pair')
    assert len(page.find('#commitment').text) == 64
    page.press()
    page.state('start photo')
    page.until(lambda: page.find('figure .live').get_attribute('src'), 'no live view')
    page.photo('2_start')
    page.press()
    page.state('A runs')
    page.until(lambda: page.find('#numbers').text.startswith('step'), 'no steps')
    time.sleep(1.5)
    page.photo('3_running')
    page.press('#stop')
    page.until(lambda: 'at rest: confirmed' in page.find('#stopped').text, 'no rest')
    page.state('score A')
    assert desk.state().slots[0].end == 'stopped'
    page.press('[data-mark="50"]')
    page.photo('4_score')


def reset_the_scene(page):
    page.press()
    page.state('reset')
    page.until(lambda: 'like the start' in page.find('#match').text, 'no match')
    for mode in ('difference', 'blend', 'side'):
        page.press(f'[data-mode={mode}]')
        page.photo(f'5_reset_{mode}')


def run_b(page, desk):
    page.press()
    page.state('B runs')
    page.until(lambda: page.find('#numbers').text.startswith('step'), 'no steps')
    page.find('body').send_keys(' ')
    page.until(lambda: 'at rest: confirmed' in page.find('#stopped').text, 'no rest')
    page.state('score B')
    assert desk.state().slots[1].end == 'stopped'
    page.press('[data-mark="25"]')


def give_the_verdict(page):
    page.press()
    page.state('preference')
    page.press('[data-value=A]')
    page.press()
    page.until(lambda: 'Say it in a sentence' in page.find('#problem').text, 'no complaint')
    page.type('#explanation', WHY)
    assert not page.find('#problem').is_displayed(), 'a complaint stays while it is attended to'
    page.photo('6_preference')
    page.press()
    page.state('review')
    page.press('#edit-B')
    page.press('#edit [data-mark="0"]')
    page.press('#keep')
    page.until(lambda: '0 of 100' in page.find('#review').text, 'the change is not shown')
    page.photo('7_review')


def see_the_reveal(page, desk):
    page.press()
    page.state('done')
    page.until(lambda: 'matches the reveal' in page.find('#reveal').text, 'no reveal')
    page.photo('8_done')
    state = desk.state()
    assert (state.verdict.progress_a, state.verdict.progress_b) == (0.5, 0.0)
    assert (state.verdict.preference, state.verdict.explanation) == ('A', WHY)
    assert {state.policy_a, state.policy_b} == {'random-walk', 'frozen'}
    page.find('#history summary').click()
    page.until(lambda: TASK in page.find('#today').text, 'no history')


def test_warnings_are_shown(browser):
    from test_console_app import FakeDesk

    from arena_robot.session.evaluator.desk import DeskState
    from arena_robot.session.ports import Check
    from arena_robot.session.protocol.states import State
    from arena_robot.web.console.serve import ConsoleServer
    desk = FakeDesk()
    desk.now = DeskState(State.PREFLIGHT, checks=(Check('arm', True, 'idle'), Check(
        'arena', True, 'the clock is off', warning=True)))
    with ConsoleServer(desk, port=0) as server:
        page = Page(browser, server.url)
        page.until(lambda: page.find('.checks .warning').text == 'arena: the clock is off',
                   'no warning of the clock')
        desk.now = DeskState(State.RESET, matches={'left_left': 0.9}, match=0.9,
                             moved_cameras=('left',))
        page.until(lambda: page.find('#moved').text.startswith('The left camera seems to have'),
                   'no word of the camera')
