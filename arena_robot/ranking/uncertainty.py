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
from arena_robot.ranking.base import Comparisons, Fit, Floats, Method
from arena_robot.ranking.batched import DENSE_POLICIES, batched_fit
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.counts import PairCounts, count_pairs, outcome_cells
from arena_robot.ranking.davidson import Davidson
from arena_robot.ranking.held import established
from arena_robot.ranking.spread import ScoreSpread
from arena_robot.ranking.standings import Standings, competition_ranks

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
    own = method.l2 is not None
    anchor = np.ones(counts.n, bool) if own else established(counts)
    l2 = float(method.l2 or 0.0 if fit.ridge is None else fit.ridge.max())
    kappa = fit.diagnostics.details.get('kappa', 0.0)
    rows = 0 if _one_each(comparisons) else len(comparisons)
    square = counts.n ** 2 if counts.n <= DENSE_POLICIES else 0
    size = max(1, CELLS_AT_ONCE // max(rows, square, 3 * len(counts.low)))
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


def draws_spread(draws: Draws, clusters: int) -> ScoreSpread:
    """Return the variances of the replicates, enlarged for few clusters."""
    covariance = np.atleast_2d(np.cov(draws.scores.T)) * clusters / max(clusters - 1, 1)
    return ScoreSpread.of(covariance, clusters - 1.0)


def with_quantiles(standings: Standings, draws: Draws, level: float = 0.95) -> Standings:
    """
    Return the standings with percentile intervals and rank intervals.

    A replicate that could not be ranked counts as below and above all others, so that it widens
    the interval. Ends that are infinite, or missing, stay so.
    """
    n = draws.scores.shape[1]
    tail = (1 - level) / 2
    lost = np.full((draws.failed, n), np.inf)
    low = np.quantile(np.vstack([-lost, draws.scores]), tail, axis=0, method='inverted_cdf')
    high = np.quantile(np.vstack([draws.scores, lost]), 1 - tail, axis=0, method='inverted_cdf')
    ranks = np.array([competition_ranks(row) for row in draws.scores])
    best = np.quantile(np.vstack([np.ones((draws.failed, n)), ranks]), tail, axis=0,
                       method='inverted_cdf')
    worst = np.quantile(np.vstack([ranks, np.full((draws.failed, n), n)]), 1 - tail, axis=0,
                        method='inverted_cdf')
    few = standings.too_few if standings.too_few is not None else np.zeros(n, bool)
    return dataclasses.replace(
        standings, low=np.where(np.isfinite(standings.low), low, standings.low),
        high=np.where(np.isfinite(standings.high), high, standings.high),
        rank_low=np.where(few, 1, best).astype(np.int64),
        rank_high=np.where(few, n, worst).astype(np.int64))


def draws_told(draws: Draws, no_interval: bool = False) -> tuple[str, ...]:
    """
    Return what readers must know about replicates that could not be fitted as they are.

    ``no_interval``: so many that no interval is stated.
    """
    said: tuple[str, ...] = ()
    if draws.failed:
        all_of = draws.failed + len(draws.scores)
        said += (f'{draws.failed} of {all_of} bootstrap replicates could not be ranked; '
                 + ('with so many no interval is stated' if no_interval else
                    'they widen the intervals'),)
    if draws.rescued:
        said += (f'{draws.rescued} bootstrap replicates have no finite maximum: intervals '
                 'reach further than shown',)
    return said


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
