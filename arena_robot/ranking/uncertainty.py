"""
How far to trust standings: the bootstrap by session, analytic intervals, ranks, p(i better j).

The bootstrap draws sessions with replacement, because what an evaluator says within a session
hangs together. Bradley–Terry and Davidson refit all replicates in one batch from their counts;
any other method is refitted replicate by replicate, by several processes or a cluster where it is
given ``Workers``. The draws depend on the seed alone, not on who does the work.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Fit, Floats, Method, Standings, competition_ranks
from arena_robot.ranking.batched import batched_fit
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.counts import PairCounts, count_pairs, outcome_cells
from arena_robot.ranking.davidson import Davidson

CELLS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Draws:
    """
    Scores (R, n) of bootstrap replicates.

    ``failed`` replicates could not be ranked at all and are left out; ``rescued`` ones have no
    finite maximum and were refitted with a small ridge.
    """

    scores: Floats
    failed: int = 0
    rescued: int = 0


def bootstrap(method: Method, comparisons: Comparisons, replicates: int, *, seed: int = 0,
              workers: Workers = HERE) -> Draws:
    """
    Refit ``method`` on ``replicates`` resamples of the sessions.

    :raises RankingError: no replicate could be ranked.
    """
    rng = np.random.default_rng(seed)
    if isinstance(method, BradleyTerry | Davidson):
        return _bootstrap_counts(method, comparisons, replicates, rng)
    seeds = rng.integers(0, 2 ** 63, replicates)
    found = workers.map(partial(_replicate, method, comparisons), [int(s) for s in seeds])
    scores = np.array([x for x in found if x is not None])
    if not len(scores):
        raise RankingError(f'none of {replicates} bootstrap replicates could be ranked: there are '
                           'too few sessions for intervals')
    return Draws(scores, failed=replicates - len(scores))


def session_weights(comparisons: Comparisons, rng: np.random.Generator) -> Floats:
    """Return (M,) weights of one resample: each comparison's, times how often its session came."""
    different, place = np.unique(comparisons.session, return_inverse=True)
    times = np.bincount(rng.integers(0, len(different), len(different)),
                        minlength=len(different))
    return np.asarray(comparisons.weight * times[place])


def _replicate(method: Method, comparisons: Comparisons, seed: int) -> Floats | None:
    weight = session_weights(comparisons, np.random.default_rng(seed))
    try:
        return method(comparisons.reweighted(weight).take(weight > 0)).scores
    except RankingError:
        return None


def _bootstrap_counts(method: BradleyTerry | Davidson, comparisons: Comparisons, replicates: int,
                      rng: np.random.Generator) -> Draws:
    fit, counts = method(comparisons), count_pairs(comparisons)
    kappa = fit.diagnostics.details.get('kappa', 0.0)
    rows = 0 if _one_each(comparisons) else len(comparisons)
    size = max(1, CELLS_AT_ONCE // max(rows, counts.n ** 2, 3 * len(counts.low)))
    parts, rescued = [], 0
    for start in range(0, replicates, size):
        tables = resampled_counts(comparisons, counts, min(size, replicates - start), rng)
        scores, lost = batched_fit(counts, tables, fit.scores, method.l2,
                                   float(np.log(kappa)) if kappa > 0 else None)
        parts.append(scores)
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
        tables = rng.multinomial(total, seen / total, size=replicates).astype(float)
    else:
        different, place = np.unique(comparisons.session, return_inverse=True)
        total = len(different)
        times = rng.multinomial(total, np.full(total, 1 / total), size=replicates)
        parts = csr_array((comparisons.weight, (place, column)), shape=(total, width))
        tables = np.asarray(times @ parts)
    return tables.reshape(replicates, -1, 3)


def _one_each(comparisons: Comparisons) -> bool:
    session = comparisons.session
    if not np.all(comparisons.weight == 1.0):
        return False
    return bool(np.all(np.diff(session) > 0)) or len(np.unique(session)) == len(session)


def with_draws(standings: Standings, draws: Draws, level: float = 0.95) -> Standings:
    """Return the standings with percentile intervals, rank intervals and p(row better column)."""
    tail = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(draws.scores, tail, axis=0)
    ranks = np.array([competition_ranks(row) for row in draws.scores])
    best, worst = np.quantile(ranks, tail, axis=0, method='inverted_cdf')
    warnings = standings.diagnostics.warnings
    if draws.failed:
        warnings += (f'{draws.failed} bootstrap replicates could not be ranked and are left out',)
    if draws.rescued:
        warnings += (f'{draws.rescued} bootstrap replicates have no finite maximum: intervals '
                     'reach further than shown',)
    told = dataclasses.replace(standings.diagnostics, warnings=warnings)
    return dataclasses.replace(
        standings, low=low, high=high, rank_low=best.astype(np.int64),
        rank_high=worst.astype(np.int64), p_better=p_better(draws.scores), diagnostics=told)


def p_better(scores: Floats) -> Floats:
    """Return (n, n) the share of draws (R, n) in which row scores above column, equals half."""
    n = scores.shape[1]
    result = np.full((n, n), 0.5)
    for i in range(n):
        ahead = scores[:, [i]] - scores
        result[i] = ((ahead > 0).mean(axis=0) + (ahead >= 0).mean(axis=0)) / 2
    return result


def analytic(standings: Standings, fit: Fit, level: float = 0.95) -> Standings:
    """
    Return the standings with intervals from the fit's covariance, which assumes the model.

    Rank intervals count the policies that are better, or worse, beyond ``level`` pair by pair.

    :raises RankingError: the method gives no covariance.
    """
    if fit.covariance is None:
        raise RankingError(f"method '{standings.method}' has no analytic intervals; use the "
                           'bootstrap')
    reach = ndtri((1 + level) / 2)
    spread = np.sqrt(np.maximum(np.diag(fit.covariance), 0.0))
    variance = np.diag(fit.covariance)
    gap = variance[:, None] + variance[None, :] - 2 * fit.covariance
    ahead = (fit.scores[:, None] - fit.scores) / np.sqrt(np.maximum(gap, 1e-300))
    np.fill_diagonal(ahead, 0.0)
    n = len(fit.scores)
    return dataclasses.replace(
        standings, low=fit.scores - reach * spread, high=fit.scores + reach * spread,
        rank_low=1 + (ahead < -reach).sum(axis=1), rank_high=n - (ahead > reach).sum(axis=1),
        p_better=np.asarray(ndtr(ahead)))
