"""
Which intervals standings get, and what is stated about their ranks.

Comparisons of one cluster are not independent: a session, an evaluator, or an institution.
``auto`` is evaluators where at least two are known, else sessions. With fewer than 1000 clusters,
intervals are symmetric with Student's t: by the sandwich covariance for Bradley–Terry and Davidson
(:mod:`.sandwich`), by the standard deviation over a bootstrap of the clusters for other methods.
From 1000 clusters on they are percentiles of the bootstrap. Shrunk Bradley–Terry and the
hierarchical model have those of their posteriors, which know evaluators and institutions.

An interval is stated for a policy with at least 5 comparisons, from at least 10 sessions (5
evaluators or institutions where these are the clusters), that the data bound on some side.
Without an interval a policy may have any rank, and ``too_few`` is set. A policy that won
everything has no upper end, one that lost everything no lower end.

A rank counts the differences that exceed the quantile of Student's t (each rank by itself), or of
the range of n scores (Tukey; all ranks at once). Who submits one policy under twenty names has
twenty chances of a lucky score. Where several owners are known, ranks are by scores of which those
of one owner's policies are shrunk to their mean by the share of their spread that their standard
errors explain (DerSimonian and Laird 1986), and those that are not told apart count once. The
scores that are stated stay those of the verdicts alone, so that anybody can compute them again.

``p_better`` is a posterior: abilities vary between policies by a variance τ², estimated from the
scores (with the weight of 3 policies at τ = 1 in log-odds, or the observed variance for another
unit), and a difference is shrunk by 2τ² / (2τ² + v). Its tail is that of Student's t, as of the
intervals. Unshrunk, 0.90 to 0.95 was right in 75 to 79 % of simulated cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import stdtr, stdtrit

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import CLUSTERS, Comparisons, Fit, Floats, Ints, Method
from arena_robot.ranking.counts import LEAST_COMPARISONS, MOST_CELLS, count_pairs, numbered
from arena_robot.ranking.hierarchical.model import Hierarchical
from arena_robot.ranking.intervals.bootstrap import (
    Draws,
    bootstrap,
    bootstrap_variances,
    draws_told,
    with_quantiles,
)
from arena_robot.ranking.intervals.sandwich import ScoreVariances, sandwich_variances
from arena_robot.ranking.intervals.shrunk import (
    PRIOR_POLICIES,
    PosteriorFit,
    ShrunkBradleyTerry,
)
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.prior import PairMethod, established, one_sided
from arena_robot.ranking.standings import TIE_TOLERANCE, Standings

MANY_CLUSTERS = 1000
LEAST_EVALUATORS = 2
FAILED = 'not known: too many replicates failed'
CHOICES = ('auto', *CLUSTERS)
LEAST_SESSIONS = 10
LEAST_CLUSTERS = 5
LEAST_PER_POLICY = 1.5
LEAST = {'comparisons': LEAST_COMPARISONS, 'sessions': LEAST_SESSIONS}    # as pages tell it


@dataclass(frozen=True)
class IntervalPlan:
    """
    How intervals are made.

    ``replicates`` of the bootstrap, its ``seed``, the ``level``, what hangs together, the typical
    ``typical_gap`` between policies (or None), who refits, and the owner of each
    policy, '' where it is not known.
    """

    replicates: int
    seed: int = 0
    level: float = 0.95
    cluster: str = 'auto'
    typical_gap: float | None = None
    workers: Workers = HERE
    owners: tuple[str, ...] = ()


def chosen_cluster(comparisons: Comparisons, cluster: str) -> str:
    """
    Return what hangs together, for 'auto' by what is known.

    :raises RankingError: ``cluster`` is unknown.
    """
    if cluster not in CHOICES:
        raise RankingError(f"cannot cluster by '{cluster}'; known: {', '.join(CHOICES)}")
    if cluster != 'auto':
        return cluster
    return 'evaluator' if _evaluators(comparisons) >= LEAST_EVALUATORS else 'session'


def with_intervals(result: Standings, comparisons: Comparisons, method: Method, fit: Fit,
                   plan: IntervalPlan) -> Standings:
    """
    Return the standings with intervals, rank ranges and ``p_better``.

    :raises RankingError: no bootstrap replicate could be ranked.
    """
    by = chosen_cluster(comparisons, plan.cluster)
    cluster = comparisons.clusters(by)
    count = numbered(cluster[comparisons.weight > 0])[1]
    both_ends = (np.zeros(result.scores.shape, bool),) * 2
    open_ends = one_sided(count_pairs(comparisons)) if isinstance(fit, PosteriorFit) or (
        fit.ridge is not None and fit.ridge.any()) else both_ends
    met = effective(comparisons)
    few, none = too_few(met, count, by == 'session', open_ends), ''
    if by != 'session' and count < LEAST_CLUSTERS:
        none = f'too few {by}s to tell'
    draws, level = None, np.full(len(few), plan.level)
    ends = both_ends if isinstance(fit, PosteriorFit) else open_ends
    variances, way = _without_draws(comparisons, method, fit, cluster, count)
    if variances is None:
        draws = _draws(comparisons, method, cluster, fit, by, plan)
        enough, few = not few.all(), few | (draws.lost >= 1 - plan.level) | (plan.replicates < 2)
        level = plan.level + np.where(few, 0.0, draws.lost)
        variances = bootstrap_variances(draws, count, few)
        if enough and few.all():
            none = FAILED
        way = 'bootstrap percentiles' if count >= MANY_CLUSTERS else 'bootstrap, t'
    result = with_variances(result, variances, few, ends, level, plan.typical_gap, plan.owners)
    if way == 'posterior':
        result = replace(result, p_better=p_better(result.scores, variances, posterior=True))
    if draws is not None and count >= MANY_CLUSTERS:
        result = with_quantiles(result, draws, plan.level, len(set(plan.owners) - {''}) > 1)
    basis = {'by': by, 'clusters': count, 'way': way, 'level': plan.level, 'none': none}
    warnings = reasons(result, met, open_ends, none) + _of_one_owner(result, plan.owners)
    warnings += () if draws is None else draws_told(draws, few)
    fitted = result.diagnostics
    return replace(result, diagnostics=replace(
        fitted, warnings=fitted.warnings + warnings,
        details={**fitted.details, 'intervals': basis}))


def _without_draws(comparisons: Comparisons, method: Method, fit: Fit, cluster: Ints, count: int,
                   ) -> tuple[ScoreVariances | None, str]:
    """Return the variances that need no bootstrap, None where there are none, and their kind."""
    if isinstance(fit, PosteriorFit):
        return fit.variances, 'posterior'
    if isinstance(method, Hierarchical) and fit.covariance is not None:
        return ScoreVariances.of(fit.covariance, max(count - 1.0, 1.0)), 'posterior'
    if not isinstance(method, PairMethod) or count < 2:
        return None, ''
    anchor = np.ones(comparisons.n, bool) if fit.anchor is None else fit.anchor
    return sandwich_variances(comparisons, fit, cluster, anchor), 'sandwich'


def difference(comparisons: Comparisons, first: str, second: str, *, level: float = 0.95,
               cluster: str = 'auto') -> tuple[float, float, float] | None:
    """Return what :meth:`Differences.between` does."""
    if first not in comparisons.items or second not in comparisons.items:
        return None
    return Differences.of(comparisons, cluster).between(first, second, level)


@dataclass(frozen=True)
class Differences:
    """The differences of all policies by Bradley–Terry; ``few`` and the ends are (n,)."""

    items: tuple[str, ...]
    scores: Floats
    variances: ScoreVariances | None
    few: np.ndarray
    above: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, comparisons: Comparisons, cluster: str = 'auto', *, shrunk: bool = False,
           ) -> 'Differences':
        """
        Return those that the comparisons tell of.

        ``shrunk``: by the posterior, which holds for chosen pairs too and has both ends.
        """
        by = chosen_cluster(comparisons, cluster)
        groups, counts = comparisons.clusters(by), count_pairs(comparisons)
        above, below = one_sided(counts)
        few = too_few(effective(comparisons), numbered(groups)[1], by == 'session',
                      (above, below))
        if shrunk and not few.all():
            posterior = ShrunkBradleyTerry(cluster)(comparisons)
            return cls(comparisons.items, posterior.scores, posterior.variances, few,
                       *(np.zeros(len(few), bool),) * 2)
        fit = BradleyTerry()(comparisons)
        variances = None if few.all() else sandwich_variances(comparisons, fit, groups,
                                                          established(counts))
        return cls(comparisons.items, fit.scores, variances, few, above, below)

    def between(self, first: str, second: str, level: float = 0.95,
                ) -> tuple[float, float, float] | None:
        """
        Return by how much ``first`` is better, with its interval; log-odds.

        None where a policy is not compared, or the data are too few to tell.
        """
        if first not in self.items or second not in self.items:
            return None
        i, j = self.items.index(first), self.items.index(second)
        if self.variances is None or self.few[i] or self.few[j]:
            return None
        apart = float(self.scores[i] - self.scores[j])
        reach = float(stdtrit(self.variances.freedom, (1 + level) / 2)
                      * np.sqrt(self.variances.gap[i, j]))
        return (apart, -np.inf if self.below[i] or self.above[j] else apart - reach,
                np.inf if self.above[i] or self.below[j] else apart + reach)


def _draws(comparisons: Comparisons, method: Method, cluster: np.ndarray, fit: Fit, by: str,
           plan: IntervalPlan) -> Draws:
    votes = comparisons if by == 'session' else replace(comparisons, session=cluster)
    return bootstrap(method, votes, plan.replicates, seed=plan.seed, workers=plan.workers,
                     anchor=fit.anchor)


def _evaluators(comparisons: Comparisons) -> int:
    """Return how many evaluators are known, 0 where some comparison has none."""
    if not any(comparisons.evaluators):
        return 0
    met = np.flatnonzero(np.bincount(comparisons.evaluator, comparisons.weight > 0))
    return len(met) if all(comparisons.evaluators[k] for k in met) else 0


def reasons(result: Standings, met: Floats, open_ends: tuple[np.ndarray, np.ndarray],
            none: str) -> tuple[str, ...]:
    """Return why there is no interval and no rank, for all policies or for those without."""
    few = np.zeros(len(result.items), bool) if result.too_few is None else result.too_few
    if none:
        return (f'no interval and no rank is stated: {none}',)
    if few.all() and result.counts.sum() < 2 * max(LEAST_SESSIONS, LEAST_PER_POLICY * len(few)):
        return (f'all policies: fewer than {LEAST_SESSIONS} sessions or {LEAST_PER_POLICY} for '
                'each policy, too few comparisons to tell a rank',)
    small, apart = met < LEAST_COMPARISONS, open_ends[0] & open_ends[1]
    said = []
    for which, why in ((few & small, f'fewer than {LEAST_COMPARISONS} comparisons, too few to'),
                       (few & ~small & apart, 'too few comparisons with the others to'),
                       (few & ~small & ~apart, 'missing in too many resamples of the sessions to'),
                       ):
        if which.any():
            names = 'all policies' if which.all() else ', '.join(
                result.items[k] for k in np.flatnonzero(which))
            said.append(f'{names}: {why} tell a rank')
    return tuple(said)


def effective(comparisons: Comparisons) -> Floats:
    """Return (n,) as how many comparisons of equal weight those of each policy count (Kish)."""
    total, square = (sum(np.bincount(policy, comparisons.weight ** power,
                                     minlength=comparisons.n)
                         for policy in (comparisons.first, comparisons.second))
                     for power in (1, 2))
    return np.asarray(total ** 2 / np.maximum(square, 1e-300) + 1e-9)


def too_few(counts: Floats, clusters: int, by_session: bool,
            open_ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """
    Return (n,) for which policies no interval is stated; ``open_ends`` is no bound (n,).

    ``counts`` (n,) are the effective sessions of each, two policies in each session. With fewer
    than 1.5 sessions for each policy, scores hang on chains of single verdicts.
    """
    least = LEAST_SESSIONS if by_session else LEAST_CLUSTERS
    above, below = open_ends
    if clusters < least or counts.sum() < 2 * LEAST_PER_POLICY * len(counts):
        return np.ones(len(counts), bool)
    return np.asarray((counts < LEAST_COMPARISONS) | (above & below))


def with_variances(standings: Standings, variances: ScoreVariances, few: np.ndarray,
                open_ends: tuple[np.ndarray, np.ndarray], level: float | Floats,
                typical_gap: float | None, owners: Sequence[str] = ()) -> Standings:
    """
    Return the standings with what ``variances`` supports at ``level``, of all or (n,).

    ``few`` (n,) have no interval, ``open_ends`` (n,) no upper and no lower end; ``typical_gap`` is
    the prior's τ, None to take it from the scores alone. ``owners`` (n,) have ranks by
    :func:`shrunk_by_owner` and :func:`places`.
    """
    n, scores = len(standings.scores), standings.scores
    levels = np.broadcast_to(level, n)
    each = stdtrit(max(variances.freedom, 1.0), (1 + levels) / 2)
    reach = np.maximum.outer(each, each)
    own_reach = stdtrit(np.maximum(variances.own_freedom, 1.0), (1 + levels) / 2)
    wide = own_reach * np.sqrt(variances.variance)
    low, high = scores - wide, scores + wide
    low[open_ends[1]], high[open_ends[0]] = -np.inf, np.inf
    low[few], high[few] = np.nan, np.nan
    ordered = shrunk_by_owner(scores, variances.gap, few, owners)
    best, worst, place = rank_sets(ordered, variances.gap, few, reach, owners)
    all_best, all_worst, _ = rank_sets(ordered, variances.gap, few, range_quantile(
        n, min(variances.freedom, 1000.0), float(levels.max())), owners)
    first, ranks = np.unique(place), standings.ranks
    if ordered is not scores:
        equal = TIE_TOLERANCE * max(float(np.ptp(scores)), 1e-3)
        above = ordered[first] > ordered[:, None] + equal
        ranks = 1 + (above & (first != place[:, None])).sum(axis=1)
    return replace(standings, low=low, high=high, rank_low=best, rank_high=worst, ranks=ranks,
                   rank_low_joint=all_best, rank_high_joint=all_worst, too_few=few,
                   p_better=p_better(scores, variances, typical_gap))


def rank_sets(scores: Floats, gap: Floats, few: np.ndarray, reach: float | Floats,
              owners: Sequence[str] = ()) -> tuple[Ints, Ints, Ints]:
    """
    Return best rank, worst rank and place (n,) that differences of ``reach`` deviations leave.

    ``owners`` (n,) as in :func:`places`; a place counts once.
    """
    ahead = (scores[:, None] - scores) / np.sqrt(np.maximum(gap, 1e-300))
    ahead[few] = ahead[:, few] = 0.0
    np.fill_diagonal(ahead, 0.0)
    place = places(scores, ahead > reach, owners)
    member = place[:, None] == np.unique(place)
    above = ((ahead < -reach).astype(float) @ member > 0) & ~member
    below = ((ahead > reach).astype(float) @ member == member.sum(axis=0)) & ~member
    return (np.asarray(1 + above.sum(axis=1), dtype=np.int64),
            np.asarray(member.shape[1] - below.sum(axis=1), dtype=np.int64), place)


def shrunk_by_owner(scores: Floats, gap: Floats, few: np.ndarray, owners: Sequence[str]) -> Floats:
    """
    Return the scores (n,) with those of one owner's policies shrunk to their mean.

    ``gap`` (n, n) are the variances of differences. The ``few`` (n,) of which nothing is stated
    keep their scores; '' is an owner that is not known. The scores themselves are returned where
    two owners are not known.
    """
    known = set(owners) - {''}
    if len(known) < 2:
        return scores
    out = np.array(scores)
    for owner in known:
        mine = np.flatnonzero((np.array(owners) == owner) & ~few)
        if len(mine) > 1:
            own = gap[np.ix_(mine, mine)].sum(axis=1) / (2 * (len(mine) - 1))
            out[mine] = shrunk(scores[mine], np.maximum(own, 1e-300))
    return out


def shrunk(scores: Floats, variance: Floats) -> Floats:
    """Return scores (k,) shrunk to their mean by as much as their ``variance`` explains them."""
    w = 1 / variance
    apart = float(w @ (scores - w @ scores / w.sum()) ** 2) - (len(scores) - 1)
    between = max(apart, 0.0) / (w.sum() - w @ w / w.sum())
    w = 1 / (variance + between)
    mean = w @ scores / w.sum()
    return np.asarray(mean + between * w * (scores - mean))


def _of_one_owner(result: Standings, owners: Sequence[str]) -> tuple[str, ...]:
    """Say where the highest score is one of several of the same owner, and not the first rank."""
    if len(set(owners) - {''}) < 2 or result.too_few is None or result.too_few.all():
        return ()
    top = int(np.argmax(np.where(result.too_few, -np.inf, result.scores)))
    same = owners.count(owners[top]) if owners[top] else 1
    if same == 1 or result.ranks[top] == 1:
        return ()
    return (f'{result.items[top]} has the highest score as one of {same} policies of its owner; '
            'the highest of several is high by luck too, so ranks count it as the mean of its '
            'owner, as far as these policies differ by chance',)


def places(scores: Floats, apart: np.ndarray, owners: Sequence[str]) -> Ints:
    """
    Return (n,) the place of each policy, named by the best policy on it.

    Policies of one owner share a place where the row's policy is not told ``apart`` (n, n) from
    the column's; '' is an owner that is not known. Without two owners each policy has its own.
    """
    place, best = np.arange(len(scores)), dict[str, int]()
    if len(set(owners) - {''}) < 2:
        return place
    for k in np.argsort(-scores, kind='stable').tolist():
        first = best.get(owners[k], k) if owners[k] else k
        if apart[first, k]:
            first = k
        place[k] = best[owners[k]] = first
    return place


@lru_cache(maxsize=256)
def range_quantile(n: int, freedom: float, level: float) -> float:
    """Return the quantile of the studentised range of n normals, divided by √2."""
    rng = np.random.default_rng(0)
    draws = max(2000, min(40_000, MOST_CELLS // n))
    spans = np.ptp(rng.standard_normal((draws, n)), axis=1)
    spans /= np.sqrt(rng.chisquare(max(freedom, 1.0), draws) / max(freedom, 1.0))
    return float(np.quantile(spans, level) / np.sqrt(2))


def between_policies(scores: Floats, gap: Floats, typical_gap: float | None) -> float:
    """
    Return 2 τ², by how much two abilities differ on average, squared.

    ``typical_gap`` is τ a priori, with the weight of 3 policies; None: by the scores alone.
    """
    n, gap = len(scores), np.maximum(gap, 1e-300)
    known = ~np.eye(n, dtype=bool) & np.isfinite(gap)
    apart = scores[:, None] - scores
    # Two abilities differ by 2 τ² on average, two scores by that and the variance of the gap.
    seen = max(float(np.mean((apart ** 2 - gap)[known])) / 2, 0.0) if known.any() else 0.0
    prior = seen if typical_gap is None else typical_gap ** 2
    weight = 0.0 if typical_gap is None else PRIOR_POLICIES
    return 2 * ((n - 1) * seen + weight * prior) / (n - 1 + weight)


def p_better(scores: Floats, variances: ScoreVariances, typical_gap: float | None = None, *,
             posterior: bool = False) -> Floats:
    """
    Return (n, n) the probability that the row's policy is better than the column's.

    ``posterior``: the variances are those of a posterior, in which scores are shrunk already.
    """
    gap, apart = np.maximum(variances.gap, 1e-300), scores[:, None] - scores
    between = between_policies(scores, variances.gap, typical_gap)
    shrink = 1.0 if posterior else np.sqrt(between / (between + gap))
    table = np.asarray(stdtr(max(variances.freedom, 1.0), apart / np.sqrt(gap) * shrink))
    np.fill_diagonal(table, 0.5)
    return table
