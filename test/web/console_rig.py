"""A scripted desk behind the real page, and a person at the page."""

import dataclasses
import threading

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from test_console_app import FakeDesk

from arena_robot.core.episode import Slot
from arena_robot.core.verdict import Verdict
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import HINTS, DeskState, RunView, SlotView
from arena_robot.web.console.app import NAME

WAIT_S = 20.0
TASK = 'put the cube in the bowl'
MOVING = 'the arm moves to its reset pose'
ENDED = (SlotView(Slot.A, 'stopped', '', 7), SlotView(Slot.B, 'done', '', 9))


class Station(FakeDesk):
    """A desk whose state the test sets; ``stop`` blocks while ``rest`` is not set."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()
        self.is_over = False
        self.rest = threading.Event()
        self.rest.set()
        self.stops, self.pressed = 0, threading.Semaphore(0)
        self.silent = None

    def set(self, state, **more):
        ready = {'instruction': TASK, 'session_id': 'f' * 32, 'commitment': 'c' * 64,
                 'slots': ENDED, 'evaluator': 'ada', 'matches': {'left_left': 0.98},
                 'match': 0.98, 'checks': (Check('arm', True, 'ready'),),
                 'verdict': Verdict(progress_a=0.5, progress_b=0.25)}
        with self.changed:
            self.now = DeskState(state, message=HINTS[state], control=NAME, **{**ready, **more})
            running = state.running
            self.run = RunView(running, 2, 400, 0.1) if running else None
            self.changed.notify_all()

    def take(self, name, take_over=False):
        with self.changed:
            self.now = dataclasses.replace(self.now, control=name)
            self.changed.notify_all()

    def wait_change(self, seen, timeout_s):
        with self.changed:
            self.changed.wait_for(lambda: self.now != seen or self.is_over, timeout_s)
            return self.now

    def end(self):
        """Let every call return, so that the server need not wait for them when it closes."""
        self.rest.set()
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def stop(self):
        self.stops += 1
        self.pressed.release()
        if self.silent:
            raise self.silent
        assert self.rest.wait(WAIT_S)

    def asked(self, *names):
        return [call for call in self.log if call[0] in names]


# The page withholds the click on a button that has just moved, or been locked.
HEAR_CLICK = """
window.heardClick = false;
if (!window.hearsClicks) document.addEventListener('click', () => { heardClick = true; }, true);
window.hearsClicks = true;"""


def clicked(browser, element):
    """Click an element; return whether the page took the click."""
    browser.execute_script(HEAR_CLICK)
    element.click()
    return browser.execute_script('return window.heardClick !== false')


class Page:
    """The page in a browser, in control of the station."""

    def __init__(self, browser, station, url):
        self.browser, self.station = browser, station
        browser.execute_cdp_cmd('Storage.clearDataForOrigin', {
            'origin': url.rstrip('/'), 'storageTypes': 'all'})
        browser.get(url)
        self.until(lambda: 'take control' in self.find('#seat').text, 'no page')
        self.find('#seat').click()
        self.until(lambda: 'you are' in self.find('#seat').text, 'not in control')

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def until(self, look, missed):
        """Return what ``look`` returns, once that is true."""
        return WebDriverWait(
            self.browser, WAIT_S, 0.05, [StaleElementReferenceException]).until(
            lambda _: look(), missed)

    def shows(self, state, **more):
        """Put the station into a state, and wait for the page to show its panel."""
        self.station.set(state, **more)
        self.until(lambda: self.find('#panel h2').text == HINTS[state]
                   and self.find('#doing').text.partition(':')[0] == (
                       f'… {more["doing"]}' if more.get('doing') and not state.running else ''),
                   state)

    def press(self, css):
        self.until(lambda: self.browser.execute_script(
            'arguments[0].scrollIntoView({block: "nearest"}); return true', self.find(css)), css)
        self.until(lambda: self.find(css).is_enabled() and clicked(self.browser, self.find(css)),
                   css)

    def touch(self, element):
        finger = PointerInput(POINTER_TOUCH, 'finger')
        action = ActionChains(self.browser)
        action.w3c_actions.devices.append(finger)
        finger.create_pointer_move(duration=0, origin=element)
        finger.create_pointer_down(button=0)
        finger.create_pointer_up(button=0)
        self.browser.execute('actions', {'actions': [finger.encode()]})

    def focus(self, css):
        self.browser.execute_script('arguments[0].focus()', self.find(css))

    def focused(self):
        return self.browser.switch_to.active_element

    def key(self, key):
        ActionChains(self.browser).send_keys(key).perform()

    def stops(self, work, way):
        """Check that an action sends STOP, that the arm's rest is shown, and nothing else."""
        before, log = self.station.stops, list(self.station.log)
        self.browser.execute_script('document.getElementById("stopped").textContent = ""')
        work()
        self.until(lambda: self.station.stops > before, f'{way}: no STOP')
        self.until(lambda: 'at rest: confirmed' in self.find('#stopped').text, f'{way}: no rest')
        assert self.station.stops == before + 1, way
        assert [call for call in self.station.log if call[0] != 'wait'] == [
            call for call in log if call[0] != 'wait'], way
