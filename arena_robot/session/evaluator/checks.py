"""
Checks of the evaluator's input (instruction, progress, explanation, reason), and who has control.

One client has the token of control and may command; all may watch and stop.
"""

import hmac
import secrets
import threading
import unicodedata
from collections.abc import Iterable, Mapping

from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, SessionError
from arena_robot.core.verdict import (
    FIELDS,
    Asked,
    Kind,
    Plain,
    Verdict,
    VerdictField,
    asked_at,
    check_times,
    from_plain,
)
from arena_robot.session.protocol.states import State

MAX_INSTRUCTION = 300    # characters: a sentence or two, as policies were trained with
# Unicode's names of the letters of scripts that are written without spaces begin so.
UNSPACED = ('CJK', 'HIRAGANA', 'KATAKANA', 'THAI', 'LAO ', 'KHMER', 'MYANMAR', 'TIBETAN')
LETTERS = 3    # of them are a verb and its object: two can be one word
CLEAR = 'clear'    # typed before the robot may move outside a session's motions
DRAFTED = ('evaluator', 'instruction',
           *(field.name for field in FIELDS if field.asked is not Asked.BUTTON))
BEFORE_THE_PAIR = {'evaluator': (State.PREFLIGHT,),
                   'instruction': (State.PREFLIGHT, State.TASK_ENTERED)}
EXAMPLES = (
    'put the red cube in the bowl',
    'close the top drawer',
    'move the cup to the left of the plate',
    'knock over the block stack',
    'press the green button',
)


def tidy(text: str) -> str:
    """Return ``text`` with runs of white space as one space, and none at the ends."""
    return ' '.join(text.split())


def words_of(text: str) -> list[str]:
    """
    Return the words of a text in any script: runs of letters, digits, and the marks on them.

    In scripts that are written without spaces every letter is a word of its own.
    """
    parts: list[str] = []
    before = ''
    for character in unicodedata.normalize('NFKC', text):
        if unicodedata.category(character)[0] not in 'LMN':
            before = ''
            continue
        is_mark = unicodedata.category(character)[0] == 'M'
        if before and (is_mark or not (_is_unspaced(before) or _is_unspaced(character))):
            parts[-1] += character
        else:
            parts.append(character)
        before = before if is_mark and before else character
    return parts


def length_of(text: str) -> int:
    """Return how long a text is in letters of a script with spaces; marks do not count."""
    return sum(2 if _is_unspaced(character) else 1 for character in text
               if unicodedata.category(character)[0] != 'M')


def _is_unspaced(word: str) -> bool:
    return unicodedata.name(word[0], '').startswith(UNSPACED)


def instruction_problem(text: str) -> str:
    """Return why ``text`` is not a valid instruction, as a sentence, or an empty string."""
    words = tidy(text)
    if not words:
        return f"type what the robot should do, such as '{EXAMPLES[0]}'"
    if len(words) > MAX_INSTRUCTION:
        return f'an instruction has at most {MAX_INSTRUCTION} characters, this has {len(words)}'
    parts = words_of(words)
    joined = sum(_is_unspaced(part) for part in parts)
    if len(parts) < 2 or joined == len(parts) < LETTERS:
        return f"one word is not an instruction; say what and where, such as '{EXAMPLES[0]}'"
    return ''


def check_clear(text: str) -> None:
    """Raise SessionError unless somebody typed that nobody and nothing is near the arm."""
    if tidy(text).lower() != CLEAR:
        raise SessionError(f"the robot may move: look at it, step back, and type '{CLEAR}' when "
                           f"nobody and nothing is near it; typed was '{tidy(text)}'")


def is_repeat(text: str, earlier: Iterable[str]) -> bool:
    """Return whether ``text`` was given before, ignoring case, spaces and punctuation."""
    return _bare(text) in {_bare(instruction) for instruction in earlier}


def check_instruction(text: str, earlier: Iterable[str] = (), repeat: bool = False) -> str:
    """
    Return the tidied instruction.

    Raises SessionError when it is empty or no instruction, and when it was given earlier today
    and ``repeat`` does not say that this is meant.
    """
    problem = instruction_problem(text)
    if problem:
        raise SessionError(problem)
    if not repeat and is_repeat(text, earlier):
        raise SessionError(f"'{tidy(text)}' was evaluated earlier today; change the task, "
                           'or say that the repetition is meant')
    return tidy(text)


def check_said(verdict: Verdict, asked: Asked, slot: Slot | None = None) -> dict[str, Plain]:
    """
    Return the tidied fields that are asked for at one moment, by their keys.

    Of the optional ones only those are in it that say something.
    Raises SessionError when a required one is missing, too short or out of range.
    """
    said = {field.key: _checked(field, getattr(verdict, field.name))
            for field in asked_at(asked, slot)
            if not field.optional or field.is_said(getattr(verdict, field.name))}
    try:
        check_times(verdict)
    except DataError as error:
        raise SessionError(str(error)) from error
    return said


def check_draft(words: Mapping[str, Plain], state: State) -> dict[str, Plain]:
    """
    Return what was typed by its names, of :data:`DRAFTED`.

    Raises SessionError for another name, for a value that its field cannot hold, and for the
    evaluator or the instruction once they are final.
    """
    for name in words:
        if name not in DRAFTED:
            raise SessionError(f"a draft has no '{name}'; it has {', '.join(DRAFTED)}")
        if state not in BEFORE_THE_PAIR.get(name, (state,)):
            raise SessionError(f"the {name} cannot be changed in '{state.value}'")
    try:
        verdict = from_plain(words)
        for field in FIELDS:
            field.check(getattr(verdict, field.name))
    except DataError as error:
        raise SessionError(str(error)) from error
    return dict(words)


def _checked(field: VerdictField, value: object) -> Plain:
    text = value.strip() if field.is_text and isinstance(value, str) else value
    try:
        field.check(text)
    except DataError as error:
        raise SessionError(str(error)) from error
    if (field.required and not field.is_said(text)) or field.min_chars > length_of(str(text)):
        raise SessionError(_still_needed(field, text))
    return field.plain(text)


def _still_needed(field: VerdictField, value: object) -> str:
    if field.kind is Kind.TEXT:
        return (f'{field.question} Say it in a sentence (at least {field.min_chars} characters, '
                f'this has {len(str(value))})')
    if field.kind is Kind.CHOICE:
        return f'{field.question} choose {field.choice_words()}'
    return f'{field.question} Say it from 0 to 100'


def check_slot(word: str) -> Slot:
    """Return the slot that ``word`` names; SessionError when it names none."""
    try:
        return Slot(word)
    except ValueError:
        raise SessionError(f"a slot is A or B, got '{word}'") from None


def check_reason(text: str) -> str:
    """Return the tidied reason why a session should not count; SessionError when it is empty."""
    words = text.strip()
    if not words:
        raise SessionError('say why the session should not count')
    return words


def _bare(text: str) -> str:
    return ' '.join(words_of(text.casefold()))


class Control:
    """The control token of a session; another client gets it only with ``take_over``."""

    def __init__(self) -> None:
        self._holder = ''
        self._token = ''
        self._lock = threading.Lock()

    @property
    def holder(self) -> str:
        """Return the name of the client in control, empty when none is."""
        return self._holder

    def take(self, name: str, take_over: bool = False) -> str:
        """Return the token; Conflict when another client has it and ``take_over`` is false."""
        with self._lock:
            if self._holder and not take_over:
                raise Conflict(f"'{self._holder}' controls this session; watch, or take over")
            self._holder = name.strip() or 'somebody'
            self._token = secrets.token_urlsafe(16)
            return self._token

    def release(self, token: str) -> None:
        """Release control; does nothing for a token that is no longer valid."""
        with self._lock:
            if self._is(token):
                self._holder = self._token = ''

    def check(self, token: str) -> None:
        """Raise Conflict unless ``token`` has control, or no client has."""
        with self._lock:
            if self._holder and not self._is(token):
                raise Conflict(f"'{self._holder}' controls this session; take over first")

    def holds(self, token: str) -> bool:
        """Return whether ``token`` has control."""
        with self._lock:
            return self._is(token)

    def _is(self, token: str) -> bool:
        return bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())
