"""Pictures on the evaluator's page: old ones are marked; one is large; clips of the rollouts."""

import dataclasses
import threading
import time

import numpy as np
import pytest
from console_rig import Station
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from arena_robot.core.episode import Slot
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.verdict import Verdict
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import DeskState, RunView
from arena_robot.session.protocol.states import State

OLD = """
const [wanted, done] = arguments;
const figure = document.querySelector('[data-view=left_left]');
const look = () => (figure.classList.contains('old') === wanted ? done(Date.now())
  : setTimeout(look, 5));
look();"""
# What Ctrl+Enter asks of the station; in the other states it does nothing.
ONWARD = {State.IDLE: 'press', State.PREFLIGHT: 'open_session', State.TASK_ENTERED: 'open_session',
          State.SCORING_B: 'score', State.PREFERENCE: 'submit', State.REVIEW: 'submit',
          State.DONE: 'press', State.ABORTED: 'press'}
# Counts what is said to a screen reader from now on.
LISTEN = """
window.heard = [];
const observer = new MutationObserver((changes) => window.heard.push(
  ...changes.map((one) => (one.target.id || one.target.parentElement?.id))));
for (const node of document.querySelectorAll('[role=status], [role=alert], [aria-live], output'))
  observer.observe(node, {childList: true, characterData: true, subtree: true});"""


class Filmed(Station):
    """A station whose cameras can freeze, with pictures that can be shown."""

    frozen_s = None

    def age_s(self, view):
        return 0.02 if self.frozen_s is None else time.monotonic() - self.frozen_s

    def frame(self, view):
        return grey(90) if view == 'left_left' else None

    def clip(self, slot, view):
        return tuple(grey(shade) for shade in (0, 80, 160)[:3 if slot is Slot.A else 2])


def grey(shade):
    return to_jpeg(np.full((36, 64, 3), shade, np.uint8))


@pytest.fixture
def station():
    return Filmed()


def test_a_frozen_camera_is_marked_within_half_a_second(page, station, browser):
    page.shows(State.RUNNING_A)
    browser.execute_async_script(OLD, False)
    station.frozen_s, frozen_ms = time.monotonic(), time.time() * 1e3
    assert browser.execute_async_script(OLD, True) - frozen_ms < 500.0
    assert page.find('[data-view=left_left] .age').text.startswith('OLD: no picture for 0.')
    station.frozen_s = None
    browser.execute_async_script(OLD, False)
    assert not page.find('[data-view=left_left] .age').is_displayed()
    assert page.find('[data-view=wrist_left] .age').text == 'no picture'


def test_pictures_that_do_not_arrive_are_marked(page, browser):
    page.shows(State.RUNNING_A)
    browser.execute_async_script(OLD, False)
    browser.execute_cdp_cmd('Network.enable', {})
    try:
        browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': ['*/api/frame/*']})
        begin_ms = time.time() * 1e3
        assert browser.execute_async_script(OLD, True) - begin_ms < 700.0
    finally:
        browser.execute_cdp_cmd('Network.setBlockedURLs', {'urls': []})
        browser.execute_cdp_cmd('Network.disable', {})
    browser.execute_async_script(OLD, False)


def test_a_click_shows_another_view_large(page):
    page.shows(State.RUNNING_A)
    large, small = page.find('[data-view=left_left]'), page.find('[data-view=wrist_left]')
    assert large.size['width'] > 1.5 * small.size['width']
    small.find_element('css selector', '.swap').click()
    assert small.size['width'] > 1.5 * large.size['width']
    page.find('#policy-view').click()
    assert page.find('#policy-view').get_attribute('aria-pressed') == 'true'
    assert page.find('[data-view=left_left] .seen').is_displayed()
    assert not page.find('[data-view=left_left] .live').is_displayed()


def test_the_reset_says_which_picture_is_which(page):
    page.shows(State.RESET)
    labels = [label.text for label in page.browser.find_elements(
        'css selector', '.large .label') if label.is_displayed()]
    assert labels == ['now', 'start']
    page.find('[data-mode=difference]').click()
    assert page.find('.large .one').text == 'difference: black is equal'


@pytest.mark.parametrize('size', [(1280, 900), (1920, 1080), (390, 844)])
def test_task_timer_and_steps_are_in_sight_while_a_policy_runs(page, browser, size):
    try:
        browser.set_window_size(*size)
        page.shows(State.RUNNING_A)
        page.until(lambda: page.find('#numbers').text.startswith('step 2 of 400'), 'no steps')
        for css in ('#task', '#numbers', '#bar', '#steps .now', '[data-view=left_left]', '#stop'):
            box = page.find(css).rect
            assert box['y'] >= 0, css
            assert box['y'] + box['height'] <= browser.execute_script('return innerHeight'), css
        share = 0.5 if size[0] > 500 else 0.9
        assert page.find('[data-view=left_left]').size['width'] > share * size[0]
    finally:
        browser.set_window_size(1280, 900)


def test_the_verdict_shows_both_clips_in_step_with_their_scores(page, browser):
    page.shows(State.SCORING_A)
    assert len(browser.find_elements('css selector', '#clips figure')) == 1
    page.shows(State.PREFERENCE, draft=Verdict(progress_a=0.5, progress_b=0.25))
    page.until(lambda: [label.text for label in browser.find_elements(
        'css selector', '#clips .score')] == ['50 of 100', '25 of 100'], 'no scores')
    seen = set()

    def two():
        seen.add(tuple(video.get_attribute('src') for video in browser.find_elements(
            'css selector', '#clips img')))
        return len({a for a, _ in seen if a}) == 3 and len({b for _, b in seen if b}) == 2
    page.until(two, 'the clips stand still')
    assert page.find('#task').is_displayed()
    assert page.find('#clips').rect['y'] < page.find('#preference').rect['y'] + 400


def test_after_the_reveal_both_clips_a_link_and_the_count_are_there(page, station, browser):
    mine = dataclasses.replace(DeskState(), state=State.DONE, evaluator='ada')
    others = [dataclasses.replace(mine, evaluator='bob'), dataclasses.replace(
        mine, state=State.ABORTED)]
    station.today = lambda: [mine] * 12 + others
    page.shows(State.DONE, policy_a='azure', policy_b='olive', verified=True)
    page.until(lambda: 'Your 12th session today.' in page.find('#count').text, 'not counted')
    page.until(lambda: [bool(clip.is_displayed() and clip.get_attribute('src')) for clip in
                        browser.find_elements('css selector', '#clips img')] == 2 * [True], 'no')
    assert page.find('#page').get_attribute('href') == (
        f'https://arena.example.org/evaluations/{"f" * 32}')
    station.address = None    # a local arena has no site
    browser.refresh()
    page.until(lambda: page.find('#count').text, 'no panel')
    assert not browser.find_elements('css selector', '#page')
    # One that does not count names no policy, and its commitment is not doubted.
    page.until(lambda: page.find('#reveal').is_displayed(), 'no reveal')
    page.shows(State.DONE, session_id='e' * 32, policy_a='', policy_b='', commitment='c')
    page.until(lambda: not browser.find_elements('css selector', '#reveal'), 'a reveal')
    assert 'Your 12th session' in page.find('#count').text


@pytest.mark.parametrize('address', ['https://arena.example.org', None])
def test_the_next_session_begins_above_the_fold_of_a_phone(page, station, browser, address):
    station.address = address
    browser.set_window_size(390, 844)
    try:
        browser.refresh()
        for state in (State.SUBMITTING, State.DONE):
            page.shows(state, doing='' if state is State.DONE else 'videos of A')
            button = page.find('#primary')
            assert button.text.startswith('Begin the next session')
            page.until(button.is_enabled, 'locked by what is waited for')
            bottom = button.rect['y'] + button.rect['height']
            assert 0 <= bottom <= page.find('#stop').rect['y'] < 844, state
            assert ('upload' in page.find('#panel').text) is (
                state is State.SUBMITTING and address is not None)
    finally:
        browser.set_window_size(1280, 900)


def test_what_is_waited_for_is_named_with_its_seconds(page, station):
    page.shows(State.SUBMITTING, doing='videos of A')
    page.until(lambda: page.find('#doing').text == '… videos of A: 1 s', 'no seconds')
    released = threading.Event()
    station.press = lambda *_: released.wait(20.0)
    page.shows(State.IDLE)
    page.press('#primary')
    page.until(lambda: page.find('#doing').text == '… checking the station: 2 s', 'not named')
    released.set()
    page.until(lambda: page.find('#doing').text == '', 'it stays')


def test_a_dead_camera_is_not_green_anywhere(page, station, browser):
    page.shows(State.PREFLIGHT, checks=(Check('left camera', True, '2000'), Check('arm', True)))
    dead = '[data-check="left camera"]'
    page.until(lambda: 'dead' not in page.find(dead).get_attribute('class'), 'dead at once')
    station.frozen_s = time.monotonic()
    page.until(lambda: 'dead' in page.find(dead).get_attribute('class'), 'its check is green')
    assert browser.execute_script(
        'return getComputedStyle(arguments[0], "::before").content', page.find(dead)) == '"✗ "'
    page.shows(State.RESET)
    assert not page.find('[data-view=left_left] .light').is_displayed()
    assert 'green' not in page.find('#match').text
    station.frozen_s = None


def test_the_way_on_is_ctrl_enter_where_no_arm_moves(page, station):
    for state in State:
        page.shows(state)
        page.until(lambda: not page.browser.find_elements('css selector', '#primary')
                   or page.find('#primary').is_enabled(), 'locked')
        station.log.clear()
        if state is State.SCORING_B:
            page.press('[data-mark="50"]')
        ActionChains(page.browser).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(
            Keys.CONTROL).perform()
        wanted = ONWARD.get(state)
        if wanted is None:
            page.browser.execute_async_script('setTimeout(arguments[0], 200)')
        else:
            page.until(lambda wanted=wanted: station.asked(wanted), f'{state} stays')
        assert bool(station.asked('press', 'start', 'score', 'judge', 'submit', 'open_session')
                    ) is (wanted is not None), state


def test_right_to_left_text_stands_as_it_is_written(page, station):
    page.shows(State.PREFERENCE, instruction='أغلق الدرج العلوي',
               draft=Verdict(explanation='كان A أسرع من B'))
    for css in ('#task', '#explanation'):
        assert page.browser.execute_script(
            'return getComputedStyle(arguments[0]).direction', page.find(css)) == 'rtl', css


def test_keys_choose_where_nothing_is_typed(page, station):
    page.shows(State.PREFERENCE)
    for key, value in (('1', 'A'), ('3', 'B'), ('2', 'TIE'), ('2', 'TIE')):
        page.key(key)
        assert [button.get_attribute('data-value') for button in page.browser.find_elements(
            'css selector', '#preference [aria-pressed=true]')] == [value]
    page.key('B was 1 s slower')    # other characters begin the reason
    assert page.find('#explanation').get_attribute('value') == 'B was 1 s slower'
    assert page.find('#preference [aria-pressed=true]').get_attribute('data-value') == 'TIE'
    assert not station.asked('judge', 'press', 'start')


def test_what_is_pressed_is_told_to_a_screen_reader(page):
    page.shows(State.SCORING_A)
    page.press('[data-mark="50"]')
    for css, is_pressed in (('[data-mark="50"]', 'true'), ('[data-mark="75"]', 'false'),
                            ('#policy-view', 'false')):
        assert page.find(css).get_attribute('aria-pressed') == is_pressed
    page.shows(State.RESET)
    page.find('[data-mode=blend]').click()
    assert page.find('[data-mode=blend]').get_attribute('aria-pressed') == 'true'
    assert page.find('[data-mode=side]').get_attribute('aria-pressed') == 'false'


def test_a_screen_reader_hears_changes_and_not_every_step(page, station, browser):
    page.shows(State.RUNNING_A, notice='look at the gripper')
    browser.execute_script(LISTEN)
    for step in range(8):
        with station.changed:
            station.run = RunView(Slot.A, 10 + step, 400, 0.5)
            station.changed.notify_all()
        page.until(lambda step=step: f'step {10 + step} ' in page.find('#numbers').text, 'stands')
    assert browser.execute_script('return heard') == []
    page.shows(State.SCORING_A, notice='look at the gripper')
    assert browser.execute_script('return heard') == ['spoken']
    assert page.find('#spoken').get_attribute('textContent').startswith('Score A: How far did A')
