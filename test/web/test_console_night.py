"""A tired evaluator at night: small screens, zoom, two fingers, reloads, Back, a lost network."""

import pytest
from console_rig import MOVING
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from arena_robot.core.episode import Slot
from arena_robot.core.errors import NotConnected
from arena_robot.session.evaluator.desk import HINTS
from arena_robot.session.protocol.states import State

PHONE, ZOOMED = (360, 740), (640, 450)    # 1280 x 900 at 200 %
HEADER_PX = 52.0
WHERE = """
const box = (css) => document.querySelector(css).getBoundingClientRect();
const lines = (css) => Math.round(box(css).height / parseFloat(
  getComputedStyle(document.querySelector(css)).lineHeight));
return {header: box('header').height, wide: document.documentElement.scrollWidth - innerWidth,
  down: document.documentElement.scrollHeight - innerHeight, state: lines('#state'),
  seat: box('#seat').right - innerWidth, stop: box('#stop').bottom - innerHeight,
  room: box('#scroll').height, under: box('#scroll').bottom - box('#stop').top};"""


@pytest.fixture
def screen(browser):
    """Give a function that sets the size of the screen in CSS pixels."""
    def of(width, height):
        browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 500})
    yield of
    browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


@pytest.mark.parametrize(('size', 'room'), [(PHONE, 330.0), (ZOOMED, 190.0)])
def test_nothing_wraps_or_leaves_a_small_screen(page, browser, screen, size, room):
    screen(*size)
    for state in State:
        page.shows(state, doing='' if state.running else MOVING)
        sizes = browser.execute_script(WHERE)
        assert sizes['header'] <= HEADER_PX, (state, sizes)
        assert sizes['state'] == 1, (state, sizes)
        assert max(sizes[name] for name in ('wide', 'down', 'seat', 'stop', 'under')) <= 0, (
            state, sizes)
        assert sizes['room'] >= room, (state, sizes)


def test_no_line_is_cut_while_a_policy_runs(page, browser, screen):
    screen(390, 844)
    page.shows(State.RUNNING_A)
    cut = browser.execute_script("""
        const end = document.getElementById('scroll').getBoundingClientRect().bottom;
        const lines = [...document.querySelectorAll('#panel h2, #panel p')];
        return lines.filter((one) => one.getBoundingClientRect().bottom > end).map(
          (one) => one.innerText);""")
    assert cut == []


def test_a_new_step_begins_at_its_top(page, browser, screen):
    screen(*PHONE)
    for state, following in ((State.SCORING_A, State.RESET), (State.SCORING_B, State.PREFERENCE)):
        page.shows(state)
        browser.execute_script("document.getElementById('scroll').scrollTop = 200")
        page.shows(state, notice='the network is slow')
        assert browser.execute_script("return document.getElementById('scroll').scrollTop") > 100
        page.shows(following)
        assert browser.execute_script("return document.getElementById('scroll').scrollTop") == 0


def finger(browser, kind, *points):
    browser.execute_cdp_cmd('Input.dispatchTouchEvent', {'type': kind, 'touchPoints': [
        {'x': x, 'y': y, 'id': k} for k, (x, y) in enumerate(points)]})


def middle(page, css):
    box = page.find(css).rect
    return box['x'] + box['width'] / 2, box['y'] + box['height'] / 2


@pytest.mark.parametrize('size', [PHONE, (1280, 900)])
def test_a_second_finger_presses_stop(page, browser, screen, size):
    screen(*size)
    page.shows(State.RUNNING_A)
    first, stop = middle(page, '#views figure'), middle(page, '#stop')

    def two():
        finger(browser, 'touchStart', first)
        finger(browser, 'touchStart', first, stop)
    try:
        page.stops(two, 'the other finger rests on a picture')
    finally:
        finger(browser, 'touchEnd')


def test_stop_after_pinching(page, browser, screen):
    screen(*PHONE)
    page.shows(State.RUNNING_A)
    browser.execute_cdp_cmd('Emulation.setPageScaleFactor', {'pageScaleFactor': 2.5})
    try:
        place = page.until(lambda: browser.execute_script("""
            const box = document.getElementById('stop').getBoundingClientRect();
            const {offsetLeft: x, offsetTop: y, width, height, scale} = visualViewport;
            const inside = box.left >= x - 1 && box.right <= x + width + 1
              && box.bottom <= y + height + 1 && box.top >= y;
            return scale > 2 && inside && box.width > 0.8 * width;"""), 'STOP left the screen')
        assert place
    finally:
        browser.execute_cdp_cmd('Emulation.setPageScaleFactor', {'pageScaleFactor': 1})


def test_a_reload_during_a_rollout_commands_nothing(page, station, browser):
    page.shows(State.RUNNING_A)
    log = [call for call in station.log if call[0] != 'wait']
    browser.refresh()
    page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')
    page.until(lambda: page.find('#state').text == 'A RUNS', 'no rollout')
    assert [call for call in station.log if call[0] != 'wait'] == log
    page.stops(page.find('#stop').click, 'after a reload')


def test_back_and_forward_show_the_newest_state(page, station, browser):
    page.shows(State.SCORING_A)
    page.find('#notes').send_keys('slow')
    browser.get('about:blank')
    station.set(State.RUNNING_B)
    browser.back()
    page.until(lambda: page.find('#state').text == 'B RUNS', 'an old state')
    page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')
    page.stops(page.find('#stop').click, 'after Back')


def test_five_seconds_without_a_network(page, browser):
    page.shows(State.RUNNING_A)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    browser.execute_cdp_cmd('Network.enable', {})
    cut = {'latency': 0, 'downloadThroughput': -1, 'uploadThroughput': -1}
    browser.execute_cdp_cmd('Network.emulateNetworkConditions', {**cut, 'offline': True})
    try:
        page.until(lambda: 'does not answer' in page.find('#problem').text, 'nobody is told')
        assert not page.find('#primary').is_enabled()
        page.until(lambda: page.find('[data-view=left_left]').get_attribute('class').find('old')
                   >= 0, 'the picture is old')
    finally:
        browser.execute_cdp_cmd('Network.emulateNetworkConditions', {**cut, 'offline': False})
        browser.execute_cdp_cmd('Network.disable', {})
    page.until(lambda: not page.find('#problem').is_displayed(), 'still lost')
    page.stops(page.find('#stop').click, 'with the network')
    page.until(lambda: page.find('#primary').is_enabled(), 'still locked')


def test_a_second_tab_takes_over_only_when_asked(page, station, browser):
    page.shows(State.START_PHOTOGRAPHED)
    first, url = browser.current_window_handle, browser.current_url
    browser.switch_to.new_window('tab')
    try:
        browser.get(url)
        page.until(lambda: page.find('#seat').text == 'take over from another page', 'both')
        page.until(lambda: page.find('#panel').text.endswith('You are watching.'), 'no word')
        assert not page.find('#primary').is_enabled()
        page.stops(page.find('#stop').click, 'from a page that only watches')
        page.press('#seat')
        page.press('#yes')
        page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')
    finally:
        browser.close()
        browser.switch_to.window(first)
    page.until(lambda: page.find('#seat').text.startswith('take over'), 'the first was not told')
    assert not page.find('#primary').is_enabled()
    assert not station.asked('press', 'start')


def test_a_double_click_commands_once(page, station):
    for state, command in (
            (State.ASSIGNED, ('press', 'photograph', '')), (State.RESET, ('start', Slot.B)),
            (State.START_PHOTOGRAPHED, ('start', Slot.A)), (State.PREFERENCE, ('submit',))):
        page.shows(state)
        page.until(lambda: page.find('#primary').is_enabled(), 'locked')
        station.log.clear()
        ActionChains(page.browser, duration=0).double_click(page.find('#primary')).perform()
        page.until(lambda command=command: command in station.log, command)
        page.shows(State.SCORING_A)
        assert station.log.count(command) == 1


def test_a_reader_hears_and_reaches_everything_in_order(page, browser):
    """The order of Tab is the order of the page, STOP is last, and everything has a name."""
    page.shows(State.SCORING_A)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    browser.execute_script('document.activeElement.blur(); scrollTo(0, 0)')
    page.focus('#seat')
    met = ['seat']
    while met[-1] != 'stop' and len(met) < 60:
        page.key(Keys.TAB)
        met.append(page.focused().get_attribute('id') or page.focused().get_attribute('data-mark')
                   or page.focused().accessible_name)
        assert page.focused().accessible_name, met
    order = [met.index(word) for word in ('seat', 'progress', '75', 'notes', 'primary', 'stop')]
    assert order == sorted(order)
    assert len(set(met)) == len(met), 'Tab goes in a circle'


def test_a_session_node_that_has_ended_locks_the_page(page, station):
    page.shows(State.START_PHOTOGRAPHED)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')

    def ended():
        raise NotConnected("the session node 'session_node' has ended; start it again")
    station.state = ended
    station.set(State.IDLE)    # a page that waits for a change asks again
    page.until(lambda: 'has ended; start it again' in page.find('#problem').text, 'no word')
    assert not page.find('#primary').is_enabled()
    del station.state
    page.until(lambda: page.find('#panel h2').text == HINTS[State.IDLE], 'it does not come back')
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
