"""Which known task an instruction asks for, by its words; colours do not matter."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt

from arena_robot.audit.local.features import COLOURS

SURE = 0.85
_SAME = {'block': 'cube', 'mug': 'cup', 'grab': 'pick', 'lift': 'pick', 'tip': 'knock',
         'push': 'slide', 'set': 'put', 'place': 'put', 'move': 'put', 'into': 'in',
         'onto': 'on', 'shut': 'close', 'pull': 'open', 'uncover': 'find', 'clean': 'wipe'}
_STOP = frozenset({'the', 'a', 'an', 'and', 'it', 'of', 'is', 'so', 'that', 'its', 'to', 'please'})


def words(instruction: str) -> tuple[str, ...]:
    """Return the significant words of an instruction; a colour is the word ``colour``."""
    found = [word.removesuffix('s') if len(word) > 3 else word
             for word in re.findall(r'[a-z]+', instruction.lower()) if word not in _STOP]
    return tuple('colour' if word in COLOURS else _SAME.get(word, word) for word in found)


class TaskMatcher:
    """Finds the task whose known instructions are most like a new one (TF-IDF, cosine)."""

    def __init__(self, instructions: Mapping[str, Sequence[str]]) -> None:
        self._known = [(task, words(text)) for task, texts in instructions.items()
                       for text in sorted(set(texts))]
        seen = Counter(word for _, text in self._known for word in set(text))
        count = max(len(self._known), 1)
        self._weight = {word: log(1.0 + count / n) for word, n in seen.items()}
        self._rare = log(1.0 + count)

    def find(self, instruction: str) -> tuple[str, float]:
        """Return the most likely task and a likeness from 0 to 1."""
        wanted = words(instruction)
        return max(((task, self._cosine(wanted, text)) for task, text in self._known),
                   key=lambda pair: pair[1], default=('', 0.0))

    def _cosine(self, a: Sequence[str], b: Sequence[str]) -> float:
        left, right = self._vector(a), self._vector(b)
        inner = sum(value * right.get(word, 0.0) for word, value in left.items())
        size = sqrt(sum(v * v for v in left.values()) * sum(v * v for v in right.values()))
        return inner / size if size else 0.0

    def _vector(self, text: Sequence[str]) -> dict[str, float]:
        return {word: (1.0 + log(n)) * self._weight.get(word, self._rare)
                for word, n in Counter(text).items()}
