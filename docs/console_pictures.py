"""
Make the pictures of docs/evaluators.md: a session on the evaluator's page, desktop beside phone.

  python docs/console_pictures.py docs/img

Starts the simulated station with its nodes, and Chromium (chromium and chromedriver on the PATH).
One picture per state of the page: console_NAME.webp.
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.simulation.simulated_station import SimulatedStation
from arena_robot.web.console.serve import ConsoleServer

DESKTOP, PHONE = (1440, 900), (390, 844)
HEIGHT, GAP = 900, 24
WAIT_S = 40.0
TASK = 'put the yellow cube in the bowl'
WHY = 'A moved towards the cube, B stood still'


class Page:
    """The page in a browser; ``photo`` takes it in both sizes."""

    def __init__(self, url: str, out: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which('chromium') or ''
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                         '--disable-dev-shm-usage'):
            options.add_argument(argument)
        self.browser = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
        self.url, self._out = url, out
        self._size(DESKTOP)
        self.browser.get(url)

    def until(self, css: str, words: str = '') -> None:
        """Wait until an element is shown and holds ``words``."""
        def look(_: object) -> bool:
            try:
                found = self.browser.find_element(By.CSS_SELECTOR, css)
                return found.is_displayed() and words.lower() in found.text.lower()
            except WebDriverException:
                return False
        WebDriverWait(self.browser, WAIT_S, 0.1).until(look, f'{css}: {words}')

    def press(self, css: str = '#primary') -> None:
        """Press a button once it is enabled."""
        def tried(_: object) -> bool:
            try:
                found = self.browser.find_element(By.CSS_SELECTOR, css)
                if found.is_enabled():
                    found.click()
                    return True
            except WebDriverException:
                pass
            return False
        WebDriverWait(self.browser, WAIT_S, 0.1).until(tried, css)

    def type(self, css: str, words: str) -> None:
        """Type into a field."""
        self.until(css)
        box = self.browser.find_element(By.CSS_SELECTOR, css)
        box.clear()
        box.send_keys(words)

    def photo(self, name: str) -> None:
        """Write ``console_NAME.webp``: the page as a desktop and as a phone shows it."""
        pictures = []
        for size in (DESKTOP, PHONE):
            self._size(size)
            time.sleep(0.9)    # for the pictures of the cameras, and for buttons to be enabled
            pictures.append(Image.open(io.BytesIO(self.browser.get_screenshot_as_png())))
        self._size(DESKTOP)
        scaled = [one.convert('RGB').resize((one.width * HEIGHT // one.height, HEIGHT),
                                            Image.Resampling.LANCZOS) for one in pictures]
        both = Image.new('RGB', (sum(one.width for one in scaled) + GAP, HEIGHT), 'white')
        both.paste(scaled[0], (0, 0))
        both.paste(scaled[1], (scaled[0].width + GAP, 0))
        path = self._out / f'console_{name}.webp'
        both.save(path, quality=80, method=6)
        sys.stdout.write(f'{path}: {path.stat().st_size / 1e3:.0f} kB\n')

    def _size(self, size: tuple[int, int]) -> None:
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': False})


def to_a(page: Page) -> None:
    """From the first look to the score of A."""
    page.until('#state', 'idle')
    page.press('#seat')
    page.until('#seat', 'you are')
    page.photo('idle')
    page.press()
    page.type('#evaluator', 'Ada')
    page.type('#instruction', TASK)
    page.until('#instruction-hint', 'good')
    page.photo('task')
    page.press()
    page.until('#state', 'pair')
    page.photo('pair')
    page.press()
    page.until('#state', 'start photo')
    page.photo('start')
    page.press()
    page.until('#numbers', 'step')
    time.sleep(2.0)
    page.photo('running')
    page.press('#stop')
    page.until('#stopped', 'at rest')
    page.until('#state', 'score a')
    page.press('[data-mark="50"]')
    page.photo('score')


def to_b(page: Page) -> None:
    """Reset the scene; B is interrupted once, then runs."""
    page.press()
    page.until('#match', 'like the start')
    page.photo('reset')
    page.press('[data-mode=difference]')
    page.photo('difference')
    page.press()
    page.until('#numbers', 'step')
    page.browser.get('about:blank')    # nobody watches: the arm stops
    time.sleep(8.0)
    page.browser.get(page.url)
    page.until('#panel h2', 'the station failed')
    page.until('#clips')
    page.photo('failed')
    page.press()
    page.until('#match', 'like the start')
    page.press()
    page.until('#numbers', 'step')
    page.press('#stop')
    page.until('#state', 'score b')


def to_the_end(page: Page) -> None:
    """The verdict, a question, the review and the names."""
    page.press('[data-mark="25"]')
    page.press()
    page.until('#state', 'preference')
    page.press('[data-value=A]')
    page.type('#explanation', WHY)
    page.photo('preference')
    page.press()
    page.until('#state', 'review')
    page.photo('review')
    page.press('#invalidate')
    page.photo('question')
    page.press('#no')
    page.press()
    page.until('#reveal', 'matches the reveal')
    page.photo('done')


def main() -> None:
    """Run the session and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of the pictures')
    out = parser.parse_args().out
    os.environ.setdefault('MUJOCO_GL', 'egl')
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    with tempfile.TemporaryDirectory() as data, \
            SimulatedStation(data=Path(data), seed=0, max_steps=400), \
            RemoteDesk(patience_s=60.0) as desk:
        desk.watch_views()
        with ConsoleServer(desk, port=0) as server:
            page = Page(server.url, out)
            try:
                to_a(page)
                to_b(page)
                to_the_end(page)
            finally:
                page.browser.quit()


if __name__ == '__main__':
    main()
