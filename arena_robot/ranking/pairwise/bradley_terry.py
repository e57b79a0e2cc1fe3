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

import numpy as np
from scipy.special import expit, log_expit

from arena_robot.ranking.base import Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    ascend,
    is_connected,
    scatter,
    solve_laplacian,
)
from arena_robot.ranking.pairwise.prior import Moments, PairMethod

CERTAIN = 30.0    # σ(30) is 1 within 1e-13


class BradleyTerry(PairMethod):
    """
    The method; ``l2`` is λ, see :class:`PairMethod`.

    It assumes one ability for each policy, that a tie is half a win, and pairs that were not
    chosen by earlier verdicts. Verdicts may depend on each other within a cluster.
    """

    def is_finite(self, counts: PairCounts) -> bool:
        """Tell whether everyone is reached from everyone by wins and ties."""
        return is_connected(counts)

    def maximum(self, counts: PairCounts, l2: float, warnings: tuple[str, ...] = ()) -> Fit:
        """Return the maximum of ℓ, which must be finite."""
        wins, total = counts.wins + counts.ties / 2, counts.total

        def step(theta: Floats) -> Floats:
            p = expit(theta[counts.low] - theta[counts.high])
            slope = scatter(counts, wins - total * p) - l2 * theta
            return solve_laplacian(counts, total * p * (1 - p), slope, l2)

        theta, steps = ascend(np.zeros(counts.n), lambda x: log_likelihood(x, counts, l2), step,
                              f'Bradley–Terry on {counts.n} policies')
        theta = theta - theta.mean()
        if np.ptp(theta) > CERTAIN:
            warnings = (*warnings, f'abilities differ by more than {CERTAIN:g}: '
                        'some groups won every match')
        return Fit(theta, expected_share(theta), Diagnostics(
            True, steps, log_likelihood(theta, counts, 0.0), warnings,
            {'sufficient_counts': 2 * len(counts.low), 'l2': l2}))

    def moments(self, fit: Fit) -> Moments:
        """Return mean and variance of an outcome by the difference of abilities."""
        def of(d: Floats) -> tuple[Floats, Floats]:
            p = expit(d)
            return p, p * (1 - p)
        return of

    def share(self, fit: Fit, theta: Floats) -> Floats:
        """Return (n,) the probability to beat another policy of the pool."""
        return expected_share(theta)


def log_likelihood(theta: Floats, counts: PairCounts, l2: float = 0.0) -> float:
    """Return ℓ(θ) in nats, minus the penalty."""
    d = theta[counts.low] - theta[counts.high]
    wins, losses = counts.wins + counts.ties / 2, counts.losses + counts.ties / 2
    ahead = log_expit(d)    # that of -d is less by d
    return float(wins @ ahead + losses @ (ahead - d) - l2 / 2 * theta @ theta)


def expected_share(theta: Floats) -> Floats:
    """Return (n,) the probability of each to beat another policy drawn uniformly from the pool."""
    n = len(theta)
    if n < 2:
        return np.full(n, np.nan)
    return np.asarray((expit(theta[:, None] - theta[None, :]).sum(axis=1) - 0.5) / (n - 1))
