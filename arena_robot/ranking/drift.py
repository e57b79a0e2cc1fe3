"""
Whether abilities change over time: a policy that is retrained, a laboratory that drifts.

The comparisons are cut by time into windows of equal numbers, and a method ranks each window by
itself. A change is the score in the last window minus that in the first. Scores are relative to
the mean of the policies: one that gets better lowers all others a little, and what changes all
alike, such as stricter evaluators, is not seen.

The interval of a change has the half-widths of both windows, squared and added, as of independent
estimates. An evaluator with votes in both windows has the same taste in both, which cancels in the
change, so that the interval is then wider than needed.

For standings of now, :func:`.evaluators.agreement.decayed` lets old verdicts count less.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import LEAST_COMPARISONS
from arena_robot.ranking.methods import rank
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standings


@dataclass(frozen=True)
class OverTime:
    """
    Standings by window, oldest first, and the changes from the first window to the last.

    ``spans`` are the first and the last time in each window. ``changes`` are (change, low, high)
    by policy, the largest first, NaN where the data are too few to tell. Who is ``left_out`` has
    fewer than 5 comparisons in some window.
    """

    spans: tuple[tuple[float, float], ...]
    standings: tuple[Standings, ...]
    changes: dict[str, tuple[float, float, float]]
    left_out: tuple[str, ...]


def over_time(comparisons: Comparisons, when: ArrayLike, windows: int = 2,
              method: str = RECOMMENDED, *, intervals: int = 200, **options: Any) -> OverTime:
    """
    Rank ``windows`` of equal numbers of comparisons; the other arguments are those of ``fit``.

    ``when`` (M,) are the times of the comparisons, as numbers or numpy's datetime64 (then the
    times of the windows are days since 1970).

    :raises RankingError: a time is not known, there are fewer than two windows, or fewer than two
    policies with 5 comparisons in each.

    >>> votes = Comparisons.build([0] * 40, [1] * 40, [1, 1, 1, 0] * 5 + [1, 0, 0, 0] * 5)
    >>> found = over_time(votes, range(40), method='bt')
    >>> {name: f'{change:+.1f}' for name, (change, _, _) in found.changes.items()}
    {'item_1': '+1.1', 'item_0': '-1.1'}
    """
    times = np.asarray(when)
    if times.dtype.kind == 'M':
        times = np.where(np.isnat(times), np.nan, times.astype('M8[s]').astype(float) / 86400)
    times = times.astype(float)
    if times.shape != (len(comparisons),) or not np.isfinite(times).all() or windows < 2:
        raise RankingError(f'ability over time needs two windows or more and {len(comparisons)} '
                           f'known times; got {windows} windows and {np.isfinite(times).sum()} '
                           'times')
    parts = np.array_split(np.argsort(times, kind='stable'), windows)
    met = np.array([comparisons.take(rows).appearances() for rows in parts]).min(axis=0)
    kept = [name for name, count in zip(comparisons.items, met, strict=True)
            if count >= LEAST_COMPARISONS]
    if len(kept) < 2:
        raise RankingError(f'fewer than two policies have {LEAST_COMPARISONS} comparisons in each '
                           f'of {windows} windows; ask for fewer windows')
    ranked = tuple(rank(comparisons.take(rows).only(kept), method, intervals=intervals, apart=True,
                        **options) for rows in parts)
    return OverTime(tuple((float(times[rows].min()), float(times[rows].max())) for rows in parts),
                    ranked, _changes(ranked[0], ranked[-1]),
                    tuple(name for name in comparisons.items if name not in kept))


def _changes(first: Standings, last: Standings) -> dict[str, tuple[float, float, float]]:
    change = last.scores - first.scores
    change = change - change.mean()
    wide = np.hypot(first.high - first.low, last.high - last.low) / 2
    return {first.items[k]: (float(change[k]), float(change[k] - wide[k]),
                             float(change[k] + wide[k]))
            for k in np.argsort(-change, kind='stable')}
