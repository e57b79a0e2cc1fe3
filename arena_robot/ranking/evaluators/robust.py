"""
Bradley–Terry in which no evaluator and no institution can push a policy far.

The part of evaluator e in what is said of policy i is the surplus g_ei = Σ ±w (y - p) over the
evaluator's verdicts on i, with variance v_ei = Σ w p (1 - p) if the evaluator votes as the others
do. Where z = g / √(v + ½) is beyond ±1.5 (the ½ keeps a single surprising verdict), those verdicts
get the weight 1.5 / |z|, so that the part is held at 1.5 standard errors, whatever the number of
verdicts; a verdict takes the smaller weight of its two policies. The same is then done for
institutions, where there are at least 3, so that many accounts of one institution count no more
than one. Weights and abilities are computed in turn until they agree. Honest evaluators are rarely
beyond 1.5, so that nearly nothing is lost where nobody cheats.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Fit, Floats, Ints
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry

ROUNDS = 200
TOLERANCE = 1e-6
LEAST_GROUPS = 3


@dataclass(frozen=True)
class RobustBradleyTerry:
    """The method: ``limit`` is the largest standardised part of one evaluator in one policy."""

    limit: float = 1.5

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit; ``details['weight']`` is the mean weight of each evaluator's verdicts.

        Verdicts of unknown evaluators all count.

        :raises RankingError: there are no comparisons, or the limit is not positive.
        """
        if not self.limit > 0:
            raise RankingError(f'bt_robust needs limit > 0; got {self.limit}')
        fit, weight, rounds = fit_robust(comparisons, self.limit)
        people = len(comparisons.evaluators)
        count = np.bincount(comparisons.evaluator, minlength=people)
        mean = np.bincount(comparisons.evaluator, weight, minlength=people) / np.maximum(count, 1)
        told = fit.diagnostics
        warnings = told.warnings if rounds < ROUNDS else (
            *told.warnings, 'weights and abilities do not settle; the last ones are used')
        return replace(fit, covariance=None, diagnostics=replace(
            told, iterations=rounds, converged=rounds < ROUNDS, warnings=warnings, details={
                **told.details, 'limit': self.limit,
                'weight': dict(zip(comparisons.evaluators, mean.tolist(), strict=True))}))


def fit_robust(votes: Comparisons, limit: float = 1.5, *, start: Floats | None = None,
               tolerance: float = TOLERANCE) -> tuple[Fit, Floats, int]:
    """
    Return the fit, the factor (M,) of each verdict's weight, and the number of rounds.

    ``start`` (M,) are factors to begin with; it ends when none changes by ``tolerance``.

    :raises RankingError: there are no comparisons.
    """
    plain = BradleyTerry()
    weight, step, change = np.ones(len(votes)) if start is None else start, 1.0, np.inf
    fit = plain(votes.reweighted(votes.weight * weight))
    for rounds in range(1, ROUNDS + 1):
        new = verdict_weights(votes, fit.scores, limit)
        before, change = change, float(np.max(np.abs(new - weight), initial=0.0))
        # Weights that oscillate get smaller steps.
        step = step * 0.7 if change > 0.9 * before else step
        weight = weight + step * (new - weight)
        fit = plain(votes.reweighted(votes.weight * weight))
        if change < tolerance:
            return fit, weight, rounds
    return fit, weight, ROUNDS


def verdict_weights(votes: Comparisons, theta: Floats, limit: float) -> Floats:
    """Return (M,) the factor of each verdict's weight at the abilities ``theta``."""
    everybody = np.array([bool(name) for name in votes.evaluators])[votes.evaluator]
    weight = np.where(everybody, _bounded(votes, theta, votes.evaluator, limit,
                                           np.ones(len(votes))), 1.0)
    places = np.array([bool(name) for name in votes.institutions])[votes.institution]
    if len(np.unique(votes.institution[places])) >= LEAST_GROUPS:
        bounded = _bounded(votes, theta, votes.institution, limit, weight)
        weight = weight * np.where(places, bounded, 1.0)
    return np.asarray(weight)


def parts(votes: Comparisons, theta: Floats, group: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """Return surplus g (G, n) and variance v (G, n) of each group's part in each policy."""
    p = expit(theta[votes.first] - theta[votes.second])
    w = votes.weight * weight
    slope, bend = w * (votes.outcome - p), w * p * (1 - p)
    size = (int(group.max(initial=0)) + 1) * votes.n
    one, two = group * votes.n + votes.first, group * votes.n + votes.second
    g = np.bincount(one, slope, minlength=size) - np.bincount(two, slope, minlength=size)
    v = np.bincount(one, bend, minlength=size) + np.bincount(two, bend, minlength=size)
    return (np.asarray(g, float).reshape(-1, votes.n), np.asarray(v, float).reshape(-1, votes.n))


def standardised(g: Floats, v: Floats) -> Floats:
    """Return z of parts ``g`` with variance ``v``."""
    return np.asarray(g / np.sqrt(v + 0.5))


def _bounded(votes: Comparisons, theta: Floats, group: Ints, limit: float,
             weight: Floats) -> Floats:
    g, v = parts(votes, theta, group, weight)
    factor = limit / np.maximum(np.abs(standardised(g, v)), limit)
    return np.asarray(np.minimum(factor[group, votes.first], factor[group, votes.second]))
