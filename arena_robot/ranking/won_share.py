"""
The share of comparisons that one policy won, with the interval that the standings would give it.

The opponents count as one. Sessions of one evaluator hang together where at least 10 evaluators
are known, as in :mod:`interval_kind`: for two policies the sandwich covariance of :mod:`spread`
has the closed form below, so that counts by evaluator are enough.
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.held import PRIOR_L2
from arena_robot.ranking.interval_kind import LEAST_EVALUATORS, difference
from arena_robot.ranking.spread import with_ties
from arena_robot.ranking.stated import LEAST_CLUSTERS, LEAST_COMPARISONS, LEAST_SESSIONS

OUTCOMES = np.array([1.0, 0.5, 0.0])
_NAMES = ('the policy', 'the opponents')


def share_interval(counts: Mapping[str, tuple[int, int, int]]) -> tuple[float, float] | None:
    """
    Return the 95 % interval of the share won, ties half; None with too few to tell.

    ``counts`` are wins, ties and losses by evaluator, '' for those that are not known.
    """
    table = np.array(list(counts.values()), float).reshape(-1, 3)
    total, people = table.sum(), len(counts)
    by_session = people < LEAST_EVALUATORS or '' in counts
    clusters = total if by_session else people
    if total < LEAST_COMPARISONS or clusters < (LEAST_SESSIONS if by_session else LEAST_CLUSTERS):
        return None
    share = float(table.sum(axis=0) @ OUTCOMES / total)
    if not 0.0 < share < 1.0:
        return _one_sided(counts, by_session)
    reach = float(stdtrit(clusters - 1.0, 0.975)) * math.sqrt(_variance(table, by_session))
    middle = math.log(share / (1 - share))
    return _share(middle - reach), _share(middle + reach)


def effective_count(counts: Mapping[str, tuple[int, int, int]]) -> float:
    """
    Return how many independent comparisons tell as much as these; at most their number.

    It is less where evaluators differ; their number itself where that cannot be measured.
    """
    table = np.array(list(counts.values()), float).reshape(-1, 3)
    total, won = float(table.sum()), float((table @ OUTCOMES).sum())
    by_session = len(counts) < LEAST_EVALUATORS or '' in counts
    if by_session or not 0.0 < won < total:
        return total
    bend = won / total * (1 - won / total)
    return min(total, 1 / (bend * _variance(table, by_session)))


def _variance(table: Floats, by_session: bool) -> float:
    """Return the variance of the log-odds of a share that is neither 0 nor 1."""
    total = table.sum()
    share = float(table.sum(axis=0) @ OUTCOMES / total)
    bend, slope = share * (1 - share), OUTCOMES - share
    if by_session:
        clusters = total
        moved = float(table.sum(axis=0) @ (slope / ((total - 1) * bend + PRIOR_L2 / 2)) ** 2)
    else:
        clusters = float(len(table))
        rest = (total - table.sum(axis=1)) * bend + PRIOR_L2 / 2
        moved = float((((table @ slope) / rest) ** 2).sum())
    ties = float(table[:, 1].sum())
    robust, model = (clusters - 1) / clusters * moved, with_ties(
        ties, float(total), float(total * bend)) / (total * bend)
    return float(max(robust, (robust + model) / 2))


def _one_sided(counts: Mapping[str, tuple[int, int, int]],
               by_session: bool) -> tuple[float, float] | None:
    """Return the interval where everything was won or lost: it is open on one side."""
    rows = [(name, y, n) for name, said in counts.items()
            for y, n in zip(OUTCOMES, said, strict=True) if n]
    repeat = [n if by_session else 1 for *_, n in rows]
    zeros = np.zeros(sum(repeat), dtype=int)
    found = difference(Comparisons.build(
        zeros, zeros + 1, np.repeat([y for _, y, _ in rows], repeat), items=_NAMES,
        weight=np.repeat([1.0 if by_session else n for *_, n in rows], repeat),
        evaluator=[name for (name, _, _), n in zip(rows, repeat, strict=True)
                   for _ in range(n)]), *_NAMES)
    return None if found is None else (_share(found[1]), _share(found[2]))


def _share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -700.0), 700.0)))
