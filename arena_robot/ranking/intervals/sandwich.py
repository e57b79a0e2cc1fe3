"""
How far the scores of Bradley–Terry and Davidson may be off: clustered, without resampling.

The sessions of one evaluator (or institution) hang together, so the unit is the cluster c. With
the score g_c of its verdicts and their information H_c, leaving it out moves the abilities by
about δ_c = (H - H_c)^{-1} g_c, and (G-1)/G Σ δ_c δ_cᵀ over the G clusters is the jackknife's
sandwich covariance (CR3; Bell and McCaffrey 2002). Where a variance of the sandwich is below that
of the likelihood's own covariance H^{-1}, as with few clusters, it is raised to the mean of the
two; with ties as half wins H^{-1} is scaled by the smaller variance that such verdicts have. Of a
policy that the data do not bound on both sides, it is raised to all of H^{-1}: verdicts that are
all alike do not differ, and the sandwich knows only differences. Of the ways that
bench/bench_ranking_calibration.py tried, this keeps to 95 % most closely.

Quantiles are those of Student's t with G - 1 degrees of freedom. Half of a mean of the two is not
estimated from differences between clusters, so it has 4 (G - 1) (v / sandwich)² (Satterthwaite
1946). Where each verdict of Bradley–Terry is a cluster of its own, its variance follows from its
probability and is not estimated from differences: the quantiles are the normal ones. Both are
used for the scores that have both ends; one end, differences and ranks keep G - 1, the safe side.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from arena_robot.ranking.base import Comparisons, Fit, Floats, Ints
from arena_robot.ranking.counts import DENSE_POLICIES, MOST_CELLS, count_pairs, numbered
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.pairwise.prior import PRIOR_L2, one_sided

KNOWN = 1e6      # degrees of freedom of a variance that is not estimated
SPARSE = 0.1     # with a smaller share of numbers that are not 0, sparse products are faster


@dataclass(frozen=True)
class ScoreVariances:
    """
    Variances of the scores (n,) and of their differences (n, n), with degrees of freedom.

    ``freedom`` is that of differences, ``own_freedom`` (n,) that of the scores.
    """

    variance: Floats
    gap: Floats
    freedom: float
    own_freedom: Floats

    @classmethod
    def of(cls, covariance: Floats, freedom: float, own: float | None = None) -> 'ScoreVariances':
        """Return what a covariance (n, n) of the scores says; ``own`` is the scores' freedom."""
        variance = np.diag(covariance)
        gap = variance[:, None] + variance[None, :] - 2 * covariance
        return cls(np.maximum(variance, 0.0), np.maximum(gap, 0.0), freedom,
                   np.full(len(variance), freedom if own is None else own))

    def at_least_between(self, other: 'ScoreVariances', alike: np.ndarray) -> 'ScoreVariances':
        """
        Return each variance, raised to the mean of the two where it is the smaller.

        Raised to the other's for those in ``alike`` (n,), and their differences.
        """
        variance = _raised(self.variance, other.variance, alike)
        gap = _raised(self.gap, other.gap, alike[:, None] | alike)
        mixed = ~alike & (self.variance < other.variance)
        share = variance / np.where(mixed, np.maximum(self.variance, 1e-6 * variance), 1.0)
        own = self.own_freedom * np.where(mixed, 4 * share ** 2, 1.0)
        return ScoreVariances(variance, gap, self.freedom, np.where(alike, self.freedom, own))


def _raised(own: Floats, other: Floats, wholly: np.ndarray) -> Floats:
    return np.asarray(np.maximum(own, np.where(wholly, other, (own + other) / 2)))


@dataclass(frozen=True)
class _Verdicts:
    """Verdicts with a weight between n policies; arrays (M,)."""

    n: int
    first: Ints
    second: Ints
    outcome: Floats
    weight: Floats

    @classmethod
    def of(cls, comparisons: Comparisons) -> '_Verdicts':
        """Return the verdicts of comparisons."""
        used = comparisons.weight > 0
        rows = slice(None) if used.all() else used
        return cls(comparisons.n, comparisons.first[rows], comparisons.second[rows],
                   comparisons.outcome[rows], comparisons.weight[rows])

    @classmethod
    def alike(cls, comparisons: Comparisons) -> '_Verdicts':
        """Return one verdict with their weight for all that say the same of the same pair."""
        counts = count_pairs(comparisons)
        weight = np.concatenate([counts.wins, counts.ties, counts.losses])
        met = np.flatnonzero(weight)
        outcome = np.repeat([1.0, 0.5, 0.0], len(counts.low))
        return cls(comparisons.n, np.tile(counts.low, 3)[met], np.tile(counts.high, 3)[met],
                   outcome[met], weight[met])


@dataclass(frozen=True)
class _Parts:
    """Slopes and bends of each verdict by its ability difference and by log κ, all (M,)."""

    slope: Floats
    bend: Floats
    slope_kappa: Floats
    cross: Floats
    bend_kappa: Floats

    def squared(self, factor: Floats) -> '_Parts':
        """Return the squares and products of the slopes, times a factor, as bends."""
        return replace(self, bend=factor * self.slope ** 2,
                       cross=factor * self.slope * self.slope_kappa,
                       bend_kappa=factor * self.slope_kappa ** 2)


def sandwich_variances(comparisons: Comparisons, fit: Fit, cluster: Ints, anchor: np.ndarray,
                      ) -> ScoreVariances | None:
    """
    Return the variances of a Bradley–Terry or Davidson ``fit``, or None for over 1500 policies.

    ``cluster`` (M,) says which comparisons hang together, ``anchor`` (n,) which policies' mean is
    the zero of the scores.
    """
    if comparisons.n > DENSE_POLICIES:
        return None
    votes, kappa = _Verdicts.of(comparisons), float(fit.diagnostics.details.get('kappa', 0.0))
    used, size = comparisons.weight > 0, votes.n + (kappa > 0)
    group, count = numbered(cluster if used.all() else cluster[used])
    alone, share = count == len(votes.first), np.ones(1)
    if alone and count * size * size > MOST_CELLS and np.ptp(votes.weight) == 0:
        each, votes = votes.weight[0], _Verdicts.alike(comparisons)
        share = each / votes.weight
    parts = _parts(votes, fit.scores, kappa)
    whole = _information(votes, parts, size)[0] + _prior(fit, anchor, size)
    bread = _relative(np.asarray(np.linalg.inv(_pinned(whole, votes.n)), float), anchor)
    if count * size * size <= MOST_CELLS:
        scores = _scores(votes, parts, group, count, size)
        moved = _relative(_left_out(whole, _information(votes, parts, size, group, count), scores,
                                    votes.n).T, anchor)
        robust = (count - 1) / count * (moved @ moved.T)
    else:
        inner = _information(votes, parts.squared(share), size)[0] if alone \
            else _squared(_scores(votes, parts, group, count, size))
        robust = count / (count - 1) * (bread @ inner @ bread.T)
    model = ScoreVariances.of(_dispersion(votes, parts, kappa) * _relative(bread.T, anchor),
                              count - 1.0)
    own = KNOWN if kappa == 0 and alone else count - 1.0
    return ScoreVariances.of(robust, count - 1.0, own).at_least_between(
        model, _open(comparisons, fit))


def _relative(values: Floats, anchor: np.ndarray) -> Floats:
    """Return the rows (n, …) of the abilities, less the mean row of the ``anchor`` (n,)."""
    rows = values[:len(anchor)]
    return np.asarray(rows - anchor / anchor.sum() @ rows)


def _squared(scores: csr_array) -> Floats:
    """Return (size, size) the sum of the outer products of the clusters' scores (G, size)."""
    count, size = scores.shape
    if scores.nnz < SPARSE * count * size:
        return np.asarray((scores.T @ scores).toarray())
    total, rows = np.zeros((size, size)), MOST_CELLS // size
    for start in range(0, count, rows):
        part = scores[start:start + rows].toarray()
        total += part.T @ part
    return total


def _open(votes: Comparisons, fit: Fit) -> np.ndarray:
    """Return (n,) whom the data do not bound on both sides."""
    if fit.ridge is None or not fit.ridge.any():
        return np.zeros(votes.n, bool)
    above, below = one_sided(count_pairs(votes))
    return np.asarray(above | below)


def _dispersion(votes: _Verdicts, parts: _Parts, kappa: float) -> float:
    """
    Return by what the variance of verdicts differs from the model's.

    With a tie as half a win it is p (1 - p) less a quarter of the share of ties.
    """
    if kappa > 0:
        return 1.0
    return with_ties(float((votes.weight * (votes.outcome == 0.5)).sum()),
                     float(votes.weight.sum()), float(parts.bend.sum()))


def with_ties(ties: float, total: float, bend: float) -> float:
    """Return the variance of verdicts, with two more without a tie, as a share of ``bend``."""
    return max(0.0, 1 - ties * total / (total + 2) / (4 * bend)) if bend > 0 else 1.0


def _parts(votes: _Verdicts, theta: Floats, kappa: float) -> _Parts:
    win, tie, _ = outcome_probabilities(theta[votes.first] - theta[votes.second], kappa)
    mean, w = win + tie / 2, votes.weight
    return _Parts(w * (votes.outcome - mean), w * (win + tie / 4 - mean ** 2),
                  w * ((votes.outcome == 0.5) - tie), w * tie * (0.5 - mean),
                  w * tie * (1 - tie))


def _scores(votes: _Verdicts, parts: _Parts, group: Ints, count: int, size: int) -> csr_array:
    """Return (G, size) the slope of each cluster's log-likelihood."""
    rows, columns = [group, group], [votes.first, votes.second]
    values = [parts.slope, -parts.slope]
    if size > votes.n:
        rows, columns = [*rows, group], [*columns, np.full(len(votes.first), votes.n)]
        values.append(parts.slope_kappa)
    return csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
                     shape=(count, size))


def _information(votes: _Verdicts, parts: _Parts, size: int, group: Ints | int = 0,
                 count: int = 1) -> Floats:
    """Return (G, size, size) the information of each cluster."""
    i, j, base = votes.first, votes.second, group * size * size
    cells = [(i, i, parts.bend), (j, j, parts.bend), (i, j, -parts.bend), (j, i, -parts.bend)]
    if size > votes.n:
        last = np.full(len(votes.first), votes.n)
        cells += [(i, last, parts.cross), (last, i, parts.cross), (j, last, -parts.cross),
                  (last, j, -parts.cross), (last, last, parts.bend_kappa)]
    place = np.concatenate([base + a * size + b for a, b, _ in cells])
    table = np.bincount(place, np.concatenate([value for _, _, value in cells]),
                        minlength=count * size * size)
    return np.asarray(table, float).reshape(count, size, size)


def _prior(fit: Fit, anchor: np.ndarray, size: int) -> Floats:
    """Return (size, size) the information of the prior: about the mean of the anchors."""
    n, matrix = len(fit.scores), np.zeros((size, size))
    ridge = np.zeros(n) if fit.ridge is None else fit.ridge
    about = np.eye(n) - anchor / anchor.sum()
    matrix[:n, :n] = about.T @ (ridge[:, None] * about)
    if size > n:
        matrix[n, n] = float(ridge.min(initial=0.0))
    return matrix


def _pinned(matrix: Floats, n: int) -> Floats:
    """Return the information with the common shift of the abilities fixed."""
    out: Floats = matrix.copy()
    out[:n, :n] += max(float(np.trace(matrix)), 1e-9) / n ** 2
    return out


def _left_out(whole: Floats, each: Floats, scores: csr_array, n: int) -> Floats:
    """Return (G, size) by how much leaving each cluster out moves the abilities."""
    rest = _pinned(whole, n)[None] - each
    at = np.arange(len(whole))
    rest[:, at, at] += PRIOR_L2
    return np.asarray(np.linalg.solve(rest, scores.toarray()[:, :, None])[:, :, 0])
