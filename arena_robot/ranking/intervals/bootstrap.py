"""
Bootstrap by session: how far scores and ranks move when the sessions are drawn again.

The bootstrap draws sessions with replacement, because verdicts within a session depend on each
other. Bradley–Terry and Davidson refit all replicates in one batch from their counts: arrays
(R, P) over replicates and pairs, one batched solve of R systems per Newton step, started at the
fit of the whole data. Any other method is refitted replicate by replicate, by several processes
or a cluster where it is given ``Workers``. The draws depend on the seed alone, not on who does
the work.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.sparse import csr_array
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Floats, Ints, Method
from arena_robot.ranking.counts import (
    MOST_CELLS,
    PairCounts,
    count_pairs,
    labels,
    laplacian_factor,
    numbered,
    outcome_cells,
)
from arena_robot.ranking.intervals.sandwich import ScoreVariances
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.pairwise.prior import PairMethod, established
from arena_robot.ranking.standings import Standings, competition_ranks

TOLERANCE = 1e-9
MAX_ITERATIONS = 40
LONGEST_STEP = 2.0
BATCHED_POLICIES = 200    # beyond that, a matrix per replicate is too large
CHORD_TOLERANCE = 1e-4
FALLBACK_RIDGE = 1e-2     # comparisons; small beside one verdict


@dataclass(frozen=True)
class Draws:
    """
    Scores (R, n) of bootstrap replicates, NaN of a policy that a replicate cannot place.

    ``rescued`` replicates have no finite maximum and were refitted with a small ridge.
    """

    scores: Floats
    rescued: int = 0

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
    if isinstance(method, PairMethod):
        return _bootstrap_counts(method, comparisons, replicates, rng)
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


def _bootstrap_counts(method: PairMethod, comparisons: Comparisons, replicates: int,
                      rng: np.random.Generator) -> Draws:
    fit, counts = method(comparisons), count_pairs(comparisons)
    own = method.l2 is not None
    anchor = np.ones(counts.n, bool) if own else established(counts)
    l2 = float(method.l2 or 0.0 if fit.ridge is None else fit.ridge.max())
    kappa = fit.diagnostics.details.get('kappa', 0.0)
    rows = 0 if _one_each(comparisons) else len(comparisons)
    square = counts.n ** 2 if counts.n <= BATCHED_POLICIES else 0
    size = max(1, MOST_CELLS // max(rows, square, 3 * len(counts.low)))
    parts, rescued = [], 0
    for start in range(0, replicates, size):
        tables = resampled_counts(comparisons, counts, min(size, replicates - start), rng)
        scores, lost = batched_fit(counts, tables, fit.scores, l2,
                                   float(np.log(kappa)) if kappa > 0 else None)
        parts.append(scores - scores[:, anchor].mean(axis=1, keepdims=True))
        rescued += lost
    return Draws(np.concatenate(parts), rescued=rescued)


def resampled_counts(comparisons: Comparisons, counts: PairCounts, replicates: int,
                     rng: np.random.Generator) -> Floats:
    """
    Return (R, P, 3) losses, ties and wins of the pairs in resamples of the sessions.

    Where every session holds one comparison of weight 1 the resampled cells are multinomial, and
    are drawn as such, so that a million comparisons cost no more than a hundred.
    """
    cells, n = outcome_cells(comparisons), counts.n
    pair = np.searchsorted(counts.low * n + counts.high, cells // 3)
    pair = np.minimum(pair, len(counts.low) - 1)
    column = 3 * pair + cells % 3
    width, total = 3 * len(counts.low), len(comparisons)
    if _one_each(comparisons):
        seen = np.bincount(column, minlength=width)
        met = np.flatnonzero(seen)
        tables = np.zeros((replicates, width))
        tables[:, met] = rng.multinomial(total, seen[met] / total, size=replicates)
    else:
        place, total = numbered(comparisons.session)
        times = rng.multinomial(total, np.full(total, 1 / total), size=replicates)
        parts = csr_array((comparisons.weight, (place, column)), shape=(total, width))
        tables = np.asarray(times @ parts)
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
    said: tuple[str, ...] = ()
    lost = int(np.isnan(draws.scores[:, ~few]).any(axis=1).sum()) if not few.all() else 0
    if lost:
        said += (f'{lost} of {len(draws.scores)} bootstrap replicates could not place every '
                 'policy; they widen the intervals',)
    if draws.rescued:
        said += (f'{draws.rescued} bootstrap replicates have no finite maximum: intervals '
                 'reach further than shown',)
    return said


def batched_fit(counts: PairCounts, tables: Floats, start: Floats, l2: float,
                log_kappa: float | None) -> tuple[Floats, int]:
    """
    Fit every table (R, P, 3) of losses, ties and wins of the pairs of ``counts``.

    ``start`` (n,) are abilities to start at; ``log_kappa`` None fits Bradley–Terry, a number
    starts Davidson there. Returns centred abilities (R, n) and the number of replicates without a
    finite maximum, which are refitted with a ridge of 0.01 comparisons (with more than 200
    policies they stay where the iteration ends).
    """
    if counts.n > BATCHED_POLICIES:
        theta, done = chord(counts, tables, start, l2, log_kappa)
        return theta - theta.mean(axis=1, keepdims=True), int((~done).sum())
    theta, done = _newton(counts, tables, start, l2, log_kappa)
    lost = ~done
    if lost.any():
        theta[lost], _ = _newton(counts, tables[lost], np.zeros(counts.n), l2 + FALLBACK_RIDGE,
                                 log_kappa)
    return theta - theta.mean(axis=1, keepdims=True), int(lost.sum())


def _newton(counts: PairCounts, tables: Floats, start: Floats, l2: float,
            log_kappa: float | None) -> tuple[Floats, np.ndarray]:
    theta = np.tile(start, (len(tables), 1))
    tied = tables[:, :, 1].sum(axis=1) > 0
    kappas = np.where(tied, -np.inf if log_kappa is None else log_kappa, -np.inf)
    done = np.zeros(len(tables), bool)
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(~done)
        if log_kappa is None:
            step, extra = _step_bt(counts, tables[on], theta[on], l2), np.zeros(len(on))
        else:
            step, extra = _step_davidson(counts, tables[on], theta[on], kappas[on], l2)
        size = np.maximum(np.abs(step).max(axis=1), np.abs(extra))
        scale = np.minimum(1.0, LONGEST_STEP / np.maximum(size, 1e-300))
        theta[on] += step * scale[:, None]
        kappas[on] += extra * scale
        done[on] = size < TOLERANCE
        if done.all():
            break
    return theta, done


def _step_bt(counts: PairCounts, tables: Floats, theta: Floats, l2: float) -> Floats:
    total = tables.sum(axis=2)
    p = expit(theta[:, counts.low] - theta[:, counts.high])
    surplus = tables[:, :, 2] + tables[:, :, 1] / 2 - total * p
    slope = (incidence(counts) @ surplus.T).T - l2 * theta
    return _solve(counts, total * p * (1 - p), slope[:, :, None], l2)[:, :, 0]


def _step_davidson(counts: PairCounts, tables: Floats, theta: Floats, log_kappa: Floats,
                   l2: float) -> tuple[Floats, Floats]:
    total, ties = tables.sum(axis=2), tables[:, :, 1].sum(axis=1)
    win, tie, _ = outcome_probabilities(theta[:, counts.low] - theta[:, counts.high],
                                        np.exp(log_kappa)[:, None])
    share, signs = win + tie / 2, incidence(counts)
    slope = (signs @ (tables[:, :, 2] + tables[:, :, 1] / 2 - total * share).T).T - l2 * theta
    border = (signs @ (total * tie * (0.5 - share)).T).T
    corner = (total * tie * (1 - tie)).sum(axis=1) + l2
    both = _solve(counts, total * (win + tie / 4 - share ** 2),
                  np.stack([slope, border], axis=2), l2)
    pull = l2 * np.where(ties > 0, log_kappa, 0.0) if l2 > 0 else 0.0
    last = ties - (total * tie).sum(axis=1) - pull - (border * both[:, :, 0]).sum(axis=1)
    bend = corner - (border * both[:, :, 1]).sum(axis=1)
    last = np.where(ties > 0, last / np.maximum(bend, 1e-300), 0.0)
    return both[:, :, 0] - both[:, :, 1] * last[:, None], last


def _solve(counts: PairCounts, weight: Floats, right: Floats, l2: float) -> Floats:
    n, count = counts.n, len(weight)
    matrix = np.zeros((count, n, n))
    matrix[:, counts.low, counts.high] = -weight
    matrix[:, counts.high, counts.low] = -weight
    degree = -matrix.sum(axis=2)
    at = np.arange(n)
    matrix[:, at, at] = degree + l2
    mean = degree.mean(axis=1)[:, None, None] + 1e-12
    matrix += mean / n if l2 == 0 else 0.0
    matrix[:, at, at] += 1e-13 * mean[:, :, 0]
    return np.asarray(np.linalg.solve(matrix, right))


def chord(counts: PairCounts, tables: Floats, start: Floats, l2: float, log_kappa: float | None,
          ) -> tuple[Floats, np.ndarray]:
    """
    Return abilities (R, n) and which of the R replicates converged, for many policies.

    Every step uses the information at ``start``, which is factorised once, and the slopes of all
    replicates; Newton's own matrices would be R systems of n unknowns per step. κ takes Newton
    steps of its own.
    """
    signs = incidence(counts)
    total, wins = tables.sum(axis=2), tables[:, :, 2] + tables[:, :, 1] / 2
    kappas = np.full((len(tables), 1), -np.inf if log_kappa is None else log_kappa)
    win, tie, _ = outcome_probabilities(start[counts.low] - start[counts.high],
                                        np.exp(kappas[0, 0]))
    weight = total.mean(axis=0) * (win + tie / 4 - (win + tie / 2) ** 2)
    anchor = max(float(2 * weight.sum()), 1e-9) / counts.n ** 2
    factor = laplacian_factor(counts, weight, anchor, l2 + 1e-9)
    theta = np.tile(start, (len(tables), 1))
    done = np.zeros(len(tables), bool)
    for _ in range(MAX_ITERATIONS):
        on: Any = slice(None) if not done.any() else np.flatnonzero(~done)
        mean, tie = _means(theta[on], counts, kappas[on])
        surplus = wins[on] - total[on] * mean
        step = cho_solve(factor, signs @ surplus.T - l2 * theta[on].T, check_finite=False).T
        size = np.abs(step).max(axis=1)
        theta[on] += step * np.minimum(1.0, LONGEST_STEP / np.maximum(size, 1e-300))[:, None]
        if log_kappa is not None:
            kappas[on] += _kappa_step(tables[on], tie)
        done[on] = size < CHORD_TOLERANCE
        if done.all():
            break
    return theta, done


def _means(theta: Floats, counts: PairCounts, kappas: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each pair's outcome and its chance of a tie, (R, P) each."""
    d = theta[:, counts.low]
    d -= theta[:, counts.high]
    if not np.isfinite(kappas).any():
        return expit(d, out=d), np.zeros((1, 1))
    win, tie, _ = outcome_probabilities(d, np.exp(kappas))
    return win + tie / 2, tie


def _kappa_step(table: Floats, tie: Floats) -> Floats:
    total, ties = table.sum(axis=2), table[:, :, 1].sum(axis=1)
    bend = (total * tie * (1 - tie)).sum(axis=1)
    step = np.clip((ties - (total * tie).sum(axis=1)) / np.maximum(bend, 1e-300), -1.0, 1.0)
    return np.asarray(np.where(ties > 0, step, 0.0)[:, None])


def incidence(counts: PairCounts) -> csr_array:
    """Return (n, P): 1 at the lower index of a pair, -1 at the higher."""
    pairs = len(counts.low)
    at = np.tile(np.arange(pairs), 2)
    return csr_array((np.repeat([1.0, -1.0], pairs), (np.r_[counts.low, counts.high], at)),
                     shape=(counts.n, pairs))
