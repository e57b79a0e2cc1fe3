"""
Progress scores and audits: mean per policy, plain or corrected for each session's difficulty.

``Progress``: s̄_p = Σ w s / Σ w over the scored rollouts of p in the comparisons.

``ProgressGls``: s_np = μ_p + u_n + e_np, where u_n, the same for both rollouts of a comparison,
is how easy that task was. The two scores of a comparison then correlate by ρ = var(u) / (var(u) +
var(e)) ≥ 0. μ is the generalised least-squares estimate and ρ the maximum of the normal
likelihood, computed alternately; a policy with easy tasks has no advantage from them. With ρ = 0
it is the plain mean, with ρ near 1 only differences within comparisons count.

Audits of the rollouts rank alone (``Opd``: the mean of their numbers), or break the ties of
evaluators: ``PreferenceAudit`` is Davidson's model of the preferences, in which a tie counts for
the rollout with the higher audit where the two differ by more than ``margin``. Verdicts with a
winner stay as they are.
"""

from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.errors import NotConverged, RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats, Method
from arena_robot.ranking.counts import count_pairs, groups, listed, named
from arena_robot.ranking.pairwise.davidson import Davidson
from arena_robot.ranking.rollouts import AuditTable

MAX_ITERATIONS = 500
TOLERANCE = 1e-12
MOST_SHARED = 0.999    # 1 / (1 - ρ²) stays finite
MARGIN = 0.1


@dataclass(frozen=True)
class Progress:
    """Mean progress, 0..1; assumes pairs that were drawn evenly over easy and hard tasks."""

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Average the scores.

        :raises RankingError: a policy has no scored rollout.
        """
        policy, score, weight = scored_rollouts(comparisons)
        count = np.bincount(policy, weight, minlength=comparisons.n)
        mean = np.bincount(policy, weight * score, minlength=comparisons.n) / count
        return Fit(mean, mean.copy(), Diagnostics(details={'rollouts': float(count.sum())}))


@dataclass(frozen=True)
class ProgressGls:
    """Progress with a session effect; assumes that it adds the same to both scores."""

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit μ and ρ; ``details['shared']`` is ρ, ``details['sigma']`` the spread of a score.

        :raises RankingError: a policy has no scored rollout.
        :raises NotConverged: μ and ρ did not converge.
        """
        scored_rollouts(comparisons)
        shared, warnings = 0.0, _unlinked(comparisons)
        means = np.full(comparisons.n, 0.5)
        iteration, change = 0, np.inf
        while change >= TOLERANCE:
            iteration += 1
            new = gls(comparisons, shared)
            rho, variance, value = _shared(comparisons, new)
            change = max(float(np.max(np.abs(new - means))), abs(rho - shared))
            means, shared = new, rho
            if iteration == MAX_ITERATIONS and change >= TOLERANCE:
                raise NotConverged(f'progress_gls still changed by {change:.1e} after {iteration} '
                                   'rounds; use progress')
        return Fit(means, means.copy(), Diagnostics(
            True, iteration, value, warnings,
            {'shared': shared, 'sigma': float(np.sqrt(variance))}))


def scored_rollouts(comparisons: Comparisons) -> tuple[np.ndarray, Floats, Floats]:
    """
    Return policy, score and weight of the scored rollouts, (E,) each.

    :raises RankingError: fewer than two policies, or one without any scored rollout.
    """
    if comparisons.n < 2:
        raise RankingError(f'asked to rank {comparisons.n} policy ({named(comparisons.items)}); '
                           'a ranking needs at least two')
    policy = np.concatenate([comparisons.first, comparisons.second])
    score = np.concatenate([comparisons.score_first, comparisons.score_second])
    weight = np.tile(comparisons.weight, 2)
    kept = np.isfinite(score) & (weight > 0)
    count = np.bincount(policy[kept], minlength=comparisons.n)
    empty = [comparisons.items[k] for k in np.flatnonzero(count == 0)]
    if empty:
        raise RankingError(f'no scored rollout of {named(empty)}; give --episodes, or leave '
                           'these policies out')
    return policy[kept], score[kept], weight[kept]


def gls(comparisons: Comparisons, shared: float) -> Floats:
    """Return μ (n,) for a given ρ."""
    n, i, j = comparisons.n, comparisons.first, comparisons.second
    s, u, w = comparisons.score_first, comparisons.score_second, comparisons.weight
    both = np.isfinite(s) & np.isfinite(u)
    alone = 1 / (1 - shared ** 2)
    cross = -shared * alone * w * both
    a, b = np.nan_to_num(s), np.nan_to_num(u)
    of_first = w * np.where(both, alone, 1.0) * np.isfinite(s)
    of_second = w * np.where(both, alone, 1.0) * np.isfinite(u)
    matrix, right = np.zeros((n, n)), np.zeros(n)
    np.add.at(matrix, (i, j), cross)
    matrix = matrix + matrix.T
    matrix.flat[::n + 1] += np.bincount(i, of_first, minlength=n) \
        + np.bincount(j, of_second, minlength=n)
    right += np.bincount(i, of_first * a + cross * b, minlength=n)
    right += np.bincount(j, of_second * b + cross * a, minlength=n)
    return np.linalg.solve(matrix, right)


def _shared(comparisons: Comparisons, means: Floats) -> tuple[float, float, float]:
    left = comparisons.score_first - means[comparisons.first]
    right = comparisons.score_second - means[comparisons.second]
    both, w = np.isfinite(left) & np.isfinite(right), comparisons.weight
    pairs = float(w[both].sum())
    alone = np.where(both, np.nan, np.where(np.isfinite(left), left, right))
    squares = float((w[both] * (left[both] ** 2 + right[both] ** 2)).sum())
    product = float((w[both] * left[both] * right[both]).sum())
    rho = float(np.clip(2 * product / squares, 0.0, MOST_SHARED)) if squares > 0 else 0.0
    single = np.isfinite(alone)
    quadratic = (squares - 2 * rho * product) / (1 - rho ** 2) \
        + float((w[single] * alone[single] ** 2).sum())
    count = 2 * pairs + float(w[single].sum())
    variance = max(quadratic / count, 1e-12)
    value = -0.5 * (count * (np.log(2 * np.pi * variance) + 1) + pairs * np.log(1 - rho ** 2))
    return rho, variance, float(value)


def _unlinked(comparisons: Comparisons) -> tuple[str, ...]:
    apart = groups(count_pairs(comparisons))
    return () if len(apart) == 1 else (
        f'groups that were never compared are ordered by their scores alone: {listed(apart)}',)


class AuditedMethod:
    """A method that first writes the audits into the comparisons; see the module."""

    inner: Method

    def __init__(self, table: AuditTable | None) -> None:
        self._table = table

    def __call__(self, comparisons: Comparisons) -> Fit:
        """Fit; RankingError as the inner method, and without audits."""
        return self.inner(self.prepared(comparisons))

    def prepared(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons as the inner method takes them; sessions are the table's."""
        if self._table is None:
            raise RankingError('this method needs audits of the rollouts: `arena audit --json` '
                               'writes them, and --audits takes them')
        return self._with(comparisons, *self._table.of(comparisons))

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        raise NotImplementedError


class Opd(AuditedMethod):
    """Mean of the audits' numbers; assumes that their judge is calibrated for these tasks."""

    def __init__(self, audits: AuditTable | None = None) -> None:
        super().__init__(audits)
        self.inner = Progress()

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        return replace(comparisons, score_first=first, score_second=second)


class PreferenceAudit(AuditedMethod):
    """
    Davidson's model; ties count for the rollout with the clearly higher audit.

    It assumes that a tie hides a difference which the audit sees.
    """

    def __init__(self, audits: AuditTable | None = None, margin: float = MARGIN) -> None:
        super().__init__(audits)
        self.inner, self._margin = Davidson(), margin

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        apart = np.nan_to_num(first - second)
        broken = (comparisons.outcome == 0.5) & (np.abs(apart) > self._margin)
        return replace(comparisons, outcome=np.where(broken, apart > 0, comparisons.outcome))
