"""
Make the pictures of docs/evaluators.md: the evaluator's page, desktop and phone, light and dark.

  python docs/console_pictures.py docs/img

The real page in Chromium (chromium and chromedriver on the PATH), in front of a desk that is put
into one state after another. What its cameras show was recorded on the simulated station before.
One picture per state of the page: console_NAME.webp.
"""

import argparse
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from shown_desk import CHECKS, Films, ShownDesk

from arena_robot.core.episode import Preference, Slot
from arena_robot.core.verdict import Clutter, Lighting, Verdict
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import Button, Desk, SlotView
from arena_robot.session.protocol.states import State
from arena_robot.web.console.app import ConsoleServer

DESKTOP, PHONE, THEMES = (1440, 900), (390, 844), ('light', 'dark')
HEIGHT, GAP = 640, 16
LARGEST_KB, QUALITIES = 90.0, (80, 70, 60, 50, 40)
WAIT_S = 40.0
WHY = 'A put the cube into the bowl in one go; B dropped it once and was slower.'
RUN_A, RUN_B = SlotView(Slot.A, 'done', '', 140), SlotView(Slot.B, 'done', '', 187)
HALF = SlotView(Slot.A, 'done', '', 140, again='mistake')
BROKEN = SlotView(Slot.B, 'driver_error', 'wrist camera: no frame within 0.5 s', 96, again='fault')
UNPLUGGED = (Check('wrist camera', False, 'wrist camera: no pictures; check its power and its '
                   'cable'), *CHECKS[:2], *CHECKS[3:-1], Check(
                       'server', True, "the clock is 1.4 s off the server's", warning=True))


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
        self._out = out
        self._show(DESKTOP, THEMES[0])
        self.browser.get(url)

    def until(self, css: str, words: str = '') -> None:
        """Wait until an element is shown and holds ``words``."""
        WebDriverWait(self.browser, WAIT_S, 0.1).until(lambda _: self.browser.execute_script(
            'const found = document.querySelector(arguments[0]); return found?.offsetParent'
            ' !== undefined && found.innerText.toLowerCase().includes(arguments[1])',
            css, words.lower()), f'{css}: {words}')

    def press(self, css: str) -> None:
        """Press a button."""
        self.until(css)
        self.browser.execute_script('document.querySelector(arguments[0]).click()', css)

    def photo(self, name: str, at: str = '', frozen: bool = False) -> None:
        """Write ``console_NAME.webp``: the page four times, scrolled to ``at`` when given."""
        rows = [[self._shot(size, theme, at, frozen) for size in (DESKTOP, PHONE)]
                for theme in THEMES]
        self._show(DESKTOP, THEMES[0])
        scaled = [[one.resize((one.width * HEIGHT // one.height, HEIGHT),
                              Image.Resampling.LANCZOS) for one in row] for row in rows]
        width = sum(one.width for one in scaled[0]) + GAP
        whole = Image.new('RGB', (width, len(rows) * (HEIGHT + GAP) - GAP), 'white')
        for k, (wide, small) in enumerate(scaled):
            whole.paste(wide, (0, k * (HEIGHT + GAP)))
            whole.paste(small, (wide.width + GAP, k * (HEIGHT + GAP)))
        path = self._out / f'console_{name}.webp'
        for quality in QUALITIES:
            whole.save(path, quality=quality, method=6)
            if path.stat().st_size < 1e3 * LARGEST_KB:
                break
        sys.stdout.write(f'{path}: {path.stat().st_size / 1e3:.0f} kB\n')

    def _shot(self, size: tuple[int, int], theme: str, at: str, frozen: bool) -> Image.Image:
        """Return the page once its buttons are free and no picture of a camera is marked old."""
        self._show(size, theme)
        if at:
            self.browser.execute_script(
                'document.querySelector(arguments[0]).scrollIntoView({block: "center"})', at)
        time.sleep(1.2)
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            fresh = frozen or self._fresh()
            picture = self.browser.get_screenshot_as_png()
            if fresh and (frozen or self._fresh()):
                return Image.open(io.BytesIO(picture)).convert('RGB')
        raise TimeoutError('a picture of a camera is old: this machine is too busy')

    def _fresh(self) -> bool:
        return not any(figure.is_displayed() for figure in self.browser.find_elements(
            By.CSS_SELECTOR, 'figure.old'))

    def _show(self, size: tuple[int, int], theme: str) -> None:
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': False})


def session(page: Page, desk: ShownDesk, films: Films) -> None:
    """Photograph every state of a session."""
    def show(name: str, state: State, before: Iterable[str] = (), at: str = '',
             frozen: str = '', **more: Any) -> None:
        desk.frozen = frozen
        desk.put(state, **more)
        page.until('#panel h2', desk.state().message)
        for css in before:
            page.press(css)
        page.photo(name, at, bool(frozen))

    page.until('#seat', 'take control')
    page.press('#seat')
    page.until('#seat', 'you are')
    entered(page, show)
    run(page, show, desk, films)
    judged(page, show, desk, films)
    show('aborted', State.ABORTED, slots=(RUN_A, SlotView(Slot.B)),
         verdict=Verdict(progress_a=1.0))


def entered(page: Page, show: Callable[..., None]) -> None:
    """Photograph the states before a policy runs."""
    fresh = {'session_id': '', 'evaluator': '', 'instruction': '', 'commitment': ''}
    show('idle', State.IDLE, **fresh)
    show('check', State.PREFLIGHT, **{**fresh, 'evaluator': 'Ada'}, checks=UNPLUGGED,
         message='A check failed. Do what it says, then check again.')
    show('task', State.PREFLIGHT, **{**fresh, 'evaluator': 'Ada'})
    show('entered', State.TASK_ENTERED, commitment='')
    show('pair', State.ASSIGNED)
    show('start', State.START_PHOTOGRAPHED, matches={}, match=None)
    show('recover', State.START_PHOTOGRAPHED, ['#recover'], matches={}, match=None,
         repairs=(Button.RECOVER, Button.ACTIVATE_GRIPPER))
    page.press('#no')


def run(page: Page, show: Callable[..., None], desk: ShownDesk, films: Films) -> None:
    """Photograph both rollouts, and what is between them."""
    desk.live = films.rollouts[Slot.A][len(films.rollouts[Slot.A]) // 2]
    show('running', State.RUNNING_A)
    desk.rest.clear()
    page.press('#stop')
    page.until('#alarm', 'hardware stop')
    page.photo('alarm')
    desk.rest.set()
    page.until('#stopped', 'at rest')
    page.browser.refresh()
    page.until('#seat', 'you are')
    desk.live = films.rollouts[Slot.A][-1]
    show('score', State.SCORING_A, ['[data-mark="100"]'], slots=(HALF, SlotView(Slot.B)))
    show('unsafe', State.SCORING_A, ['[data-mark="25"]', '.flag'], '.flag',
         slots=(replace(HALF, end='stopped'), SlotView(Slot.B)))
    desk.live = films.put_back
    one = {'slots': (RUN_A, SlotView(Slot.B)), 'verdict': Verdict(progress_a=1.0)}
    show('reset', State.RESET, **one)
    show('difference', State.RESET, ['[data-mode=difference]'], **one)
    desk.live = films.rollouts[Slot.B][len(films.rollouts[Slot.B]) // 2]
    show('old', State.RUNNING_B, **one, frozen='wrist_left')
    show('failed', State.SCORING_B, slots=(RUN_A, BROKEN), verdict=one['verdict'],
         message='The station failed while B was running.')
    desk.live = films.rollouts[Slot.B][-1]
    show('score_b', State.SCORING_B, ['[data-mark="75"]'], slots=(RUN_A, RUN_B),
         verdict=one['verdict'])


def judged(page: Page, show: Callable[..., None], desk: ShownDesk, films: Films) -> None:
    """Photograph the states after both rollouts."""
    said = Verdict(progress_a=1.0, progress_b=0.75)
    both = {'slots': (RUN_A, replace(RUN_B, reruns=1)), 'verdict': said, 'draft': said,
            'match': 0.97}
    desk.live = films.rollouts[Slot.B][-1]
    full = replace(said, preference=Preference.A, explanation=WHY, lighting=Lighting.NORMAL,
                   clutter=Clutter.LOW)
    show('preference', State.PREFERENCE, **{**both, 'draft': full})
    page.photo('conditions', '#clutter')
    both |= {'verdict': full, 'draft': full}
    show('review', State.PREFERENCE, at='#review', **both)
    show('question', State.REVIEW, ['#invalidate'], **both)
    page.press('#no')
    show('submitting', State.SUBMITTING, waiting=1, **both)
    show('done', State.DONE, policy_a='pi0_fast_droid', policy_b='pi0_droid', verified=True,
         **both)


def main() -> None:
    """Record the films, then photograph the session."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of the pictures')
    out = parser.parse_args().out
    os.environ.setdefault('MUJOCO_GL', 'egl')
    films = Films.record()
    desk = ShownDesk(films)
    with ConsoleServer(cast(Desk, desk), port=0) as server:
        page = Page(server.url, out)
        try:
            session(page, desk, films)
        finally:
            page.browser.quit()


if __name__ == '__main__':
    main()
