"""Terminal client of a session: prompts, a progress bar while a policy runs, stop keys."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator

from arena_robot.cli.terminal import single_keys
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.terminal import redraws
from arena_robot.core.verdict import (
    BETWEEN,
    FIELDS,
    Asked,
    Kind,
    Verdict,
    VerdictField,
    asked_at,
    from_plain,
)
from arena_robot.records.session_file import RerunCause
from arena_robot.session.base import Check
from arena_robot.session.evaluator.checks import (
    CLEAR,
    EXAMPLES,
    instruction_problem,
    is_repeat,
)
from arena_robot.session.evaluator.desk import (
    ENDS,
    NEEDS,
    NOT_AT_REST,
    REPAIRS,
    RUBRIC,
    Button,
    Desk,
    DeskState,
    RunView,
)
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.loop.match import Light, light
from arena_robot.session.protocol.states import State

STOP_KEYS, DONE_KEYS = ('t', ' '), ('d',)
AGAIN = 'r'
REPAIR_KEYS = {'!recover': Button.RECOVER, '!gripper': Button.ACTIVATE_GRIPPER}
WIDTH, OTHERS = 30, 42    # characters of the bar, and of what stands beside it


class Quit(Exception):
    """The evaluator left the session; it can be continued."""


class RunAgain(Exception):
    """The evaluator made a mistake: the slot is run again instead of being scored."""


class Terminal:
    """Prompts on standard output for a desk; ``third_person`` as for ``Desk.open_session``."""

    def __init__(self, desk: Desk, third_person: str = '') -> None:
        self._desk, self._third_person = desk, third_person
        self._shown = self._warned = ''
        self._evaluator = ''

    def lead(self, evaluator: str, instruction: str) -> int:
        """Run a session with prompts; return 0 once it is done, 1 when aborted."""
        desk = self._desk
        print('`!` ends the session without a verdict, `?` leaves it as it is; Ctrl-C too. '
              'At any prompt, `!recover` recovers the arm and `!gripper` activates the gripper.')
        finished = desk.state()
        if finished.state.is_final:
            desk.press(Button.CHECK)
            while desk.state().state is finished.state:    # it may arrive after the answer
                desk.wait_change(finished, 0.5)
        try:
            while not desk.state().state.is_final:
                seen = desk.state()
                self._tell(seen)
                try:
                    self._step(seen, evaluator, instruction)
                except ArenaError as error:
                    print(f'  ! {error}')
                    if seen.state is State.IDLE:
                        self._ask('Enter tries again')
                if seen.state is not State.IDLE and seen.ready:
                    instruction = ''
                desk.wait_change(seen, 0.5)
        except Quit:
            print('The session stays as it is; run `arena session` again to continue.')
            return 1
        self._tell(desk.state())
        return 0 if desk.state().state is State.DONE else 1

    def follow(self, evaluator: str, instruction: str, progress: Callable[[], float]) -> int:
        """Show a session that a script runs; return as :meth:`lead` does."""
        end = Scripted(self._desk, Script(evaluator, instruction, progress), self._tell).run()
        return 0 if end.state is State.DONE else 1

    def watch(self) -> int:
        """Show what happens until the session ends or Ctrl-C."""
        state = self._desk.state()
        while not state.state.is_final:
            self._tell(state)
            state = self._desk.wait_change(state, 0.2)
        self._tell(state)
        return 0

    # -- one state each ------------------------------------------------------------------------

    def _step(self, seen: DeskState, evaluator: str, instruction: str) -> None:
        desk = self._desk
        if seen.state is State.IDLE:
            desk.press(Button.CHECK)
        elif seen.state is State.PREFLIGHT and not seen.ready:
            self._ask('Fix that, then press Enter to check again')
            desk.press(Button.CHECK)
        elif seen.state in (State.PREFLIGHT, State.TASK_ENTERED):
            self._task(evaluator, instruction, seen.draft_instruction)
        elif seen.state is State.ASSIGNED:
            self._ask('Step back, then press Enter')
            desk.press(Button.PHOTOGRAPH)
        elif seen.state is State.START_PHOTOGRAPHED:
            self._ask('Press Enter to start A')
            self._roll(Slot.A)
        elif seen.state in (State.SCORING_A, State.SCORING_B):
            self._score(Slot.A if seen.state is State.SCORING_A else Slot.B)
        elif seen.state is State.RESET:
            self._reset()
        elif seen.state is State.PREFERENCE:
            self._judge(seen)
        elif seen.state is State.REVIEW:
            self._review(seen)
        elif seen.state.running:
            self._attend()

    def _task(self, evaluator: str, instruction: str, before: str) -> None:
        evaluator = self._evaluator = evaluator or self._evaluator or self._who()
        if not instruction:
            print('  For instance: ' + '; '.join(EXAMPLES[:3]))
            hint = f' (Enter keeps: {before})' if before else ''
            instruction = self._ask(f'What should the robot do?{hint}') or before
        problem = instruction_problem(instruction)
        if problem:
            print(f'  ! {problem}')
            return
        earlier = [session.instruction for session in self._desk.today()
                   if session.state is State.DONE]
        repeat = is_repeat(instruction, earlier)
        if repeat and self._ask('This was evaluated earlier today. Again? [y/n]') != 'y':
            return
        if consent := self._desk.consent():
            _print((f'  Whoever is in the pictures: {consent}',))
            self._ask('Press Enter once they know that')
        self._desk.open_session(evaluator, instruction, repeat, self._third_person)

    def _stop(self) -> None:
        try:
            self._desk.stop()
        except ArenaError as error:
            print(f'\n  ! {NOT_AT_REST} ({error})')

    def _who(self) -> str:
        before = self._desk.state().evaluator
        hint = f' (Enter keeps: {before})' if before else ''
        return self._ask(f'Who evaluates? Type your name{hint}') or before

    def _roll(self, slot: Slot) -> None:
        self._desk.start(slot)
        self._attend()

    def _attend(self) -> None:
        with single_keys() as read:
            state = self._desk.state()
            while state.state.running:
                key = read(0.1)
                if key in STOP_KEYS:
                    self._stop()
                elif key in DONE_KEYS:
                    self._desk.press(Button.DONE)
                self._tell(state)
                state = self._desk.state()
        print()

    def _score(self, slot: Slot) -> None:
        cause = self._desk.state().slots[0 if slot is Slot.A else 1].again
        if cause == RerunCause.FAULT and self._run_again(slot):
            return
        if cause == RerunCause.MISTAKE:
            print(f'  {AGAIN:>4}  you made a mistake: run {slot.value} again')
        for mark, words in RUBRIC:
            print(f'  {mark:>4}  {words}')
        try:
            self._desk.score(slot, self._verdict(asked_at(
                Asked.SCORE, slot, self._desk.extras().wants)))
        except RunAgain:
            self._rerun(self._ask('What was your mistake? It stays in the record'))
            return
        if slot is Slot.A:
            print('  The arm moves to its reset pose.')
            self._desk.press(Button.PREPARE_RESET)

    def _run_again(self, slot: Slot) -> bool:
        """After a failure of the station: run the slot again, unless it shall be scored."""
        print('  This says nothing about the policy. The rollout is kept and does not count.')
        if self._ask(f'Enter: run {slot.value} again   s: score it as it is') == 's' and self._ask(
                'The station failed, not the policy. Score it anyway? [y/n]') == 'y':
            return False
        self._rerun('')
        return True

    def _rerun(self, reason: str) -> None:
        self._desk.press(Button.RERUN, reason)
        print('  The arm moves to its reset pose.')
        self._desk.press(Button.PREPARE_RESET)

    def _reset(self) -> None:
        slot = Slot.B if self._desk.state().slots[0].end else Slot.A
        while True:
            answer = self._ask(f'Enter: start {slot.value}   m: measure the scene again   '
                               'h: move the arm')
            if answer == 'h':
                self._desk.press(Button.PREPARE_RESET)
            if answer not in ('m', 'h'):
                self._desk.press(Button.CONFIRM_RESET)
            _print(match_lines(self._desk.state()))
            if answer not in ('m', 'h') and self._scene_is_meant(slot):
                break
        self._roll(slot)

    def _scene_is_meant(self, slot: Slot) -> bool:
        """Ask once more before a rollout from a scene that is not the start's."""
        match = self._desk.state().match
        if match is None or light(match) is not Light.RED:
            return True
        return self._ask(f'The scene is only {100 * match:.0f} % like the start. Start '
                         f'{slot.value} from it anyway? [y/n]') == 'y'

    def _judge(self, seen: DeskState) -> None:
        self._desk.judge(self._verdict(asked_at(Asked.JUDGE), seen.draft))

    def _verdict(self, fields: Iterable[VerdictField], before: Verdict | None = None) -> Verdict:
        """Ask for every field; Enter keeps what was said ``before``."""
        return from_plain({field.name: self._field(field, getattr(before, field.name, None))
                           for field in fields})

    def _field(self, field: VerdictField, before: object) -> object:
        words = self._desk.extras().words(field) if field.kind is Kind.LISTED else field.choices
        choices = f" [{', '.join(words)}]" if words else ''
        choices += ' several with ; between' if field.many else ''
        scale = {Kind.SHARE: ' 0 to 100', Kind.FLAG: '? [y/n]',
                 Kind.NUMBER: f' in {field.unit}' * bool(field.unit)}.get(field.kind, '')
        answered = field.is_said(before)
        hint = f' (Enter keeps: {field.plain(before)})' if answered else ''
        answer = self._ask(f'{field.question}{scale}{choices}{hint}')
        if answered and not answer:
            return before
        if field.kind is Kind.SHARE and answer == AGAIN:
            raise RunAgain
        if field.kind is Kind.SHARE:
            return _share(answer)
        if field.kind is Kind.FLAG:
            return answer.casefold() in ('y', 'yes')
        parts = answer.split(BETWEEN.strip()) if field.many else [answer]
        return BETWEEN.join(_begun(words, part.strip()) for part in parts) \
            if words and answer else answer

    def _review(self, seen: DeskState) -> None:
        _print(review_lines(seen))
        answer = self._ask('s: submit   a/b: score again   p: preference again   i: not valid   '
                           'v: valid').lower()
        if answer == 's':
            self._desk.submit()
        elif answer in ('a', 'b'):
            self._score(Slot(answer.upper()))
        elif answer == 'p':
            self._judge(seen)
        elif answer == 'i':
            self._desk.press(Button.INVALIDATE, self._ask('Why should it not count?'))
        elif answer == 'v':
            self._desk.press(Button.REVALIDATE)

    # -- in and out ----------------------------------------------------------------------------

    def _ask(self, question: str) -> str:
        try:
            answer = input(f'{question}: ').strip()
        except EOFError as error:
            raise Quit from error
        if answer == '?':
            raise Quit
        if answer in REPAIR_KEYS:
            self._repair(REPAIR_KEYS[answer])
            return self._ask(question)
        if answer == '!':
            self._desk.press(Button.ABORT, input('Why? '))
            raise Quit
        return answer

    def _repair(self, button: str) -> None:
        try:
            typed = input(f"  {REPAIRS[button]} Look at it, step back, and type '{CLEAR}' when "
                          'nobody and nothing is near it: ')
            self._desk.press(button, typed)
        except EOFError as error:
            raise Quit from error
        except ArenaError as error:
            print(f'  ! {error}')
        else:
            print('  Done.')

    def _tell(self, seen: DeskState) -> None:
        run = self._desk.running() if seen.state.running else None
        if run is not None:
            if seen.notice and seen.notice != self._warned:
                _print(('', f'  ! {seen.notice}'))
            self._warned = seen.notice
            if not redraws(sys.stdout):
                return
            print(f'\r{bar(run, shutil.get_terminal_size().columns)}', end='', flush=True)
            return
        text = '\n'.join(wrapped(state_lines(seen), shutil.get_terminal_size().columns))
        if text != self._shown:
            self._shown = text
            print(text)


def _share(text: str) -> float:
    try:
        return float(text) / 100.0
    except ValueError:
        raise DataError(f"'{text}' is not a number") from None


def _begun(words: Iterable[str], text: str) -> str:
    """Return the word that begins with ``text``; ``text`` itself when none or several do."""
    matches = [value for value in words if value.lower().startswith(text.lower())]
    return matches[0] if len(matches) == 1 else text


def _print(lines: Iterable[str]) -> None:
    for line in wrapped(lines, shutil.get_terminal_size().columns):
        print(line)


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
    for key, button in REPAIR_KEYS.items():
        if button in seen.repairs:
            yield f'  ! {NEEDS[button]} Type {key} at any prompt.'
    if seen.state is State.PREFLIGHT:
        for check in seen.checks:
            yield f'  {_mark(check)} {check.name}: {check.detail}'
    if seen.state is State.ASSIGNED:
        yield f'  session {seen.session_id}\n  commitment {seen.commitment}'
        if seen.photo_code:
            yield (f'  ! The server asks for a code: write {seen.photo_code} on paper as large as '
                   'a hand, lay it where an outside camera sees it and the arm does not reach, '
                   'then photograph. Leave it there until B has ended.')
    if seen.state is State.SUBMITTING and seen.doing:
        yield f'  waiting for: {seen.doing}'
    if seen.state is State.DONE and seen.policy_a:    # a session that does not count names none
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
        end = f'{ENDS[EndReason(slot.end)]} after {slot.steps} steps' if slot.end else ''
        yield f"  {slot.slot.value}            {end or 'did not run'}"
    for field in FIELDS:
        value = getattr(seen.verdict, field.name)
        if field.required or value != getattr(Verdict(), field.name) or field.kind is Kind.FLAG:
            yield f'  {field.label:<24} {field.words(value)}'
