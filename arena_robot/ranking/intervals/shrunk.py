"""
Bradley–Terry whose abilities are shrunk by how much they differ, and whose evaluators differ.

The mean of a verdict is σ(θ_i - θ_j), a tie being half a win, and its variance φ p (1 - p) with φ
of :func:`.sandwich.with_ties`. A priori θ_i is normal with deviation τ. Whoever was lucky is
chosen less often as an opponent that is near, so that luck stays in the maximum of the likelihood
where pairs were chosen by earlier verdicts; a posterior does not depend on how they were chosen.

An evaluator e adds an offset u_ei of deviation σ to every policy, and an institution h one of
deviation σ'. With the score g_e and the information L_e of the evaluator's verdicts at θ, the
linearised model leaves of them

    score (ψ + σ² L_e)^{-1} g_e  and information (ψ + σ² L_e)^{-1} L_e,

whose sums per institution, H_h and M_h, become (1 + σ'² M_h)^{-1} H_h and (1 + σ'² M_h)^{-1} M_h.
ψ = φ - 2 (σ² + σ'²) mean(p (1 - p)), as the variance of one verdict is φ p (1 - p) all in all.

τ, σ and σ' are not estimated but averaged over: a grid with the marginal likelihood of the
linearised model (Rue, Martino and Chopin 2009) times priors: τ² as from 3 policies at τ = 1, σ and
σ' half normal. So few evaluators widen the intervals, without a t of G - 1 degrees of freedom. A
policy's posterior is a mixture of normals; t has its variance and kurtosis. What a verdict says is
averaged over the differences of abilities that the posterior leaves possible, σ(d) with d of
variance v being σ(d / √(1 + π v / 8)). With very many evaluators of many policies, φ times their
design effect takes the place of σ and σ': the mean ratio of the scores' variance to L.

Policies may beat each other in circles: a pair's difference is θ_i - θ_j plus an offset of its own
of deviation ρ, half normal a priori. Of a pair with score g and information m, ρ leaves
g / (1 + ρ² m / φ) and m / (1 + ρ² m / φ). A score is θ_i plus the mean of the offsets against all
others, of which those of pairs that were never drawn are known by ρ alone.

Accounts with few verdicts that push a policy together count as one institution, see
:func:`arena_robot.ranking.evaluators.robust.held_newcomers`.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats, Ints
from arena_robot.ranking.counts import (
    DENSE_POLICIES,
    MOST_CELLS,
    count_pairs,
    groups,
    listed,
    require_comparisons,
    vote_warnings,
)
from arena_robot.ranking.evaluators.robust import held_newcomers
from arena_robot.ranking.intervals.sandwich import ScoreVariances, with_ties
from arena_robot.ranking.pairwise.bradley_terry import expected_share
from arena_robot.ranking.pairwise.prior import NEVER_COMPARED, established

TAUS = np.geomspace(0.1, 6.0, 30)
SPREADS: Floats = np.linspace(0.0, 1.6, 9)
# The priors: τ with the weight of so many policies, and the scale of σ and σ'; log-odds.
TYPICAL, PRIOR_POLICIES, SCALE = 1.0, 3.0, 1.0
# ρ: its grid, and the scale of its prior; so small a scale costs little where nothing goes round.
CIRCLES, CIRCLES_SCALE = np.linspace(0.0, 1.5, 16), 0.3
# After the rounds ``NARROW`` the grids of σ and σ' are finer, about what is probable.
ROUNDS, NARROW, CLOSE, RARE = 60, (2, 4), 1e-6, 1e-4
LEAST_NOISE = 0.2
# An eigenvalue below this share of the largest is 0, rounded; the score has no part along it.
TINY = 1e-11


@dataclass(frozen=True)
class PosteriorFit(Fit):
    """A fit with the posterior variances of its scores; t with their freedom has 95 % inside."""

    variances: ScoreVariances | None = None


@dataclass(frozen=True)
class ShrunkBradleyTerry:
    """
    The method; ``cluster`` 'session' leaves out that evaluators and institutions differ.

    'evaluator' leaves out that institutions do. ``spreads`` are τ, σ and σ' where these are known.
    It assumes abilities and offsets of evaluators and institutions that are normal, and that a tie
    is half a win; pairs may have been chosen by earlier verdicts.
    """

    cluster: str = 'auto'
    spreads: tuple[float, float, float] | None = None

    def __call__(self, comparisons: Comparisons) -> PosteriorFit:
        """
        Fit; ``variances`` and ``covariance`` are those of the posterior.

        :raises RankingError: there are no comparisons, or more than 1500 policies.
        """
        votes = comparisons.take(comparisons.weight > 0)
        require_comparisons(count_pairs(votes))
        if votes.n > DENSE_POLICIES:
            raise RankingError(f'bt_shrunk ranks up to {DENSE_POLICIES} policies, found '
                               f'{votes.n}; use bt')
        votes, warnings = (votes, ()) if self.cluster == 'session' else held_newcomers(votes)
        return _fitted(votes, _sums(votes, self.cluster), self.spreads, warnings)


@dataclass(frozen=True)
class _Sums:
    """
    Verdicts summed by group and pair; arrays (K,), the last two (G,).

    A group is an evaluator, ``personal``, or what is known of no evaluator; ``home`` is the
    institution of each group, -1 for none, in ascending order. Where the groups are too ``many``
    they are not fitted.
    """

    group: Ints
    low: Ints
    high: Ints
    total: Floats
    won: Floats
    home: Ints
    personal: np.ndarray
    many: bool


def _sums(votes: Comparisons, cluster: str) -> _Sums:
    person, place = (_known(code, names) if kept else np.full(len(votes), -1)
                     for code, names, kept in (
        (votes.evaluator, votes.evaluators, cluster != 'session'),
        (votes.institution, votes.institutions, cluster not in ('session', 'evaluator'))))
    people, n = len(votes.evaluators) + 1, votes.n
    kinds, group = np.unique((place + 1) * people + person + 1, return_inverse=True)
    low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
    key, at = np.unique((group * n + low) * n + high, return_inverse=True)
    ahead = np.where(votes.first == low, votes.outcome, 1 - votes.outcome)
    return _Sums(key // n ** 2, key // n % n, key % n, _sum(at, votes.weight),
                 _sum(at, votes.weight * ahead), kinds // people - 1, kinds % people > 0,
                 len(kinds) * n ** 2 > MOST_CELLS)


def _sum(at: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(at, values), dtype=float)


def _known(code: Ints, names: tuple[str, ...]) -> Ints:
    """Return the codes of names that are known, -1 for others, and for all where one is."""
    out = np.where(np.array([bool(name) for name in names])[code], code, -1)
    return out if len(np.unique(out[out >= 0])) > 1 else np.full(len(code), -1)


@dataclass(frozen=True)
class _Mixture:
    """
    Posteriors for C pairs of σ and σ' and T values of τ.

    ``share`` (C, T) is how probable each is, 0 for the rarest; ``means`` (C, T, n); ``turns``
    (C, n, n - 1) with ``inside`` (C, T, n - 1) are eigenvectors and variances. ``spreads`` are the
    mean deviations, ``grid`` those of σ and σ' that remain.
    """

    share: Floats
    means: Floats
    turns: Floats
    inside: Floats
    spreads: dict[str, float]
    grid: list[Floats]

    @property
    def mean(self) -> Floats:
        """(n,)."""
        return np.asarray(np.tensordot(self.share, self.means, 2))

    def covariance(self) -> Floats:
        """(n, n) about the mean of all."""
        off = (self.means - self.mean).reshape(-1, len(self.mean))
        # Σ turn diag(w) turnᵀ of all turns as one product.
        turns = np.concatenate(list(self.turns), axis=1)
        weight = (self.share[:, None] @ self.inside).ravel()
        return np.asarray((turns * weight) @ turns.T + (off.T * self.share.ravel()) @ off)

    def variances(self, centre: Floats) -> ScoreVariances:
        """Return variances and freedom of t with the variance and kurtosis of the mixture."""
        n = len(centre)
        sums = np.zeros((2, n)), np.zeros((2, n, n))
        off = (self.means - self.mean) @ centre.T
        for share, turn, inside, away in zip(self.share, self.turns, self.inside, off,
                                             strict=True):
            turn, kept = centre @ turn, np.flatnonzero(share)
            for at in np.array_split(kept, len(kept) * n ** 2 // MOST_CELLS + 1):
                each = (turn * inside[at, None]) @ turn.T + away[at, :, None] * away[at, None]
                own = np.diagonal(each, axis1=1, axis2=2)
                gap = own[:, :, None] + own[:, None] - 2 * each
                for total, values in zip(sums, (own, gap), strict=True):
                    values = np.maximum(values, 0.0)
                    total[0] += np.tensordot(share[at], values, 1)
                    total[1] += np.tensordot(share[at], values ** 2, 1)
        (own, own_square), (gap, gap_square) = sums
        freedom, different = _freedom(own, own_square), ~np.eye(n, dtype=bool)
        of_gaps = float(np.median(_freedom(gap[different], gap_square[different])))
        return ScoreVariances(own * (freedom - 2) / freedom, gap * (of_gaps - 2) / of_gaps,
                              of_gaps, freedom)


def _freedom(mean: Floats, square: Floats) -> Floats:
    return np.asarray(4 + 2 / np.maximum(square / np.maximum(mean, 1e-300) ** 2 - 1, 1e-3))


def _fitted(votes: Comparisons, sums: _Sums, spreads: tuple[float, float, float] | None,
            warnings: tuple[str, ...]) -> PosteriorFit:
    n, rounds, change = votes.n, 0, np.inf
    ties = float(votes.weight[votes.outcome == 0.5].sum())
    taus = TAUS if spreads is None else np.array(spreads[:1])
    grid = [np.array([0.0]) if sums.many or not known.any() else SPREADS if spreads is None
            else np.array([own])
            for known, own in zip((sums.personal, sums.home >= 0), (spreads or (0, 0, 0))[1:],
                                  strict=True)]
    mean, covariance = np.zeros(n), np.eye(n)
    while rounds < ROUNDS and change > CLOSE:
        levels = _levels(sums, mean, covariance, ties, circles=spreads is None)
        mixture = _mixed(levels, mean, taus, grid)
        change = float(np.abs(mixture.mean - mean).max()) if rounds > max(NARROW) else np.inf
        mean, covariance, rounds = mixture.mean, mixture.covariance(), rounds + 1
        if rounds in NARROW:
            grid = mixture.grid
    counts = count_pairs(votes)
    anchor, apart = established(counts), groups(counts)
    warnings += vote_warnings(votes)
    if len(apart) > 1:
        warnings += (NEVER_COMPARED.format(listed(apart)),)
    centre, offsets = np.eye(n) - anchor / anchor.sum(), levels.offsets
    scores, extra = centre @ (mean + offsets.shift), centre @ offsets.covariance @ centre.T
    own = np.diagonal(extra)
    stated = mixture.variances(centre)
    return PosteriorFit(scores, expected_share(scores), Diagnostics(
        change <= CLOSE, rounds, warnings=warnings, details={
            'spread': mixture.spreads | {'pair': offsets.spread}}),
        centre @ covariance @ centre.T + extra, np.zeros(n), anchor, replace(
            stated, variance=stated.variance + own,
            gap=stated.gap + own[:, None] + own - 2 * extra))


@dataclass(frozen=True)
class _Offsets:
    """
    What pairs differ by from one ability per policy.

    ``left`` (K,) is the share of what each row of the sums says that is left of it; ``shift`` (n,)
    and ``covariance`` (n, n) are those of the mean offset of each policy; ``spread`` is ρ.
    """

    left: Floats
    shift: Floats
    covariance: Floats
    spread: float


def _offsets(n: int, pair: Ints, slope: Floats, bend: Floats, circles: bool) -> _Offsets:
    """Return offsets from the scores and the information of rows, both divided by φ."""
    score, known = (np.bincount(pair, values, minlength=n * n) for values in (slope, bend))
    rho = CIRCLES[:, None] if circles and n > 2 else np.zeros((1, 1))    # two have no circle
    whole = 1 + rho ** 2 * known
    log = (rho ** 2 * score ** 2 / whole - np.log(whole)).sum(axis=1) / 2 \
        - (rho[:, 0] / CIRCLES_SCALE) ** 2 / 2
    share = np.exp(log - log.max())
    share /= share.sum()
    variance = np.triu((share @ (rho ** 2 / whole)).reshape(n, n), 1)
    mean = (share @ (rho ** 2 / whole) * score).reshape(n, n)
    variance = (variance + variance.T) / n ** 2
    return _Offsets((share @ (1 / whole))[pair], (mean - mean.T).sum(axis=1) / n,
                    np.diag(variance.sum(axis=1)) - variance, float(share @ rho[:, 0]))


@dataclass(frozen=True)
class _Levels:
    """
    Scores and information of the groups at one θ, in the eigenvectors of the information.

    ``turns`` (K, n) are the eigenvectors of all groups whose eigenvalues ``sizes`` (K,) are not 0,
    ``slopes`` (K,) the scores along them; ``personal`` (K,) is that of their groups. The first
    ``ends[0]`` are of groups without an institution, those up to ``ends[1]`` of the first one, ….
    """

    turns: Floats
    sizes: Floats
    slopes: Floats
    personal: np.ndarray
    ends: Ints
    total: float
    bend: float
    noise: float
    offsets: _Offsets

    def summed(self, pulls: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """
        Return Σ pull turn (C, H, n) and Σ weight turn turnᵀ (C, H, n, n).

        ``pulls`` and ``weights`` are (C, K). The first of H are the groups without an institution.
        """
        count, n = len(weights), self.turns.shape[1]
        slope = np.zeros((count, len(self.ends), n))
        bend = np.zeros((count, len(self.ends), n * n))
        for home, (start, end) in enumerate(zip((0, *self.ends[:-1]), self.ends, strict=True)):
            slope[:, home] = pulls[:, start:end] @ self.turns[start:end]
            for first in range(start, end, step := MOST_CELLS // n ** 2 + 1):
                turns = self.turns[first:min(first + step, end)]
                # All of C at once: one product of matrices.
                bend[:, home] += weights[:, first:first + len(turns)] @ (
                    turns[:, :, None] * turns[:, None]).reshape(len(turns), -1)
        return slope, bend.reshape(count, -1, n, n)


def _levels(sums: _Sums, mean: Floats, covariance: Floats, ties: float, circles: bool) -> _Levels:
    n, i, j = len(mean), sums.low, sums.high
    group, home, personal = (sums.group, sums.home, sums.personal) if not sums.many else (
        np.zeros_like(sums.group), np.array([-1]), np.array([False]))
    spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    flat = 1 / np.sqrt(1 + np.pi / 8 * spread)
    p = expit(flat * (mean[i] - mean[j]))
    total, plain = float(sums.total.sum()), float((sums.total * p * (1 - p)).sum())
    bend, slope = sums.total * flat * p * (1 - p), sums.won - sums.total * p
    typical, noise = float(bend.sum()) / total, with_ties(ties, total, plain)
    offsets = _offsets(n, i * n + j, slope / noise, bend / noise, circles)
    bend, slope = offsets.left * bend, offsets.left * slope
    cells = ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1))
    table = np.bincount(np.concatenate([(group * n + a) * n + b for a, b, _ in cells]),
                        np.concatenate([sign * bend for _, _, sign in cells]),
                        minlength=len(home) * n * n)
    pulls = np.bincount(np.r_[group * n + i, group * n + j], np.r_[slope, -slope],
                        minlength=len(home) * n).reshape(-1, n)
    sizes, turns = np.linalg.eigh(table.reshape(len(home), n, n))
    kept = sizes > TINY * sizes[:, -1:]
    if sums.many:
        slopes = csr_array((np.r_[slope, -slope], (np.r_[sums.group, sums.group], np.r_[i, j])),
                           shape=(len(sums.home), n))
        each = ((slopes @ turns[0][:, kept[0]]) ** 2).sum(axis=0) / sizes[0][kept[0]]
        noise = max(noise, float(each.mean()))
    at = np.nonzero(kept)[0]
    ends = np.searchsorted(home[at], np.unique(home[home >= 0]))
    return _Levels(turns.transpose(0, 2, 1)[kept], sizes[kept],
                   (pulls[:, None] @ turns)[:, 0][kept], personal[at], np.r_[ends, len(at)],
                   total, typical, noise, offsets)


def _mixed(levels: _Levels, theta: Floats, taus: Floats, grid: list[Floats]) -> _Mixture:
    """Return the posteriors for all τ, σ and σ', linearised at ``theta`` (n,)."""
    n = len(theta)
    evaluator, institution = (side.ravel() ** 2 for side in np.meshgrid(*grid, indexing='ij'))
    block = MOST_CELLS // max(len(levels.sizes), len(levels.ends) * n * n) + 1
    parts = [_left_of_groups(levels, evaluator[k:k + block], institution[k:k + block])
             for k in range(0, len(evaluator), block)]
    value, slope, bend = (np.concatenate(part) for part in zip(*parts, strict=True))
    sizes, turns = np.linalg.eigh(bend + (np.trace(bend, axis1=1, axis2=2) + 1)[:, None, None] / n)
    # The last is the common shift of all abilities.
    sizes, turns = np.maximum(sizes[:, :-1], 0.0), turns[:, :, :-1]
    here, slope = theta @ turns, (slope[:, None] @ turns)[:, 0]
    precise, pull = sizes[:, None] + 1 / taus[:, None] ** 2, (slope + sizes * here)[:, None]
    log = (value - (slope * here + sizes * here ** 2 / 2).sum(axis=1)
           - (evaluator + institution) / SCALE ** 2 / 2)[:, None] + (
        pull ** 2 / precise - np.log(precise * taus[:, None] ** 2)).sum(axis=2) / 2 \
        - PRIOR_POLICIES * (np.log(taus) + TYPICAL ** 2 / taus ** 2 / 2)
    share = np.exp(log - log.max())
    share /= share.sum()
    cube = share.reshape(len(grid[0]), len(grid[1]), -1)
    sides = [(values, cube.sum(axis=tuple({0, 1, 2} - {k})))
             for k, values in enumerate((*grid, taus))]
    kept = np.where(share > RARE * share.max(), share, 0.0)
    return _Mixture(kept / kept.sum(), (pull / precise) @ turns.transpose(0, 2, 1), turns,
                    1 / precise, dict(zip(('evaluator', 'institution', 'theta'), (
                        float(values @ part) for values, part in sides), strict=True)),
                    [_narrowed(*side) for side in sides[:2]])


def _narrowed(values: Floats, share: Floats) -> Floats:
    """Return a grid about what is probable."""
    if len(values) < 2:
        return values
    mean = float(values @ share)
    wide = 3 * max(float(np.sqrt(share @ (values - mean) ** 2)), (values[1] - values[0]) / 3)
    return np.linspace(max(mean - wide, 0.0), mean + wide, 7)


def _left_of_groups(levels: _Levels, evaluator: Floats, institution: Floats,
                    ) -> tuple[Floats, Floats, Floats]:
    """
    Return log-likelihood (C,), score (C, n) and information (C, n, n).

    ``evaluator`` and ``institution`` are the variances (C,) of the groups' offsets.
    """
    own = np.maximum(levels.noise - 2 * (evaluator + institution) * levels.bend,
                     LEAST_NOISE * levels.noise)[:, None]
    spread = evaluator[:, None] * levels.personal
    whole = own + spread * levels.sizes
    pulls = levels.slopes / whole
    # Products of eight before the logarithm: an eighth of the logarithms.
    products = np.multiply.reduceat(whole / own, np.arange(0, len(levels.sizes), 8), axis=1)
    value = -0.5 * (levels.total * (np.log(own) + levels.noise / own)[:, 0]
                    + np.log(products).sum(axis=1)
                    - (spread * levels.slopes * pulls / own).sum(axis=1))
    slope, bend = levels.summed(pulls, levels.sizes / whole)
    if not institution.any():
        return value, slope.sum(axis=1), bend.sum(axis=1)
    return _left_of_homes(value, slope, bend, institution)


def _left_of_homes(value: Floats, slope: Floats, bend: Floats, spread: Floats,
                   ) -> tuple[Floats, Floats, Floats]:
    """Return the same with institutions of the variances ``spread`` (C,)."""
    n = slope.shape[2]
    table = np.concatenate([bend, slope[:, :, :, None]], axis=3)
    inside = table[:, 1:]
    weigh = np.eye(n) + spread[:, None, None, None] * inside[:, :, :, :n]
    left = np.linalg.solve(weigh, inside)
    value = value + 0.5 * (spread * (inside[..., n] * left[..., n]).sum(axis=(1, 2))
                           - np.linalg.slogdet(weigh)[1].sum(axis=1))
    total = table[:, 0] + left.sum(axis=1)
    bend = total[:, :, :n]
    return value, total[:, :, n], (bend + bend.transpose(0, 2, 1)) / 2
