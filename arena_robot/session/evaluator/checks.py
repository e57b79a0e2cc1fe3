"""What the evaluator's words must be like before they count."""

import re
from collections.abc import Iterable

from arena_robot.core.errors import SessionError

MAX_INSTRUCTION = 300
MIN_EXPLANATION = 10
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


def instruction_problem(text: str) -> str:
    """Return why ``text`` cannot be an instruction, in a person's words, or an empty string."""
    words = tidy(text)
    if not words:
        return f"type what the robot shall do, such as '{EXAMPLES[0]}'"
    if len(words) > MAX_INSTRUCTION:
        return f'an instruction has at most {MAX_INSTRUCTION} characters, this has {len(words)}'
    if len(re.findall(r'\w+', words)) < 2:
        return f"one word is not an instruction; say what and where, such as '{EXAMPLES[0]}'"
    return ''


def is_repeat(text: str, earlier: Iterable[str]) -> bool:
    """Tell whether ``text`` was given before, whatever its case, spaces and punctuation."""
    return _bare(text) in {_bare(one) for one in earlier}


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


def check_progress(progress: float) -> float:
    """Return ``progress``; SessionError unless it is a number from 0 to 1."""
    if not 0.0 <= progress <= 1.0:
        raise SessionError(f'progress runs from 0 to 1 (0 to 100 on the slider), got {progress}')
    return float(progress)


def check_explanation(text: str) -> str:
    """Return the tidied explanation; SessionError when it is too short to say why."""
    words = text.strip()
    if len(words) < MIN_EXPLANATION:
        raise SessionError('say in a sentence why: what one did better than the other '
                           f'(at least {MIN_EXPLANATION} characters, this has {len(words)})')
    return words


def check_reason(text: str) -> str:
    """Return the tidied reason why a session shall not count; SessionError when it is empty."""
    words = text.strip()
    if not words:
        raise SessionError('say why the session shall not count')
    return words


def _bare(text: str) -> str:
    return ' '.join(re.findall(r'\w+', text.casefold()))
