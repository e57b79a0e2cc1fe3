"""Table of the pairwise ranking methods by name, and :func:`rank`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arena_robot.core.errors import ConfigError, RankingError, UnknownMethod
from arena_robot.core.extensions import Table
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Method
from arena_robot.ranking.counts import count_pairs, groups, require_connected
from arena_robot.ranking.evaluators.robust import RobustBradleyTerry
from arena_robot.ranking.hierarchical.model import Hierarchical
from arena_robot.ranking.intervals.choice import IntervalPlan, with_intervals
from arena_robot.ranking.intervals.shrunk import ShrunkBradleyTerry
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.davidson import Davidson
from arena_robot.ranking.pairwise.elo import SCALE, Elo
from arena_robot.ranking.pairwise.progress import (
    AuditedMethod,
    Opd,
    PreferenceAudit,
    Progress,
    ProgressGls,
)
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standings, standings
from arena_robot.ranking.task.buckets import TaskOptions
from arena_robot.ranking.task.em import TaskModel


@dataclass(frozen=True)
class RankingMethod:
    """
    Everything known about a method; a method of another package is one of these too.

    ``make`` gets the options and returns the method. ``seeded``: it takes the option ``seed``.
    ``has_prior``: it uses a prior where the exact maximum of the likelihood is infinite; the
    option ``l2`` is a ridge instead. ``typical_gap`` is how much abilities typically differ
    between policies, in ``unit``; None: as the scores do. ``needs_scores``: it uses progress
    scores; with ``scores_only`` nothing else. ``on_site``: the leaderboard offers it.
    ``measured``: ``arena study methods`` measures it by default. ``needs_audits``: it needs
    the option ``audits``; ``hears_audits``: it takes that option where there are audits.
    ``for_chosen``: its intervals hold where pairs were chosen by earlier verdicts.
    """

    make: Callable[..., Method]
    unit: str
    description: str
    seeded: bool = False
    has_prior: bool = False
    typical_gap: float | None = None
    needs_scores: bool = False
    scores_only: bool = False
    on_site: bool = False
    measured: bool = False
    needs_audits: bool = False
    hears_audits: bool = False
    for_chosen: bool = False

    @property
    def summary(self) -> str:
        """One line for a list of methods."""
        return f'{self.description} ({self.unit}{"; needs scores" if self.needs_scores else ""})'


def _task(**fixed: Any) -> Callable[..., Method]:
    return lambda **options: TaskModel(TaskOptions(**fixed, **options))


def _checked(entry: object, name: str) -> RankingMethod:
    if not isinstance(entry, RankingMethod):
        raise ConfigError(f"the ranking method '{name}' is not an "
                          f'arena_robot.ranking.methods.RankingMethod, found {entry!r}')
    return entry


_ELO, _WINNING, _SOLVING = 'Elo points', 'log-odds of winning', 'log-odds of solving'
# How many log-odds of winning a verdict a difference of one unit is, where the unit says so.
LOG_ODDS = {_ELO: 1 / SCALE, _WINNING: 1.0}
METHODS: Table[RankingMethod] = Table('ranking method', 'arena_robot.ranking_methods', {
    'elo': RankingMethod(
        Elo, _ELO, 'Elo, mean over 100 random orders', seeded=True, on_site=True, measured=True),
    'elo_online': RankingMethod(
        lambda **options: Elo(orders=0, **options), _ELO, 'Elo, in the order of the sessions',
        seeded=True),
    'bt': RankingMethod(
        BradleyTerry, _WINNING, 'Bradley–Terry; a tie is half a win', has_prior=True,
        typical_gap=1.0, on_site=True, measured=True),
    'bt_shrunk': RankingMethod(
        ShrunkBradleyTerry, _WINNING, 'Bradley–Terry, shrunk; also for pairs that were chosen',
        has_prior=True, typical_gap=1.0, on_site=True, measured=True, for_chosen=True),
    'davidson': RankingMethod(
        Davidson, _WINNING, 'Bradley–Terry with ties (Davidson)', has_prior=True, typical_gap=1.0,
        on_site=True, measured=True),
    'bt_robust': RankingMethod(
        RobustBradleyTerry, _WINNING, 'Bradley–Terry that no evaluator can push far',
        has_prior=True, typical_gap=1.0, on_site=True),
    'hierarchical': RankingMethod(
        Hierarchical, _WINNING, 'abilities pooled over kinds of task, institutions, evaluators',
        has_prior=True, typical_gap=1.0, hears_audits=True),
    'task': RankingMethod(
        _task(), _SOLVING, 'mixture over latent kinds of task', seeded=True, on_site=True,
        measured=True),
    'task_paper': RankingMethod(
        _task(variant='paper'), _SOLVING, 'Algorithm 2 of RoboArena as printed', seeded=True),
    'progress': RankingMethod(
        Progress, 'mean progress', 'mean of the scores', needs_scores=True, scores_only=True,
        on_site=True, measured=True),
    'progress_gls': RankingMethod(
        ProgressGls, 'mean progress', 'mean of the scores, corrected for easy sessions',
        needs_scores=True, scores_only=True, on_site=True, measured=True),
    'task_partial': RankingMethod(
        lambda **options: TaskModel(TaskOptions(**options), partial=True), _SOLVING,
        'task from verdicts and scores', seeded=True, needs_scores=True, on_site=True,
        measured=True),
    'opd': RankingMethod(
        Opd, "mean of the audits' PPL", 'mean of an audit; needs --audits', needs_audits=True),
    'preference_audit': RankingMethod(
        PreferenceAudit, _WINNING, 'davidson, ties broken by an audit; needs --audits',
        typical_gap=1.0, needs_audits=True),
}, _checked, UnknownMethod)


def method(name: str, **options: Any) -> Method:
    """
    Return the method called ``name`` with its options.

    >>> method('elo', k=32.0)
    Elo(k=32.0, start=1500.0, orders=100, seed=0)

    :raises UnknownMethod: the name or an option is unknown.
    """
    row = METHODS.find(name)
    try:
        return row.make(**options)
    except TypeError as error:
        raise UnknownMethod(f"method '{name}' does not take {options}: {error}") from error


def rank(comparisons: Comparisons, method_name: str = RECOMMENDED, *, intervals: int = 0,
         seed: int = 0, level: float = 0.95, cluster: str = 'auto', apart: bool = False,
         workers: Workers = HERE, owners: Mapping[str, str] | None = None, **options: Any,
         ) -> Standings:
    """
    Rank the policies of ``comparisons``.

    ``intervals`` > 0 is the number of bootstrap replicates behind intervals at ``level``, rank
    intervals and ``p_better``; ``workers`` refit them. ``cluster`` says which comparisons
    depend on each other, see :mod:`.intervals.choice`. ``apart`` ranks groups that were never
    compared, by the prior, where the method has one. ``owners`` are those of policies by name,
    which ranks with intervals take into account (:func:`.intervals.choice.with_variances`).
    ``seed`` determines all random draws; ``options`` go to the method.

    :raises RankingError: the comparisons cannot order the policies, or the method is unknown.
    """
    row = METHODS.find(method_name)
    if row.seeded:
        options = {'seed': seed, **options}
    fitter = method(method_name, **options)
    if isinstance(fitter, AuditedMethod):
        comparisons, fitter = fitter.prepared(comparisons), fitter.inner
    if row.has_prior and not apart and len(comparisons):
        require_connected(count_pairs(comparisons))
    if isinstance(fitter, ShrunkBradleyTerry):
        fitter = replace(fitter, cluster=cluster)
    fit = fitter(comparisons)
    result = _told_of_chosen(standings(method_name, comparisons, fit), comparisons, row)
    if intervals <= 0:
        return result
    plan = IntervalPlan(intervals, seed, level, cluster, row.typical_gap, workers,
                        tuple((owners or {}).get(name, '') for name in comparisons.items))
    return with_intervals(result, comparisons, fitter, fit, plan)


def _told_of_chosen(result: Standings, comparisons: Comparisons, row: RankingMethod) -> Standings:
    """Add how many pairs were chosen by earlier verdicts, and whether the method is for these."""
    number = 0 if comparisons.chosen is None else int(comparisons.chosen.sum())
    if not number:
        return result
    fitted = result.diagnostics
    warning = () if row.for_chosen else (
        f'{number} of {len(comparisons)} pairs were chosen by earlier verdicts; of the '
        f'intervals only those of {RECOMMENDED} are known to hold for such pairs',)
    return replace(result, diagnostics=replace(
        fitted, warnings=fitted.warnings + warning, details={**fitted.details, 'chosen': number}))


def placeable(comparisons: Comparisons, method_name: str, *, exact: bool = False,
              ) -> tuple[list[str], list[str]]:
    """
    Return the largest set of policies that the method can rank together, and the others.

    That is a chain of comparisons; with ``exact`` one of wins or ties in both directions, so that
    the maximum of the likelihood is finite. Methods on progress alone need scores only.
    """
    row = METHODS.find(method_name)
    if row.scores_only:
        scored = set()
        for policy, score in ((comparisons.first, comparisons.score_first),
                              (comparisons.second, comparisons.score_second)):
            scored |= set(policy[np.isfinite(score)].tolist())
        kept = {comparisons.items[k] for k in scored}
    else:
        chains = groups(count_pairs(comparisons), beaten=exact)
        kept = set(chains[0]) if chains else set()
    return ([name for name in comparisons.items if name in kept],
            [name for name in comparisons.items if name not in kept])


def rank_comparable(comparisons: Comparisons, method_name: str = RECOMMENDED, *,
                    intervals: int = 0, seed: int = 0, cluster: str = 'auto', level: float = 0.95,
                    workers: Workers = HERE, **options: Any) -> tuple[Standings, list[str]]:
    """
    Rank the policies that can be ranked together; return the standings and the other names.

    Bradley–Terry and Davidson leave nobody out: a prior determines what the data do not.
    Other methods need a chain of comparisons, or scores.

    :raises RankingError: no two policies can be compared, or the method is unknown.
    """
    method(method_name)
    has_prior = METHODS.find(method_name).has_prior
    kept, left_out = (list(comparisons.items), []) if has_prior and options.get('l2') is None \
        else placeable(comparisons, method_name, exact=has_prior)
    if len(kept) < 2 or not len(comparisons):
        raise RankingError(f'no two of {comparisons.n} policies can be compared by '
                           f'{method_name} yet; {len(comparisons)} verdicts count so far')
    standings = rank(comparisons.only(kept), method_name, intervals=intervals, seed=seed,
                     level=level, cluster=cluster, apart=True, workers=workers, **options)
    return standings, left_out
