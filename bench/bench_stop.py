"""
From a press of STOP on the evaluator's page to the arm at rest, with the station busy.

A browser presses STOP with mouse, touch and space bar in turn while the arm moves: in rollouts and
on the way to its reset pose. The station is that of bench_session: six image streams, recorder,
session node, the page with its pictures. Measured from the browser's time stamp of the press to
the stamp of the arm's first reading at rest (every joint below 0.02 rad/s).
"""

import argparse
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import yaml
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH
from selenium.webdriver.common.actions.pointer_input import PointerInput

from arena_msgs.msg import ArmState
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.tuning import keep_what_exists
from arena_robot.core.verdict import Verdict
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.convert import stamp_of
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.station.processes import SimulatedStation
from arena_robot.web.console.app import ConsoleServer

PRESSES = 100
STEPS = 20          # of a rollout before the press
LIMIT_MS = 250.0
MOVING, STILL = 0.1, 0.02    # rad/s of the fastest joint
POOL = {'policies': [{'name': name, 'address': 'example:random_walk', 'options': {'speed': 0.8}}
                     for name in ('one', 'two')]}
WATCH = """
window.pressed = 0;
for (const kind of ['pointerdown', 'keydown']) window.addEventListener(kind, (event) => {
  window.pressed = performance.timeOrigin + event.timeStamp; }, true);"""


class Arm:
    """The arm's readings, as they arrive."""

    def __init__(self, desk):
        self.readings, self._new = [], threading.Condition()
        desk.hear(ArmState, 'arm_node/arm_state', self._hear, qos.STATE)

    def _hear(self, message):
        with self._new:
            self.readings.append((stamp_of(message.header.stamp) * 1e-6,
                                  float(np.max(np.abs(message.dq)))))
            self._new.notify_all()

    def wait_moving(self, timeout_s=3.0):
        """Return whether the arm moves within some seconds."""
        with self._new:
            return self._new.wait_for(lambda: self.readings and self.readings[-1][1] > MOVING,
                                      timeout_s)

    def at_rest_ms(self, since_ms):
        """Return the stamp of the first reading at rest after a press."""
        def found():
            return next((at for at, speed in self.readings
                         if at >= since_ms and speed < STILL), None)
        with self._new:
            self._new.wait_for(lambda: found() is not None, 5.0)
            return found()


class Presser:
    """A browser on the page that presses STOP, each time in another way."""

    def __init__(self, url):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium') or ''
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu',
                         '--disable-dev-shm-usage', '--window-size=1280,900'):
            options.add_argument(argument)
        self.browser = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
        self.browser.set_script_timeout(10.0)
        # Before the page's own listeners, which let no other see the space bar.
        self.browser.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': WATCH})
        self.browser.get(url)
        self._turn = 0

    def press(self):
        """Press STOP; return when, in ms since the epoch, as the browser says."""
        stop = self.browser.find_element('id', 'stop')
        self._turn += 1
        if self._turn % 3 == 0:
            stop.click()
        elif self._turn % 3 == 1:
            finger = PointerInput(POINTER_TOUCH, 'finger')
            finger.create_pointer_move(origin=stop)
            finger.create_pointer_down(button=0)
            finger.create_pointer_up(button=0)
            self.browser.execute('actions', {'actions': [finger.encode()]})
        else:
            ActionChains(self.browser).send_keys(' ').perform()
        return self.browser.execute_script('return window.pressed')


def measure(desk, arm, presser, presses):
    """Return the times of so many presses, in ms, with the motion that each one ended."""
    found = []
    desk.take('bench')
    while len(found) < presses:
        desk.press('check')
        while not desk.state().ready:
            desk.press('check')
        desk.open_session('bench', 'wave at nobody', repeat=True)
        found += on_the_way(desk, arm, presser, 'photograph')
        found += in_a_rollout(desk, arm, presser, Slot.A)
        desk.score(Slot.A, Verdict(progress_a=0.5))
        found += on_the_way(desk, arm, presser, 'prepare_reset')
        desk.press('confirm_reset')
        found += in_a_rollout(desk, arm, presser, Slot.B)
        desk.press('abort', 'measured')
    return found[:presses]


def on_the_way(desk, arm, presser, button):
    """Press STOP while the arm moves to its reset pose, then let it go there."""
    moving = threading.Thread(target=homeward, args=(desk, button))
    moving.start()
    found = [('reset pose', once(arm, presser))] if arm.wait_moving(1.0) else []
    moving.join()
    desk.press(button)
    return found


def homeward(desk, button):
    with suppress(ArenaError):    # it is stopped on the way
        desk.press(button)


def in_a_rollout(desk, arm, presser, slot):
    """Press STOP while a policy moves the arm, some steps after its start."""
    desk.start(slot)
    while desk.state().state.running and (not desk.running() or desk.running().steps < STEPS):
        time.sleep(0.02)
    found = [('rollout', once(arm, presser))] if arm.wait_moving() else []
    while desk.state().state.running:
        desk.wait_change(desk.state(), 1.0)
    return found


def once(arm, presser):
    pressed_ms = presser.press()
    rest_ms = arm.at_rest_ms(pressed_ms)
    return float('inf') if rest_ms is None else rest_ms - pressed_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--presses', type=int, default=PRESSES)
    presses = parser.parse_args().presses
    os.environ.setdefault('MUJOCO_GL', 'egl')
    os.environ.setdefault('ROS_DOMAIN_ID', '83')
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder, 'pool.yaml')
        pool.write_text(yaml.safe_dump(POOL))
        station = SimulatedStation(pool, Path(folder, 'data'), max_steps=405)
        with station, RemoteDesk(patience_s=60.0) as desk:
            desk.watch_views()
            arm = Arm(desk)
            with ConsoleServer(desk, port=0) as console:
                time.sleep(3.0)
                presser = Presser(console.url)
                keep_what_exists()    # as `arena console` does
                try:
                    found = measure(desk, arm, presser, presses)
                finally:
                    presser.browser.quit()
    print(f'{os.cpu_count()} cores, load average {load:.1f} before this bench')
    for name in ('rollout', 'reset pose'):
        report(name, [ms for what, ms in found if what == name])
    p99_ms = report('all', [ms for _, ms in found])
    print(f'  limit of p99 {LIMIT_MS:.0f} ms{"" if p99_ms <= LIMIT_MS else "   MISSED"}')


def report(name, times):
    """Print how long the arm took after the presses; return the 99th percentile."""
    if not times:
        return float('inf')
    p50, p99 = np.percentile(times, (50, 99))
    print(f'  press to rest, {name:<11} {len(times):>4} presses   p50 {p50:>4.0f} ms   '
          f'p99 {p99:>4.0f} ms   max {max(times):>4.0f} ms')
    return float(p99)


if __name__ == '__main__':
    main()
