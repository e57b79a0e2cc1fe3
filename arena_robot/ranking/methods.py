"""Table of the pairwise ranking methods by name, and :func:`rank`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Method, Standings, standings
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.counts import count_pairs, groups
from arena_robot.ranking.davidson import Davidson
from arena_robot.ranking.elo import Elo
from arena_robot.ranking.progress import Progress, ProgressGls
from arena_robot.ranking.robust import RobustBradleyTerry
from arena_robot.ranking.task_em import TaskModel
from arena_robot.ranking.task_state import TaskOptions
from arena_robot.ranking.uncertainty import bootstrap, with_draws

METHODS: Mapping[str, Callable[..., Method]] = {
    'elo': Elo,
    'elo_online': lambda **options: Elo(orders=0, **options),
    'bt': BradleyTerry,
    'davidson': Davidson,
    'task': lambda **options: TaskModel(TaskOptions(**options)),
    'task_davidson': lambda **options: TaskModel(TaskOptions(variant='davidson', **options)),
    'task_paper': lambda **options: TaskModel(TaskOptions(variant='paper', **options)),
    'task_partial': lambda **options: TaskModel(TaskOptions(**options), partial=True),
    'progress': Progress,
    'progress_gls': ProgressGls,
    'bt_robust': RobustBradleyTerry,
}
NEEDS_SCORES = frozenset({'task_partial', 'progress', 'progress_gls'})
EXACT = frozenset({'bt', 'davidson'})
RIDGE = 0.1
SEEDED = frozenset({'elo', 'elo_online', 'task', 'task_davidson', 'task_paper', 'task_partial'})
UNITS: Mapping[str, str] = {
    'elo': 'Elo points', 'elo_online': 'Elo points', 'bt': 'log-odds of winning',
    'davidson': 'log-odds of winning', 'task': 'log-odds of solving',
    'task_davidson': 'log-odds of winning', 'task_paper': 'log-odds of solving',
    'task_partial': 'log-odds of solving', 'progress': 'mean progress',
    'progress_gls': 'mean progress', 'bt_robust': 'log-odds of winning'}


def method(name: str, **options: Any) -> Method:
    """
    Return the method called ``name`` with its options.

    :raises RankingError: the name or an option is unknown.
    """
    if name not in METHODS:
        raise RankingError(f"unknown method '{name}'.{nearest(name, METHODS)}")
    try:
        return METHODS[name](**options)
    except TypeError as error:
        raise RankingError(f"method '{name}' does not take {options}: {error}") from error


def rank(comparisons: Comparisons, method_name: str = 'bt', *, intervals: int = 0, seed: int = 0,
         level: float = 0.95, workers: Workers = HERE,
         **options: Any) -> Standings:
    """
    Rank the policies of ``comparisons``.

    ``intervals`` > 0 is the number of bootstrap replicates by session behind the intervals at
    ``level``, the rank intervals and ``p_better``; ``workers`` refit them. ``seed`` determines
    all random draws; ``options`` go to the method.

    :raises RankingError: the comparisons cannot order the policies, or the method is unknown.
    """
    if method_name in SEEDED:
        options = {'seed': seed, **options}
    fitter = method(method_name, **options)
    result = standings(method_name, comparisons, fitter(comparisons))
    if intervals <= 0:
        return result
    draws = bootstrap(fitter, comparisons, intervals, seed=seed, workers=workers)
    return with_draws(result, draws, level)


def placeable(comparisons: Comparisons, method_name: str) -> tuple[list[str], list[str]]:
    """
    Return the largest set of policies that the method can rank together, and the others.

    Exact maximum-likelihood methods need wins or ties in both directions, the others a chain of
    comparisons; methods on progress alone need scores only.
    """
    if method_name in ('progress', 'progress_gls'):
        scored = set()
        for policy, score in ((comparisons.first, comparisons.score_first),
                              (comparisons.second, comparisons.score_second)):
            scored |= set(policy[np.isfinite(score)].tolist())
        kept = {comparisons.items[k] for k in scored}
    else:
        found = groups(count_pairs(comparisons), beaten=method_name in EXACT)
        kept = set(found[0]) if found else set()
    return ([name for name in comparisons.items if name in kept],
            [name for name in comparisons.items if name not in kept])


def rank_comparable(comparisons: Comparisons, method_name: str = 'bt', *, intervals: int = 0,
                    seed: int = 0, **options: Any) -> tuple[Standings, list[str]]:
    """
    Rank the policies that can be ranked together; return the standings and the other names.

    A policy that won or lost everything has no finite maximum-likelihood strength: Bradley–Terry
    and Davidson then take a ridge of RIDGE comparisons, with a warning.

    :raises RankingError: no two policies can be compared, or the method is unknown.
    """
    method(method_name)
    kept, left_out = placeable(comparisons, method_name)
    warnings: tuple[str, ...] = ()
    if method_name in EXACT and 'l2' not in options:
        chained, apart = placeable(comparisons, 'elo')
        if one_sided := [name for name in chained if name not in kept]:
            kept, left_out, options = chained, apart, {**options, 'l2': RIDGE}
            warnings = (f'{", ".join(one_sided)}: won or lost everything against the others so '
                        f'far; strengths are held by a ridge of {RIDGE:g} comparisons',)
    if len(kept) < 2:
        raise RankingError(f'no two of {comparisons.n} policies can be compared by '
                           f'{method_name} yet; {len(comparisons)} verdicts count so far')
    found = rank(comparisons.only(kept), method_name, intervals=intervals, seed=seed, **options)
    if warnings:
        found = replace(found, diagnostics=replace(
            found.diagnostics, warnings=(*found.diagnostics.warnings, *warnings)))
    return found, left_out


def shrunk(fitter: Method) -> Method:
    """Return the method with a ridge where its exact maximum may be infinite, else itself."""
    if isinstance(fitter, BradleyTerry | Davidson | RobustBradleyTerry) and fitter.l2 == 0:
        return replace(fitter, l2=RIDGE)
    return fitter
