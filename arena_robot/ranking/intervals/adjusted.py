"""
Bradley–Terry with covariates: what else makes people prefer a policy.

    P(i beats j) = σ(θ_i - θ_j + x·γ),  a tie is half a win for each

x (k,) are differences between the two of a comparison, such as of their duration, or constants of
it, such as 1 for a bias towards the side shown first. γ says how much they matter, and θ is free
of them. A weak ridge on γ (a standard deviation of 10) keeps one without any spread finite.

Intervals of θ and γ are those of the sandwich covariance with each cluster left out in turn, as
:mod:`.sandwich` has them for abilities alone.

>>> votes = Comparisons.build([0, 1] * 20, [1, 0] * 20, [1] * 30 + [0] * 10)
>>> print(adjusted(votes, np.ones(40), ['shown first']).gamma.round(2))
[1.1]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, stdtrit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats, Ints
from arena_robot.ranking.counts import MOST_CELLS, count_pairs, is_connected, require_connected
from arena_robot.ranking.intervals.choice import (
    LEAST_CLUSTERS,
    LEAST_SESSIONS,
    chosen_cluster,
    effective,
    too_few,
    with_variances,
)
from arena_robot.ranking.intervals.sandwich import ScoreVariances, with_ties
from arena_robot.ranking.pairwise.bradley_terry import expected_share
from arena_robot.ranking.pairwise.covariates import newton
from arena_robot.ranking.pairwise.prior import PRIOR_L2, one_sided
from arena_robot.ranking.standings import Standings, standings

FLAT = 0.01    # 1 / 10², for a standard deviation of 10


@dataclass(frozen=True)
class AdjustedFit:
    """
    Abilities without what the covariates explain, and γ with its interval.

    ``fit`` and ``standings`` are of the abilities; ``names`` of the covariates; ``gamma``, ``low``
    and ``high`` (k,), the last two NaN where the clusters are too few to tell.
    """

    fit: Fit
    standings: Standings
    names: tuple[str, ...]
    gamma: Floats
    low: Floats
    high: Floats


def adjusted(comparisons: Comparisons, covariates: ArrayLike, names: Sequence[str] = (),
             level: float = 0.95, cluster: str = 'auto') -> AdjustedFit:
    """
    Fit abilities and γ for ``covariates`` (M, k), with intervals at ``level``.

    ``cluster`` says which comparisons depend on each other, as for other methods. Abilities
    without a finite maximum get the prior of :mod:`.prior`.

    :raises RankingError: no comparisons, or covariates of another length or not finite.
    :raises NotConverged: Newton's steps do not end.
    """
    x, words = _checked(comparisons, covariates, names)
    counts, by = count_pairs(comparisons), chosen_cluster(comparisons, cluster)
    require_connected(counts)
    n, size = comparisons.n, comparisons.n + x.shape[1]
    ridge = 0.0 if is_connected(counts) else PRIOR_L2
    rows = _design(comparisons, x)
    point, matrix, rounds = _maximum(comparisons, rows, np.r_[np.full(n, ridge),
                                                              np.full(size - n, FLAT)])
    centre = np.eye(size) - np.pad(np.full((n, n), 1 / n), (0, size - n))
    d, point = rows @ point, centre @ point
    value = float(comparisons.weight @ (comparisons.outcome * log_expit(d)
                                        + (1 - comparisons.outcome) * log_expit(-d)))
    ends = one_sided(counts) if ridge else (np.zeros(n, bool),) * 2
    group = np.unique(comparisons.clusters(by), return_inverse=True)[1]
    variances = _variances(comparisons, rows, d, matrix, group, centre,
                           np.r_[ends[0] | ends[1], np.zeros(size - n, bool)])
    fit = Fit(point[:n], expected_share(point[:n]), Diagnostics(
        True, rounds, value, (), {'gamma': dict(zip(words, point[n:].tolist(), strict=True))}),
        ridge=np.full(n, ridge))
    count, by_session = int(group.max()) + 1, by == 'session'
    few = too_few(effective(comparisons), count, by_session, ends)
    own = ScoreVariances(variances.variance[:n], variances.gap[:n, :n], variances.freedom,
                         variances.own_freedom[:n])
    wide = np.sqrt(variances.variance[n:]) * stdtrit(max(count - 1, 1), (1 + level) / 2) \
        if count >= (LEAST_SESSIONS if by_session else LEAST_CLUSTERS) else np.nan
    return AdjustedFit(fit, with_variances(standings('bt', comparisons, fit), own, few, ends,
                                           level, 1.0),
                       words, point[n:], point[n:] - wide, point[n:] + wide)


def _checked(comparisons: Comparisons, covariates: ArrayLike, names: Sequence[str],
             ) -> tuple[Floats, tuple[str, ...]]:
    x = np.asarray(covariates, dtype=float)
    x = x[:, None] if x.ndim == 1 else x
    if x.shape[0] != len(comparisons) or not np.isfinite(x).all():
        raise RankingError(f'covariates must be {len(comparisons)} rows of numbers, one for each '
                           f'comparison; found {x.shape}')
    words = tuple(names) or tuple(f'x{k}' for k in range(x.shape[1]))
    if len(words) != x.shape[1]:
        raise RankingError(f'{x.shape[1]} covariates have {len(words)} names')
    return x, words


def _design(votes: Comparisons, x: Floats) -> Floats:
    """Return (M, n + k): 1 for the first, -1 for the second, and the covariates."""
    each = np.eye(votes.n)
    return np.hstack([each[votes.first] - each[votes.second], x])


def _maximum(votes: Comparisons, rows: Floats, prior: Floats) -> tuple[Floats, Floats, int]:
    n, size = votes.n, rows.shape[1]
    shift = np.zeros((size, size))
    shift[:n, :n] = 1 / n    # abilities are known up to a common shift

    def derivatives(point: Floats) -> tuple[Floats, Floats]:
        p = expit(rows @ point)
        return (rows.T @ (votes.weight * (votes.outcome - p)) - prior * point,
                rows.T @ (rows * (votes.weight * p * (1 - p))[:, None]) + np.diag(prior) + shift)

    return newton(derivatives, size, f'Bradley–Terry with {size - n} covariates')


def _variances(votes: Comparisons, rows: Floats, d: Floats, matrix: Floats, group: Ints,
               centre: Floats, alike: np.ndarray) -> ScoreVariances:
    """Return the variances of abilities and γ, (n + k,): the sandwich, and the likelihood's."""
    p, count, size = expit(d), int(group.max()) + 1, len(matrix)
    bend = votes.weight * p * (1 - p)
    ties = float((votes.weight * (votes.outcome == 0.5)).sum())
    bread = centre @ np.linalg.inv(matrix)
    model = ScoreVariances.of(with_ties(ties, float(votes.weight.sum()), float(bend.sum()))
                              * (bread @ centre.T), count - 1.0)
    member = csr_array((votes.weight * (votes.outcome - p), (group, np.arange(len(votes)))),
                       shape=(count, len(votes)))
    scores = np.asarray(member @ rows)
    if count * size * size <= MOST_CELLS:
        order = np.argsort(group, kind='stable')
        ends = np.searchsorted(group[order], np.arange(1, count))
        each = [(rows[part] * bend[part, None]).T @ rows[part] for part in np.split(order, ends)]
        rest = matrix - np.array(each) + PRIOR_L2 * np.eye(size)
        moved = np.linalg.solve(rest, scores[:, :, None])[:, :, 0] @ centre.T
        robust = (count - 1) / count * (moved.T @ moved)
    else:
        robust = count / (count - 1) * (bread @ (scores.T @ scores) @ bread.T)
    return ScoreVariances.of(robust, count - 1.0).at_least_between(model, alike)
