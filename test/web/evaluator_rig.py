"""An evaluator at the page, in a browser, and the arm's own readings beside it."""

import itertools
import threading
from collections import deque

from console_rig import Page as Pressing
from console_rig import clicked
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

from arena_msgs.msg import ArmState
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.convert import stamp_of

TASK = 'put the yellow cube in the bowl'
WHY = 'A moved towards the cube, B stood still'
WAIT_S = 30.0
AGAIN_S = 60.0    # a part that was killed is there again within a minute
STILL = 0.02        # rad/s of the fastest joint
AT_REST_S = 1.5
# Before the page's own listeners, which let no other see the space bar.
WATCH = """
window.pressed = 0;
for (const kind of ['pointerdown', 'keydown']) window.addEventListener(kind, (event) => {
  window.pressed ||= performance.timeOrigin + event.timeStamp; }, true);"""


class Page:
    def __init__(self, browser, url):
        self.browser, self.ways = browser, itertools.cycle(('mouse', 'touch', 'key'))
        self.watch = browser.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument',
                                             {'source': WATCH})
        browser.get(url)

    def leave(self):
        self.browser.execute_cdp_cmd('Page.removeScriptToEvaluateOnNewDocument', self.watch)

    def find(self, css):
        return self.browser.find_element('css selector', css)

    def until(self, look, missed, wait_s=WAIT_S):
        def tried(_):
            try:
                return look()
            except Exception as error:    # stale elements while the panel is being replaced
                if 'element' not in str(error).lower():
                    raise
                return False
        try:
            return WebDriverWait(self.browser, wait_s, 0.1).until(tried)
        except Exception as error:
            raise AssertionError(f'{missed}; {self.find("#state").text}: '
                                 f'{self.find("#problem").text} {self.find("#question").text}; '
                                 f'{self.find("#panel").text[:300]}') from error

    def state(self, label, wait_s=WAIT_S):
        self.until(lambda: self.find('#state').text == label.upper(), f'no state {label}', wait_s)

    def press(self, css='#primary'):
        self.until(lambda: self.find(css).is_enabled() and clicked(self.browser, self.find(css)),
                   f'cannot press {css}')

    def type(self, css, words):
        box = self.until(lambda: self.find(css), f'no {css}')
        box.clear()
        box.send_keys(words)

    touch = Pressing.touch

    def stop(self, way):
        """Press STOP; return the seconds until the arm's own reading showed rest."""
        self.browser.execute_script(
            'window.pressed = 0; document.getElementById("stopped").textContent = ""')
        stop = self.find('#stop')
        if way == 'mouse':
            stop.click()
        elif way == 'touch':
            self.touch(stop)
        else:
            self.browser.execute_script('document.activeElement.blur()')
            ActionChains(self.browser).send_keys(' ').perform()
        self.until(lambda: 'at rest: confirmed' in self.find('#stopped').text, f'{way}: no rest')
        return self.arm.rest_s(self.browser.execute_script('return pressed'))

    def stop_at_rest(self):
        """
        Press STOP by mouse, touch or key in turn, where no policy runs.

        test_console_stop presses it in every way in every state.
        """
        way = next(self.ways)
        took_s = self.stop(way)
        assert took_s < AT_REST_S, (self.find('#state').text, way, took_s)
        self.browser.execute_script('document.activeElement.blur()')    # no key is for STOP


class Arm:
    """The arm's own readings."""

    def __init__(self, desk):
        self.readings, self.new = deque(maxlen=4000), threading.Condition()
        desk.hear(ArmState, 'arm_node/arm_state', self.hear, qos.STATE)
        with self.new:    # a press before the two nodes have met would count as not at rest
            assert self.new.wait_for(lambda: self.readings, WAIT_S), 'the arm is not heard'

    def hear(self, message):
        with self.new:
            self.readings.append((stamp_of(message.header.stamp) * 1e-6,
                                  max(abs(speed) for speed in message.dq)))
            self.new.notify_all()

    def rest_s(self, pressed_ms):
        """Return how long after a press the first reading at rest was made."""
        def first():
            return min(((at - pressed_ms) * 1e-3 for at, speed in self.readings
                        if at >= pressed_ms and speed < STILL), default=None)
        with self.new:
            assert self.new.wait_for(lambda: first() is not None, WAIT_S)
            return first()


def begun(page, slot):
    """Press what starts the slot, also again: a part that was started now is not there yet."""
    if page.find('#state').text == f'{slot} RUNS':
        return True
    for css in ('#yes', '#primary'):
        button = page.find(css)
        if button.is_displayed() and button.is_enabled() and 'tart ' in button.text:
            button.click()
            break
    return False
