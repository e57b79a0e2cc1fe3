"""
Rankings of several policies, and the covariate of how long an arm waited.

:func:`plackett_luce` has abilities from rankings of several policies (Luce 1959, Plackett 1975):

    P(ranking) = Π_r e^{θ_r} / Σ_{s at or below r} e^{θ_s}

over the places of a ranking but the last. Two policies make it Bradley–Terry. Rankings have no
ties. The likelihood is concave; its maximum is finite where everyone is ranked above somebody by
a chain of rankings in both directions (Hunter 2004), and needs the prior of :mod:`.prior`
otherwise.
"""

from collections.abc import Callable, Sequence

import numpy as np

from arena_robot.core.errors import NotConverged, RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    groups,
    is_connected,
    listed,
)
from arena_robot.ranking.pairwise.bradley_terry import expected_share
from arena_robot.ranking.pairwise.prior import PRIOR_L2

ROUNDS, CLOSE = 100, 1e-10


def known_waits(comparisons: Comparisons) -> tuple[Comparisons, Floats]:
    """
    Return the comparisons whose waits are known, and how much longer A made its arm wait.

    The covariate (M,) is the wait of A minus that of B, -1 to 1: with a γ below 0 people prefer
    the policy that waits less, and the abilities of :func:`.intervals.adjusted.adjusted` are those
    without waiting. Only the policies of these comparisons are kept.
    """
    unknown = np.full((len(comparisons), 2), np.nan)
    waits = comparisons.conditions.measures.get('waited', unknown)
    known = np.flatnonzero(np.isfinite(waits).all(axis=1))
    kept = comparisons.take(known)
    seen = [name for name, count in zip(kept.items, kept.appearances(), strict=True) if count]
    gap: Floats = waits[known, 0] - waits[known, 1]
    return kept.only(seen), gap


def newton(derivatives: Callable[[Floats], tuple[Floats, Floats]], size: int, what: str,
           ) -> tuple[Floats, Floats, int]:
    """
    Return the maximum, minus the second derivative near it, and the number of steps.

    ``derivatives`` returns the slope (size,) and minus the second derivative at a point.
    """
    point = np.zeros(size)
    for count in range(1, ROUNDS + 1):
        slope, matrix = derivatives(point)
        step = np.linalg.solve(matrix, slope)
        largest = float(np.abs(step).max())
        point = point + step * min(1.0, 2.0 / max(largest, 1e-300))
        if largest < CLOSE:
            return point, matrix, count
    raise NotConverged(f'{what} still changed by {largest:.1e} after {ROUNDS} steps; '
                       'leave out what decides verdicts alone')


def plackett_luce(rankings: Sequence[Sequence[str]], items: Sequence[str] | None = None) -> Fit:
    """
    Fit rankings, each from best to worst, of at least two policies; not all need be in each.

    ``items`` are the names in the order of the abilities (default: sorted).

    :raises RankingError: no ranking, a name twice in one, or an unknown name.
    :raises NotConverged: Newton's steps do not end.
    """
    names = list(items) if items is not None else sorted({name for row in rankings
                                                          for name in row})
    place = {name: k for k, name in enumerate(names)}
    unknown = sorted({name for row in rankings for name in row if name not in place})
    bad = [k for k, row in enumerate(rankings) if len(row) < 2 or len(set(row)) < len(row)]
    if unknown or bad or not rankings:
        raise RankingError('rankings need two or more different names each; ' + (
            f"unknown: {', '.join(unknown)}" if unknown else
            f'ranking {bad[0]} is {list(rankings[bad[0]])}' if bad else 'found none'))
    below, best = _stages(rankings, place)
    counts = _chained(rankings, names, place)
    ridge = 0.0 if is_connected(counts) else PRIOR_L2
    warnings = () if not ridge else (
        f'no finite maximum between {listed(groups(counts, beaten=True))}; held by a prior',)
    n = len(names)
    wins = np.bincount(best, minlength=n)

    def derivatives(theta: Floats) -> tuple[Floats, Floats]:
        share = below * np.exp(theta - theta.max())
        share /= share.sum(axis=1, keepdims=True)
        placed = share.sum(axis=0)
        return (wins - placed - ridge * theta,
                np.diag(placed) - share.T @ share + ridge * np.eye(n) + 1 / n)

    theta, matrix, steps = newton(derivatives, n, f'Plackett–Luce on {n} policies')
    theta -= theta.mean()
    centre = np.eye(n) - 1 / n
    value = float((theta[best] - np.log(below @ np.exp(theta))).sum())
    return Fit(theta, expected_share(theta), Diagnostics(True, steps, value, warnings, {
        'rankings': len(rankings), 'items': names}), centre @ np.linalg.inv(matrix) @ centre,
        np.full(n, ridge))


def _stages(rankings: Sequence[Sequence[str]], place: dict[str, int],
            ) -> tuple[Floats, np.ndarray]:
    """Return (S, n) who is still to be placed at every place of every ranking, and (S,) who is."""
    stages, best = [], []
    for row in rankings:
        order = [place[name] for name in row]
        for k in range(len(order) - 1):
            left = np.zeros(len(place))
            left[order[k:]] = 1.0
            stages.append(left)
            best.append(order[k])
    return np.array(stages), np.array(best)


def _chained(rankings: Sequence[Sequence[str]], names: list[str], place: dict[str, int],
             ) -> PairCounts:
    """Return who was ranked next above whom, as pairs."""
    n = len(names)
    table = np.zeros((n, n))
    for row in rankings:
        order = [place[name] for name in row]
        np.add.at(table, (order[:-1], order[1:]), 1.0)
    low, high = np.nonzero(np.triu(table + table.T, 1))
    return PairCounts(tuple(names), low, high, table[low, high], table[high, low],
                      np.zeros(len(low)))
