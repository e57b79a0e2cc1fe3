"""
The head for instructions that no known task matches: one potential for all tasks.

It learns from hops, not from levels: pairs of frames 0.8 s apart, falls weighted like rises
and every task like the others. What it finds is what looks like progress in all of them, such
as a thing that is taken, carried or let go. Its level means nothing, so it stays uncalibrated.
The ridge and the scale of its hops are chosen on tasks that are left out one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.audit.local.features import Features
from arena_robot.audit.local.learned import Learned
from arena_robot.audit.local.model import Head
from arena_robot.audit.local.quality import EVERY, STEPS, quality
from arena_robot.core.observation import Floats

LARGEST = 0.3       # jumps count as this
STILL = 0.02
MOST = 10.0         # weight of a fall against that of a rise
POOLED_BASIS, BASIS_FRAMES = 200, 1000
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)


def pooled_head(clips: Sequence[Learned], ridges: Sequence[float] = RIDGES
                ) -> tuple[Head, Mapping[str, float]]:
    """Return the head, and how good it was on tasks that were left out; empty for one task."""
    basis = _basis(clips)
    seen = [_Seen(clip, clip.features.head[::EVERY].astype(np.float32) @ basis.T,
                  clip.phi[::EVERY]) for clip in clips]
    tasks = {task: _sums([one for one in seen if one.clip.task == task])
             for task in sorted({clip.task for clip in clips})}
    tried = [_tried(seen, tasks, ridge) for ridge in ridges] if len(tasks) > 1 else []
    best = max(tried, key=lambda one: one.score, default=_Tried(ridges[0], 1.0, {}))
    direction = best.slope * _solved(list(tasks.values()), best.ridge)
    level = float(np.mean(np.concatenate([one.values(direction) for one in seen])))
    middle = float(np.mean(np.concatenate([one.phi for one in seen])))
    return Head(np.asarray(direction @ basis, np.float32), middle - level), best.quality


@dataclass(frozen=True)
class _Seen:
    """A clip, some of its frames' features (n, k) on the basis, and their progress (n,)."""

    clip: Learned
    features: Features
    phi: Floats

    def values(self, direction: Floats) -> Floats:
        return np.asarray(self.features @ direction, np.float64)


@dataclass(frozen=True)
class _Sums:
    """Of a task: A and b of the normal equations A g = b."""

    a: Floats
    b: Floats


@dataclass(frozen=True)
class _Tried:
    """A ridge, the scale that its hops need, and its quality on tasks that were left out."""

    ridge: float
    slope: float
    quality: Mapping[str, float]

    @property
    def score(self) -> float:
        return self.quality['falls'] + self.quality['rises']


def _basis(clips: Sequence[Learned]) -> Features:
    """Return (k, D): the directions in which the frames differ most, orthonormal."""
    count = sum(len(clip.phi) for clip in clips)
    every = max(count // BASIS_FRAMES, 1)
    frames = np.concatenate([clip.features.head[::every] for clip in clips]).astype(np.float32)
    values, vectors = np.linalg.eigh((frames @ frames.T).astype(np.float64))
    keep = values.argsort()[::-1][:min(POOLED_BASIS, len(frames))]
    keep = keep[values[keep] > 1e-6 * values.max()]
    return np.asarray((vectors[:, keep] / np.sqrt(values[keep])).T.astype(np.float32) @ frames)


def _sums(seen: Sequence[_Seen]) -> _Sums:
    dz = np.concatenate([one.features[STEPS:] - one.features[:-STEPS] for one in seen])
    d = np.concatenate([_hops(one.phi) for one in seen])
    falls, rises = d < -STILL, d > STILL
    weight = np.ones(len(d))
    weight[falls] = min(float(rises.sum()) / max(float(falls.sum()), 1.0), MOST)
    weight /= max(float(weight.sum()), 1.0)
    weighted = dz.astype(np.float64) * weight[:, None]
    return _Sums(weighted.T @ dz, weighted.T @ np.clip(d, -LARGEST, LARGEST))


def _hops(values: Floats) -> Floats:
    return values[STEPS:] - values[:-STEPS]


def _solved(tasks: Sequence[_Sums], ridge: float) -> Floats:
    a = np.sum([one.a for one in tasks], axis=0)
    a[np.diag_indices(len(a))] += ridge * np.trace(a) / len(a) + 1e-12
    return np.asarray(np.linalg.solve(a, np.sum([one.b for one in tasks], axis=0)))


def _tried(seen: Sequence[_Seen], tasks: Mapping[str, _Sums], ridge: float) -> _Tried:
    """Return what a ridge does on every task by the hops of the others."""
    found = {task: _solved([s for name, s in tasks.items() if name != task], ridge)
             for task in tasks}
    values = [one.values(found[one.clip.task]) for one in seen]
    said = np.concatenate([_hops(v) for v in values])
    true = np.concatenate([_hops(one.phi) for one in seen])
    slope = max(float(said @ true) / max(float(said @ said), 1e-12), 1e-6)
    # Around the middle nothing is clipped that the judge would not clip either.
    scaled = [0.5 + slope * (v - v.mean()) for v in values]
    return _Tried(ridge, slope, quality([one.phi for one in seen], scaled, [None] * len(seen)))
