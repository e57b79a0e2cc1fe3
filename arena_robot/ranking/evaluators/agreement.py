"""Whether verdicts agree, whether one order explains them, and what old ones count."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry, log_likelihood


def agreement_alpha(comparisons: Comparisons) -> float:
    """
    Return Krippendorff's alpha of the evaluators about pairs of policies; NaN where unknown.

    A unit is a pair of policies, a rating the mean verdict of one evaluator on it (1 for one
    policy, 0 for the other, ½ for a tie), the distance that of interval data. 1: all evaluators
    agree on every pair; 0: they agree no more than ratings that are exchanged between pairs.
    Every pair counts in both directions, so that the names of the policies do not matter.
    """
    votes = comparisons.take(comparisons.weight > 0)
    low = np.minimum(votes.first, votes.second)
    pair = low * votes.n + np.maximum(votes.first, votes.second)
    y = np.where(votes.first == low, votes.outcome, 1 - votes.outcome)
    cells, place = np.unique(pair * len(votes.evaluators) + votes.evaluator, return_inverse=True)
    weight = np.bincount(place, votes.weight)
    rating = np.bincount(place, votes.weight * y) / weight
    unit = np.unique(cells // len(votes.evaluators), return_inverse=True)[1]
    several = (np.bincount(unit) >= 2)[unit]
    rating, unit = rating[several], np.unique(unit[several], return_inverse=True)[1]
    if not len(rating):
        return float('nan')
    count = np.bincount(unit)
    mean = np.bincount(unit, rating) / count
    within = float(2 * (np.bincount(unit, (rating - mean[unit]) ** 2) * count / (count - 1)).sum())
    total = len(rating)
    spread = float((total * 2) / (total * 2 - 1) * 2 * ((rating - 0.5) ** 2).sum())
    return 1 - within / spread if spread > 0 else float('nan')


@dataclass(frozen=True)
class Intransitivity:
    """
    How far the verdicts are from one order.

    ``cycles`` are triples of names of which each beats the next more often than not, ``triples``
    how many triples have three decided pairs. ``deviance`` is by how much the observed shares of
    the pairs fit better than Bradley–Terry, twice the nats, with ``freedom`` more parameters;
    ``p_value`` how often so much or more happens by chance where there is one ability.
    """

    cycles: tuple[tuple[str, str, str], ...]
    triples: int
    deviance: float
    freedom: int
    p_value: float


def intransitivity(comparisons: Comparisons) -> Intransitivity:
    """
    Return cycles of majorities, and whether one ability per policy explains the verdicts.

    A tie is half a win for each; the p-value is that of χ², good with some 5 verdicts per pair.

    :raises RankingError: the comparisons cannot order the policies.
    """
    counts = count_pairs(comparisons)
    fit = BradleyTerry()(comparisons)
    n, ahead = counts.n, np.zeros((counts.n, counts.n))
    ahead[counts.low, counts.high] = counts.wins - counts.losses
    ahead -= ahead.T
    cycles, triples = [], 0
    for a, b, c in combinations(range(n), 3):
        signs = np.sign([ahead[a, b], ahead[b, c], ahead[c, a]])
        triples += bool(np.all(signs != 0))
        if abs(signs.sum()) == 3:
            turned = (a, b, c) if signs[0] > 0 else (a, c, b)
            cycles.append((counts.items[turned[0]], counts.items[turned[1]],
                           counts.items[turned[2]]))
    wins, total = counts.wins + counts.ties / 2, counts.total
    p = wins / total
    best = float((wins * np.log(np.where(p > 0, p, 1.0))
                  + (total - wins) * np.log(np.where(p < 1, 1 - p, 1.0))).sum())
    deviance = max(2 * (best - log_likelihood(fit.scores, counts)), 0.0)
    freedom = len(total) - (n - 1)
    return Intransitivity(tuple(cycles), triples, deviance, freedom,
                          float(chdtrc(freedom, deviance)) if freedom > 0 else 1.0)


def decayed(comparisons: Comparisons, age: ArrayLike, half_life: float) -> Comparisons:
    """
    Return the comparisons with weights that halve every ``half_life``; ``age`` (M,) in its unit.

    :raises RankingError: ages of another number, below 0 or NaN, or a half-life not above 0.
    """
    old: Floats = np.asarray(age, dtype=float)
    if old.shape != comparisons.weight.shape or not (old >= 0).all() or not half_life > 0:
        raise RankingError(f'decay needs {len(comparisons)} ages of at least 0 and a half-life '
                           f'above 0; got {old.shape} and {half_life}')
    return comparisons.reweighted(comparisons.weight * 0.5 ** (old / half_life))
