"""
Training of the local judge on clips with known progress.

Ridge regression in its dual form: (K + λ tr(K)/n I) a = y - mean(y), K the Gram matrix of the
centred features; weights are Xᵀ a. Everything is decided by the clips and the seed.

The head for instructions that no known task matches is one potential for all tasks. It learns from
hops, not from levels: pairs of frames 0.8 s apart, falls weighted like rises and every task like
the others. It finds what looks like progress in all tasks, such as a thing that is taken, carried
or let go. Its level means nothing, so it stays uncalibrated. The ridge and the scale of its hops
are chosen on tasks that are left out one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import arena_robot
from arena_robot.audit.base import averaged
from arena_robot.audit.local.features import Features, backdrop
from arena_robot.audit.local.model import (
    OTHERS,
    VERSION,
    FrameFeatures,
    Head,
    LocalModel,
    PictureTest,
    StartEdges,
    TrainingCard,
    frame_features,
)
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats
from arena_robot.core.parallel import Progress, nothing
from arena_robot.records.clip import LabelledClip, read_clip

RIDGE = 0.2
SHOWN = ('falls', 'rises')    # of tasks that were left out
FOLDS = 4
BASIS = 64
MARGIN, BACKDROP_MARGIN, LEAST_LIMIT = 1.1, 1.12, 0.3
TEST_EVERY = 16     # of the frames, neighbours are alike
VIEWS = ('right', 'wrist')
EVERY = 2       # of the frames, neighbours are alike
STEPS = 2       # of those frames between the two of a fall or rise
MOVED = 0.05    # a hop whose sign counts in the quality
LARGEST = 0.3       # jumps count as this
STILL = 0.02        # smaller hops are neither a fall nor a rise
MOST = 10.0         # weight of a fall against that of a rise
POOLED_BASIS, BASIS_FRAMES = 200, 1000
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Learned:
    """One clip's features and labels."""

    task: str
    instruction: str
    success: bool | None
    phi: Floats
    features: FrameFeatures
    start: Mapping[str, Features]


def load(files: Sequence[Path], views: Sequence[str] = VIEWS, progress: Progress = nothing
         ) -> list[Learned]:
    """Return the features of clips; DataError when one lacks a view."""
    clips = []
    for number, path in enumerate(files, 1):
        clip = read_clip(path)
        clips.append(learned(clip, views))
        progress(number, len(files), clip.source.name)
    return clips


def learned(clip: LabelledClip, views: Sequence[str] = VIEWS) -> Learned:
    """Return the features of a clip, halved in size."""
    for view in views:
        if view not in clip.pictures:
            raise DataError(f'the clip {clip.source.name} has no view {view}')
    seen = clip.clip(views)
    features = frame_features(seen.frames, seen.instruction, views)
    source = clip.source
    return Learned(source.task or source.instruction, source.instruction, source.success,
                   clip.phi, FrameFeatures(features.head.astype(np.float16),
                                           features.pooled.astype(np.float16)),
                   {view: backdrop(seen.frames[view][0]) for view in views})


def pooled_head(clips: Sequence[Learned], ridges: Sequence[float] = RIDGES
                ) -> tuple[Head, Mapping[str, float]]:
    """Return the head, and how good it was on tasks that were left out; empty for one task."""
    basis = _basis(clips)
    seen = [_Seen(clip, clip.features.head[::EVERY].astype(np.float32) @ basis.T,
                  clip.phi[::EVERY]) for clip in clips]
    tasks = {task: _sums([clip for clip in seen if clip.clip.task == task])
             for task in sorted({clip.task for clip in clips})}
    tried = [_trial(seen, tasks, ridge) for ridge in ridges] if len(tasks) > 1 else []
    best = max(tried, key=lambda trial: trial.score, default=_Trial(ridges[0], 1.0, {}))
    direction = best.slope * _solved(list(tasks.values()), best.ridge)
    level = float(np.mean(np.concatenate([clip.values(direction) for clip in seen])))
    middle = float(np.mean(np.concatenate([clip.phi for clip in seen])))
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
class _Trial:
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
    dz = np.concatenate([clip.features[STEPS:] - clip.features[:-STEPS] for clip in seen])
    d = np.concatenate([_hops(clip.phi) for clip in seen])
    falls, rises = d < -STILL, d > STILL
    weight = np.ones(len(d))
    weight[falls] = min(float(rises.sum()) / max(float(falls.sum()), 1.0), MOST)
    weight /= max(float(weight.sum()), 1.0)
    weighted = dz.astype(np.float64) * weight[:, None]
    return _Sums(weighted.T @ dz, weighted.T @ np.clip(d, -LARGEST, LARGEST))


def _hops(values: Floats) -> Floats:
    return values[STEPS:] - values[:-STEPS]


def _solved(tasks: Sequence[_Sums], ridge: float) -> Floats:
    a = np.sum([sums.a for sums in tasks], axis=0)
    a[np.diag_indices(len(a))] += ridge * np.trace(a) / len(a) + 1e-12
    return np.asarray(np.linalg.solve(a, np.sum([sums.b for sums in tasks], axis=0)))


def _trial(seen: Sequence[_Seen], tasks: Mapping[str, _Sums], ridge: float) -> _Trial:
    """Return what a ridge does on every task by the hops of the others."""
    directions = {task: _solved([s for name, s in tasks.items() if name != task], ridge)
                  for task in tasks}
    values = [clip.values(directions[clip.clip.task]) for clip in seen]
    predicted = np.concatenate([_hops(v) for v in values])
    true = np.concatenate([_hops(clip.phi) for clip in seen])
    slope = max(float(predicted @ true) / max(float(predicted @ predicted), 1e-12), 1e-6)
    # Around the middle nothing is clipped that the judge would not clip either.
    scaled = [0.5 + slope * (v - v.mean()) for v in values]
    return _Trial(ridge, slope, quality([clip.phi for clip in seen], scaled, [None] * len(seen)))


def quality(true: Sequence[Floats], seen: Sequence[Floats], success: Sequence[bool | None]
            ) -> Mapping[str, float]:
    """Return error, sign accuracies and AUC of smoothed values against the known ones."""
    smooth = [np.clip(averaged(p), 0.0, 1.0) for p in seen]
    falls: list[bool] = []
    rises: list[bool] = []
    for y, p in zip(true, smooth, strict=True):
        if len(y) > STEPS:
            true_hops, predicted_hops = _hops(y), _hops(p)
            falls += (predicted_hops[true_hops < -MOVED] < 0.0).tolist()
            rises += (predicted_hops[true_hops > MOVED] > 0.0).tolist()
    error = float(np.mean([np.abs(y - p).mean() for y, p in zip(true, smooth, strict=True)]))
    done = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True) if s is True])
    failed = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True)
                       if s is False])
    numbers = {'error': error, 'falls': _mean(falls), 'rises': _mean(rises)}
    if len(done) and len(failed):
        numbers['auc'] = float((done[:, None] > failed[None]).mean())
    return numbers


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else 0.0


def train(clips: Sequence[Learned], seed: int = 0, ridge: float = RIDGE,
          views: Sequence[str] = VIEWS, interval_s: float = 0.2, trunk: str = ''
          ) -> LocalModel:
    """Return the model of the clips; DataError when a task has fewer than two."""
    by_task: dict[str, list[Learned]] = {}
    for clip in clips:
        by_task.setdefault(clip.task, []).append(clip)
    lonely = [task for task, rows in by_task.items() if len(rows) < 2]
    if not by_task or lonely:
        raise DataError('every task needs two episodes or more, better twenty; too few: '
                        f'{", ".join(lonely) or "no episodes at all"}')
    rng = np.random.default_rng(seed)
    heads, left_out = {}, []
    for task, rows in by_task.items():
        gram = _Gram(rows, EVERY)
        heads[task] = gram.head(ridge)
        for fold in _folds(len(rows), rng):
            left_out += [(rows[k], p) for k, p in gram.predicted(ridge, fold).items()]
    heads[OTHERS], new = pooled_head(clips)
    card = TrainingCard(VERSION, tuple(by_task), len(clips), sum(len(c.phi) for c in clips), seed,
                        ridge, interval_s, arena_robot.__version__, trunk,
                        {**quality([c.phi[::EVERY] for c, _ in left_out],
                                   [p for _, p in left_out], [c.success for c, _ in left_out]),
                         **{f'new_{name}': new[name] for name in new if name in SHOWN}})
    return LocalModel(card, tuple(views), heads, {
        task: tuple(sorted({c.instruction for c in rows})) for task, rows in by_task.items()},
        picture_test(clips, rng), {
            view: backdrop_of([c.start[view] for c in clips]) for view in views})


def head_of(clips: Sequence[Learned], ridge: float = RIDGE) -> Head:
    """Return the head of one task."""
    return _Gram(clips, EVERY).head(ridge)


class _Gram:
    """The Gram matrix of some clips' features."""

    def __init__(self, clips: Sequence[Learned], every: int) -> None:
        self.x = np.concatenate([c.features.head[::every] for c in clips]).astype(np.float32)
        self.y = np.concatenate([c.phi[::every] for c in clips])
        self.owner = np.repeat(np.arange(len(clips)), [len(c.phi[::every]) for c in clips])
        self.k = (self.x @ self.x.T).astype(np.float64)

    def head(self, ridge: float) -> Head:
        """Return the head of all clips."""
        rows = np.arange(len(self.y))
        a, mean = self._solve(rows, ridge)
        weights = (a - a.mean()).astype(np.float32) @ self.x
        return Head(weights, mean - float(self.x.mean(axis=0) @ weights))

    def predicted(self, ridge: float, fold: Sequence[int]) -> dict[int, Floats]:
        """Return the values of the clips in ``fold`` by the head of all the others."""
        rows = np.flatnonzero(~np.isin(self.owner, fold))
        a, mean = self._solve(rows, ridge)
        a = a - a.mean()
        middle = self.k[np.ix_(rows, rows)].mean(axis=0)
        return {clip: np.asarray((self.k[np.ix_(self.owner == clip, rows)] - middle) @ a + mean)
                for clip in fold}

    def _solve(self, rows: 'np.ndarray[tuple[int], np.dtype[np.int64]]', ridge: float
               ) -> tuple[Floats, float]:
        k = self.k[np.ix_(rows, rows)]
        side = k.mean(axis=0)
        k = k - side - side[:, None] + side.mean()
        k[np.diag_indices(len(k))] += ridge * np.trace(k) / len(k) + 1e-9
        mean = float(self.y[rows].mean())
        return np.linalg.solve(k, self.y[rows] - mean), mean


def _folds(count: int, rng: np.random.Generator) -> list[list[int]]:
    order = rng.permutation(count).tolist()
    return [order[k::min(FOLDS, count)] for k in range(min(FOLDS, count))]


def picture_test(clips: Sequence[Learned], rng: np.random.Generator) -> PictureTest:
    """Return the picture test: fitted on four fifths of the clips, its limit from the rest."""
    order = rng.permutation(len(clips)).tolist()
    held_out = set(order[::5])
    fit = np.concatenate([clips[k].features.pooled[::TEST_EVERY] for k in order
                          if k not in held_out]).astype(np.float32)
    middle = fit.mean(axis=0)
    centred = fit - middle
    values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
    keep = values.argsort()[::-1][:min(BASIS, len(fit) - 1)]
    basis = (vectors[:, keep].T @ centred) / np.sqrt(np.maximum(values[keep], 1e-9))[:, None]
    test = PictureTest(middle, basis.astype(np.float32), 0.0)
    distances = [float(np.median(test.distances(clips[k].features.pooled.astype(np.float32))))
                 for k in held_out]
    return PictureTest(middle, test.basis, MARGIN * max(distances))


def backdrop_of(pictures: Sequence[Features]) -> StartEdges:
    """Return what the edges of start pictures have in common, and their largest difference."""
    common = np.median(np.stack(pictures), axis=0)
    common = common - common.mean()
    edges = np.asarray(common / max(float(np.linalg.norm(common)), 1e-6), np.float32)
    distances = [StartEdges(edges, 0.0).distance(picture) for picture in pictures]
    return StartEdges(edges, max(BACKDROP_MARGIN * max(distances), LEAST_LIMIT))
