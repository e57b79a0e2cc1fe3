"""The local judge: progress from pictures on a CPU, without a network."""

import hashlib
from importlib import resources
from pathlib import Path

import numpy as np

from arena_robot.audit.base import (
    Capabilities,
    Pair,
    Trace,
    difference,
    invalid,
    smoothed,
    trace_of,
)
from arena_robot.audit.local.features import backdrop
from arena_robot.audit.local.model import OTHERS, LocalModel, frame_features, read_model
from arena_robot.audit.local.text import SURE, TaskMatcher
from arena_robot.core.clip import Clip

SHIPPED = 'model.npz'
_SMOOTHED_FRAMES = 5


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
        known = likeness >= SURE
        features = frame_features(clip.frames, clip.instruction, self.model.views, clip.start)
        away = float(np.median(self.model.test.distances(features.pooled)))
        why = [f"the instruction '{clip.instruction}' is like none of its training"] \
            if not known else []
        if away > self.model.test.limit:
            why.append(f'the pictures are unlike those of its training (distance {away:.3g}, '
                       f'limit {self.model.test.limit:.3g})')
        for view, drop in self.model.backdrops.items():
            first = clip.start.get(view, clip.frames[view][0])
            if (gap := drop.distance(backdrop(first))) > drop.limit:
                why.append(f'the start picture of the {view} camera is unlike those of its '
                           f'training (distance {gap:.3g}, limit {drop.limit:.3g}): has the '
                           'camera moved?')
        head = self.model.heads[task if known else OTHERS]
        values = features.head @ head.weights + head.bias
        trace = trace_of(clip, np.asarray(values, np.float64), self.label, strict=False,
                         mode=task if known else 'unknown task', calibrated=not why,
                         detail='; '.join(why))
        return smoothed(trace) if trace.valid and len(clip) >= _SMOOTHED_FRAMES else trace

    def compare(self, pair: Pair) -> float | None:
        """Return the difference of the values of after and before."""
        return difference(self, pair)


def shipped() -> Path:
    """Return the file of the model that ships with the package."""
    return Path(str(resources.files('arena_robot.audit.local').joinpath(SHIPPED)))
