"""Parser of instructions: a verb, and objects named by colour and noun."""

import re
from dataclasses import dataclass

COLOUR_WORDS = ('red', 'green', 'blue', 'yellow', 'orange', 'purple', 'white', 'black', 'pink')
_NOUNS = {
    'cube': 'cube', 'block': 'cube', 'cup': 'cup', 'mug': 'cup', 'bowl': 'bowl', 'plate': 'plate',
    'tray': 'tray', 'button': 'button', 'bottle': 'bottle',
}
_STILL = re.compile(r"\b(do not move|don't move|stay still|do nothing|hold still|wait)\b")
_VERBS = (
    ('shut', r'\b(close|push|shut) (the )?drawer\b'),
    ('press', r'\b(press|push the (\w+ )?button)\b'),
    ('topple', r'\b(knock|tip|topple|falls?)\b'),
    ('sort', r'\bsort\b'),
    ('find', r'\b(find|uncover|show)\b'),
    ('stack', r'\b(stack|on top of)\b'),
    ('put', r'\b(put|place|set|move|drop)\b'),
    ('lift', r'\b(pick up|lift|grab|raise|pick)\b'),
)


@dataclass(frozen=True)
class Thing:
    """An object that the prompt names; ``colour`` is empty without one."""

    noun: str
    colour: str = ''


@dataclass(frozen=True)
class Goal:
    """What to do: ``verb`` is '' when the prompt was not understood; things in their order."""

    verb: str
    things: tuple[Thing, ...] = ()


def understood(prompt: str) -> Goal:
    """Return the goal of ``prompt``."""
    text = ' '.join(re.findall(r"[a-z']+", prompt.lower()))
    if _STILL.search(text):
        return Goal('stay')
    verb = next((name for name, pattern in _VERBS if re.search(pattern, text)), '')
    return Goal(verb, _things(text))


def _things(text: str) -> tuple[Thing, ...]:
    things, colour = [], ''
    for word in text.split():
        noun = _NOUNS.get(word) or _NOUNS.get(word.removesuffix('s'))
        if word in COLOUR_WORDS:
            colour = word
        elif noun:
            things.append(Thing(noun, colour))
            colour = ''
    return tuple(things)
