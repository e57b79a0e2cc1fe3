"""
Which intervals standings get: what is one observation, and by which method.

What hangs together (``cluster``): sessions, evaluators, or institutions. ``auto`` is evaluators
where at least 10 are known, else sessions. With fewer than 1000 clusters, intervals are symmetric
with Student's t: by the sandwich covariance for Bradley–Terry and Davidson (:mod:`spread`), by the
spread of a bootstrap of the clusters for the other methods. From 1000 clusters on they are
percentiles of the bootstrap. Those of the hierarchical model are of its posterior, which knows of
evaluators and institutions by itself.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import CLUSTERS, Comparisons, Fit, Floats, Method
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.davidson import Davidson
from arena_robot.ranking.held import established, one_sided
from arena_robot.ranking.hierarchical import Hierarchical
from arena_robot.ranking.spread import ScoreSpread, likelihood_spread
from arena_robot.ranking.standings import Standings
from arena_robot.ranking.stated import LEAST_CLUSTERS, posterior_better, too_few, with_spread
from arena_robot.ranking.uncertainty import (
    Draws,
    bootstrap,
    draws_spread,
    draws_told,
    with_quantiles,
)

MANY_CLUSTERS = 1000
LEAST_EVALUATORS = 10
FAILED = 'not known: too many replicates failed'
CHOICES = ('auto', *CLUSTERS)


@dataclass(frozen=True)
class IntervalPlan:
    """
    How intervals are made.

    ``replicates`` of the bootstrap, its ``seed``, the ``level``, what hangs together, the typical
    ``unit`` between policies (or None), and who refits.
    """

    replicates: int
    seed: int = 0
    level: float = 0.95
    cluster: str = 'auto'
    unit: float | None = None
    workers: Workers = HERE


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
    count = len(np.unique(cluster[comparisons.weight > 0]))
    counts, open_ends = count_pairs(comparisons), (np.zeros(result.scores.shape, bool),) * 2
    if fit.ridge is not None and fit.ridge.any():
        open_ends = one_sided(counts)
    few, none = too_few(result.counts, count, by == 'session', open_ends), ''
    if by != 'session' and count < LEAST_CLUSTERS:
        none = f'too few {by}s to tell'
    spread, draws, level, way = None, None, plan.level, 'sandwich'
    if isinstance(method, Hierarchical) and fit.covariance is not None:
        spread, way = ScoreSpread.of(fit.covariance, max(count - 1.0, 1.0)), 'posterior'
    elif isinstance(method, BradleyTerry | Davidson):
        anchor = established(counts) if fit.ridge is not None else np.ones(counts.n, bool)
        spread = likelihood_spread(comparisons, fit, cluster, anchor) if count > 1 else None
    if spread is None:
        draws = _draws(comparisons, method, cluster, by, plan)
        spread = draws_spread(draws, count)
        enough, (level, few) = not few.all(), _level(draws, plan, few)
        if enough and few.all():
            none = FAILED
        way = 'bootstrap percentiles' if count >= MANY_CLUSTERS else 'bootstrap, t'
    result = with_spread(result, spread, few, open_ends, level, plan.unit)
    if way == 'posterior':
        result = dataclasses.replace(result, p_better=posterior_better(result.scores, spread))
    if draws is not None and count >= MANY_CLUSTERS:
        result = with_quantiles(result, draws, plan.level)
    told = {'by': by, 'clusters': count, 'way': way, 'level': plan.level, 'none': none}
    return _told(result, comparisons, told, draws)


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
    spread: ScoreSpread | None
    few: np.ndarray
    above: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, comparisons: Comparisons, cluster: str = 'auto') -> 'Differences':
        """Return those that the comparisons tell of."""
        fit, by = BradleyTerry()(comparisons), chosen_cluster(comparisons, cluster)
        groups, counts = comparisons.clusters(by), count_pairs(comparisons)
        above, below = one_sided(counts)
        few = too_few(comparisons.appearances(), len(np.unique(groups)), by == 'session',
                      (above, below))
        spread = None if few.all() else likelihood_spread(comparisons, fit, groups,
                                                          established(counts))
        return cls(comparisons.items, fit.scores, spread, few, above, below)

    def between(self, first: str, second: str, level: float = 0.95,
                ) -> tuple[float, float, float] | None:
        """
        Return by how much ``first`` is better, with its interval; log-odds.

        None where a policy is not compared, or the data are too few to tell.
        """
        if first not in self.items or second not in self.items:
            return None
        i, j = self.items.index(first), self.items.index(second)
        if self.spread is None or self.few[i] or self.few[j]:
            return None
        apart = float(self.scores[i] - self.scores[j])
        reach = float(stdtrit(self.spread.freedom, (1 + level) / 2)
                      * np.sqrt(self.spread.gap[i, j]))
        return (apart, -np.inf if self.below[i] or self.above[j] else apart - reach,
                np.inf if self.above[i] or self.below[j] else apart + reach)


def _draws(comparisons: Comparisons, method: Method, cluster: np.ndarray, by: str,
           plan: IntervalPlan) -> Draws:
    votes = comparisons if by == 'session' else dataclasses.replace(comparisons, session=cluster)
    return bootstrap(method, votes, plan.replicates, seed=plan.seed, workers=plan.workers)


def _level(draws: Draws, plan: IntervalPlan, few: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the level that pays for failed replicates, and for whom there is none any more."""
    lost = draws.failed / (draws.failed + len(draws.scores))
    if lost >= 1 - plan.level or len(draws.scores) < 2:
        return plan.level, np.ones_like(few)
    return plan.level + lost, few


def _evaluators(comparisons: Comparisons) -> int:
    """Return how many evaluators are known, 0 where some comparison has none."""
    used = comparisons.evaluator[comparisons.weight > 0]
    if not len(used) or any(not comparisons.evaluators[k] for k in np.unique(used)):
        return 0
    return len(np.unique(comparisons.clusters('evaluator')[comparisons.weight > 0]))


def _told(result: Standings, comparisons: Comparisons, intervals: dict[str, object],
          draws: Draws | None) -> Standings:
    """Return the standings with the kind of their intervals, and what readers must know."""
    told, few = result.diagnostics, result.too_few
    warnings = told.warnings
    if draws is not None:
        warnings += draws_told(draws, intervals['none'] == FAILED)
    if intervals['none']:
        warnings += (f'no interval and no rank is stated: {intervals["none"]}',)
    elif few is not None and few.any():
        names = [result.items[k] for k in np.flatnonzero(few)]
        warnings += ((', '.join(names) if len(names) < len(few) else 'all policies')
                     + ': too few comparisons to tell a rank',)
    people = _evaluators(comparisons)
    if intervals['by'] == 'session' and 1 < people < LEAST_EVALUATORS \
            and intervals['way'] != 'posterior':
        warnings += (f'{people} evaluators are too few to measure how evaluators differ: the '
                     'intervals leave that out',)
    return dataclasses.replace(result, diagnostics=dataclasses.replace(
        told, warnings=warnings, details={**told.details, 'intervals': intervals}))
