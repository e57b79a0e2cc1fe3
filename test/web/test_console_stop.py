"""
STOP on the evaluator's page: in every state, beside every question, by mouse, touch and key.

It goes out by a request and by the line: each alone stops the arm, and the page tells.
"""

import threading

import pytest
from console_rig import MOVING, Page
from selenium.webdriver.common.keys import Keys

from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.session.evaluator.desk import SlotView
from arena_robot.session.protocol.states import State
from arena_robot.web.console.app import NAME, ConsoleServer

NO_LINE = """
window.RealWebSocket = window.WebSocket;
window.WebSocket = function() { throw new Error('no way'); };"""


def three_ways(page, way):
    """Press STOP by mouse, touch and space bar; keys on STOP itself are pressed elsewhere."""
    stop = page.find('#stop')
    page.stops(stop.click, f'{way}, mouse')
    page.stops(lambda: page.touch(stop), f'{way}, touch')
    page.browser.execute_script('document.activeElement.blur()')
    page.stops(lambda: page.key(' '), f'{way}, space')


def every_way(page, way):
    stop = page.find('#stop')
    page.stops(stop.click, f'{way}, mouse')
    page.stops(lambda: page.touch(stop), f'{way}, touch')
    page.focus('#stop')
    page.stops(lambda: page.key(Keys.ENTER), f'{way}, Enter on STOP')
    page.focus('#stop')
    page.stops(lambda: page.key(' '), f'{way}, space on STOP')
    page.browser.execute_script('document.activeElement.blur()')
    page.stops(lambda: page.key(' '), f'{way}, space')


def test_stop_in_every_state(page):
    for state in State:
        page.shows(state)
        every_way(page, state.value)


def test_stop_in_every_state_while_the_arm_moves(page):
    for state in State:
        page.shows(state, doing=MOVING)
        three_ways(page, f'{state.value}, the arm moves')


AGAIN = (SlotView(Slot.A, 'driver_error', 'no frame', 12, again='fault'),
         SlotView(Slot.B, 'done', '', 9, again='mistake'))
QUESTIONS = [
    (State.ASSIGNED, '#abort', {}), (State.RUNNING_A, '#abort', {}),
    (State.SCORING_A, '#invalidate', {}), (State.REVIEW, '#invalidate', {}),
    (State.RESET, '#primary', {'match': 0.1}),
    (State.SCORING_A, '#score-anyway', {'slots': AGAIN}),
    (State.SCORING_B, '#mistake', {'slots': AGAIN})]


def test_what_is_left_of_a_step_is_not_begun_after_stop(page, station):
    station.doing_it, confirmed = threading.Event(), threading.Event()
    press = station.press

    def confirm(button, text=''):
        station.doing_it.set()
        assert confirmed.wait(20.0)
        return press(button, text)
    station.press = confirm
    page.shows(State.RESET)
    page.press('#primary')
    assert station.doing_it.wait(20.0)
    page.find('#stop').click()
    page.until(lambda: station.stops == 1, 'no STOP')
    confirmed.set()
    page.until(lambda: 'STOP was pressed' in page.find('#problem').text, 'it goes on')
    assert not station.asked('start')
    station.press = press
    page.press('#primary')
    page.until(lambda: station.asked('start') == [('start', Slot.B)], 'no step any more')


def test_stop_beside_every_question(page):
    for number, (state, css, more) in enumerate(QUESTIONS):
        page.shows(state, **more)
        page.press(css)
        page.until(lambda: page.find('#ask').is_displayed(), 'no question')
        (three_ways if number else every_way)(page, css)
        assert page.find('#ask').is_displayed()
        page.press('#no')


def test_stop_beside_the_question_who_controls(page, station):
    station.take('terminal')
    page.until(lambda: page.find('#seat').text == 'take over from the terminal', 'nobody else')
    page.find('#seat').click()
    page.until(lambda: 'terminal' in page.find('#question').text, 'no question')
    every_way(page, 'take over')
    page.press('#yes')
    page.until(lambda: station.now.control == NAME, 'no control')


def test_stop_beside_a_used_instruction(page, station):
    page.shows(State.PREFLIGHT, draft_instruction='close the drawer')
    page.press('#primary')
    page.until(lambda: 'earlier today' in page.find('#question').text, 'no question')
    every_way(page, 'used instruction')
    page.press('#yes')
    page.until(lambda: station.asked('open_session'), 'no session')


@pytest.mark.parametrize('size', [(1280, 900), (820, 1180), (390, 844), (500, 340)])
def test_nothing_covers_stop(page, browser, size):
    try:
        browser.set_window_size(*size)
        for state, css, more in QUESTIONS:
            page.shows(state, notice='something to know ' * 8, **more)
            browser.execute_script('document.querySelector(arguments[0]).click()', css)
            covered = browser.execute_script("""
                const place = document.getElementById('stop').getBoundingClientRect();
                const covered = [];
                for (let i = 1; i < 10; i++) for (let k = 1; k < 5; k++) {
                  const hit = document.elementFromPoint(place.x + place.width * i / 10,
                    place.y + place.height * k / 5);
                  if (!hit?.closest('#stop')) covered.push([i, k]);
                }
                return covered.concat(place.bottom > innerHeight ? ['below'] : []);""")
            assert covered == [], (state, size)
        assert not browser.execute_script(
            "return document.querySelector('dialog, :modal, [popover], iframe')")
    finally:
        browser.set_window_size(1280, 900)


def test_a_question_is_answered(page, station):
    page.shows(State.SCORING_A)
    page.press('#abort')
    page.press('#yes')
    assert page.find('#ask').is_displayed(), 'a reason is needed'
    page.find('#answer').send_keys('I must leave')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [('press', 'abort', 'I must leave')], 'no end')
    assert not page.find('#ask').is_displayed()
    page.press('#invalidate')
    page.press('#no')
    assert not page.find('#ask').is_displayed()
    page.press('#abort')
    page.shows(State.DONE)
    assert not page.find('#ask').is_displayed(), 'the question makes no sense any more'


# -- what STOP says -----------------------------------------------------------------------------

def test_stop_says_at_once_that_it_is_pressed(page, station, browser):
    page.shows(State.RUNNING_A)
    station.rest.clear()
    words = browser.execute_script("""
        const stop = document.getElementById('stop');
        stop.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}));
        return [stop.className, document.getElementById('stopped').textContent];""")
    assert words == ['pressed', 'STOP is pressed. Waiting for the arm …']
    station.rest.set()
    page.until(lambda: 'at rest: confirmed 0.' in page.find('#stopped').text, 'no time')
    assert 'pressed' not in page.find('#stop').get_attribute('class')
    assert not page.find('#alarm').is_displayed()


def test_an_arm_that_does_not_confirm_is_shouted(page, station, browser):
    page.shows(State.RUNNING_A)
    station.rest.clear()
    took_ms = browser.execute_async_script("""
        const done = arguments[0], alarm = document.getElementById('alarm');
        const begin = performance.now();
        new MutationObserver((_, observer) => {
          if (!alarm.hidden) { observer.disconnect(); done(performance.now() - begin); }
        }).observe(alarm, {attributes: true});
        document.getElementById('stop').click();""")
    assert took_ms >= 490.0
    assert 'Use the hardware stop' in page.find('#alarm').text
    page.shows(State.SCORING_A, notice='another message')
    page.press('#abort')
    page.press('#no')
    station.fail = SessionError('refused')
    page.press('[data-mark="50"]')
    page.press('#primary')
    page.until(lambda: 'refused' in page.find('#problem').text, 'no problem')
    assert 'Use the hardware stop' in page.find('#alarm').text
    browser.refresh()
    page.until(lambda: page.find('#alarm').is_displayed(), 'a reload takes the alarm away')
    station.rest.set()
    page.until(lambda: not page.find('#alarm').is_displayed(), 'the arm confirmed')
    assert 'at rest: confirmed' in page.find('#stopped').text


def test_a_refused_stop_is_shouted_and_sent_again(page, station):
    page.shows(State.RUNNING_A)
    station.silent = SessionError('the arm node does not answer')
    page.find('#stop').click()
    page.until(lambda: 'does not answer' in page.find('#alarm').text, 'no alarm')
    page.until(lambda: station.stops >= 2, 'STOP is not sent again')
    station.silent = None
    page.until(lambda: not page.find('#alarm').is_displayed(), 'the arm confirmed')


def test_the_rest_is_no_longer_said_when_the_arm_moves_again(page):
    page.shows(State.RUNNING_A)
    page.find('#stop').click()
    page.until(lambda: 'at rest' in page.find('#stopped').text, 'no rest')
    page.shows(State.SCORING_A)
    assert 'at rest' in page.find('#stopped').text
    page.shows(State.SCORING_A, doing=MOVING)
    assert page.find('#stopped').text == ''


@pytest.fixture
def without_line(browser):
    """Open no WebSocket in pages that are loaded from now on."""
    made = browser.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': NO_LINE})
    yield
    browser.execute_cdp_cmd('Page.removeScriptToEvaluateOnNewDocument', made)


@pytest.fixture
def without_requests(page, browser):
    """Let no request for STOP out."""
    browser.execute_cdp_cmd('Network.enable', {})
    browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': ['*/api/stop?*']})
    yield
    browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': []})
    browser.execute_cdp_cmd('Network.disable', {})


def test_the_line_alone_stops_the_arm(page, without_requests):
    page.shows(State.RUNNING_A)
    page.stops(page.find('#stop').click, 'no request gets out')
    assert not page.find('#line').is_displayed()


def test_a_request_alone_stops_the_arm(without_line, page, browser):
    page.until(lambda: page.find('#line').is_displayed(), 'nothing says that the line is down')
    page.shows(State.RUNNING_A)
    page.stops(page.find('#stop').click, 'no line')
    browser.execute_script('window.WebSocket = window.RealWebSocket')
    page.until(lambda: not page.find('#line').is_displayed(), 'it is not connected again')


def test_the_line_comes_back_with_the_console(browser, station):
    with ConsoleServer(station, port=0) as server:
        page = Page(browser, station, server.url)
        port = int(server.url.rsplit(':', 1)[1].strip('/'))
    page.until(lambda: page.find('#line').is_displayed(), 'nothing says that the line is down')
    with ConsoleServer(station, port=port):
        page.until(lambda: not page.find('#line').is_displayed(), 'it is not connected again')
        page.until(lambda: 'does not answer' not in page.find('#problem').text, 'still lost')


def test_nothing_on_the_page_is_kept_from_loading(page, browser):
    page.shows(State.RESET)
    page.until(lambda: browser.execute_script(
        "return document.querySelector('figure .live').src.startsWith('blob:')"), 'no picture')
    assert [entry for entry in browser.get_log('browser')
            if 'Content Security Policy' in entry['message']] == []
