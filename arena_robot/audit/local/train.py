"""
Training of the local judge on clips with known progress.

Ridge regression in its dual form: (K + λ tr(K)/n I) a = y - mean(y), K the Gram matrix of the
centred features; weights are Xᵀ a. Everything is decided by the clips and the seed.
"""

from collections.abc import Sequence

import numpy as np

import arena_robot
from arena_robot.audit.local.features import Features
from arena_robot.audit.local.learned import VIEWS, Learned
from arena_robot.audit.local.model import (
    OTHERS,
    VERSION,
    Head,
    LocalModel,
    PictureTest,
    StartEdges,
    TrainingCard,
)
from arena_robot.audit.local.pooled import pooled_head
from arena_robot.audit.local.quality import EVERY, quality
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats

RIDGE = 0.2
SHOWN = ('falls', 'rises')    # of tasks that were left out
FOLDS = 4
BASIS = 64
MARGIN, BACKDROP_MARGIN, LEAST_LIMIT = 1.1, 1.12, 0.3
TEST_EVERY = 16     # of the frames, neighbours are alike


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
    rest = set(order[::5])
    fit = np.concatenate([clips[k].features.pooled[::TEST_EVERY] for k in order
                          if k not in rest]).astype(np.float32)
    middle = fit.mean(axis=0)
    centred = fit - middle
    values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
    keep = values.argsort()[::-1][:min(BASIS, len(fit) - 1)]
    basis = (vectors[:, keep].T @ centred) / np.sqrt(np.maximum(values[keep], 1e-9))[:, None]
    test = PictureTest(middle, basis.astype(np.float32), 0.0)
    own = [float(np.median(test.distances(clips[k].features.pooled.astype(np.float32))))
           for k in rest]
    return PictureTest(middle, test.basis, MARGIN * max(own))


def backdrop_of(pictures: Sequence[Features]) -> StartEdges:
    """Return what the edges of start pictures have in common, and their largest difference."""
    common = np.median(np.stack(pictures), axis=0)
    common = common - common.mean()
    edges = np.asarray(common / max(float(np.linalg.norm(common)), 1e-6), np.float32)
    own = [StartEdges(edges, 0.0).distance(picture) for picture in pictures]
    return StartEdges(edges, max(BACKDROP_MARGIN * max(own), LEAST_LIMIT))
