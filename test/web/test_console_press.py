"""
Presses on the evaluator's page that move the arm are deliberate; a key alone moves nothing.

After a failure of the station: run the slot again, recover the arm, activate the gripper.
"""

import pytest
from console_rig import MOVING
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from arena_robot.core.episode import Slot
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import HINTS, SlotView
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
FAILED = SlotView(Slot.A, 'driver_error', 'left camera: no frame; check its cable', 12,
                  again='fault')
AGAIN = [('press', 'rerun', ''), ('press', 'prepare_reset', '')]


def place(page, css):
    """Return the visible part of an element: what it scrolls in hides the rest."""
    return tuple(page.browser.execute_script("""
        const one = document.querySelector(arguments[0]);
        const box = one.getBoundingClientRect();
        const seen = (one.closest('#scroll') ?? document.body).getBoundingClientRect();
        return [box.left, Math.max(box.top, seen.top), box.right,
                Math.min(box.bottom, seen.bottom)];""", css))


def apart(a, b):
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


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

    def start(clip, attended):
        started(clip, attended)
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
        assert [call for call in station.log[len(log):] if call[0] != 'wait'] == [], state


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


def has(page, css):
    return bool(page.browser.find_elements('css selector', css))


def test_the_main_button_runs_the_slot_again(page, station):
    page.shows(State.SCORING_A, slots=(FAILED, SlotView(Slot.B)))
    assert page.find('#primary').text.startswith('Run A again')
    assert 'check its cable' in page.find('#panel').text
    assert not has(page, '#progress')
    page.press('#primary')
    page.until(lambda: station.asked('press') == AGAIN, 'not run again')


def test_scoring_asks_and_can_be_declined(page, station):
    page.shows(State.SCORING_A, slots=(FAILED, SlotView(Slot.B)))
    page.press('#score-anyway')
    assert 'The station failed, not the policy' in page.find('#question').text
    assert page.focused().get_attribute('id') == 'no'
    page.press('#no')
    assert not has(page, '#progress')
    page.press('#score-anyway')
    page.press('#yes')
    page.press('[data-mark="50"]')
    page.press('#primary')
    page.until(lambda: station.asked('press') == AGAIN[1:], 'not scored')
    assert station.asked('score')


@pytest.mark.parametrize(('end', 'detail', 'words'), [
    ('timeout', '60 steps were made', 'A: its time was over after 60 steps.'),
    ('policy_error', 'the policy of slot A is not running any more',
     'A: its policy failed after 60 steps. The policy of slot A is not running any more.')])
def test_how_a_rollout_ended_is_said_once_and_by_whose_fault(page, end, detail, words):
    page.shows(State.SCORING_A, slots=(SlotView(Slot.A, end, detail, 60, again='mistake'),
                                       SlotView(Slot.B)))
    assert page.find('#ended').text == words
    assert page.find('#primary').text.startswith('Keep the score')
    assert 'station' not in page.find('#panel').text


def test_a_mistake_needs_its_reason(page, station):
    done = SlotView(Slot.B, 'stopped', '', 12, reruns=1, again='mistake')
    page.shows(State.SCORING_B, slots=(SlotView(Slot.A, 'done', '', 9), done))
    assert page.find('#primary').text.startswith('Keep the score')
    assert 'run again once' in page.find('#reruns').text
    page.browser.execute_script("document.getElementById('mistake').scrollIntoView()")
    page.press('#mistake')
    page.press('#yes')
    assert page.find('#ask').is_displayed(), 'a reason is needed'
    page.find('#answer').send_keys('the bowl was upside down')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [
        ('press', 'rerun', 'the bowl was upside down'), AGAIN[1]], 'not run again')


def test_what_cannot_be_run_again_is_scored(page):
    page.shows(State.SCORING_A, slots=(
        SlotView(Slot.A, 'driver_error', '', 12, reruns=2), SlotView(Slot.B)))
    assert has(page, '#progress')
    assert not has(page, '#mistake')
    assert 'run again 2 times' in page.find('#reruns').text


def test_the_reset_starts_the_slot_that_is_next(page, station):
    page.shows(State.RESET, slots=(SlotView(Slot.A, reruns=1), SlotView(Slot.B)))
    assert page.find('#primary').text.endswith('start A')
    page.press('#primary')
    page.until(lambda: station.asked('start') == [('start', Slot.A)], 'A does not run')
    page.shows(State.RESET, match=0.1, matches={'left_left': 0.1})
    assert HINTS[State.RESET] == page.find('#panel h2').text
    page.until(lambda: page.find('#primary').text.endswith('start B'), 'B is not next')


def test_an_arm_in_a_reflex_is_recovered_by_the_typed_word_and_checked_again(page, station):
    page.shows(State.PREFLIGHT, checks=(Check('arm', False, 'arm: it is in REFLEX'),))
    assert not has(page, '#recover'), 'the arm does not say so now'
    page.shows(State.PREFLIGHT, checks=(Check('arm', False, 'arm: it is in REFLEX'),),
               repairs=('recover',))
    page.until(lambda: has(page, '#recover'), 'no button')
    assert 'stopped by itself' in page.find('#panel .bad').text
    assert not has(page, '#activate_gripper')
    page.press('#recover')
    assert 'may move a little' in page.find('#question').text
    page.press('#yes')
    assert page.find('#ask').is_displayed(), 'the word is needed'
    page.find('#answer').send_keys('clear')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [
        ('press', 'recover', 'clear'), ('press', 'check', '')], 'not recovered')


def test_the_gripper_is_activated_before_a_motion_and_not_during_one(page, station):
    page.shows(State.RUNNING_B)
    assert not has(page, '#activate_gripper')
    page.shows(State.RESET, repairs=('activate_gripper',))
    page.press('#activate_gripper')
    assert 'fingers open and close fully' in page.find('#question').text
    page.press('#no')
    assert not station.asked('press')
    page.press('#activate_gripper')
    page.find('#answer').send_keys('clear')
    page.press('#yes')
    page.until(lambda: station.asked('press') == [('press', 'activate_gripper', 'clear')],
               'not activated')


CUT = """
const whole = window.fetch;
window.cut = true;
window.fetch = async (path, ...more) => (window.cut && String(path).startsWith('/api/state')
  ? new Response('{"state": "pre', {status: 200}) : whole(path, ...more));"""


def test_a_state_that_is_cut_off_is_no_state(page):
    page.shows(State.RESET)
    page.browser.execute_script(CUT)
    page.until(lambda: 'its answer was cut off' in page.find('#problem').text, 'not said')
    assert page.find('#panel h2').text == HINTS[State.RESET]
    page.browser.execute_script('window.cut = false')
    page.until(lambda: not page.find('#problem').is_displayed(), 'it stays')
