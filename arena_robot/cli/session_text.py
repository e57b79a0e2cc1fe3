"""What the terminal shows of a session, as lines of text."""

import textwrap
from collections.abc import Iterable, Iterator

from arena_robot.core.verdict import FIELDS, Kind, Verdict
from arena_robot.session.evaluator.desk import DeskState, RunView
from arena_robot.session.loop.match import light
from arena_robot.session.ports import Check
from arena_robot.session.protocol.states import State

WIDTH, OTHERS = 30, 42    # characters of the bar, and of what stands beside it


def bar(run: RunView, columns: int = 80) -> str:
    """Return a line such as ``A ####…… 60/400   4 s``."""
    total = max(run.max_steps, run.steps, 1)
    width = max(4, min(WIDTH, columns - OTHERS))
    filled = width * run.steps // total
    return (f"{run.slot.value} {'#' * filled}{'.' * (width - filled)} {run.steps:>3}/{total}  "
            f'{run.elapsed_s:3.0f} s  t: stop  d: done ')


def wrapped(lines: Iterable[str], columns: int) -> Iterator[str]:
    """Yield lines no wider than ``columns``, without broken words."""
    for text in lines:
        for line in text.split('\n'):
            indent = ' ' * (len(line) - len(line.lstrip()) + 2)
            yield from textwrap.wrap(line, max(columns - 1, 20), subsequent_indent=indent,
                                     break_long_words=False, break_on_hyphens=False) or ['']


def state_lines(seen: DeskState) -> Iterator[str]:
    """Yield what a new state says."""
    yield f"\n== {seen.state.value.replace('_', ' ').upper()} == {seen.message}"
    if seen.notice:
        yield f'  ! {seen.notice}'
    if seen.state is State.PREFLIGHT:
        for check in seen.checks:
            yield f'  {_mark(check)} {check.name}: {check.detail}'
    if seen.state is State.ASSIGNED:
        yield f'  session {seen.session_id}\n  commitment {seen.commitment}'
        if seen.photo_code:
            yield (f'  ! The server asks for a code: write {seen.photo_code} on paper as large as '
                   'a hand, lay it where an outside camera sees it and the arm does not reach, '
                   'then photograph. Leave it there until B has ended.')
    if seen.state is State.DONE:
        fits = ('matches the commitment' if seen.verified
                else 'DOES NOT MATCH the commitment' if seen.commitment
                else 'cannot be checked: the commitment is lost')
        yield f'  A was {seen.policy_a}, B was {seen.policy_b}; the reveal {fits}.'


def _mark(check: Check) -> str:
    return 'BAD' if not check.ok else '!  ' if check.warning else 'ok '


def match_lines(seen: DeskState) -> Iterator[str]:
    """Yield the scene match by view, and cameras that moved."""
    for name, score in seen.matches.items():
        yield f'  {name:<12} {100 * score:3.0f}  {light(score).value}'
    for role in seen.moved_cameras:
        yield f'  ! the {role} camera seems to have moved since the start: move it back'


def review_lines(seen: DeskState) -> Iterator[str]:
    """Yield the task, the rollouts and the verdict."""
    yield f'  task         {seen.instruction}'
    for slot in seen.slots:
        yield (f'  {slot.slot.value}            {slot.end or "did not run"} after {slot.steps} '
               'steps')
    for one in FIELDS:
        value = getattr(seen.verdict, one.name)
        if one.required or value != getattr(Verdict(), one.name) or one.kind is Kind.FLAG:
            yield f'  {one.label:<24} {one.words(value)}'
