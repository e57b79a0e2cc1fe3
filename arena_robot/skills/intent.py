"""
What a task seems to ask for, read from its words: which joint or object, and which way.

This is the generator's belief, not the truth: a task's own check is elsewhere, and words such as
left say nothing about a joint's limit.
"""

import re
from dataclasses import dataclass

from arena_robot.skills.base import TaskSpec
from arena_robot.skills.subtask_lines import LOWER, UPPER

HALF = '0.5'
_UP = ('open', 'unfold', 'raise', 'increase', 'extend', 'lift', 'uncover', 'start', 'up', 'on',
       'pull')
_DOWN = ('close', 'shut', 'press', 'push', 'fold', 'lower', 'decrease', 'stop', 'cover', 'down',
         'off')
_HALF = ('half', 'halfway', 'middle', 'centre', 'center', 'partially', 'partly')
_CARRY = ('put', 'place', 'move', 'bring', 'carry', 'store', 'stack', 'throw', 'insert', 'drop')
_RAISE = ('lift', 'pick', 'raise', 'hold')
_WORD = re.compile(r'[A-Z]?[a-z]+|[A-Z]+(?![a-z])')


@dataclass(frozen=True)
class Intent:
    """
    ``kind`` is joint, move or lift; ``names`` are the words of such a line; ``goal`` of a joint.

    ``verb`` is the word that decided; ``others`` are the joints that were not chosen. ``goal`` is
    empty where the words do not tell.
    """

    kind: str
    names: tuple[str, ...]
    verb: str
    goal: str = ''
    others: tuple[tuple[str, str], ...] = ()


def words(text: str) -> list[str]:
    """Return the words of a text or of a name such as ``TrashCan`` or ``left_knob``."""
    return [word.lower() for word in _WORD.findall(text)]


def intent_of(spec: TaskSpec) -> Intent:
    """Return what the task seems to ask for."""
    said = [*words(spec.name), *words(spec.description)]
    joints = [(o.name, j.name) for o in spec.objects for j in o.joints]
    plain = [o.name for o in spec.objects if not o.joints]
    verb = next((w for w in said if w in _CARRY + _RAISE), '')
    wanted = [name for name in plain if set(words(name)) & set(said)]
    asks_joint = any(set(words(name)) & set(said) for name, _ in joints)
    if verb and wanted and not (asks_joint and said[0] in _UP + _DOWN):
        order = sorted(wanted, key=lambda name: _first(said, name))
        targets = [o.name for o in spec.objects if o.name != order[0]]
        targets.sort(key=lambda name: _first(said, name))
        if verb in _CARRY and targets:
            return Intent('move', (order[0], targets[0]), verb)
        return Intent('lift', (order[0],), verb)
    if joints:
        best = max(joints, key=lambda pair: _likeness(spec, pair, said))
        word, goal = _direction(said)
        return Intent('joint', best, word, goal, tuple(p for p in joints if p != best))
    names = sorted(plain, key=lambda name: _first(said, name))
    return Intent('lift', tuple(names[:1]), verb)


def _direction(said: list[str]) -> tuple[str, str]:
    if any(word in _HALF for word in said):
        return said[0], HALF
    for word in (w for w in said if w in ('on', 'off', 'up', 'down', 'left', 'right')):
        return f'{said[0]} {word}', {'on': UPPER, 'up': UPPER, 'off': LOWER, 'down': LOWER}.get(
            word, '')
    for word in said:
        if word in _UP or word in _DOWN:
            return word, UPPER if word in _UP else LOWER
    return said[0] if said else '', ''


def _likeness(spec: TaskSpec, pair: tuple[str, str], said: list[str]) -> int:
    owner = next(o for o in spec.objects if o.name == pair[0])
    joint = next(j for j in owner.joints if j.name == pair[1])
    link = next((k for k in owner.links if k.name == joint.link), None)
    named = [*words(joint.name), *words(joint.link), *(words(link.semantics) if link else [])]
    return 2 * len(set(named) & set(said)) + len({*words(owner.name), *words(owner.category)}
                                                 & set(said))


def _first(said: list[str], name: str) -> int:
    return min((k for k, word in enumerate(said) if word in words(name)), default=len(said))
