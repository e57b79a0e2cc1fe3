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

Without a single tie κ is 0 and the model is Bradley–Terry. Where abilities or κ have no finite
maximum, also with nothing but ties, a prior keeps them finite (:mod:`.prior`). A ridge λ takes
λ/2 (Σ θ² + (log κ)²) from ℓ.

Whether there is a finite maximum is decided exactly, by a linear programme. In a direction (δ, k)
of (θ, log κ) the three predictors of a pair with D = δ_i - δ_j change by D/2 (win), k (tie) and
-D/2 (loss). The likelihood grows for ever, or stays flat, along a direction in which every outcome
that was seen changes by at least as much as the other two of its pair. A finite maximum exists
when the only such directions change all three of each pair equally, so when the programme

    max Σ slack   with 0 <= slack = (change of the seen outcome) - (change of another) <= 1

has the value 0 (Albert and Anderson 1984, for this exponential family). Policies that beat each
other in a circle have the same δ, so each such group is one variable: with enough verdicts one
group holds every policy, and no programme is solved.
"""

from dataclasses import replace

import numpy as np
import scipy  # scipy.optimize loads with the first programme
from scipy.sparse import coo_array, csr_array, vstack
from scipy.sparse.csgraph import connected_components

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Diagnostics, Fit, Floats, Ints
from arena_robot.ranking.counts import (
    PairCounts,
    ascend,
    is_connected,
    scatter,
    solve_laplacian,
)
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.prior import Moments, PairMethod

SMALLEST = 1e-7    # the feasibility tolerance of HiGHS


class Davidson(PairMethod):
    """
    The method; ``l2`` is λ on abilities and log κ; ``diagnostics.details['kappa']`` is κ.

    It assumes what Bradley–Terry does, but that ties are more likely between equals.
    """

    def require(self, counts: PairCounts, l2: float) -> None:
        """Raise RankingError for comparisons that cannot order the policies."""
        super().require(counts, l2)
        ties, total = float(counts.ties.sum()), float(counts.total.sum())
        if l2 <= 0 and 0 < ties < total and not has_finite_maximum(counts):
            raise RankingError('no finite maximum: wins and ties let abilities and kappa grow '
                               'together; leave l2 out, or collect more comparisons')
        if ties == total:
            raise RankingError(f'all {total:g} verdicts are ties, so the policies cannot be '
                               'ordered; collect comparisons with a preference')

    def is_finite(self, counts: PairCounts) -> bool:
        """Tell whether abilities and κ have a finite maximum; exact."""
        return is_connected(counts) and (not counts.ties.any() or has_finite_maximum(counts))

    def maximum(self, counts: PairCounts, l2: float, warnings: tuple[str, ...] = ()) -> Fit:
        """Return the maximum of ℓ, which must be finite."""
        ties, total = float(counts.ties.sum()), float(counts.total.sum())
        if ties == 0:
            fit = BradleyTerry().maximum(counts, l2, (*warnings, 'no ties: kappa is 0'))
            return replace(fit, diagnostics=_with_kappa(fit.diagnostics, counts, 0.0))
        first = 0.0 if ties == total else float(np.log(2 * ties / (total - ties)))
        point = np.append(np.zeros(counts.n), first)
        point, steps = ascend(point, lambda x: log_likelihood(x, counts, l2),
                              lambda x: newton_step(x, counts, l2),
                              f'Davidson on {counts.n} policies')
        theta, kappa = point[:-1] - point[:-1].mean(), float(np.exp(point[-1]))
        base = Diagnostics(True, steps, log_likelihood(point, counts, 0.0), warnings)
        return Fit(theta, expected_share(theta, kappa), _with_kappa(base, counts, kappa))

    def moments(self, fit: Fit) -> Moments:
        """Return mean and variance of an outcome by the difference of abilities."""
        kappa = float(fit.diagnostics.details['kappa'])

        def of(d: Floats) -> tuple[Floats, Floats]:
            win, tie, _ = outcome_probabilities(d, kappa)
            mean = win + tie / 2
            return mean, win + tie / 4 - mean ** 2
        return of

    def share(self, fit: Fit, theta: Floats) -> Floats:
        """Return (n,) the probability to beat another policy of the pool."""
        return expected_share(theta, float(fit.diagnostics.details['kappa']))


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
                 - counts.total @ log_z - l2 / 2 * point @ point)


def gradient(point: Floats, counts: PairCounts, l2: float = 0.0) -> Floats:
    """Return (n+1,) the derivative of ℓ by (θ, log κ)."""
    share, tie = _chances(point, counts)
    surplus = counts.wins + counts.ties / 2 - counts.total * share
    return np.append(scatter(counts, surplus) - l2 * point[:-1],
                     counts.ties.sum() - counts.total @ tie - l2 * point[-1])


def _chances(point: Floats, counts: PairCounts) -> tuple[Floats, Floats]:
    """Return per pair (P,) the lower index's expected outcome, a tie counting half, and P(tie)."""
    theta = point[:-1]
    win, tie, _ = outcome_probabilities(theta[counts.low] - theta[counts.high],
                                        float(np.exp(point[-1])))
    return win + tie / 2, tie


def _curvature(point: Floats, counts: PairCounts, l2: float) -> tuple[Floats, Floats, float]:
    share, tie = _chances(point, counts)
    total = counts.total
    return (total * (share - tie / 4 - share ** 2), scatter(counts, total * tie * (0.5 - share)),
            float(total @ (tie * (1 - tie))) + l2)


def newton_step(point: Floats, counts: PairCounts, l2: float) -> Floats:
    """Return the Newton step in (θ, log κ), the abilities eliminated through their Laplacian."""
    weight, border, corner = _curvature(point, counts, l2)
    slope = gradient(point, counts, l2)
    ahead, across = solve_laplacian(counts, weight, np.column_stack([slope[:-1], border]), l2).T
    last = (slope[-1] - border @ ahead) / (corner - border @ across)
    return np.append(ahead - across * last, last)


def _with_kappa(base: Diagnostics, counts: PairCounts, kappa: float) -> Diagnostics:
    return replace(base, details={'kappa': kappa, 'sufficient_counts': counts.sufficient,
                                  'saturated_log_likelihood': counts.saturated()})


def expected_share(theta: Floats, kappa: float) -> Floats:
    """Return (n,) the probability to beat another policy of the pool, a tie counting half."""
    n = len(theta)
    if n < 2:
        return np.full(n, np.nan)
    win, tie, _ = outcome_probabilities(theta[:, None] - theta[None, :], kappa)
    own = win + tie / 2
    np.fill_diagonal(own, 0.0)
    return np.asarray(own.sum(axis=1) / (n - 1))


def has_finite_maximum(counts: PairCounts) -> bool:
    """
    Tell whether (θ up to a shift, log κ) has one finite maximum of the likelihood.

    ``counts`` are connected and hold at least one tie. All verdicts being ties has none.

    :raises RankingError: the linear programme was not solved.
    """
    if len(counts.low) and np.all(counts.wins > 0) and np.all(counts.losses > 0):
        return True
    group = _circles(counts)
    decided = bool(np.any(counts.wins > 0) or np.any(counts.losses > 0))
    if group.max(initial=0) == 0:
        return decided
    seen = np.stack([counts.wins > 0, counts.ties > 0, counts.losses > 0], axis=1)
    cells = np.concatenate([
        np.stack([group[counts.low[rows]], group[counts.high[rows]],
                  np.full(np.count_nonzero(rows), outcome)], axis=1)
        for outcome, rows in enumerate(seen.T)])
    slacks = _slacks(np.unique(cells, axis=0), int(group.max()) + 1)
    answer = scipy.optimize.linprog(
        -np.asarray(slacks.sum(axis=0)).ravel(), A_ub=vstack([slacks, -slacks]),
        b_ub=np.r_[np.ones(slacks.shape[0]), np.zeros(slacks.shape[0])],
        bounds=[(0.0, 0.0), *[(None, None)] * (slacks.shape[1] - 1)], method='highs')
    if answer.status != 0:
        raise RankingError('whether Davidson has a maximum could not be decided: '
                           f'{answer.message}')
    return bool(-answer.fun < SMALLEST)


def _circles(counts: PairCounts) -> Ints:
    """Return (n,) the group of each policy; members of a group beat each other in a circle."""
    won, lost = counts.wins > 0, counts.losses > 0
    rows = np.r_[counts.low[won], counts.high[lost]]
    columns = np.r_[counts.high[won], counts.low[lost]]
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(counts.n, counts.n))
    _, label = connected_components(graph, directed=True, connection='strong')
    return np.asarray(label, dtype=np.int64)


def _slacks(cells: Ints, groups: int) -> csr_array:
    """
    Return (2 C, groups + 1) the slacks of the seen outcomes as linear functions of (δ, k).

    ``cells`` (C, 3) are group of the lower index, of the higher, and outcome 0 win, 1 tie, 2 loss.
    """
    changes: Floats = np.array([[0.5, 0.0], [0.0, 1.0], [-0.5, 0.0]])  # of D and of k
    rows, columns, values = [], [], []
    for place, (low, high, outcome) in enumerate(cells):
        others = [other for other in range(3) if other != outcome]
        for number, other in enumerate(others):
            by_d, by_k = changes[outcome] - changes[other]
            rows += [2 * place + number] * 3
            columns += [int(low), int(high), groups]
            values += [by_d, -by_d, by_k]
    return coo_array((values, (rows, columns)), shape=(2 * len(cells), groups + 1)).tocsr()
