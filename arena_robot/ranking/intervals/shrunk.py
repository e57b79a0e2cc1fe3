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
"""

from dataclasses import dataclass

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
from arena_robot.ranking.intervals.sandwich import ScoreVariances, with_ties
from arena_robot.ranking.pairwise.bradley_terry import expected_share
from arena_robot.ranking.pairwise.prior import NEVER_COMPARED, established

TAUS = np.geomspace(0.1, 6.0, 30)
SPREADS: Floats = np.linspace(0.0, 1.6, 9)
# The priors: τ with the weight of so many policies, and the scale of σ and σ'; log-odds.
TYPICAL, PRIOR_POLICIES, SCALE = 1.0, 3.0, 1.0
# After the rounds ``NARROW`` the grids of σ and σ' are finer, about what is probable.
ROUNDS, NARROW, CLOSE, RARE = 60, (2, 4), 1e-6, 1e-4
LEAST_NOISE = 0.2


@dataclass(frozen=True)
class PosteriorFit(Fit):
    """A fit with the posterior variances of its scores; t with their freedom has 95 % inside."""

    variances: ScoreVariances | None = None


@dataclass(frozen=True)
class ShrunkBradleyTerry:
    """
    The method; ``cluster`` 'session' leaves out that evaluators and institutions differ.

    'evaluator' leaves out that institutions do. ``spreads`` are τ, σ and σ' where these are known.
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
        return _fitted(votes, _sums(votes, self.cluster), self.spreads)


@dataclass(frozen=True)
class _Sums:
    """
    Verdicts summed by group and pair; arrays (K,), the last two (G,).

    A group is an evaluator, ``personal``, or what is known of no evaluator; ``home`` is the
    institution of each group, -1 for none. Where the groups are too ``many`` they are not fitted.
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
    person, place = (_known(code, names) for code, names in (
        (votes.evaluator, votes.evaluators), (votes.institution, votes.institutions)))
    person, place = (code if kept else np.full(len(votes), -1) for code, kept in (
        (person, cluster != 'session'), (place, cluster not in ('session', 'evaluator'))))
    pairs, group = np.unique(np.stack([person, place]), axis=1, return_inverse=True)
    many = pairs.shape[1] * votes.n ** 2 > MOST_CELLS
    low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
    key, at = np.unique((group.ravel() * votes.n + low) * votes.n + high, return_inverse=True)
    ahead = np.where(votes.first == low, votes.outcome, 1 - votes.outcome)
    return _Sums(key // votes.n ** 2, key // votes.n % votes.n, key % votes.n,
                 _sum(at, votes.weight), _sum(at, votes.weight * ahead), pairs[1], pairs[0] >= 0,
                 many)


def _sum(at: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(at, values), dtype=float)


def _known(code: Ints, names: tuple[str, ...]) -> Ints:
    """Return the codes of names that are known, -1 for others, and for all where one is."""
    out = np.where(np.array([bool(name) for name in names])[code], code, -1)
    return out if len(np.unique(out[out >= 0])) > 1 else np.full(len(code), -1)


@dataclass(frozen=True)
class _Mixture:
    """
    Posteriors for the τ, σ and σ' of a grid.

    ``share`` (K,) is how probable each is, ``means`` (K, n), and ``turns`` with ``inside`` the
    eigenvectors and variances of each. ``spreads`` are the mean deviations, ``grid`` those of σ
    and σ' that remain.
    """

    share: Floats
    means: Floats
    turns: list[Floats]
    inside: list[Floats]
    spreads: dict[str, float]
    grid: list[Floats]

    @property
    def mean(self) -> Floats:
        """(n,)."""
        return np.asarray(self.share @ self.means)

    def each(self) -> list[tuple[float, Floats]]:
        """Return share and covariance (n, n) about the mean of all, of each."""
        off = self.means - self.mean
        return [(float(share), (turn * inside) @ turn.T + np.outer(away, away))
                for share, turn, inside, away in zip(self.share, self.turns, self.inside, off,
                                                     strict=True)]

    def covariance(self) -> Floats:
        """(n, n)."""
        return np.asarray(sum(share * part for share, part in self.each()))


def _fitted(votes: Comparisons, sums: _Sums, spreads: tuple[float, float, float] | None,
            ) -> PosteriorFit:
    n, rounds, change = votes.n, 0, np.inf
    ties = float(votes.weight[votes.outcome == 0.5].sum())
    taus = TAUS if spreads is None else np.array(spreads[:1])
    grid = [np.array([0.0]) if sums.many or not known.any() else SPREADS if spreads is None
            else np.array([own])
            for known, own in zip((sums.personal, sums.home >= 0), (spreads or (0, 0, 0))[1:],
                                  strict=True)]
    mean, covariance = np.zeros(n), np.eye(n)
    while rounds < ROUNDS and change > CLOSE:
        levels = _levels(sums, mean, covariance, ties)
        mixture = _mixed(levels, mean, taus, grid)
        change = float(np.abs(mixture.mean - mean).max()) if rounds > max(NARROW) else np.inf
        mean, covariance, rounds = mixture.mean, mixture.covariance(), rounds + 1
        if rounds in NARROW:
            grid = mixture.grid
    counts = count_pairs(votes)
    anchor, warnings, apart = established(counts), vote_warnings(votes), groups(counts)
    if len(apart) > 1:
        warnings += (NEVER_COMPARED.format(listed(apart)),)
    centre = np.eye(n) - anchor / anchor.sum()
    scores = centre @ mean
    return PosteriorFit(scores, expected_share(scores), Diagnostics(
        change <= CLOSE, rounds, warnings=warnings, details={
            'spread': mixture.spreads}), centre @ covariance @ centre.T, np.zeros(n),
        anchor, _variances(mixture, centre))


def _variances(mixture: _Mixture, centre: Floats) -> ScoreVariances:
    """Return variances and freedom of t with the variance and kurtosis of the mixture."""
    each = [(share, ScoreVariances.of(centre @ covariance @ centre.T, np.inf))
            for share, covariance in mixture.each()]
    own, gap = (sum(share * getattr(part, name) for share, part in each)
                for name in ('variance', 'gap'))
    own_square, gap_square = (sum(share * getattr(part, name) ** 2 for share, part in each)
                              for name in ('variance', 'gap'))
    freedom, off = _freedom(own, own_square), ~np.eye(len(own), dtype=bool)
    of_gaps = float(np.median(_freedom(gap[off], gap_square[off])))
    return ScoreVariances(own * (freedom - 2) / freedom, gap * (of_gaps - 2) / of_gaps, of_gaps,
                          freedom)


def _freedom(mean: Floats, square: Floats) -> Floats:
    return np.asarray(4 + 2 / np.maximum(square / np.maximum(mean, 1e-300) ** 2 - 1, 1e-3))


@dataclass(frozen=True)
class _Levels:
    """Scores and information of the groups at one θ, in the eigenvectors of the information."""

    turns: Floats
    sizes: Floats
    slopes: Floats
    home: Ints
    personal: np.ndarray
    total: float
    bend: float
    noise: float


def _levels(sums: _Sums, mean: Floats, covariance: Floats, ties: float) -> _Levels:
    n, i, j = len(mean), sums.low, sums.high
    group, home, personal = (sums.group, sums.home, sums.personal) if not sums.many else (
        np.zeros_like(sums.group), np.array([-1]), np.array([False]))
    spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    flat = 1 / np.sqrt(1 + np.pi / 8 * spread)
    p = expit(flat * (mean[i] - mean[j]))
    total, plain = float(sums.total.sum()), float((sums.total * p * (1 - p)).sum())
    bend, slope = sums.total * flat * p * (1 - p), sums.won - sums.total * p
    cells = ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1))
    table = np.bincount(np.concatenate([(group * n + a) * n + b for a, b, _ in cells]),
                        np.concatenate([sign * bend for _, _, sign in cells]),
                        minlength=len(home) * n * n)
    slopes = csr_array((np.r_[slope, -slope], (np.r_[sums.group, sums.group], np.r_[i, j])),
                       shape=(len(sums.home), n))
    sizes, turns = np.linalg.eigh(table.reshape(len(home), n, n))
    sizes, noise = np.maximum(sizes, 0.0), with_ties(ties, total, plain)
    if sums.many:
        seen = sizes[0] > 1e-9 * sizes[0].max()
        each = ((slopes @ turns[0]) ** 2).sum(axis=0)[seen] / sizes[0][seen]
        noise = max(noise, float(each.mean()))
    pulls = np.asarray(slopes.sum(axis=0))[None] if sums.many else slopes.toarray()
    return _Levels(turns, sizes, np.einsum('gab,ga->gb', turns, pulls), home, personal, total,
                   float(bend.sum()) / total, noise)


def _mixed(levels: _Levels, theta: Floats, taus: Floats, grid: list[Floats]) -> _Mixture:
    """Return the posteriors for all τ, σ and σ', linearised at ``theta`` (n,)."""
    logs, posteriors = [], []
    for evaluator in grid[0]:
        for institution in grid[1]:
            value, slope, bend = _left_of_groups(levels, float(evaluator), float(institution))
            sizes, turn = np.linalg.eigh(bend + (np.trace(bend) + 1) / len(theta))
            # The last is the common shift of all abilities.
            sizes, turn = np.maximum(sizes[:-1], 0.0), turn[:, :-1]
            here, slope = theta @ turn, slope @ turn
            precise, pull = sizes + 1 / taus[:, None] ** 2, slope + sizes * here
            logs.append(value - slope @ here - sizes @ here ** 2 / 2 + (
                pull ** 2 / precise - np.log(precise * taus[:, None] ** 2)).sum(axis=1) / 2
                - (evaluator ** 2 + institution ** 2) / SCALE ** 2 / 2)
            posteriors.append((turn, pull / precise, 1 / precise))
    log = np.array(logs) - PRIOR_POLICIES * (np.log(taus) + TYPICAL ** 2 / taus ** 2 / 2)
    share = np.exp(log - log.max())
    share /= share.sum()
    return _kept(share, posteriors, taus, grid)


def _kept(share: Floats, posteriors: list[tuple[Floats, Floats, Floats]], taus: Floats,
          grid: list[Floats]) -> _Mixture:
    """Return the mixture without the rarest parts."""
    rows, columns = np.nonzero(share > RARE * share.max())
    cube = share.reshape(len(grid[0]), len(grid[1]), -1)
    sides = [(values, cube.sum(axis=tuple({0, 1, 2} - {k})))
             for k, values in enumerate((*grid, taus))]
    kept = share[rows, columns] / share[rows, columns].sum()
    return _Mixture(kept, np.array([posteriors[r][0] @ posteriors[r][1][c] for r, c in zip(
        rows, columns, strict=True)]), [posteriors[r][0] for r in rows],
        [posteriors[r][2][c] for r, c in zip(rows, columns, strict=True)],
        dict(zip(('evaluator', 'institution', 'theta'),
                 (float(values @ part) for values, part in sides), strict=True)),
        [_narrowed(*side) for side in sides[:2]])


def _narrowed(values: Floats, share: Floats) -> Floats:
    """Return a grid about what is probable."""
    if len(values) < 2:
        return values
    mean = float(values @ share)
    wide = 3 * max(float(np.sqrt(share @ (values - mean) ** 2)), (values[1] - values[0]) / 3)
    return np.linspace(max(mean - wide, 0.0), mean + wide, 7)


def _left_of_groups(levels: _Levels, evaluator: float, institution: float,
                    ) -> tuple[float, Floats, Floats]:
    """Return log-likelihood, score (n,) and information (n, n) with groups of these spreads."""
    own = max(levels.noise - 2 * (evaluator ** 2 + institution ** 2) * levels.bend,
              LEAST_NOISE * levels.noise)
    spread = np.where(levels.personal, evaluator ** 2, 0.0)[:, None]
    shrink = 1 / (own + spread * levels.sizes)
    value = -0.5 * float(levels.total * (np.log(own) + levels.noise / own) + (
        np.log1p(spread * levels.sizes / own)
        - spread * levels.slopes ** 2 * shrink / own).sum())
    slope = np.einsum('gab,gb->ga', levels.turns, shrink * levels.slopes)
    bend = (levels.turns * (levels.sizes * shrink)[:, None, :]) @ levels.turns.transpose(0, 2, 1)
    if institution > 0:
        return _left_of_homes(value, slope, bend, levels.home, institution ** 2)
    return value, slope.sum(axis=0), bend.sum(axis=0)


def _left_of_homes(value: float, slope: Floats, bend: Floats, home: Ints, spread: float,
                   ) -> tuple[float, Floats, Floats]:
    n, inside = slope.shape[1], home >= 0
    kinds, at = np.unique(home[inside], return_inverse=True)
    members = (at == np.arange(len(kinds))[:, None]).astype(float)
    table = np.concatenate([
        (members @ bend[inside].reshape(-1, n * n)).reshape(-1, n, n),
        (members @ slope[inside])[:, :, None]], axis=2)
    weigh = np.eye(n) + spread * table[:, :, :n]
    left = np.linalg.solve(weigh, table)
    value += 0.5 * float(spread * (table[:, :, n] * left[:, :, n]).sum()
                         - np.linalg.slogdet(weigh)[1].sum())
    total = left[:, :, :n].sum(axis=0) + bend[~inside].sum(axis=0)
    return value, left[:, :, n].sum(axis=0) + slope[~inside].sum(axis=0), (total + total.T) / 2
