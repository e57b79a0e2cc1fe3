"""
Make the pictures of docs/evaluators.md: a session on the evaluator's page, desktop beside phone.

  python docs/console_pictures.py docs/img

The real page in Chromium (chromium and chromedriver on the PATH), in front of a desk that is put
into one state after another. What its cameras show was recorded on the simulated station before.
One picture per state of the page: console_NAME.webp.
"""

import argparse
import hashlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from arena_robot.core.episode import Preference, Slot
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.verdict import Clutter, Lighting, Verdict
from arena_robot.drivers.sim.expert import PERIOD_S
from arena_robot.drivers.sim.station import SimStation
from arena_robot.session.evaluator.desk import HINTS, Desk, DeskState, RunView, SlotView
from arena_robot.session.loop.match import compare_views
from arena_robot.session.ports import Check
from arena_robot.session.protocol.states import State
from arena_robot.trials.faulty_expert import script
from arena_robot.web.console.serve import ConsoleServer

DESKTOP, PHONE = (1440, 900), (390, 844)
HEIGHT, GAP = 800, 24
LARGEST_KB, QUALITIES = 60.0, (80, 70, 60, 50, 40)
WAIT_S = 40.0
EVERY = 3    # control steps from picture to picture
MOVED_MM = 6.0
TASK = 'put the yellow cube in the bowl'
WHY = 'A put the cube into the bowl in one go; B dropped it once and was slower.'
CHECKS = tuple(Check(name, True, detail) for name, detail in (
    ('left camera', '1280 x 720'), ('right camera', '1280 x 720'), ('wrist camera', '1280 x 720'),
    ('arm', 'idle'), ('gripper', '100 % open'), ('disk', '412 GB free'), ('server', 'answers')))
RUN_A, RUN_B = SlotView(Slot.A, 'done', '', 140), SlotView(Slot.B, 'done', '', 187)
HALF = SlotView(Slot.A, 'done', '', 140, again='mistake')
BROKEN = SlotView(Slot.B, 'driver_error', 'wrist camera: no frame within 0.5 s', 96, again='fault')
Views = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Films:
    """What the cameras saw: both rollouts, and the scene put back not quite as it was."""

    rollouts: Mapping[Slot, list[Views]]
    put_back: Views

    @classmethod
    def record(cls) -> 'Films':
        """Run the task twice on the simulated station: done, and with the cube dropped."""
        with SimStation.make('cube_in_bowl', 0, size=(512, 288), rate_hz=5.0,
                             eyes=('left',)) as station:
            def look() -> Views:
                return {f'{role}_left': station.cameras[role].frame(5.0).left.pixels
                        for role in station.cameras}

            rollouts = {}
            start = station.save()
            for slot, way in ((Slot.A, 'expert'), (Slot.B, 'drop')):
                station.restore(start)
                rollouts[slot] = [look()]
                for step, _ in enumerate(script(station, way, 0), 1):
                    station.step(PERIOD_S)
                    if step % EVERY == 0:
                        rollouts[slot].append(look())
            station.restore(start, moved_mm=MOVED_MM)
            station.step(EVERY * PERIOD_S)
            return cls(rollouts, look())


class ShownDesk:
    """A desk in the state that it is put into; commands are accepted and change nothing."""

    def __init__(self, films: Films) -> None:
        self._films, self._changed = films, threading.Condition()
        self._now, self._run = DeskState(message=HINTS[State.IDLE]), cast(RunView | None, None)
        self.live = films.rollouts[Slot.A][0]

    def put(self, state: State, **more: Any) -> None:
        """Show ``state``, with fields of DeskState that differ from those of a usual session."""
        matches = {name: one.score for name, one in compare_views(
            self._films.rollouts[Slot.A][0], self._films.put_back).items()}
        usual = {'session_id': 'e5065082' + 24 * '0', 'station': 'lab-3', 'evaluator': 'Ada',
                 'control': self._now.control, 'message': HINTS[state], 'instruction': TASK,
                 'draft_instruction': TASK, 'checks': CHECKS,
                 'commitment': hashlib.sha256(TASK.encode()).hexdigest(),
                 'matches': matches, 'match': min(matches.values())}
        with self._changed:
            self._now = DeskState(state, **{**usual, **more})
            self._run = None
            if state.running:
                self._run = RunView(state.running, 96, 400, 0.066, elapsed_s=6.4)
            self._changed.notify_all()

    def state(self) -> DeskState:
        """Return the state that is shown."""
        return self._now

    def wait_change(self, seen: DeskState, timeout_s: float) -> DeskState:
        """Return the state once it is not ``seen``, at the latest after ``timeout_s``."""
        with self._changed:
            self._changed.wait_for(lambda: self._now != seen, timeout_s)
            return self._now

    def running(self) -> RunView | None:
        """Return the run that is shown."""
        return self._run

    def take(self, name: str, take_over: bool = False) -> None:
        """Give control to ``name``."""
        with self._changed:
            self._now = replace(self._now, control=name)
            self._changed.notify_all()

    def today(self) -> list[DeskState]:
        """Return no earlier sessions."""
        return []

    def views(self) -> tuple[str, ...]:
        """Return the names of the views."""
        return tuple(self.live)

    def frame(self, view: str) -> bytes:
        """Return the picture of a view."""
        return to_jpeg(self.live[view])

    def frame_age_s(self, view: str) -> float:
        """Return that every picture is new."""
        return 0.0

    def reference(self, view: str) -> bytes:
        """Return the start photograph of a view."""
        return to_jpeg(self._films.rollouts[Slot.A][0][view])

    def clip(self, slot: Slot, view: str) -> tuple[bytes, ...]:
        """Return the later half of a rollout, in which more is to be seen."""
        pictures = self._films.rollouts[slot]
        return tuple(to_jpeg(one[view]) for one in pictures[len(pictures) // 2:])

    def __getattr__(self, name: str) -> Callable[..., str]:
        return lambda *_, **__: ''


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
        self._size(DESKTOP)
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

    def photo(self, name: str, at: str = '') -> None:
        """Write ``console_NAME.webp``: the page in both sizes, scrolled to ``at`` when given."""
        pictures = [self._shot(size, at) for size in (DESKTOP, PHONE)]
        self._size(DESKTOP)
        scaled = [one.resize((one.width * HEIGHT // one.height, HEIGHT),
                             Image.Resampling.LANCZOS) for one in pictures]
        both = Image.new('RGB', (sum(one.width for one in scaled) + GAP, HEIGHT), 'white')
        both.paste(scaled[0], (0, 0))
        both.paste(scaled[1], (scaled[0].width + GAP, 0))
        path = self._out / f'console_{name}.webp'
        for quality in QUALITIES:
            both.save(path, quality=quality, method=6)
            if path.stat().st_size < 1e3 * LARGEST_KB:
                break
        sys.stdout.write(f'{path}: {path.stat().st_size / 1e3:.0f} kB\n')

    def _shot(self, size: tuple[int, int], at: str) -> Image.Image:
        """Return the page once its buttons are free and no picture of a camera is marked old."""
        self._size(size)
        if at:
            self.browser.execute_script(
                'document.querySelector(arguments[0]).scrollIntoView({block: "center"})', at)
        time.sleep(1.2)
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            fresh = self._fresh()
            picture = self.browser.get_screenshot_as_png()
            if fresh and self._fresh():
                return Image.open(io.BytesIO(picture)).convert('RGB')
        raise TimeoutError('a picture of a camera is old: this machine is too busy')

    def _fresh(self) -> bool:
        return not self.browser.find_elements(By.CSS_SELECTOR, 'figure.old')

    def _size(self, size: tuple[int, int]) -> None:
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': False})


def session(page: Page, desk: ShownDesk, films: Films) -> None:
    """Photograph every state of a session."""
    def show(name: str, state: State, before: Iterable[str] = (), at: str = '',
             **more: Any) -> None:
        desk.put(state, **more)
        page.until('#panel h2', desk.state().message)
        for css in before:
            page.press(css)
        page.photo(name, at)

    page.until('#seat', 'take control')
    page.press('#seat')
    page.until('#seat', 'you are')
    fresh = {'session_id': '', 'evaluator': '', 'instruction': '', 'commitment': ''}
    show('idle', State.IDLE, **fresh)
    show('task', State.PREFLIGHT, **{**fresh, 'evaluator': 'Ada'})
    show('pair', State.ASSIGNED)
    show('start', State.START_PHOTOGRAPHED, matches={}, match=None)
    desk.live = films.rollouts[Slot.A][len(films.rollouts[Slot.A]) // 2]
    show('running', State.RUNNING_A)
    desk.live = films.rollouts[Slot.A][-1]
    show('score', State.SCORING_A, ['[data-mark="100"]'], slots=(HALF, SlotView(Slot.B)))
    desk.live = films.put_back
    one = {'slots': (RUN_A, SlotView(Slot.B)), 'verdict': Verdict(progress_a=1.0)}
    show('reset', State.RESET, **one)
    show('difference', State.RESET, ['[data-mode=difference]'], **one)
    show('failed', State.SCORING_B, slots=(RUN_A, BROKEN), verdict=one['verdict'],
         message='The station failed while B was running.')
    judged(page, show, desk, films)


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
    show('review', State.REVIEW, **both)
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
