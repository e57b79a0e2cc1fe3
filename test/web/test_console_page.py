"""
The evaluator's page, by hand: a browser clicks through a whole session on the simulated station.

In every state STOP is pressed, by mouse, touch and key in turn, and the arm's own readings say how
soon it came to rest. The bound is generous, for a busy machine; bench/bench_stop.py measures the
limit.
"""

import os
import signal
import subprocess
import time

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytest.importorskip('arena_msgs', reason='arena_msgs is not built: make setup')

from evaluator_rig import AGAIN_S, AT_REST_S, TASK, WAIT_S, WHY, Arm, Page, begun

from arena_robot.records.session_file import read_session

# Presses of keys (Ctrl is one of them) and of the pointer.
COUNT = """
window.presses = {key: 0, click: 0};
addEventListener('keydown', () => { presses.key += 1; }, true);
addEventListener('pointerdown', () => { presses.click += 1; }, true);"""
MOST_KEYS, MOST_CLICKS = 40, 12
REASON = 'A grasped it, B missed'


@pytest.fixture(scope='module')
def desk(tmp_path_factory):
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.station.processes import SimulatedStation
    os.environ.setdefault('MUJOCO_GL', 'egl')
    data = tmp_path_factory.mktemp('page') / 'station'
    with SimulatedStation(data=data, seed=0, max_steps=400,
                          sim={'image_width': 192, 'image_height': 108}), \
            RemoteDesk(patience_s=60.0) as desk:
        desk.watch_views()
        desk.data = data
        yield desk


@pytest.fixture
def page(browser, desk):
    from arena_robot.web.console.app import ConsoleServer
    with ConsoleServer(desk, port=0) as server:
        page = Page(browser, server.url)
        page.arm = Arm(desk)
        yield page
        page.leave()


def test_a_session_by_hand(page, desk):
    enter_the_task(page, desk)
    run_a(page, desk)
    run_a_again(page, desk)
    reset_the_scene(page)
    run_b(page, desk)
    give_the_verdict(page)
    see_the_reveal(page, desk)


def enter_the_task(page, desk):
    from arena_robot.web.console.app import NAME
    page.state('idle')
    page.press('#seat')
    page.stop_at_rest()
    page.press()
    page.state('check')
    page.stop_at_rest()
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


def run_a(page, desk):
    page.press()
    page.state('pair')
    assert len(page.find('#commitment').text) == 64
    nothing_happens_on_enter(page, desk)
    page.stop_at_rest()
    page.press()
    page.state('start photo')
    page.stop_at_rest()
    nothing_happens_on_enter(page, desk)
    page.until(lambda: page.find('figure .live').get_attribute('src'), 'no live view')
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    ActionChains(page.browser, duration=0).double_click(page.find('#primary')).perform()
    page.state('A runs')
    page.until(lambda: page.find('#numbers').text.startswith('step'), 'no steps')
    another_camera_is_large(page)
    time.sleep(1.0)
    assert page.stop('mouse') < AT_REST_S
    page.state('score A')
    assert desk.state().slots[0].end == 'stopped'
    page.stop_at_rest()
    page.press('#invalidate')
    page.stop_at_rest()
    page.press('#no')
    nothing_typed_is_lost(page, desk)


def another_camera_is_large(page):
    """A click shows a small picture large, and it is still a live one."""
    large, small = (page.find(f'[data-view={view}]') for view in ('left_left', 'wrist_left'))
    assert large.size['width'] > 1.5 * small.size['width']
    small.find_element('css selector', '.swap').click()
    assert small.size['width'] > 1.5 * large.size['width']
    before = page.find('.large .live').get_attribute('src')
    page.until(lambda: page.find('.large .live').get_attribute('src') != before, 'stands still')
    page.until(lambda: not page.find('.large .age').is_displayed(), 'it stays old')
    large.find_element('css selector', '.swap').click()


def nothing_happens_on_enter(page, desk):
    """Press Enter where the focus fell: the arm does not move, the session does not go on."""
    before = desk.state()
    for _ in range(3):
        ActionChains(page.browser).send_keys(Keys.ENTER).perform()
        assert desk.wait_change(before, 0.1) == before


def nothing_typed_is_lost(page, desk):
    """Half a sentence is there after a reload and in a second tab; cleared text stays cleared."""
    browser, url = page.browser, page.browser.current_url
    page.type('#notes', 'A was slo')
    browser.refresh()
    page.until(lambda: page.find('#notes').get_attribute('value') == 'A was slo', 'reload')
    page.until(lambda: desk.state().draft.notes_a == 'A was slo', 'not at the station')
    first = browser.current_window_handle
    browser.switch_to.new_window('tab')
    browser.get(url)
    page.until(lambda: page.find('#notes').get_attribute('value') == 'A was slo', 'second tab')
    page.press('#seat')
    page.until(lambda: page.find('#ask').is_displayed(), 'takes over without a question')
    page.find('#stop').click()
    page.until(lambda: 'at rest: confirmed' in page.find('#stopped').text, 'beside the question')
    browser.close()
    browser.switch_to.window(first)
    page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')
    page.find('#notes').send_keys(Keys.CONTROL, 'a', Keys.NULL, Keys.BACKSPACE)
    browser.refresh()
    page.until(lambda: desk.state().draft.notes_a == '', 'the station keeps the old text')
    page.until(lambda: 'you are' in page.find('#seat').text, 'not in control')
    page.until(lambda: page.find('#notes').get_attribute('value') == '', 'not cleared')


def run_a_again(page, desk):
    page.browser.execute_script("document.getElementById('mistake').scrollIntoView()")
    page.press('#mistake')
    page.stop_at_rest()
    page.type('#answer', 'the cube lay outside of the circle')
    page.press('#yes')
    page.state('reset')
    page.until(lambda: page.find('#primary').text.endswith('start A'), 'A is not next')
    assert page.stop('touch') < AT_REST_S, 'on the way to the reset pose'
    page.press('#home')
    page.until(lambda: page.find('#primary').is_enabled(), 'not at its reset pose')
    page.stop_at_rest()
    started_again(page, 'A')
    assert page.stop('touch') < AT_REST_S
    page.state('score A')
    assert [slot.reruns for slot in desk.state().slots] == [1, 0]
    page.press('[data-mark="50"]')


def started_again(page, slot):
    """Start a rollout, also of a scene that A has changed: the page then asks."""
    page.press()
    page.until(lambda: page.find('#state').text == f'{slot} RUNS'
               or page.find('#ask').is_displayed(), 'neither a rollout nor a question')
    if page.find('#ask').is_displayed():
        page.press('#yes')
    page.state(f'{slot} runs')
    page.until(lambda: page.find('#numbers').text.startswith('step'), 'no steps')


def reset_the_scene(page):
    page.press()
    page.state('reset')
    page.until(lambda: 'like the start' in page.find('#match').text, 'no match')
    for mode in ('difference', 'blend', 'side'):
        page.press(f'[data-mode={mode}]')


def run_b(page, desk):
    started_again(page, 'B')
    run_b_again(page, desk)
    assert page.stop('key') < AT_REST_S
    page.state('score B')
    page.stop_at_rest()
    assert desk.state().slots[1].end == 'stopped'
    page.press('[data-mark="25"]')


def run_b_again(page, desk):
    """The recorder is killed: the main way is to run B again, and nobody is named."""
    recorder = subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'recorder_node'],
                              capture_output=True, text=True, check=True)
    os.kill(int(recorder.stdout.split()[0]), signal.SIGKILL)
    page.state('score B')
    page.until(lambda: page.find('#primary').text.startswith('Run B again'), 'scored')
    assert not [name for name in ('random-walk', 'frozen') if name in page.find('body').text]
    page.press()
    page.state('reset')
    page.until(lambda: begun(page, 'B'), 'B does not run again', AGAIN_S)
    page.until(lambda: page.find('#numbers').text.startswith('step'), 'no steps')
    assert [slot.reruns for slot in desk.state().slots] == [1, 1]


def give_the_verdict(page):
    page.press()
    page.state('preference')
    page.stop_at_rest()
    page.browser.execute_script('document.activeElement.blur()')
    for key, value in (('3', 'B'), ('2', 'TIE'), ('1', 'A')):
        ActionChains(page.browser).send_keys(key).perform()
        page.until(lambda value=value: page.find(f'[data-value={value}]').get_attribute(
            'aria-pressed') == 'true', f'{key} does not choose')
    page.press()
    page.until(lambda: 'Say it in a sentence' in page.find('#problem').text, 'no complaint')
    page.state('preference')
    page.type('#explanation', f'{WHY} 2 and 3 times')
    assert page.find('[data-value=A]').get_attribute('aria-pressed') == 'true', 'it is text'
    page.type('#explanation', WHY)
    assert not page.find('#problem').is_displayed(), 'a complaint stays while it is attended to'
    page.press('#abort')
    page.stop_at_rest()
    page.press('#no')
    page.press('#edit-B')
    page.press('#edit [data-mark="0"]')
    page.press('#keep')
    page.until(lambda: '\n0 of 100' in page.find('#review').text, 'the change is not shown')
    assert page.find('#explanation').get_attribute('value') == WHY


def see_the_reveal(page, desk):
    page.press()
    page.state('done', AGAIN_S)    # once the videos of four recordings are made
    page.until(lambda: 'matches the reveal' in page.find('#reveal').text, 'no reveal')
    state = desk.state()
    assert (state.verdict.progress_a, state.verdict.progress_b) == (0.5, 0.0)
    assert (state.verdict.preference, state.verdict.explanation) == ('A', WHY)
    assert {state.policy_a, state.policy_b} == {'random-walk', 'frozen'}
    page.stop_at_rest()
    record = read_session(desk.data / 'sessions' / state.session_id)
    assert [(rerun.slot, rerun.cause, rerun.reason, rerun.folder) for rerun in record.reruns] == [
        ('A', 'mistake', 'the cube lay outside of the circle', 'A_earlier'),
        ('B', 'fault', '', 'B_earlier')]
    assert list((desk.data / 'sessions' / state.session_id / 'A_earlier').glob('*.mcap'))
    page.find('#history summary').click()
    page.until(lambda: TASK in page.find('#today').text, 'no history')


def test_a_session_takes_few_presses(page, desk):
    """A short reason and a task of the list: 40 keys and 12 clicks are enough."""
    page.browser.execute_script(COUNT)
    page.press('#seat')
    go_on(page, 'check')
    ActionChains(page.browser).send_keys('Ada').perform()
    page.until(lambda: page.find('.examples button').is_enabled(), 'locked')
    page.find('.examples button').click()
    go_on(page, 'pair')
    page.press()
    page.state('start photo')
    page.press()
    for slot in 'AB':
        page.state(f'{slot} runs')
        page.press()
        page.state(f'score {slot}')
        page.press('[data-mark="50"]')
        if slot == 'A':
            page.press()
            page.state('reset')
            page.until(lambda: '%' in page.find('#match').text, 'no match')
            page.press()
    go_on(page, 'preference')
    ActionChains(page.browser).send_keys(f'1{REASON}').perform()
    assert page.find('#explanation').get_attribute('value') == REASON
    assert page.find('[data-value=A]').get_attribute('aria-pressed') == 'true'
    names = [name for name in ('random-walk', 'frozen') if name in page.browser.page_source]
    assert not names, 'named before the verdict'
    go_on(page, 'done', AGAIN_S)
    presses = page.browser.execute_script('return presses')
    assert presses['key'] <= MOST_KEYS, presses
    assert presses['click'] <= MOST_CLICKS, presses
    page.until(lambda: 'session today' in page.find('#count').text, 'not counted')
    page.until(lambda: all(clip.get_attribute('src') for clip in page.browser.find_elements(
        'css selector', '#clips img')), 'no clips')


def go_on(page, label, wait_s=WAIT_S):
    """Press Ctrl+Enter once the main button may be pressed."""
    page.until(lambda: page.find('#primary').is_enabled(), 'locked')
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(
        Keys.CONTROL).perform()
    page.state(label, wait_s)


def test_warnings_are_shown(browser):
    from test_console_app import FakeDesk

    from arena_robot.session.base import Check
    from arena_robot.session.evaluator.desk import DeskState
    from arena_robot.session.protocol.states import State
    from arena_robot.web.console.app import ConsoleServer
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
        page.leave()
