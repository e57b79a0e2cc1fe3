"""A press on the evaluator's page that moves the arm is deliberate; a key alone moves nothing."""

import pytest
from console_rig import MOVING
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from arena_robot.core.episode import Slot
from arena_robot.session.evaluator.desk import HINTS
from arena_robot.session.protocol.states import State

STILL_MS = 700.0
MOVES = ('press', 'start')
FOLLOWS = [State.IDLE, State.PREFLIGHT, State.ASSIGNED, State.START_PHOTOGRAPHED, State.RUNNING_A,
           State.SCORING_A, State.RESET, State.RUNNING_B, State.SCORING_B, State.PREFERENCE,
           State.REVIEW]
MOVERS = [(State.ASSIGNED, '#primary'), (State.START_PHOTOGRAPHED, '#primary'),
          (State.START_PHOTOGRAPHED, '#again'), (State.RUNNING_A, '#primary'),
          (State.SCORING_A, '#primary'), (State.RESET, '#primary'), (State.RESET, '#home'),
          (State.RUNNING_B, '#primary')]

# Begins before the state changes, and is told of each change of the page as it is made: when a
# button comes to the panel of a state, and when it is enabled, by the page's own clock.
WATCH = """
const [panel, css] = arguments;
let came = null, begin = null;
window.enabledAfter = null;
const look = () => {
  const button = document.querySelector(css);
  const there = document.querySelector('#panel h2')?.textContent === panel;
  if (there && button && button !== came) { came = button; begin = performance.now(); }
  if (there && button && !button.disabled) {
    window.enabledAfter = performance.now() - begin;
    changes.disconnect();
  }
};
const changes = new MutationObserver(look);
changes.observe(document.body,
                {subtree: true, childList: true, attributes: true, characterData: true});"""


def place(page, css):
    """Return the visible part of an element: what it scrolls in hides the rest."""
    return tuple(page.browser.execute_script("""
        const one = document.querySelector(arguments[0]);
        const box = one.getBoundingClientRect();
        const seen = (one.closest('#scroll') ?? document.body).getBoundingClientRect();
        return [box.left, Math.max(box.top, seen.top), box.right,
                Math.min(box.bottom, seen.bottom)];""", css))


def apart(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_buttons_that_move_the_arm_are_enabled_after_a_while(page, station, browser):
    for state, css in MOVERS:
        page.shows(State.PREFERENCE)
        browser.execute_script(WATCH, HINTS[state], css)
        station.set(state)
        took_ms = page.until(
            lambda: browser.execute_script('return window.enabledAfter'), 'never enabled')
        assert took_ms >= STILL_MS - 50.0, (state, css)
    assert not station.asked(*MOVES)


def test_they_wait_again_once_the_arm_has_moved(page, station, browser):
    page.shows(State.START_PHOTOGRAPHED, doing=MOVING)
    assert not page.find('#primary').is_enabled()
    begin_ms = browser.execute_script('return performance.now()')
    page.shows(State.START_PHOTOGRAPHED)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    assert browser.execute_script('return performance.now()') - begin_ms >= STILL_MS - 20.0


def test_they_wait_again_when_they_move(page, station, browser):
    page.shows(State.START_PHOTOGRAPHED)
    page.until(lambda: page.find('#again').is_enabled(), 'locked')
    browser.execute_script("""
        const button = document.getElementById('again');
        button.parentElement.style.marginTop = '60px';
        button.click();""")
    assert not station.asked(*MOVES), 'a press on what has just moved there'
    page.until(lambda: page.find('#again').is_enabled(), 'locked')
    page.find('#again').click()
    page.until(lambda: station.asked('press') == [('press', 'photograph', '')], 'no press')


# Twice, because the places take turns and the number of states is odd.
@pytest.mark.parametrize(('size', 'states'), [
    ((1280, 900), FOLLOWS + FOLLOWS), ((820, 1180), FOLLOWS), ((390, 844), FOLLOWS)])
def test_none_stands_in_the_place_of_the_one_before(page, station, browser, size, states):
    try:
        browser.set_window_size(*size)
        before = None
        for state in states:
            page.shows(state)
            for css in ('#primary', '#again', '#home'):
                if before and browser.find_elements('css selector', css):
                    assert apart(before, place(page, css)), (state, css, size)
            before = place(page, '#primary')
    finally:
        browser.set_window_size(1280, 900)


def test_the_same_panel_again_has_its_button_elsewhere_once_it_was_pressed(page, station):
    page.shows(State.IDLE)
    at = place(page, '#primary')
    page.press('#primary')
    page.shows(State.IDLE, session_id='a' * 32)
    page.until(lambda: apart(at, place(page, '#primary')), 'in the place of the one before')


@pytest.mark.parametrize(('state', 'then', 'slot'), [
    (State.START_PHOTOGRAPHED, State.RUNNING_A, Slot.A), (State.RESET, State.RUNNING_B, Slot.B)])
def test_a_second_click_does_not_end_the_rollout(page, station, state, then, slot):
    started = station.start

    def start(of, attended):
        started(of, attended)
        station.set(then)
    station.start = start
    page.shows(state)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    button = page.find('#primary')
    clicks = ActionChains(page.browser, duration=0).move_to_element(button)
    for _ in range(15):
        clicks.click().pause(0.1)
    clicks.perform()
    page.until(lambda: page.find('#panel h2').text == HINTS[then], 'does not run')
    assert station.asked('start') == [('start', slot)]
    assert ('press', 'done', '') not in station.log
    page.press('#primary')
    page.until(lambda: ('press', 'done', '') in station.log, 'not done')


def test_enter_alone_moves_nothing(page, station):
    for state in State:
        page.shows(state)
        page.until(lambda: not page.browser.find_elements('css selector', '#primary')
                   or page.find('#primary').is_enabled(), 'locked')
        tag = page.focused().tag_name
        assert tag != 'button', (state, tag)
        log = list(station.log)
        if tag != 'input':    # there Enter asks for two policies
            page.key(Keys.ENTER)
        page.browser.execute_script('document.activeElement.blur()')
        page.key(Keys.ENTER)
        page.key(Keys.ESCAPE)
        page.key('y')
        page.browser.execute_async_script('setTimeout(arguments[0], 100)')
        assert [one for one in station.log[len(log):] if one[0] != 'wait'] == [], state


def test_a_held_enter_presses_once(page, station):
    page.shows(State.START_PHOTOGRAPHED)
    page.until(lambda: page.find('#again').is_enabled(), 'locked')
    page.focus('#again')
    for repeats in (True, True, False):
        page.browser.execute_cdp_cmd('Input.dispatchKeyEvent', {
            'type': 'keyDown', 'key': 'Enter', 'code': 'Enter', 'text': '\r',
            'windowsVirtualKeyCode': 13, 'autoRepeat': repeats})
        if repeats:
            assert not station.asked('press')
    page.until(lambda: station.asked('press'), 'Enter on a focused button')


def test_space_presses_the_focused_button_where_no_arm_moves(page, station):
    page.shows(State.START_PHOTOGRAPHED)
    page.until(lambda: page.find('#again').is_enabled(), 'locked')
    page.focus('#again')
    page.key(' ')
    page.until(lambda: station.asked('press') == [('press', 'photograph', '')], 'no press')
    assert station.stops == 0


def test_space_is_stop_and_nothing_else_while_the_arm_moves(page, station):
    page.shows(State.RUNNING_A)
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    page.focus('#primary')
    page.stops(lambda: page.key(' '), 'on a button')
    page.press('#abort')
    page.find('#answer').send_keys('bad')
    page.stops(lambda: page.key(' '), 'in a text field')
    assert page.find('#answer').get_attribute('value') == 'bad'
    page.shows(State.SCORING_A)
    page.focus('#answer')
    page.key(' ')
    assert page.find('#answer').get_attribute('value') == 'bad ', 'no arm moves'
    assert station.stops == 2


def test_a_scene_that_differs_is_asked_about(page, station):
    page.shows(State.RESET, match=0.1, matches={'left_left': 0.1})
    page.press('#primary')
    page.until(lambda: '10 % like the start' in page.find('#question').text, 'no question')
    assert page.focused().get_attribute('id') == 'no'
    assert not station.asked('start')
    assert apart(place(page, '#primary'), place(page, '#yes'))
    page.press('#yes')
    page.until(lambda: station.asked('start') == [('start', Slot.B)], 'B does not run')
