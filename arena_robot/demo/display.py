"""Terminal output of the demonstration: lines that stay, a block that is redrawn, its texts."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from arena_robot.core.terminal import colours, let_go_of_closed, redraws
from arena_robot.session.evaluator.desk import DeskState, RunView
from arena_robot.session.protocol.states import State

PERIOD_S = 0.2    # between two pictures, so that a bar moves evenly
BAR = 20          # characters
DIM, BOLD, GREEN, RED, BLUE, PLAIN = (f'\033[{n}m' for n in (2, 1, 32, 31, 36, 0))
HIDE, SHOW = '\033[?25l', '\033[?25h'
DOING = {
    State.PREFLIGHT: 'the station is checked', State.TASK_ENTERED: 'a blind pair is drawn',
    State.ASSIGNED: 'the start scene is photographed',
    State.START_PHOTOGRAPHED: 'A is about to start', State.SCORING_A: 'A is scored',
    State.RESET: 'the scene is put back as it was', State.SCORING_B: 'B is scored',
    State.PREFERENCE: 'the two are compared', State.REVIEW: 'the videos are made',
    State.SUBMITTING: 'the session is uploaded', State.DONE: 'the names are revealed',
}
MARK = {True: '✓', False: '✗'}


class Display:
    """
    Prints to ``out``; if that is not a terminal, only the permanent lines, without colours.

    ``block`` returns the lines of the block; it is called five times a second.
    """

    def __init__(self, out: TextIO | None = None,
                 block: Callable[[], Sequence[str]] = list) -> None:
        self._out = out or sys.stdout
        self.live = redraws(self._out)
        self._coloured = colours(self._out)
        self._block = block
        self._shown = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> 'Display':
        if self.live:
            self._put(HIDE)
            self._thread = threading.Thread(target=self._draw_on, name='display', daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the block and restore the terminal; can be called twice."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
            with self._lock:
                self._put(self._cleared() + SHOW)

    def line(self, text: str = '') -> None:
        """Print a permanent line above the block."""
        with self._lock:
            self._put(f'{self._cleared()}{text}\n')

    def colour(self, code: str, text: str) -> str:
        """Return ``text`` in a colour, if colours are used."""
        return f'{code}{text}{PLAIN}' if self._coloured else text

    def _draw_on(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.draw()

    def draw(self) -> None:
        """Redraw the block."""
        lines = list(self._block())
        width = shutil.get_terminal_size().columns
        with self._lock:
            if self._over.is_set():
                return
            self._put(''.join((self._cleared(), *(f'{cut(text, width - 1)}\n'
                                                  for text in lines))))
            self._shown = len(lines)

    def _cleared(self) -> str:
        """Return what removes the block."""
        shown, self._shown = self._shown, 0
        return f'\033[{shown}F\033[J' if shown else ''

    def _put(self, text: str) -> None:
        """Write at once; nothing happens when the terminal was closed."""
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            if not self.live:
                raise
            let_go_of_closed()


def cut(text: str, width: int) -> str:
    """Return at most ``width`` visible characters of ``text``; colour codes do not count."""
    out, seen, inside = [], 0, False
    for character in text:
        inside = inside or character == '\033'
        if inside:
            out.append(character)
            inside = character != 'm'
        elif seen < width:
            out.append(character)
            seen += 1
    return ''.join(out) + (PLAIN if '\033' in text else '')


def bar(share: float, width: int = BAR) -> str:
    """Return a bar filled to ``share``, 0 to 1."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return '━' * filled + '─' * (width - filled)


def minutes(seconds: float) -> str:
    """Return a time span as ``m:ss``."""
    whole = max(0, round(seconds))
    return f'{whole // 60}:{whole % 60:02d}'


class Stopwatch:
    """Seconds since its creation."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the elapsed seconds."""
        return time.monotonic() - self._start_s


@dataclass(frozen=True)
class LiveStatus:
    """What is going on right now; ``progress`` is the oracle's, 0 to 1, ``now_ns`` simulated."""

    state: DeskState
    run: RunView | None
    progress: float


@dataclass
class ProgressText:
    """
    Tells what happens on a display of its own, on ``out`` (None: the standard output).

    ``display`` is to be opened and closed by who made this.
    """

    out: TextIO | None
    sessions: int
    footer: tuple[str, ...] = ()
    display: Display = field(init=False)
    number: int = 0
    before: int = 0
    _clock: Stopwatch = field(default_factory=Stopwatch)
    _step: tuple[str, Stopwatch] | None = None
    _first: Stopwatch | None = None
    _look: Callable[[], LiveStatus] | None = None
    _speed: '_Speed' = field(default_factory=lambda: _Speed())

    def __post_init__(self) -> None:
        self.display = Display(self.out, self.block)

    # -- setting up ----------------------------------------------------------------------------

    def step(self, text: str) -> None:
        """Begin a step of the set-up; the previous one is done."""
        self.step_done()
        self._step = (text, Stopwatch())

    def step_done(self, remark: str = '') -> None:
        """Mark the current step of the set-up as done."""
        step, self._step = self._step, None
        if step is not None:
            text, clock = step
            show = self.display.colour
            self.display.line(f"  {show(GREEN, MARK[True])} {text:<38}"
                              f"{show(DIM, f'{clock.seconds:5.1f} s')}"
                              + (f'  {remark}' if remark else ''))

    # -- sessions ------------------------------------------------------------------------------

    def begins(self, number: int, done: int) -> None:
        """Show that session ``number`` begins, with ``done`` already complete."""
        self.number = number
        if self._first is None:
            self._first, self.before = Stopwatch(), done
        self._done = done

    def ended(self, end: DeskState) -> None:
        """Print the result of a session in one permanent line."""
        show = self.display.colour
        scores = [round(100 * (share or 0.0))
                  for share in (end.verdict.progress_a, end.verdict.progress_b)]
        preference = end.verdict.preference
        winner = {'A': 'A', 'B': 'B', 'TIE': '='}[preference.value] if preference else '?'
        names = [show(BOLD, name) if winner == slot else name
                 for slot, name in (('A', end.policy_a), ('B', end.policy_b))]
        ok = end.state is State.DONE and end.verified
        mark = show(GREEN, '✓ reveal verified') if ok else show(RED, f'✗ {end.state.value}')
        between = 'and' if winner == '=' else 'against'
        self.display.line(
            f'  {self.number:>3}  {end.instruction[:38]:<38}  A {scores[0]:>3}  B {scores[1]:>3}  '
            f'{winner}  {mark}  {names[0]} {between} {names[1]}')
        self._done += 1

    def closed(self, text: str) -> None:
        """Print what was done with an unfinished session of an earlier run."""
        self.display.line(f"  {self.display.colour(DIM, '·')} {text}")

    @contextmanager
    def watching(self, look: Callable[[], LiveStatus]) -> Iterator[None]:
        """Show in the block what ``look`` returns, as long as this context lasts."""
        self._look = look
        try:
            yield
        finally:
            self._look = None

    # -- the block -----------------------------------------------------------------------------

    def block(self) -> list[str]:
        """Return the lines of the current state."""
        show = self.display.colour
        footer = ['', *(show(DIM, f'  {text}') for text in self.footer)]
        if self._step is not None:
            text, clock = self._step
            return [f"  {show(BLUE, '…')} {text:<38}{clock.seconds:5.1f} s", *footer]
        live = self._look() if self._look is not None else None
        if live is None or self._first is None:
            return footer
        share = (self._done + _inside(live)) / self.sessions
        return ['', f'  {show(BOLD, f"session {self.number} of {self.sessions}")}  '
                f'{show(BLUE, bar(share))} {100 * share:3.0f} %   '
                f'{minutes(self._clock.seconds)} gone{self._left(share)}',
                f'  “{live.state.instruction}”' if live.state.instruction else '',
                f'  {self._now(live)}', *footer]

    def _now(self, live: LiveStatus) -> str:
        show = self.display.colour
        run = live.run
        if run is None:
            return live.state.doing or DOING.get(live.state.state, live.state.state.value)
        self._speed.heard(run.elapsed_s)
        return (f'{show(BOLD, run.slot.value)} runs  {bar(run.steps / max(run.max_steps, 1), 12)}'
                f'  step {run.steps:>3} of {run.max_steps}  '
                f'{self._speed.factor:3.1f}×  progress {100 * live.progress:3.0f} %')

    def _left(self, share: float) -> str:
        assert self._first is not None
        since = share - self.before / self.sessions
        if since <= 0.02:
            return ''
        return f', about {minutes(self._first.seconds * (1.0 - share) / since)} to go'


class _Speed:
    """Simulated per real second, smoothed."""

    def __init__(self) -> None:
        self._last: tuple[float, Stopwatch] | None = None
        self.factor = 0.0

    def heard(self, elapsed_s: float) -> None:
        """Update with the simulated seconds of a rollout."""
        last = self._last
        if last is None or elapsed_s < last[0]:
            self._last = (elapsed_s, Stopwatch())
        elif last[1].seconds > 1.0:
            self.factor = (elapsed_s - last[0]) / last[1].seconds
            self._last = (elapsed_s, Stopwatch())


def _inside(live: LiveStatus) -> float:
    """Return roughly how much of a session is over, 0 to 1."""
    order = list(State)
    at = order.index(live.state.state) / len(order)
    return min(at, 0.95)
