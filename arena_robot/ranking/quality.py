"""
Quality of methods trained on part of the sessions, measured against a reference.

The reference is the mean progress of each policy over all its rollouts in valid sessions, as in
RoboArena's paper, including the A and B rollouts that a method was trained on. Beside it are
measures against the other rollouts alone, also for pairs that were drawn again. The splits share
most of their data, so their spread is the noise of choosing among the available sessions; it does
not predict another month of sessions. :func:`redraw` is closer to that: it draws again which two
of the policies that ran in a session were compared, and their verdict.

``mmrv`` is the mean maximum rank violation of SIMPLER (Li et al. 2024): for each policy the
largest reference difference to a policy that is ranked on the wrong side of it, averaged over
policies; 0 is a perfect order and the unit is the reference's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Floats, Method
from arena_robot.ranking.rollouts import ArenaTables, Rollouts

AGAINST = ('pearson', 'spearman', 'kendall', 'mmrv')
LEAK_FREE = ('pearson_leak_free', 'mmrv_leak_free')
MEASURES = (*AGAINST, 'accuracy', *LEAK_FREE)
# The measures of one repeat, None where nothing could be fitted, and whether a prior was needed.
_Row = tuple[tuple[float, ...] | None, bool]


@dataclass(frozen=True)
class Scored:
    """
    Measures of one method over repeats: (repeats,) arrays, NaN where it could not rank.

    ``rescued`` repeats had no finite maximum and needed a prior.
    """

    values: Mapping[str, Floats]
    failed: int
    rescued: int

    def summaries(self) -> dict[str, tuple[float, float, float]]:
        """Return mean, low and high of each measure, the central 95 % of the repeats."""
        return {name: summary(x) for name, x in self.values.items()}


def reference(rollouts: Rollouts, n: int) -> Floats:
    """
    Return (n,) mean progress of each policy.

    :raises RankingError: a policy has no rollout.
    """
    means = rollouts.means(n)
    if not np.isfinite(means).all():
        raise RankingError('a policy has no scored rollout to serve as reference; give --episodes '
                           'with scores of every policy')
    return means


def splits(arena: ArenaTables, methods: Mapping[str, Method], count: int = 100,
           share: float = 0.8, *, seed: int = 0,
           workers: Workers = HERE) -> dict[str, Scored]:
    """
    Train every method on ``count`` random ``share`` of the sessions, the same for all methods.

    Accuracy is that of the verdicts in the other sessions.
    """
    sessions = np.unique(arena.comparisons.session)
    size = round(share * len(sessions))
    if not 0 < size < len(sessions):
        raise RankingError(f'cannot split {len(sessions)} sessions {share:g} to {1 - share:g}')
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(sessions)[:size] for _ in range(count)]
    return {name: _measure(arena, method, chosen, workers)
            for name, method in methods.items()}


def efficiency(arena: ArenaTables, methods: Mapping[str, Method], sizes: Sequence[int],
               repeats: int = 30, *, seed: int = 0, workers: Workers = HERE
               ) -> dict[str, dict[int, Scored]]:
    """Train every method on ``repeats`` random subsets of each size, in sessions."""
    sessions = np.unique(arena.comparisons.session)
    measured: dict[str, dict[int, Scored]] = {name: {} for name in methods}
    for size in sizes:
        rng = np.random.default_rng([seed, size])
        chosen = [rng.permutation(sessions)[:size] for _ in range(repeats)]
        for name, method in methods.items():
            measured[name][size] = _measure(arena, method, chosen, workers)
    return measured


def _measure(arena: ArenaTables, method: Method, chosen: Sequence[np.ndarray], workers: Workers,
             ) -> Scored:
    return _scored(workers.map(partial(_held_out, arena, method), chosen), MEASURES)


def _held_out(arena: ArenaTables, method: Method, sessions: np.ndarray) -> _Row:
    comparisons = arena.comparisons
    inside = np.isin(comparisons.session, sessions)
    goal = reference(arena.rollouts, comparisons.n)
    training = comparisons.take(inside)
    scores, helped = fit_or_none(method, training)
    if scores is None:
        return None, helped
    return (*against(scores, goal), accuracy(scores, comparisons.take(~inside)),
            *without_leak(scores, arena.rollouts, training)), helped


def without_leak(scores: Floats, rollouts: Rollouts, training: Comparisons,
                 ) -> tuple[float, float]:
    """
    Return Pearson and MMRV against the rollouts that ``training`` was not about.

    NaN where a policy has no other rollout.
    """
    n = training.n
    about = np.concatenate([training.session * n + training.first,
                            training.session * n + training.second])
    means = rollouts.means(n, ~np.isin(rollouts.session * n + rollouts.policy, about))
    if not np.isfinite(means).all():
        return float('nan'), float('nan')
    return pearson(scores, means), mmrv(scores, means)


def _scored(rows: Sequence[_Row], measures: Sequence[str]) -> Scored:
    missing = (np.nan,) * len(measures)
    table = np.array([missing if values is None else values for values, _ in rows])
    return Scored(dict(zip(measures, table.T, strict=True)),
                  failed=sum(values is None for values, _ in rows),
                  rescued=sum(helped for _, helped in rows))


def against(scores: Floats, goal: Floats) -> tuple[float, float, float, float]:
    """Return Pearson, Spearman, Kendall and MMRV."""
    return (pearson(scores, goal), spearman(scores, goal),
            kendall(scores, goal), mmrv(scores, goal))


def fit_or_none(method: Method, comparisons: Comparisons) -> tuple[Floats | None, bool]:
    """Return the scores, None where they cannot be fitted, and whether a prior was needed."""
    try:
        fit = method(comparisons)
    except RankingError:
        return None, False
    return fit.scores, fit.ridge is not None and bool(fit.ridge.any())


def redraws(arena: ArenaTables, methods: Mapping[str, Method], count: int = 100, *, seed: int = 0,
            workers: Workers = HERE) -> dict[str, Scored]:
    """Measure every method on ``count`` arenas from :func:`redraw`, against the reference."""
    goal = reference(arena.rollouts, arena.comparisons.n)
    drawn = [redraw(arena, np.random.default_rng([seed, k])) for k in range(count)]
    return {name: _scored(workers.map(partial(_redrawn, method, goal, arena.rollouts), drawn),
                          (*AGAINST, *LEAK_FREE))
            for name, method in methods.items()}


def _redrawn(method: Method, goal: Floats, rollouts: Rollouts, comparisons: Comparisons) -> _Row:
    scores, helped = fit_or_none(method, comparisons)
    if scores is None:
        return None, helped
    return (*against(scores, goal), *without_leak(scores, rollouts, comparisons)), helped


def redraw(arena: ArenaTables, rng: np.random.Generator) -> Comparisons:
    """
    Return comparisons with the compared pair of each session drawn again.

    The pair is any two policies with a score in the session. The verdict is drawn with the
    frequencies of the real ones (for the higher score, a tie, for the lower score), separately for
    equal scores and for differences up to 0.1, 0.3 and more.
    """
    old = arena.comparisons
    table = _verdicts(old)
    scores = np.full((int(old.session.max()) + 1, old.n), np.nan)
    known = arena.rollouts.session >= 0
    scores[arena.rollouts.session[known], arena.rollouts.policy[known]] = \
        arena.rollouts.score[known]
    drawn = scores[old.session]
    order = np.where(np.isfinite(drawn), rng.random(drawn.shape), np.inf).argsort(axis=1)
    enough = np.isfinite(drawn).sum(axis=1) >= 2
    rows = np.arange(len(old))
    first, second = order[:, 0], order[:, 1]
    a, b = drawn[rows, first], drawn[rows, second]
    u, shares = rng.random(len(old)), table[_gap(a - b)]
    kind = (u[:, None] > np.cumsum(shares, axis=1)[:, :2]).sum(axis=1)
    better = np.select([kind == 0, kind == 1], [1.0, 0.5], 0.0)
    outcome = np.where(a >= b, better, 1 - better)
    new = replace(old, first=first, second=second, outcome=outcome, score_first=a, score_second=b)
    return new.take(enough)


def _verdicts(old: Comparisons) -> Floats:
    gap = old.score_first - old.score_second
    seen = np.isfinite(gap)
    better = np.where(gap >= 0, old.outcome, 1 - old.outcome)[seen]
    table = np.zeros((4, 3))
    np.add.at(table, (_gap(gap[seen]), (2 - 2 * better).astype(int)), 1.0)
    table[0, [0, 2]] = table[0, [0, 2]].mean()
    return np.asarray((table + 1e-9) / (table + 1e-9).sum(axis=1, keepdims=True))


def _gap(difference: Floats) -> np.ndarray:
    return np.asarray(np.searchsorted([1e-9, 0.1 + 1e-9, 0.3 + 1e-9],
                                      np.nan_to_num(np.abs(difference))))


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
    i, j = np.triu_indices(len(x), 1)
    a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
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
