"""
Methods on pair counts, and the prior where their likelihood has no finite maximum.

A policy that won everything has an infinite maximum-likelihood ability. Then one weakly
informative prior is used: every ability is normal with a standard deviation of 2 log-odds about
the average, a ridge of λ = 1/4 comparisons (and log κ of Davidson likewise, about 0). Where the
data have a finite maximum the prior is not used at all. Verdicts of a pair that weigh less than
the prior, such as old ones, do not make a maximum finite.

Scores are relative to the mean of the *established* policies: those with at least 10 comparisons,
or all where fewer than two have so many. If the established policies alone have a finite maximum
they keep exactly that, and the others are placed beside them by the prior: a newcomer with one
verdict moves nobody.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Comparisons, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    count_pairs,
    groups,
    labels,
    listed,
    named,
    require_comparisons,
    require_connected,
    require_finite,
    shrunk_warnings,
    vote_warnings,
)

PRIOR_L2 = 0.25    # 1 / 2², for a standard deviation of 2
ESTABLISHED = 10.0
NEVER_COMPARED = 'never compared with each other: {}; their order is not known'
Moments = Callable[[Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class PairMethod(ABC):
    """
    A ranking method whose likelihood needs the pair counts alone; ``l2`` is its ridge λ.

    None is the exact maximum where it is finite, else the prior; 0 is the exact maximum or an
    error. The unit of λ is comparisons.
    """

    l2: float | None = None

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit comparisons.

        :raises RankingError: there are none, or with ``l2`` they cannot order the policies.
        :raises NotConverged: Newton did not converge.
        """
        counts, warnings = count_pairs(comparisons), vote_warnings(comparisons)
        if self.l2 is None:
            return fit_with_prior(counts, self, warnings)
        return self.fit_counts(counts, self.l2, warnings)

    def fit_counts(self, counts: PairCounts, l2: float = 0.0, warnings: tuple[str, ...] = (),
                   ) -> Fit:
        """Fit counts with the ridge ``l2``; without one the maximum must be finite."""
        self.require(counts, l2)
        return self.maximum(counts, l2, (*warnings, *shrunk_warnings(counts)) if l2 > 0
                            else warnings)

    def require(self, counts: PairCounts, l2: float) -> None:
        """Raise RankingError for comparisons that cannot order the policies."""
        if l2 > 0:
            require_connected(counts)
        else:
            require_finite(counts)

    @abstractmethod
    def is_finite(self, counts: PairCounts) -> bool:
        """Tell whether the likelihood of connected ``counts`` has a finite maximum."""

    @abstractmethod
    def maximum(self, counts: PairCounts, l2: float, warnings: tuple[str, ...] = ()) -> Fit:
        """Return the maximum with a ridge, or without one where it is finite."""

    @abstractmethod
    def moments(self, fit: Fit) -> Moments:
        """Return mean and variance of an outcome as a function of the difference of abilities."""

    @abstractmethod
    def share(self, fit: Fit, theta: Floats) -> Floats:
        """Return (n,) the probability of each to beat another policy of the pool."""


def established(counts: PairCounts) -> np.ndarray:
    """Return (n,) which policies the scores are relative to."""
    total = (np.bincount(counts.low, counts.total, minlength=counts.n)
             + np.bincount(counts.high, counts.total, minlength=counts.n))
    enough = total >= ESTABLISHED
    return np.asarray(enough if enough.sum() >= 2 else np.ones(counts.n, bool))


def strong(counts: PairCounts) -> PairCounts:
    """Return the counts without verdicts whose weight, per pair, is below that of the prior."""
    wins, losses, ties = (np.where(count >= PRIOR_L2, count, 0.0)
                          for count in (counts.wins, counts.losses, counts.ties))
    return replace(counts, wins=wins, losses=losses, ties=ties)


def fit_with_prior(counts: PairCounts, method: PairMethod, warnings: tuple[str, ...] = ()) -> Fit:
    """
    Fit ``counts``: at the maximum where it is finite, else with the prior.

    ``Fit.ridge`` (n,) tells for which policies the prior was used.

    :raises RankingError: fewer than two policies, or no comparison.
    """
    require_comparisons(counts)
    anchor = established(counts)
    if method.is_finite(strong(counts)):
        fit, ridge = method.maximum(counts, 0.0), np.zeros(counts.n)
    else:
        fit, ridge = _prior_fit(counts, method, anchor)
        warnings = (*warnings, *_prior_warnings(strong(counts)))
    shift = float(fit.scores[anchor].mean())
    details = {**fit.diagnostics.details, 'prior': bool(ridge.any()),
               'anchor': [counts.items[k] for k in np.flatnonzero(anchor)]}
    diagnostics = replace(fit.diagnostics, details=details,
                          warnings=(*warnings, *fit.diagnostics.warnings))
    return replace(fit, scores=fit.scores - shift, diagnostics=diagnostics, ridge=ridge,
                   anchor=anchor)


def _prior_fit(counts: PairCounts, method: PairMethod, anchor: np.ndarray) -> tuple[Fit, Floats]:
    inner = _between(counts, anchor)
    bound = strong(inner)
    if not anchor.all() and len(set(labels(bound, beaten=False))) == 1 \
            and method.is_finite(bound):
        fit = method.maximum(inner, 0.0)
        theta = np.zeros(counts.n)
        theta[anchor] = fit.scores - fit.scores.mean()
        theta = _placed(counts, ~anchor, theta, method.moments(fit))
        return (replace(fit, scores=theta, solve=method.share(fit, theta)),
                np.where(anchor, 0.0, PRIOR_L2))
    return method.maximum(counts, PRIOR_L2), np.full(counts.n, PRIOR_L2)


def _between(counts: PairCounts, kept: np.ndarray) -> PairCounts:
    """Return the counts between the policies of a mask."""
    place = np.cumsum(kept) - 1
    rows = kept[counts.low] & kept[counts.high]
    return PairCounts(tuple(np.array(counts.items, dtype=object)[kept]), place[counts.low[rows]],
                      place[counts.high[rows]], counts.wins[rows], counts.losses[rows],
                      counts.ties[rows])


def _placed(counts: PairCounts, free: np.ndarray, theta: Floats, moments: Moments) -> Floats:
    """Return the abilities with those of the ``free`` policies fitted, the others fixed."""
    place, k = np.cumsum(free) - 1, int(free.sum())
    rows = free[counts.low] | free[counts.high]
    low, high, total = counts.low[rows], counts.high[rows], counts.total[rows]
    wins, both = (counts.wins + counts.ties / 2)[rows], free[low] & free[high]
    for _ in range(100):
        mean, variance = moments(theta[low] - theta[high])
        surplus, weight = wins - total * mean, total * variance
        slope = (np.bincount(low, surplus, minlength=counts.n)
                 - np.bincount(high, surplus, minlength=counts.n) - PRIOR_L2 * theta)[free]
        degree = (np.bincount(low, weight, minlength=counts.n)
                  + np.bincount(high, weight, minlength=counts.n) + PRIOR_L2)[free]
        matrix = np.diag(degree)
        np.add.at(matrix, (place[low[both]], place[high[both]]), -weight[both])
        np.add.at(matrix, (place[high[both]], place[low[both]]), -weight[both])
        step = np.clip(np.linalg.solve(matrix, slope), -1.0, 1.0)
        theta = theta.copy()
        theta[free] += step
        if float(np.abs(step).max()) < 1e-10:
            return theta
    raise NotConverged(f'placing {k} policies beside the established ones did not converge')


def one_sided(counts: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """
    Return (n,) which policies the data do not bound from above, and which not from below.

    Both where a policy was never compared with the others. The bounds are against the largest
    group in which everyone is reached from everyone by wins and ties; without such a group only
    policies that never lost, or never won, have one bound, and all others have none.
    """
    counts = strong(counts)
    label = labels(counts, beaten=True)
    core = int(np.bincount(label).argmax())
    inside = label == core
    if inside.sum() < 2:
        lost, won = _ever(counts)
        return ~lost | (lost & won), ~won | (lost & won)
    return ~_reached(counts, inside, upward=True), ~_reached(counts, inside, upward=False)


def _ever(counts: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) who ever lost or tied, and who ever won or tied."""
    up, down = counts.wins + counts.ties, counts.losses + counts.ties
    lost = (np.bincount(counts.low, down, minlength=counts.n)
            + np.bincount(counts.high, up, minlength=counts.n)) > 0
    won = (np.bincount(counts.low, up, minlength=counts.n)
           + np.bincount(counts.high, down, minlength=counts.n)) > 0
    return lost, won


def _reached(counts: PairCounts, inside: np.ndarray, upward: bool) -> np.ndarray:
    """Return who lost to (``upward``), or won against, the group by a chain of verdicts."""
    up, down = counts.wins + counts.ties > 0, counts.losses + counts.ties > 0
    better = np.r_[counts.low[up], counts.high[down]]
    worse = np.r_[counts.high[up], counts.low[down]]
    source, goal = (better, worse) if upward else (worse, better)
    reached: np.ndarray = inside.copy()
    while True:
        new: np.ndarray = reached.copy()
        new[goal[reached[source]]] = True
        if (new == reached).all():
            return new
        reached = new


def _prior_warnings(counts: PairCounts) -> tuple[str, ...]:
    lost, won = _ever(counts)
    said = [f'{named([counts.items[k] for k in np.flatnonzero(which)])}: {what} so far; the score '
            'is held by a prior and has no bound on that side'
            for which, what in ((won & ~lost, 'won every comparison'),
                                (lost & ~won, 'lost every comparison')) if which.any()]
    apart = groups(counts)
    if len(apart) > 1:
        said.append(NEVER_COMPARED.format(listed(apart)))
    elif not said:
        said.append('the verdicts have no finite maximum of the likelihood; scores are held by a '
                    'prior')
    return tuple(said)
