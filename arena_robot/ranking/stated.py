"""
What is stated about scores whose spread is known: intervals, ranks, p(i better than j).

An interval is stated for a policy with at least 5 comparisons, from at least 10 sessions (5
evaluators or institutions where these are the clusters), that the data bound on some side;
otherwise there is none, its rank may be anything, and ``too_few`` is set. A policy that won
everything has no upper end, one that lost everything no lower end.

Ranks: of the differences, those are counted that exceed the quantile of Student's t (each rank by
itself), or that of the range of n scores (Tukey; all ranks at once).

``p_better`` is a posterior: abilities vary between policies by a variance τ², estimated from the
scores (with the weight of 3 policies at τ = 1 in log-odds, or the observed spread for another
unit), and a difference is shrunk by 2τ² / (2τ² + v). Its tail is that of Student's t, as of the
intervals. Unshrunk, 0.90 to 0.95 was right in 75 to 79 % of simulated cases.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import stdtr, stdtrit

from arena_robot.ranking.base import Floats, Ints
from arena_robot.ranking.spread import ScoreSpread
from arena_robot.ranking.standings import Standings

LEAST_COMPARISONS = 5
LEAST_SESSIONS = 10
LEAST_CLUSTERS = 5
LEAST_PER_POLICY = 1.5
LEAST = {'comparisons': LEAST_COMPARISONS, 'sessions': LEAST_SESSIONS,
         'per_policy': LEAST_PER_POLICY}    # as pages tell it
PRIOR_POLICIES = 3.0
RANGE_DRAWS = 4_000_000


def too_few(counts: Ints, clusters: int, by_session: bool,
            open_ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """
    Return (n,) for which policies no interval is stated; ``open_ends`` is no bound (n,).

    ``counts`` (n,) are the sessions of each, two policies in each session. With fewer than 1.5
    sessions for each policy, scores hang on chains of single verdicts.
    """
    least = LEAST_SESSIONS if by_session else LEAST_CLUSTERS
    above, below = open_ends
    if clusters < least or counts.sum() < 2 * LEAST_PER_POLICY * len(counts):
        return np.ones(len(counts), bool)
    return np.asarray((counts < LEAST_COMPARISONS) | (above & below))


def with_spread(standings: Standings, spread: ScoreSpread, few: np.ndarray,
                open_ends: tuple[np.ndarray, np.ndarray], level: float, unit: float | None,
                ) -> Standings:
    """
    Return the standings with what ``spread`` supports at ``level``.

    ``few`` (n,) have no interval, ``open_ends`` (n,) no upper and no lower end; ``unit`` is the
    prior's τ in the unit of the scores, None to take it from the scores alone.
    """
    n, scores = len(standings.scores), standings.scores
    reach = float(stdtrit(max(spread.freedom, 1.0), (1 + level) / 2))
    wide = stdtrit(np.maximum(spread.own_freedom, 1.0), (1 + level) / 2) * np.sqrt(spread.variance)
    low, high = scores - wide, scores + wide
    low[open_ends[1]], high[open_ends[0]] = -np.inf, np.inf
    low[few], high[few] = np.nan, np.nan
    best, worst = rank_sets(scores, spread.gap, few, reach)
    all_best, all_worst = rank_sets(scores, spread.gap, few, range_quantile(
        n, min(spread.freedom, 1000.0), level))
    return replace(standings, low=low, high=high, rank_low=best, rank_high=worst,
                   rank_low_joint=all_best, rank_high_joint=all_worst, too_few=few,
                   p_better=p_better(scores, spread, unit))


def rank_sets(scores: Floats, gap: Floats, few: np.ndarray, reach: float) -> tuple[Ints, Ints]:
    """Return the best and the worst rank (n,) that differences of ``reach`` spreads leave."""
    ahead = (scores[:, None] - scores) / np.sqrt(np.maximum(gap, 1e-300))
    ahead[few] = ahead[:, few] = 0.0
    np.fill_diagonal(ahead, 0.0)
    return (np.asarray(1 + (ahead < -reach).sum(axis=1), dtype=np.int64),
            np.asarray(len(scores) - (ahead > reach).sum(axis=1), dtype=np.int64))


@lru_cache(maxsize=256)
def range_quantile(n: int, freedom: float, level: float) -> float:
    """Return the quantile of the studentised range of n normals, divided by √2."""
    rng = np.random.default_rng(0)
    draws = max(2000, min(40_000, RANGE_DRAWS // n))
    spans = np.ptp(rng.standard_normal((draws, n)), axis=1)
    spans /= np.sqrt(rng.chisquare(max(freedom, 1.0), draws) / max(freedom, 1.0))
    return float(np.quantile(spans, level) / np.sqrt(2))


def between_policies(scores: Floats, gap: Floats, unit: float | None) -> float:
    """
    Return 2 τ², by how much two abilities differ on average, squared.

    ``unit`` is τ a priori, with the weight of 3 policies; None: by the scores alone.
    """
    n, gap = len(scores), np.maximum(gap, 1e-300)
    known = ~np.eye(n, dtype=bool) & np.isfinite(gap)
    apart = scores[:, None] - scores
    # Two abilities differ by 2 τ² on average, two scores by that and the variance of the gap.
    seen = max(float(np.mean((apart ** 2 - gap)[known])) / 2, 0.0) if known.any() else 0.0
    prior = seen if unit is None else unit ** 2
    weight = 0.0 if unit is None else PRIOR_POLICIES
    return 2 * ((n - 1) * seen + weight * prior) / (n - 1 + weight)


def p_better(scores: Floats, spread: ScoreSpread, unit: float | None) -> Floats:
    """Return (n, n) the probability that the row's policy is better than the column's."""
    gap, between = np.maximum(spread.gap, 1e-300), between_policies(scores, spread.gap, unit)
    apart = scores[:, None] - scores
    shrink = np.sqrt(between / (between + gap))
    table = np.asarray(stdtr(max(spread.freedom, 1.0), apart / np.sqrt(gap) * shrink))
    np.fill_diagonal(table, 0.5)
    return table


def posterior_better(scores: Floats, spread: ScoreSpread) -> Floats:
    """Return (n, n) the probability to be better where ``spread`` is that of a posterior."""
    apart = scores[:, None] - scores
    table = np.asarray(stdtr(max(spread.freedom, 1.0),
                             apart / np.sqrt(np.maximum(spread.gap, 1e-300))))
    np.fill_diagonal(table, 0.5)
    return table
