"""
A fit for data whose likelihood has no finite maximum: nobody is left out.

A policy that won everything has an infinite maximum-likelihood ability. Then one weakly
informative prior is used: every ability is normal with a standard deviation of 2 log-odds about
the average, a ridge of λ = 1/4 comparisons (and log κ of Davidson likewise, about 0). Where the
data have a finite maximum the prior is not used at all.

Scores are relative to the mean of the *established* policies: those with at least 10 comparisons,
or all where fewer than two have so many. If the established policies alone have a finite maximum
they keep exactly that, and the others are placed beside them by the prior: a newcomer with one
verdict moves nobody.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    groups,
    labels,
    listed,
    named,
    require_comparisons,
)

PRIOR_L2 = 0.25
ESTABLISHED = 10.0
Moments = Callable[[Floats], tuple[Floats, Floats]]


class Model(Protocol):
    """A likelihood on pair counts that can be held by the prior."""

    def is_finite(self, counts: PairCounts) -> bool:
        """Tell whether the likelihood of connected ``counts`` has a finite maximum."""

    def fit(self, counts: PairCounts, l2: float) -> Fit:
        """Return the maximum with a ridge, or without one where it is finite."""

    def moments(self, fit: Fit) -> Moments:
        """Return mean and variance of an outcome as a function of the difference of abilities."""

    def share(self, fit: Fit, theta: Floats) -> Floats:
        """Return (n,) the probability of each to beat another policy of the pool."""


def established(counts: PairCounts) -> np.ndarray:
    """Return (n,) which policies the scores are relative to."""
    total = (np.bincount(counts.low, counts.total, minlength=counts.n)
             + np.bincount(counts.high, counts.total, minlength=counts.n))
    enough = total >= ESTABLISHED
    return np.asarray(enough if enough.sum() >= 2 else np.ones(counts.n, bool))


def fit_held(counts: PairCounts, model: Model, warnings: tuple[str, ...] = ()) -> Fit:
    """
    Fit ``counts``: at the maximum where it is finite, else held by the prior.

    ``Fit.ridge`` (n,) tells for which policies the prior was used.

    :raises RankingError: fewer than two policies, or no comparison.
    """
    require_comparisons(counts)
    anchor = established(counts)
    if model.is_finite(counts):
        fit, ridge = model.fit(counts, 0.0), np.zeros(counts.n)
    else:
        fit, ridge = _held(counts, model, anchor)
        warnings = (*warnings, *_told(counts))
    shift = float(fit.scores[anchor].mean())
    told = replace(fit.diagnostics, warnings=(*warnings, *fit.diagnostics.warnings), details={
        **fit.diagnostics.details, 'prior': bool(ridge.any()),
        'anchor': [counts.items[k] for k in np.flatnonzero(anchor)]})
    return replace(fit, scores=fit.scores - shift, diagnostics=told, ridge=ridge)


def _held(counts: PairCounts, model: Model, anchor: np.ndarray) -> tuple[Fit, Floats]:
    inner = _between(counts, anchor)
    if not anchor.all() and len(set(labels(inner, beaten=False))) == 1 and model.is_finite(inner):
        fit = model.fit(inner, 0.0)
        theta = np.zeros(counts.n)
        theta[anchor] = fit.scores - fit.scores.mean()
        theta = _placed(counts, ~anchor, theta, model.moments(fit))
        return (replace(fit, scores=theta, solve=model.share(fit, theta), covariance=None),
                np.where(anchor, 0.0, PRIOR_L2))
    return model.fit(counts, PRIOR_L2), np.full(counts.n, PRIOR_L2)


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
    found: np.ndarray = inside.copy()
    while True:
        new: np.ndarray = found.copy()
        new[goal[found[source]]] = True
        if (new == found).all():
            return new
        found = new


def _told(counts: PairCounts) -> tuple[str, ...]:
    lost, won = _ever(counts)
    said = [f'{named([counts.items[k] for k in np.flatnonzero(which)])}: {what} so far; the score '
            'is held by a prior and has no bound on that side'
            for which, what in ((won & ~lost, 'won every comparison'),
                                (lost & ~won, 'lost every comparison')) if which.any()]
    apart = groups(counts)
    if len(apart) > 1:
        said.append(f'never compared with each other: {listed(apart)}; their order is not known')
    elif not said:
        said.append('the verdicts have no finite maximum of the likelihood; scores are held by a '
                    'prior')
    return tuple(said)
