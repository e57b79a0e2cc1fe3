"""How well values of frames follow the known progress."""

from collections.abc import Mapping, Sequence

import numpy as np

from arena_robot.audit.base import averaged
from arena_robot.core.observation import Floats

EVERY = 2       # of the frames, neighbours are alike
STEPS = 2       # of those frames between the two of a fall or rise
MOVED = 0.05


def quality(true: Sequence[Floats], seen: Sequence[Floats], success: Sequence[bool | None]
            ) -> Mapping[str, float]:
    """Return error, sign accuracies and AUC of smoothed values against the known ones."""
    smooth = [np.clip(averaged(p), 0.0, 1.0) for p in seen]
    falls: list[bool] = []
    rises: list[bool] = []
    for y, p in zip(true, smooth, strict=True):
        if len(y) > STEPS:
            known, found = y[STEPS:] - y[:-STEPS], p[STEPS:] - p[:-STEPS]
            falls += (found[known < -MOVED] < 0.0).tolist()
            rises += (found[known > MOVED] > 0.0).tolist()
    error = float(np.mean([np.abs(y - p).mean() for y, p in zip(true, smooth, strict=True)]))
    done = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True) if s is True])
    failed = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True)
                       if s is False])
    found_ = {'error': error, 'falls': _mean(falls), 'rises': _mean(rises)}
    if len(done) and len(failed):
        found_['auc'] = float((done[:, None] > failed[None]).mean())
    return found_


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else 0.0


