"""
Davidson: Bradley–Terry with a tie probability, at the exact maximum of the likelihood.

Model (Davidson 1970), with d = θ_i - θ_j and a tie parameter κ > 0:

    P(i wins) = e^{d/2} / Z,  P(tie) = κ / Z,  P(j wins) = e^{-d/2} / Z,
    Z = e^{d/2} + κ + e^{-d/2}

It is an exponential family in (θ, log κ), so ℓ is concave and Newton finds its one maximum. With
a ∈ {1, ½, 0} the outcome, s = P(i wins) + P(tie)/2 and t = P(tie):

    ∂ℓ/∂d = Σ a - s              -∂²ℓ/∂d²      = P(i wins) + t/4 - s²
    ∂ℓ/∂log κ = Σ [tie] - t      -∂²ℓ/∂(log κ)² = t (1 - t)
                                 -∂²ℓ/∂d ∂log κ = t (½ - s)

Without a single tie κ is 0 and the model is Bradley–Terry; with nothing but ties κ is infinite,
all abilities are equal, and the fit raises an error.
"""

from dataclasses import dataclass

import numpy as np

from arena_robot.core.errors import NotConverged, RankingError
from arena_robot.ranking import bradley_terry
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    count_pairs,
    require_connected,
    require_finite,
    shrunk_warnings,
    vote_warnings,
)
from arena_robot.ranking.davidson_existence import has_finite_maximum
from arena_robot.ranking.laplacian import (
    centred_covariance,
    climb,
    dense_laplacian,
    scatter,
    solve_laplacian,
)

TOLERANCE = 1e-10
MAX_ITERATIONS = 100


@dataclass(frozen=True)
class Davidson:
    """The method: ``l2`` is the ridge λ on the abilities; 0 is the exact maximum likelihood."""

    l2: float = 0.0

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit comparisons; ``diagnostics.details['kappa']`` is κ.

        :raises RankingError: they cannot order the policies, have no finite maximum, or all tie.
        :raises NotConverged: Newton did not converge.
        """
        return fit_counts(count_pairs(comparisons), self.l2, vote_warnings(comparisons))


def fit_counts(counts: PairCounts, l2: float = 0.0, warnings: tuple[str, ...] = ()) -> Fit:
    """Fit sufficient counts; see :class:`Davidson`."""
    ties, total = float(counts.ties.sum()), float(counts.total.sum())
    if ties == 0:
        fit = bradley_terry.fit_counts(counts, l2, (*warnings, 'no ties: kappa is 0'))
        return Fit(fit.scores, fit.solve, _told(fit.diagnostics, counts, 0.0), fit.covariance)
    if l2 > 0:
        require_connected(counts)
        warnings = (*warnings, *shrunk_warnings(counts))
    else:
        require_finite(counts)
    if ties < total and l2 == 0 and not has_finite_maximum(counts):
        raise RankingError('no finite maximum: wins and ties let abilities and kappa grow '
                           'together; use l2 > 0, or collect more comparisons')
    if ties == total:
        raise RankingError(f'all {total:g} verdicts are ties, so the policies cannot be '
                           'ordered; collect comparisons with a preference')
    point = np.append(np.zeros(counts.n), np.log(2 * ties / (total - ties)))
    value = log_likelihood(point, counts, l2)
    iteration, size = 0, np.inf
    while size >= TOLERANCE:
        iteration += 1
        step = newton_step(point, counts, l2)
        point, value, size = climb(point, step, value, lambda x: log_likelihood(x, counts, l2))
        if iteration == MAX_ITERATIONS and size >= TOLERANCE:
            raise NotConverged(f'Davidson on {counts.n} policies still changed by {size:.2e} '
                               f'after {iteration} Newton steps; use l2 > 0')
    theta, kappa = point[:-1] - point[:-1].mean(), float(np.exp(point[-1]))
    told = _told(Diagnostics(True, iteration, log_likelihood(point, counts, 0.0), warnings),
                 counts, kappa)
    return Fit(theta, expected_share(theta, kappa), told, _covariance(point, counts, l2))


def outcome_probabilities(d: Floats, kappa: Floats | float) -> tuple[Floats, Floats, Floats]:
    """Return P(win), P(tie), P(loss) for ability differences ``d``, without overflow."""
    far = np.abs(d)
    small, middle = np.exp(-far), kappa * np.exp(-far / 2)
    z = 1 + middle + small
    ahead, behind = 1 / z, small / z
    return np.where(d >= 0, ahead, behind), middle / z, np.where(d >= 0, behind, ahead)


def log_likelihood(point: Floats, counts: PairCounts, l2: float = 0.0) -> float:
    """Return ℓ at ``point`` = (θ, log κ) in nats, minus the penalty."""
    theta, log_kappa = point[:-1], point[-1]
    d = theta[counts.low] - theta[counts.high]
    far = np.abs(d)
    log_z = far / 2 + np.log1p(np.exp(log_kappa - far / 2) + np.exp(-far))
    return float((counts.wins - counts.losses) @ d / 2 + log_kappa * counts.ties.sum()
                 - counts.total @ log_z - l2 / 2 * theta @ theta)


def gradient(point: Floats, counts: PairCounts, l2: float = 0.0) -> Floats:
    """Return (n+1,) the derivative of ℓ by (θ, log κ)."""
    share, tie = _chances(point, counts)
    surplus = counts.wins + counts.ties / 2 - counts.total * share
    return np.append(scatter(counts, surplus) - l2 * point[:-1],
                     counts.ties.sum() - counts.total @ tie)


def _chances(point: Floats, counts: PairCounts) -> tuple[Floats, Floats]:
    """Return per pair (P,) the lower index's expected outcome, a tie counting half, and P(tie)."""
    theta = point[:-1]
    win, tie, _ = outcome_probabilities(theta[counts.low] - theta[counts.high],
                                        float(np.exp(point[-1])))
    return win + tie / 2, tie


def _curvature(point: Floats, counts: PairCounts) -> tuple[Floats, Floats, float]:
    share, tie = _chances(point, counts)
    total = counts.total
    return (total * (share - tie / 4 - share ** 2), scatter(counts, total * tie * (0.5 - share)),
            float(total @ (tie * (1 - tie))))


def information(point: Floats, counts: PairCounts, l2: float = 0.0) -> Floats:
    """Return (n+1, n+1) minus the second derivative of ℓ by (θ, log κ)."""
    weight, border, corner = _curvature(point, counts)
    block = dense_laplacian(counts, weight) + l2 * np.eye(counts.n)
    return np.block([[block, border[:, None]], [border[None, :], np.array([[corner]])]])


def newton_step(point: Floats, counts: PairCounts, l2: float) -> Floats:
    """Return the Newton step in (θ, log κ), the abilities eliminated through their Laplacian."""
    weight, border, corner = _curvature(point, counts)
    slope = gradient(point, counts, l2)
    ahead, across = solve_laplacian(counts, weight, np.column_stack([slope[:-1], border]), l2).T
    last = (slope[-1] - border @ ahead) / (corner - border @ across)
    return np.append(ahead - across * last, last)


def _covariance(point: Floats, counts: PairCounts, l2: float) -> Floats | None:
    weight, border, corner = _curvature(point, counts)
    inverse = centred_covariance(counts, weight, l2)
    if inverse is None:
        return None
    across = inverse @ border
    return np.asarray(inverse + np.outer(across, across) / (corner - border @ across))


def _told(base: Diagnostics, counts: PairCounts, kappa: float) -> Diagnostics:
    details = {'kappa': kappa, 'sufficient_counts': counts.sufficient,
               'saturated_log_likelihood': counts.saturated()}
    return Diagnostics(base.converged, base.iterations, base.log_likelihood, base.warnings,
                       details)


def expected_share(theta: Floats, kappa: float) -> Floats:
    """Return (n,) the probability to beat another policy of the pool, a tie counting half."""
    n = len(theta)
    if n < 2:
        return np.full(n, np.nan)
    win, tie, _ = outcome_probabilities(theta[:, None] - theta[None, :], kappa)
    own = win + tie / 2
    np.fill_diagonal(own, 0.0)
    return np.asarray(own.sum(axis=1) / (n - 1))
