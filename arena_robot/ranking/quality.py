"""
Quality of scores: correlation with a reference, accuracy on held-out verdicts.

``mmrv`` is the mean maximum rank violation of SIMPLER (Li et al. 2024): for each policy the
largest reference difference to a policy that is ranked on the wrong side of it, averaged over
policies; 0 is a perfect order and the unit is the reference's.
"""

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats


def pearson(scores: ArrayLike, reference: ArrayLike) -> float:
    """Return Pearson's r, NaN where one side is constant."""
    x, y = _pair(scores, reference)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 0 else float('nan')


def spearman(scores: ArrayLike, reference: ArrayLike) -> float:
    """Return Pearson's r of the ranks, equals sharing their mean rank."""
    x, y = _pair(scores, reference)
    return pearson(_mean_ranks(x), _mean_ranks(y))


def kendall(scores: ArrayLike, reference: ArrayLike) -> float:
    """Return Kendall's τ-b, NaN where one side is constant."""
    x, y = _pair(scores, reference)
    one, two = np.triu_indices(len(x), 1)
    a, b = np.sign(x[one] - x[two]), np.sign(y[one] - y[two])
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float('nan')


def mmrv(scores: ArrayLike, reference: ArrayLike) -> float:
    """Return the mean maximum rank violation."""
    x, y = _pair(scores, reference)
    wrong = (x[:, None] < x[None, :]) != (y[:, None] < y[None, :])
    return float((np.abs(y[:, None] - y[None, :]) * wrong).max(axis=1).mean())


def accuracy(scores: ArrayLike, comparisons: Comparisons) -> float:
    """
    Return the share of verdicts whose winner has the higher score, NaN where none has a winner.

    Ties among the verdicts do not count; equal scores are half right.
    """
    x = np.asarray(scores, dtype=float)
    said = np.sign(comparisons.outcome - 0.5)
    ahead = np.sign(x[comparisons.first] - x[comparisons.second])
    weight = comparisons.weight * (said != 0)
    total = float(weight.sum())
    return float(weight @ (1 + said * ahead) / 2) / total if total > 0 else float('nan')


def summary(values: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Return mean, low and high of the finite values: the central ``level`` of them."""
    x = np.asarray(values, dtype=float)
    x = x[np.isfinite(x)]
    if not len(x):
        return float('nan'), float('nan'), float('nan')
    low, high = np.quantile(x, [(1 - level) / 2, (1 + level) / 2])
    return float(x.mean()), float(low), float(high)


def _pair(scores: ArrayLike, reference: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(scores, dtype=float), np.asarray(reference, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise RankingError(f'scores {x.shape} and reference {y.shape} must be two equally long '
                           'lists of at least two policies')
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise RankingError('a score or a reference is not a number; every policy needs both')
    return x, y


def _mean_ranks(x: Floats) -> Floats:
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])
