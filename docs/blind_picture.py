"""
Make the picture of docs/blind.md: the phone's page from Start to the preference, side by side.

  python docs/blind_picture.py docs/img/blind.webp
  python docs/blind_picture.py --hub docs/img/hub.png    # the plot of docs/hub.md, of its example
  python docs/blind_picture.py --label SESSION docs/img/label.webp    # the page in docs/audit.md

The real page in Chromium (chromium and chromedriver on the PATH), before a desk without policies.
With --label the page of `arena judge label` shows the first episode of SESSION, which stays as it
is; with a simulated session, such as `arena session --sim --auto --data DATA` makes.
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
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from arena_robot.blind.desk import StudyDesk
from arena_robot.blind.page import create_page
from arena_robot.blind.publish import PolicyShare, share_plot
from arena_robot.blind.study import StartCondition, Study, StudyArm
from arena_robot.core.clock import SystemClock
from arena_robot.web.label_page import LabelDesk
from arena_robot.web.label_page import create_page as create_label_page
from arena_robot.web.page_server import PageServer

WIDTH, HEIGHT, GAP = 390, 760, 16
POLLED_S = 2.0    # the page asks for its state once a second, and its buttons wait for 0.7 s
STUDY = Study(
    'cup in bowl', (StudyArm('pi0'), StudyArm('pi05')),
    (StartCondition('tape', instruction='put the cup in the bowl',
                    start='The cup on the tape, the handle to the left.'),),
    'the cup stands in the bowl', stages=('grasped', 'lifted', 'placed'))
WORDS = {'robot_stop': 'the red button on the left', 'report': ''}
# Of the sentence in docs/blind.md.
SHARES = [PolicyShare('pi05', 34, 40, 'succeeded'), PolicyShare('pi0', 19, 40, 'succeeded')]
# The moves before each picture.
SHOTS = ((), ('start', 'ask'), ('end',), ('score', 'start', 'end', 'score'))


@contextmanager
def browser(width: int = WIDTH, height: int = HEIGHT, mobile: bool = True
            ) -> Iterator[webdriver.Chrome]:
    """Give headless Chromium at a size, that of a phone unless another is given."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium') or ''
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars'):
        options.add_argument(argument)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
    driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': mobile})
    yield driver
    driver.quit()


def label_picture(session: Path, path: Path) -> None:
    """Write the page on which an episode is labelled, with the marks of two stages."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / session.name
        shutil.copytree(session, folder)
        desk = stack.enter_context(LabelDesk(folder, SystemClock()))
        server = stack.enter_context(PageServer(
            lambda token, hosts: create_label_page(desk, token, hosts), '127.0.0.1', 0))
        page = stack.enter_context(browser(1200, 600, mobile=False))
        page.get(server.url)
        while not desk.shown()['ready']:
            time.sleep(POLLED_S)
        time.sleep(POLLED_S)
        keys = ActionChains(page).send_keys(
            Keys.ESCAPE, 't', 'cube in bowl', Keys.ENTER).pause(POLLED_S).send_keys(
            'e', 'grasped, lifted, in the bowl', Keys.ENTER)
        for stage, steps in ((Keys.ENTER, 12), (Keys.ENTER, 10)):
            keys.send_keys(*[Keys.ARROW_RIGHT] * steps).pause(POLLED_S).send_keys(stage)
        keys.perform()
        time.sleep(POLLED_S)
        Image.open(io.BytesIO(page.get_screenshot_as_png())).convert('RGB').save(path, quality=70)


def main() -> None:
    """Take the pictures, and write them as one."""
    if sys.argv[1] == '--label':
        label_picture(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    if sys.argv[1] == '--hub':
        Path(sys.argv[2]).write_bytes(share_plot(SHARES))
        return
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
