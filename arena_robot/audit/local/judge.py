"""
The local judge: progress from pictures on a CPU, without a network.

Which known task an instruction asks for is decided by its words; colours do not matter.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from math import log, sqrt
from pathlib import Path

import numpy as np

from arena_robot.audit.base import (
    SMOOTHING,
    Capabilities,
    Pair,
    Trace,
    difference,
    invalid,
    smoothed,
    trace_of,
)
from arena_robot.audit.local.features import COLOURS, backdrop
from arena_robot.audit.local.model import OTHERS, LocalModel, frame_features, read_model
from arena_robot.records.clip import Clip

SHIPPED = 'model.npz'
SURE = 0.85    # likeness; another wording of a task has more, test_local.py measures it
_SAME = {'block': 'cube', 'mug': 'cup', 'grab': 'pick', 'lift': 'pick', 'tip': 'knock',
         'push': 'slide', 'set': 'put', 'place': 'put', 'move': 'put', 'into': 'in',
         'onto': 'on', 'shut': 'close', 'pull': 'open', 'uncover': 'find', 'clean': 'wipe'}
_STOP = frozenset({'the', 'a', 'an', 'and', 'it', 'of', 'is', 'so', 'that', 'its', 'to', 'please'})


class LocalJudge:
    """
    The process reward model that ships with the package, or the file ``model``.

    It is calibrated on pictures and instructions like those of its training, and says so where it
    is not. The values are smoothed over five frames.
    """

    name = 'local'

    def __init__(self, model: str = '') -> None:
        path = Path(model).expanduser() if model else shipped()
        self.model: LocalModel = read_model(path)
        self.identity = hashlib.sha256(path.read_bytes()).hexdigest()
        card = self.model.card
        self.capabilities = Capabilities(interval_s=card.interval_s,
                                         views=tuple(self.model.views))
        self.label = (f'local {card.version}, {card.episodes} episodes of {len(card.tasks)} '
                      f'tasks, seed {card.seed}')
        self._matcher = TaskMatcher(self.model.instructions)

    def progress(self, clip: Clip) -> Trace:
        """Return the smoothed values of the task's head."""
        lacking = [view for view in self.model.views if view not in clip.frames]
        if lacking:
            return invalid(clip, self.label, f'it needs the view {lacking[0]}; the clip has '
                           f'{", ".join(clip.frames)}')
        task, likeness = self._matcher.find(clip.instruction)
        familiar = likeness >= SURE
        features = frame_features(clip.frames, clip.instruction, self.model.views, clip.start)
        away = float(np.median(self.model.test.distances(features.pooled)))
        why = [f"the instruction '{clip.instruction}' is like none of its training"] \
            if not familiar else []
        if away > self.model.test.limit:
            why.append(f'the pictures are unlike those of its training (distance {away:.3g}, '
                       f'limit {self.model.test.limit:.3g})')
        for view, drop in self.model.backdrops.items():
            first = clip.start.get(view, clip.frames[view][0])
            if (gap := drop.distance(backdrop(first))) > drop.limit:
                why.append(f'the start picture of the {view} camera is unlike those of its '
                           f'training (distance {gap:.3g}, limit {drop.limit:.3g}): has the '
                           'camera moved?')
        head = self.model.heads[task if familiar else OTHERS]
        values = features.head @ head.weights + head.bias
        trace = trace_of(clip, np.asarray(values, np.float64), self.label, strict=False,
                         mode=task if familiar else 'unknown task', calibrated=not why,
                         detail='; '.join(why))
        return smoothed(trace) if trace.valid and len(clip) >= len(SMOOTHING) else trace

    def compare(self, pair: Pair) -> float | None:
        """Return the difference of the values of after and before."""
        return difference(self, pair)


def shipped() -> Path:
    """Return the file of the model that ships with the package."""
    return Path(str(resources.files('arena_robot.audit.local').joinpath(SHIPPED)))


def words(instruction: str) -> tuple[str, ...]:
    """Return the significant words of an instruction; a colour is the word ``colour``."""
    stems = [word.removesuffix('s') if len(word) > 3 else word
             for word in re.findall(r'[a-z]+', instruction.lower()) if word not in _STOP]
    return tuple('colour' if word in COLOURS else _SAME.get(word, word) for word in stems)


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
