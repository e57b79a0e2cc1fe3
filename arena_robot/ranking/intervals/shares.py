"""
Shares of comparisons that one policy won: the interval of one share, several shares pooled.

The opponents count as one. Sessions of one evaluator depend on each other where at least two
evaluators are known, as in :mod:`.choice`: for two policies the sandwich covariance of
:mod:`.sandwich` has the closed form below, so that counts by evaluator are enough.

Shares in several groups are pooled partially. A share s_c of n_c comparisons varies by
v_c = m (1 - m) / n_c around the group's own, and groups vary around the common mean m by τ². Both
are estimated from the data (R. DerSimonian and N. Laird, 1986); a group's share is
(s_c / v_c + m / τ²) / (1 / v_c + 1 / τ²): little data give the mean of all groups, much data the
group's own. With τ² = 0 all groups are alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from arena_robot.core.wilson import Z95
from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.counts import LEAST_COMPARISONS
from arena_robot.ranking.intervals.choice import (
    LEAST_CLUSTERS,
    LEAST_EVALUATORS,
    LEAST_SESSIONS,
    difference,
)
from arena_robot.ranking.intervals.sandwich import with_ties
from arena_robot.ranking.pairwise.prior import PRIOR_L2

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
    interval = difference(Comparisons.build(
        zeros, zeros + 1, np.repeat([y for _, y, _ in rows], repeat), items=_NAMES,
        weight=np.repeat([1.0 if by_session else n for *_, n in rows], repeat),
        evaluator=[name for (name, _, _), n in zip(rows, repeat, strict=True)
                   for _ in range(n)]), *_NAMES)
    return None if interval is None else (_share(interval[1]), _share(interval[2]))


def _share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -700.0), 700.0)))


@dataclass(frozen=True)
class PooledShare:
    """A share with its 95 % interval, both within 0 and 1."""

    share: float
    low: float
    high: float


def pooled_shares(shares: Sequence[float], counts: Sequence[float]) -> list[PooledShare]:
    """Return the pooled share of each group; ``counts`` are above 0."""
    s, n = np.asarray(shares, dtype=float), np.asarray(counts, dtype=float)
    if not len(s):
        return []
    plain = float((n @ s + 0.5) / (n.sum() + 1.0))    # never 0 or 1
    v = plain * (1 - plain) / n
    w = 1 / v
    spare = w.sum() - (w @ w) / w.sum()
    mean = float(w @ s / w.sum())
    q = float(w @ (s - mean) ** 2)
    between = max(0.0, (q - (len(s) - 1)) / spare) if spare > 1e-12 else 0.0
    weight = 1 / (v + between)
    mean = float(weight @ s / weight.sum())
    own = between / (between + v)
    pooled = own * s + (1 - own) * mean
    reach = Z95 * np.sqrt(own * v + (1 - own) ** 2 / weight.sum())
    return [PooledShare(*(float(min(max(x, 0.0), 1.0)) for x in (at, at - wide, at + wide)))
            for at, wide in zip(pooled, reach, strict=True)]
