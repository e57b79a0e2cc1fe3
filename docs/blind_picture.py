"""
Make the picture of docs/blind.md: the phone's page from Start to the preference, side by side.

  python docs/blind_picture.py docs/img/blind.webp

The real page in Chromium (chromium and chromedriver on the PATH), before a desk without policies.
"""

import io
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image
from selenium import webdriver

from arena_robot.blind.desk import StudyDesk
from arena_robot.blind.page import create_page
from arena_robot.blind.study import StartCondition, Study, StudyArm
from arena_robot.core.clock import SystemClock
from arena_robot.web.page_server import PageServer

WIDTH, HEIGHT, GAP = 390, 760, 16
POLLED_S = 2.0    # the page asks for its state once a second, and its buttons wait for 0.7 s
STUDY = Study(
    'cup in bowl', (StudyArm('pi0'), StudyArm('pi05')),
    (StartCondition('tape', instruction='put the cup in the bowl',
                    start='The cup on the tape, the handle to the left.'),),
    'the cup stands in the bowl', stages=('grasped', 'lifted', 'placed'))
WORDS = {'robot_stop': 'the red button on the left', 'report': ''}
# The moves before each picture.
SHOTS = ((), ('start', 'ask'), ('end',), ('score', 'start', 'end', 'score'))


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Give headless Chromium at the size of a phone."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium') or ''
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars'):
        options.add_argument(argument)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
    driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': WIDTH, 'height': HEIGHT, 'deviceScaleFactor': 1, 'mobile': True})
    yield driver
    driver.quit()


def main() -> None:
    """Take the pictures, and write them as one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        desk = stack.enter_context(StudyDesk(folder, STUDY, 'seed', SystemClock(), print,
                                             lambda arm: None))
        server = stack.enter_context(PageServer(
            lambda token, hosts: create_page(desk, token, hosts, WORDS), '127.0.0.1', 0))
        page = stack.enter_context(browser())
        page.get(server.url)
        whole = Image.new('RGB', (len(SHOTS) * (WIDTH + GAP) - GAP, HEIGHT), 'white')
        for k, moves in enumerate(SHOTS):
            for move in moves:
                if move == 'ask':
                    desk.check(desk.admit('robot'))
                else:
                    desk.move(move, {'success': True, 'progress': 100})
            time.sleep(POLLED_S)
            shot = Image.open(io.BytesIO(page.get_screenshot_as_png())).convert('RGB')
            whole.paste(shot.crop((0, 0, WIDTH, HEIGHT)), (k * (WIDTH + GAP), 0))
        whole.save(sys.argv[1], quality=70)


if __name__ == '__main__':
    main()
