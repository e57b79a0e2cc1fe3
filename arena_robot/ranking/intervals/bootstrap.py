"""
Bootstrap by session: how far scores and ranks move when the sessions are drawn again.

The bootstrap draws sessions with replacement, because verdicts within a session depend on each
other. A method is refitted replicate by replicate, by several processes or a cluster where it is
given ``Workers``. Bradley–Terry of sessions with one verdict each refits all replicates in one
batch from their counts, one batched solve of R systems per Newton step, started at the fit of the
whole data. The draws depend on the seed alone, not on who does the work.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Fit, Floats, Ints, Method
from arena_robot.ranking.counts import (
    MOST_CELLS,
    PairCounts,
    count_pairs,
    labels,
    numbered,
    outcome_cells,
)
from arena_robot.ranking.intervals.sandwich import ScoreVariances
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.standings import Standings, competition_ranks

TOLERANCE = 1e-9
MAX_ITERATIONS = 40
LONGEST_STEP = 2.0
BATCHED_POLICIES = 200    # beyond that, a matrix per replicate is too large


@dataclass(frozen=True)
class Draws:
    """Scores (R, n) of bootstrap replicates, NaN of a policy that a replicate cannot place."""

    scores: Floats

    @property
    def lost(self) -> Floats:
        """(n,) the share of the replicates that cannot place a policy."""
        return np.asarray(np.isnan(self.scores).mean(axis=0))


def bootstrap(method: Method, comparisons: Comparisons, replicates: int, *, seed: int = 0,
              workers: Workers = HERE, anchor: NDArray[np.bool_] | None = None) -> Draws:
    """
    Refit ``method`` on ``replicates`` resamples of the sessions.

    A resample in which some policy does not occur still places the others. ``anchor`` is that of
    the fit of all sessions.

    :raises RankingError: no replicate could be ranked.
    """
    rng = np.random.default_rng(seed)
    if method == BradleyTerry() and comparisons.n <= BATCHED_POLICIES and _one_each(comparisons):
        fit = method(comparisons)
        if fit.ridge is not None and not fit.ridge.any():
            return _bootstrap_counts(comparisons, fit, replicates, rng)
    seeds = rng.integers(0, 2 ** 63, replicates)
    scores = np.array(workers.map(partial(_replicate, method, comparisons, anchor),
                                  [int(s) for s in seeds]))
    if np.isnan(scores).all():
        raise RankingError(f'none of {replicates} bootstrap replicates could be ranked: there are '
                           'too few sessions for intervals')
    return Draws(scores)


def session_weights(comparisons: Comparisons, rng: np.random.Generator) -> Floats:
    """Return (M,) weights of one resample: each comparison's, times how often its session came."""
    place, total = numbered(comparisons.session)
    times = np.bincount(rng.integers(0, total, total), minlength=total)
    return np.asarray(comparisons.weight * times[place])


def _replicate(method: Method, comparisons: Comparisons, anchor: NDArray[np.bool_] | None,
               seed: int) -> Floats:
    weight = session_weights(comparisons, np.random.default_rng(seed))
    votes = comparisons.reweighted(weight).take(weight > 0)
    scores = np.full(votes.n, np.nan)
    for kept in _tries(votes):
        try:
            scores[kept] = method(votes.only([votes.items[k] for k in kept])).scores
        except RankingError:
            continue
        break
    if anchor is not None and np.isfinite(scores[anchor]).any():
        scores -= np.nanmean(scores[anchor])
    return scores


def _tries(votes: Comparisons) -> Iterator[Ints]:
    """Yield whom to rank: all; else the largest group that was compared; else who has scores."""
    yield np.arange(votes.n)
    label = labels(count_pairs(votes), beaten=False)
    yield np.flatnonzero(label == np.bincount(label).argmax())
    yield np.unique(np.r_[votes.first[np.isfinite(votes.score_first)],
                          votes.second[np.isfinite(votes.score_second)]])


def _bootstrap_counts(comparisons: Comparisons, fit: Fit, replicates: int,
                      rng: np.random.Generator) -> Draws:
    counts, parts = count_pairs(comparisons), []
    size = max(1, MOST_CELLS // max(counts.n ** 2, 3 * len(counts.low)))
    for start in range(0, replicates, size):
        tables = resampled_counts(comparisons, counts, min(size, replicates - start), rng)
        scores = batched_fit(counts, tables, fit.scores)
        parts.append(scores - scores[:, fit.anchor].mean(axis=1, keepdims=True))
    return Draws(np.concatenate(parts))


def resampled_counts(comparisons: Comparisons, counts: PairCounts, replicates: int,
                     rng: np.random.Generator) -> Floats:
    """
    Return (R, P, 3) losses, ties and wins of the pairs in resamples of the sessions.

    Every session holds one comparison of weight 1, so that the resampled cells are multinomial,
    and a million comparisons cost no more than a hundred.
    """
    cells, width = outcome_cells(comparisons), 3 * len(counts.low)
    pair = np.searchsorted(counts.low * counts.n + counts.high, cells // 3)
    seen = np.bincount(3 * pair + cells % 3, minlength=width)
    met = np.flatnonzero(seen)
    tables = np.zeros((replicates, width))
    tables[:, met] = rng.multinomial(len(cells), seen[met] / len(cells), size=replicates)
    return tables.reshape(replicates, -1, 3)


def _one_each(comparisons: Comparisons) -> bool:
    session = comparisons.session
    return bool(np.all(comparisons.weight == 1.0)) and numbered(session)[1] == len(session)


def bootstrap_variances(draws: Draws, clusters: int, few: np.ndarray) -> ScoreVariances:
    """Return the variances of the replicates, enlarged for few clusters; infinite for ``few``."""
    known = np.isfinite(draws.scores).astype(float)
    mean = np.nansum(draws.scores, axis=0) / np.maximum(known.sum(axis=0), 1.0)
    apart = np.where(known > 0, draws.scores - mean, 0.0)
    covariance = apart.T @ apart / np.maximum(known.T @ known - 1, 1.0)
    variances = ScoreVariances.of(covariance * clusters / max(clusters - 1, 1), clusters - 1.0)
    return replace(variances, variance=np.where(few, np.inf, variances.variance),
                   gap=np.where(few[:, None] | few, np.inf, variances.gap))


def with_quantiles(standings: Standings, draws: Draws, level: float = 0.95,
                   keep_ranks: bool = False) -> Standings:
    """
    Return the standings with percentile intervals and rank intervals.

    A replicate that cannot place a policy counts as below and above all others, so that it widens
    the interval. Ends that are infinite, or missing, stay so. A policy of which nothing is stated
    may be on either side of the others. ``keep_ranks``: their ranges stay too.
    """
    n = draws.scores.shape[1]
    tail = (1 - level) / 2
    few = standings.too_few if standings.too_few is not None else np.zeros(n, bool)
    if few.all():
        return standings
    scores = np.where(few, np.nan, draws.scores)
    unknown = np.isnan(scores)
    low = np.quantile(np.where(unknown, -np.inf, scores), tail, axis=0, method='inverted_cdf')
    high = np.quantile(np.where(unknown, np.inf, scores), 1 - tail, axis=0, method='inverted_cdf')
    best, worst = (np.array([competition_ranks(row) for row in np.where(unknown, end, scores)])
                   for end in (np.nanmin(scores) - 1, np.nanmax(scores) + 1))
    best = np.quantile(np.where(unknown, 1, best), tail, axis=0, method='inverted_cdf')
    worst = np.quantile(np.where(unknown, n, worst), 1 - tail, axis=0, method='inverted_cdf')
    standings = dataclasses.replace(
        standings, low=np.where(np.isfinite(standings.low), low, standings.low),
        high=np.where(np.isfinite(standings.high), high, standings.high))
    return standings if keep_ranks else dataclasses.replace(
        standings, rank_low=np.where(few, 1, best).astype(np.int64),
        rank_high=np.where(few, n, worst).astype(np.int64))


def draws_told(draws: Draws, few: np.ndarray) -> tuple[str, ...]:
    """
    Return what readers must know about replicates that could not be fitted as they are.

    ``few`` (n,) are the policies of which nothing is stated.
    """
    lost = int(np.isnan(draws.scores[:, ~few]).any(axis=1).sum()) if not few.all() else 0
    return () if not lost else (
        f'{lost} of {len(draws.scores)} bootstrap replicates could not place every policy; they '
        'widen the intervals',)


def batched_fit(counts: PairCounts, tables: Floats, start: Floats) -> Floats:
    """
    Return (R, n) Bradley–Terry's abilities by tables (R, P, 3) of losses, ties and wins of pairs.

    Newton starts at ``start`` (n,). A replicate without a finite maximum has NaN.
    """
    theta, done = np.tile(start, (len(tables), 1)), np.zeros(len(tables), bool)
    wins, total, signs = tables[:, :, 2] + tables[:, :, 1] / 2, tables.sum(axis=2), incidence(
        counts)
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(~done)
        p = expit(theta[on][:, counts.low] - theta[on][:, counts.high])
        slope = (signs @ (wins[on] - total[on] * p).T).T
        step = _solve(counts, total[on] * p * (1 - p), slope[:, :, None])[:, :, 0]
        size = np.abs(step).max(axis=1)
        theta[on] += step * np.minimum(1.0, LONGEST_STEP / np.maximum(size, 1e-300))[:, None]
        done[on] = size < TOLERANCE
        if done.all():
            break
    return np.where(done[:, None], theta, np.nan)


def _solve(counts: PairCounts, weight: Floats, right: Floats) -> Floats:
    n, count = counts.n, len(weight)
    matrix = np.zeros((count, n, n))
    matrix[:, counts.low, counts.high] = -weight
    matrix[:, counts.high, counts.low] = -weight
    degree = -matrix.sum(axis=2)
    at = np.arange(n)
    matrix[:, at, at] = degree
    mean = degree.mean(axis=1)[:, None, None] + 1e-12
    matrix += mean / n
    matrix[:, at, at] += 1e-13 * mean[:, :, 0]
    return np.asarray(np.linalg.solve(matrix, right))


def incidence(counts: PairCounts) -> csr_array:
    """Return (n, P): 1 at the lower index of a pair, -1 at the higher."""
    pairs = len(counts.low)
    at = np.tile(np.arange(pairs), 2)
    return csr_array((np.repeat([1.0, -1.0], pairs), (np.r_[counts.low, counts.high], at)),
                     shape=(counts.n, pairs))
