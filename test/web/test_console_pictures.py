"""Pictures on the evaluator's page: old ones are marked; one is large; clips of the rollouts."""

import time

import numpy as np
import pytest
from console_rig import Station

from arena_robot.core.episode import Slot
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.verdict import Verdict
from arena_robot.session.evaluator.desk import RunView
from arena_robot.session.protocol.states import State

OLD = """
const [wanted, done] = arguments;
const figure = document.querySelector('[data-view=left_left]');
const look = () => (figure.classList.contains('old') === wanted ? done(Date.now())
  : setTimeout(look, 5));
look();"""
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


def test_keys_choose_where_nothing_is_typed(page, station):
    page.shows(State.PREFERENCE)
    for key, value in (('1', 'A'), ('3', 'B'), ('2', 'TIE'), ('2', 'TIE')):
        page.key(key)
        assert [button.get_attribute('data-value') for button in page.browser.find_elements(
            'css selector', '#preference [aria-pressed=true]')] == [value]
    page.find('#explanation').send_keys('1 and 3')
    assert page.find('#explanation').get_attribute('value') == '1 and 3'
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
