"""
Bradley–Terry: the exact maximum of the likelihood by damped Newton on sufficient counts.

Model (Bradley and Terry 1952): P(i beats j) = σ(θ_i - θ_j). A tie is half a win for each; the
order of the two policies does not matter. With w_ij the wins of i over j (ties ½) and n_ij = w_ij
+ w_ji,

    ℓ(θ)      = Σ_pairs w_ij log σ(θ_i - θ_j) + w_ji log σ(θ_j - θ_i) - λ/2 Σ θ²
    ∂ℓ/∂θ_i   = Σ_j (w_ij - n_ij p_ij) - λ θ_i
    -∂²ℓ      = Laplacian of the weights n_ij p_ij (1 - p_ij), + λ I

ℓ is concave, and its maximum is finite and unique when everyone is reached from everyone by wins
and ties (Ford 1957); otherwise a prior keeps them finite (:mod:`.prior`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    centred_covariance,
    climb,
    count_pairs,
    is_connected,
    require_connected,
    require_finite,
    scatter,
    shrunk_warnings,
    solve_laplacian,
    vote_warnings,
)
from arena_robot.ranking.pairwise.prior import Moments, fit_held

TOLERANCE = 1e-10
MAX_ITERATIONS = 100
CERTAIN = 30.0


@dataclass(frozen=True)
class BradleyTerry:
    """
    The method: ``l2`` is λ, in units of comparisons.

    None is the exact maximum likelihood where it is finite, else the prior of :mod:`.prior`; 0 is
    the exact maximum or an error.
    """

    l2: float | None = None

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit comparisons.

        :raises RankingError: there are none, or with ``l2`` they cannot order the policies.
        :raises NotConverged: Newton did not converge.
        """
        counts, told = count_pairs(comparisons), vote_warnings(comparisons)
        if self.l2 is None:
            return fit_held(counts, BradleyTerryLikelihood(), told)
        return fit_counts(counts, self.l2, told)


class BradleyTerryLikelihood:
    """The likelihood, as :mod:`.prior` needs it."""

    def is_finite(self, counts: PairCounts) -> bool:
        """Tell whether everyone is reached from everyone by wins and ties."""
        return is_connected(counts)

    def fit(self, counts: PairCounts, l2: float) -> Fit:
        """Return the maximum with a ridge, or the exact one."""
        return maximum(counts, l2)

    def moments(self, fit: Fit) -> Moments:
        """Return mean and variance of an outcome by the difference of abilities."""
        def of(d: Floats) -> tuple[Floats, Floats]:
            p = expit(d)
            return p, p * (1 - p)
        return of

    def share(self, fit: Fit, theta: Floats) -> Floats:
        """Return (n,) the probability to beat another policy of the pool."""
        return expected_share(theta)


def fit_counts(counts: PairCounts, l2: float = 0.0, warnings: tuple[str, ...] = ()) -> Fit:
    """Fit sufficient counts with the ridge ``l2``; without one the maximum must be finite."""
    if l2 > 0:
        require_connected(counts)
        warnings = (*warnings, *shrunk_warnings(counts))
    else:
        require_finite(counts)
    return maximum(counts, l2, warnings)


def maximum(counts: PairCounts, l2: float, warnings: tuple[str, ...] = ()) -> Fit:
    """Return the maximum of ℓ, which must be finite; see :func:`fit_counts`."""
    wins, total = counts.wins + counts.ties / 2, counts.total
    theta = np.zeros(counts.n)
    value = log_likelihood(theta, counts, l2)
    iteration, size = 0, np.inf
    while size >= TOLERANCE:
        iteration += 1
        p = expit(theta[counts.low] - theta[counts.high])
        gradient = scatter(counts, wins - total * p) - l2 * theta
        step = solve_laplacian(counts, total * p * (1 - p), gradient, l2)
        theta, value, size = climb(theta, step, value, lambda t: log_likelihood(t, counts, l2))
        if iteration == MAX_ITERATIONS and size >= TOLERANCE:
            raise NotConverged(f'Bradley–Terry on {counts.n} policies still changed by {size:.2e} '
                               f'after {iteration} Newton steps; use l2 > 0')
    theta = theta - theta.mean()
    p = expit(theta[counts.low] - theta[counts.high])
    covariance = centred_covariance(counts, total * p * (1 - p), l2)
    if np.ptp(theta) > CERTAIN:
        warnings = (*warnings, 'abilities differ by more than 30: some groups won every match')
    return Fit(theta, expected_share(theta), Diagnostics(
        True, iteration, log_likelihood(theta, counts, 0.0), warnings,
        {'sufficient_counts': 2 * len(counts.low), 'l2': l2}), covariance)


def log_likelihood(theta: Floats, counts: PairCounts, l2: float = 0.0) -> float:
    """Return ℓ(θ) in nats, minus the penalty."""
    d = theta[counts.low] - theta[counts.high]
    wins, losses = counts.wins + counts.ties / 2, counts.losses + counts.ties / 2
    return float(wins @ log_expit(d) + losses @ log_expit(-d) - l2 / 2 * theta @ theta)


def expected_share(theta: Floats) -> Floats:
    """Return (n,) the probability of each to beat another policy drawn uniformly from the pool."""
    n = len(theta)
    if n < 2:
        return np.full(n, np.nan)
    return np.asarray((expit(theta[:, None] - theta[None, :]).sum(axis=1) - 0.5) / (n - 1))
