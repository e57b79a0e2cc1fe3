"""
The local judge: progress from pictures on a CPU, without a network.

Which known task an instruction asks for is decided by its words; colours do not matter.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from arena_robot.audit.local.model import LocalModel, frame_features, read_model
from arena_robot.records.clip import Clip

SHIPPED = 'model.npz'
SURE = 0.85    # likeness; another wording of a task has more, test_local.py measures it
_SAME = {'block': 'cube', 'mug': 'cup', 'grab': 'pick', 'lift': 'pick', 'tip': 'knock',
         'push': 'slide', 'set': 'put', 'place': 'put', 'move': 'put', 'into': 'in',
         'onto': 'on', 'shut': 'close', 'pull': 'open', 'uncover': 'find', 'clean': 'wipe'}
_STOP = frozenset({'the', 'a', 'an', 'and', 'it', 'of', 'is', 'so', 'that', 'its', 'to', 'please'})
_NO = frozenset({'not', 'no', 'never', 'without', 'don', 'nothing'})


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
                                         views=tuple(self.model.views), trusted=card.trusted)
        self.label = (f'local {card.version}, {card.episodes} episodes of {len(card.tasks)} '
                      f'tasks, seed {card.seed}')
        self._matcher = TaskMatcher(self.model.instructions)

    def progress(self, clip: Clip) -> Trace:
        """Return the smoothed Φ of the task, with the probability of success; else of hops."""
        lacking = [view for view in self.model.views if view not in clip.frames]
        if lacking:
            return invalid(clip, self.label, f'it needs the view {lacking[0]}; the clip has '
                           f'{", ".join(clip.frames)}')
        task, likeness = self._matcher.find(clip.instruction)
        familiar = likeness >= SURE
        features = frame_features(clip.frames, clip.instruction, self.model.views, clip.start,
                                  self.model.card.whole)
        why = [f"the instruction '{clip.instruction}' is like none of its training"] \
            if not familiar else []
        why += self.model.unlike(features, {
            view: backdrop(clip.start.get(view, clip.frames[view][0]))
            for view in self.model.backdrops})
        why += self.model.card.lacking
        if familiar:
            seen = self.model.known(features, task, clip.times_s)
            trace = trace_of(clip, seen[:, 0], self.label, mode=task, calibrated=not why,
                             detail='; '.join(why))
            return replace(trace, success=seen[:, 1],
                           half_width=self.model.scale.half_width(trace.phi))
        head = self.model.others
        values = np.asarray(features.hops() @ head.weights + head.bias, np.float64)
        trace = trace_of(clip, values, self.label, strict=False, mode='unknown task',
                         calibrated=False, detail='; '.join(why))
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
    """
    Finds the task whose known instructions are most like a new one.

    Likeness is the cosine of TF-IDF, times the share of the common words that stand in the same
    order. A text that forbids is like one of the same words alone.
    """

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
        return max(((task, self._likeness(wanted, text)) for task, text in self._known),
                   key=lambda pair: pair[1], default=('', 0.0))

    def _likeness(self, a: Sequence[str], b: Sequence[str]) -> float:
        if not (_NO.isdisjoint(a) and _NO.isdisjoint(b)):
            return float(set(a) == set(b))
        left, right = self._vector(a), self._vector(b)
        inner = sum(value * right.get(word, 0.0) for word, value in left.items())
        size = sqrt(sum(v * v for v in left.values()) * sum(v * v for v in right.values()))
        return inner / size * in_order(a, b) if size else 0.0

    def _vector(self, text: Sequence[str]) -> dict[str, float]:
        return {word: (1.0 + log(n)) * self._weight.get(word, self._rare)
                for word, n in Counter(text).items()}


def in_order(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of the words common to two texts that stand in the same order in both."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, word in enumerate(a):
        for j, other in enumerate(b):
            longest[i + 1][j + 1] = longest[i][j] + 1 if word == other else max(
                longest[i][j + 1], longest[i + 1][j])
    common = sum((Counter(a) & Counter(b)).values())
    return longest[-1][-1] / common if common else 1.0
