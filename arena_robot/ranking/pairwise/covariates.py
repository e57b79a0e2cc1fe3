"""
Bradley–Terry with more than two policies or more than policies: rankings, covariates.

:func:`adjusted` tells what else makes people prefer a policy:

    P(i beats j) = σ(θ_i - θ_j + x·γ),  a tie is half a win for each

x (k,) are differences between the two of a comparison, such as of their duration, or constants of
it, such as 1 for a bias towards the side shown first. γ says how much they matter, and θ is free
of them. A weak ridge on γ (a standard deviation of 10) keeps one without any spread finite.

:func:`plackett_luce` has abilities from rankings of several policies (Luce 1959, Plackett 1975):

    P(ranking) = Π_r e^{θ_r} / Σ_{s at or below r} e^{θ_s}

over the places of a ranking but the last. Two policies make it Bradley–Terry. Rankings have no
ties. The likelihood is concave; its maximum is finite where everyone is ranked above somebody by
a chain of rankings in both directions (Hunter 2004), and needs the prior of :mod:`.prior`
otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, ndtri

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import NotConverged, RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    count_pairs,
    groups,
    is_connected,
    listed,
    require_connected,
)
from arena_robot.ranking.pairwise.bradley_terry import expected_share
from arena_robot.ranking.pairwise.prior import PRIOR_L2

ROUNDS, CLOSE, FLAT = 100, 1e-10, 0.01


@dataclass(frozen=True)
class AdjustedFit:
    """
    Abilities without what the covariates explain, and γ with its 95 % interval.

    ``fit`` are the abilities; ``names`` of the covariates; ``gamma``, ``low``, ``high`` (k,).
    """

    fit: Fit
    names: tuple[str, ...]
    gamma: Floats
    low: Floats
    high: Floats


def waiting(rows: Sequence[Comparison]) -> tuple[list[Comparison], Floats]:
    """
    Return the comparisons whose waits are known, and how much longer A made its arm wait.

    The covariate (M,) is ``waited_a`` minus ``waited_b``, -1 to 1: with a γ below 0 people prefer
    the policy that waits less, and the abilities of :func:`adjusted` are those without waiting.
    """
    known = [(row, row.waited_a - row.waited_b) for row in rows
             if row.waited_a is not None and row.waited_b is not None]
    return [row for row, _ in known], np.array([gap for _, gap in known])


def known_waits(comparisons: Comparisons) -> tuple[Comparisons, Floats]:
    """Return the same of comparisons in memory, with only the policies that are in them."""
    unknown = np.full((len(comparisons), 2), np.nan)
    waits = comparisons.conditions.measures.get('waited', unknown)
    known = np.flatnonzero(np.isfinite(waits).all(axis=1))
    kept = comparisons.take(known)
    seen = [name for name, count in zip(kept.items, kept.appearances(), strict=True) if count]
    gap: Floats = waits[known, 0] - waits[known, 1]
    return kept.only(seen), gap


def adjusted(comparisons: Comparisons, covariates: ArrayLike, names: Sequence[str] = (),
             level: float = 0.95) -> AdjustedFit:
    """
    Fit abilities and γ for ``covariates`` (M, k).

    Abilities without a finite maximum get the prior of :mod:`.prior`. Intervals are those of the
    likelihood.

    :raises RankingError: no comparisons, or covariates of another length or not finite.
    :raises NotConverged: Newton's steps do not end.
    """
    x = np.asarray(covariates, dtype=float)
    x = x[:, None] if x.ndim == 1 else x
    if x.shape[0] != len(comparisons) or not np.isfinite(x).all():
        raise RankingError(f'covariates must be {len(comparisons)} rows of numbers, one for each '
                           f'comparison; found {x.shape}')
    words = tuple(names) or tuple(f'x{k}' for k in range(x.shape[1]))
    if len(words) != x.shape[1]:
        raise RankingError(f'{x.shape[1]} covariates have {len(words)} names')
    counts = count_pairs(comparisons)
    require_connected(counts)
    n = comparisons.n
    ridge = 0.0 if is_connected(counts) else PRIOR_L2
    rows = np.zeros((len(comparisons), n + x.shape[1]))
    at = np.arange(len(comparisons))
    rows[at, comparisons.first], rows[at, comparisons.second], rows[:, n:] = 1.0, -1.0, x
    prior = np.r_[np.full(n, ridge), np.full(x.shape[1], FLAT)]
    point, matrix, rounds = _adjusted_maximum(comparisons, rows, prior)
    covariance = np.linalg.inv(matrix)
    centre = np.eye(n) - 1 / n
    wide = ndtri((1 + level) / 2) * np.sqrt(np.diag(covariance)[n:])
    theta, gamma = centre @ point[:n], point[n:]
    d = rows @ point
    value = float(comparisons.weight @ (comparisons.outcome * log_expit(d)
                                        + (1 - comparisons.outcome) * log_expit(-d)))
    return AdjustedFit(Fit(theta, expected_share(theta), Diagnostics(
        True, rounds, value, (), {'gamma': dict(zip(words, gamma.tolist(), strict=True))}),
        centre @ covariance[:n, :n] @ centre, np.full(n, ridge)), words, gamma, gamma - wide,
        gamma + wide)


def _adjusted_maximum(votes: Comparisons, rows: Floats, prior: Floats,
                      ) -> tuple[Floats, Floats, int]:
    n, size = votes.n, rows.shape[1]
    shift = np.zeros((size, size))
    shift[:n, :n] = 1 / n    # abilities are known up to a common shift

    def derivatives(point: Floats) -> tuple[Floats, Floats]:
        p = expit(rows @ point)
        return (rows.T @ (votes.weight * (votes.outcome - p)) - prior * point,
                rows.T @ (rows * (votes.weight * p * (1 - p))[:, None]) + np.diag(prior) + shift)

    return newton(derivatives, size, f'Bradley–Terry with {size - n} covariates')


def newton(derivatives: Callable[[Floats], tuple[Floats, Floats]], size: int, what: str,
           ) -> tuple[Floats, Floats, int]:
    """
    Return the maximum, minus the second derivative near it, and the number of steps.

    ``derivatives`` returns the slope (size,) and minus the second derivative at a point.
    """
    point = np.zeros(size)
    for count in range(1, ROUNDS + 1):
        slope, matrix = derivatives(point)
        step = np.linalg.solve(matrix, slope)
        largest = float(np.abs(step).max())
        point = point + step * min(1.0, 2.0 / max(largest, 1e-300))
        if largest < CLOSE:
            return point, matrix, count
    raise NotConverged(f'{what} still changed by {largest:.1e} after {ROUNDS} steps; '
                       'leave out what decides verdicts alone')


def plackett_luce(rankings: Sequence[Sequence[str]], items: Sequence[str] | None = None) -> Fit:
    """
    Fit rankings, each from best to worst, of at least two policies; not all need be in each.

    ``items`` are the names in the order of the abilities (default: sorted).

    :raises RankingError: no ranking, a name twice in one, or an unknown name.
    :raises NotConverged: Newton's steps do not end.
    """
    names = list(items) if items is not None else sorted({name for row in rankings
                                                          for name in row})
    place = {name: k for k, name in enumerate(names)}
    unknown = sorted({name for row in rankings for name in row if name not in place})
    bad = [k for k, row in enumerate(rankings) if len(row) < 2 or len(set(row)) < len(row)]
    if unknown or bad or not rankings:
        raise RankingError('rankings need two or more different names each; ' + (
            f"unknown: {', '.join(unknown)}" if unknown else
            f'ranking {bad[0]} is {list(rankings[bad[0]])}' if bad else 'found none'))
    below, best = _stages(rankings, place)
    counts = _chained(rankings, names, place)
    ridge = 0.0 if is_connected(counts) else PRIOR_L2
    warnings = () if not ridge else (
        f'no finite maximum between {listed(groups(counts, beaten=True))}; held by a prior',)
    n = len(names)
    wins = np.bincount(best, minlength=n)

    def derivatives(theta: Floats) -> tuple[Floats, Floats]:
        share = below * np.exp(theta - theta.max())
        share /= share.sum(axis=1, keepdims=True)
        placed = share.sum(axis=0)
        return (wins - placed - ridge * theta,
                np.diag(placed) - share.T @ share + ridge * np.eye(n) + 1 / n)

    theta, matrix, steps = newton(derivatives, n, f'Plackett–Luce on {n} policies')
    theta -= theta.mean()
    centre = np.eye(n) - 1 / n
    value = float((theta[best] - np.log(below @ np.exp(theta))).sum())
    return Fit(theta, expected_share(theta), Diagnostics(True, steps, value, warnings, {
        'rankings': len(rankings), 'items': names}), centre @ np.linalg.inv(matrix) @ centre,
        np.full(n, ridge))


def _stages(rankings: Sequence[Sequence[str]], place: dict[str, int],
            ) -> tuple[Floats, np.ndarray]:
    """Return (S, n) who is still to be placed at every place of every ranking, and (S,) who is."""
    stages, best = [], []
    for row in rankings:
        order = [place[name] for name in row]
        for k in range(len(order) - 1):
            left = np.zeros(len(place))
            left[order[k:]] = 1.0
            stages.append(left)
            best.append(order[k])
    return np.array(stages), np.array(best)


def _chained(rankings: Sequence[Sequence[str]], names: list[str], place: dict[str, int],
             ) -> PairCounts:
    """Return who was ranked next above whom, as pairs."""
    n = len(names)
    table = np.zeros((n, n))
    for row in rankings:
        order = [place[name] for name in row]
        np.add.at(table, (order[:-1], order[1:]), 1.0)
    low, high = np.nonzero(np.triu(table + table.T, 1))
    return PairCounts(tuple(names), low, high, table[low, high], table[high, low],
                      np.zeros(len(low)))
