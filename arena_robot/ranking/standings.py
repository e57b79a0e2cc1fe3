"""
Standings: what a ranking method found, in words, as an HTML table and as JSON.

Standings have intervals, rank ranges and probabilities only where these were computed.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats, Ints
from arena_robot.ranking.origins import not_relayed
from arena_robot.ranking.html import html_table

TIE_TOLERANCE = 1e-9
TOO_FEW = 'too few to tell'


@dataclass(frozen=True)
class Standings:
    """
    The outcome of one method.

    ``scores`` (n,) in the method's own unit, higher is better; ``low``, ``high`` (n,)
    its interval, NaN without intervals. ``ranks`` (n,) count from 1; policies whose scores are
    equal share the better rank. ``counts`` (n,) comparisons of each. ``solve`` (n,) is the ability
    as a probability: of solving a task, or of beating a policy drawn from the pool.
    ``rank_low``, ``rank_high`` (n,) and ``p_better`` (n, n), the probability that the row's policy
    is better than the column's, come with intervals; ``_joint`` ranges hold for all policies at
    once. ``too_few`` (n,) marks the policies of which the data are too few to tell anything: their
    ``low`` and ``high`` are NaN. An end that the data do not bound is infinite.
    """

    method: str
    items: tuple[str, ...]
    scores: Floats
    low: Floats
    high: Floats
    ranks: Ints
    counts: Ints
    solve: Floats
    diagnostics: Diagnostics
    rank_low: Ints | None = None
    rank_high: Ints | None = None
    p_better: Floats | None = None
    rank_low_joint: Ints | None = None
    rank_high_joint: Ints | None = None
    too_few: NDArray[np.bool_] | None = None

    @property
    def order(self) -> list[int]:
        """The indices of the policies from best to worst; equal ones in the order of items."""
        return [int(k) for k in np.lexsort((np.arange(len(self.items)), self.ranks))]

    def _repr_html_(self) -> str:
        return html_table(self)


def standings(method: str, comparisons: Comparisons, fit: Fit) -> Standings:
    """Return the standings of a fit without intervals."""
    nothing = np.full(comparisons.n, np.nan)
    ranks = competition_ranks(fit.scores)
    return Standings(method, comparisons.items, fit.scores, nothing, nothing, ranks,
                     comparisons.appearances(), fit.solve, fit.diagnostics)


def competition_ranks(scores: ArrayLike) -> Ints:
    """
    Return ranks 1.. of scores (n,), highest first, equals sharing the better rank.

    Scores count as equal within 1e-9 of their range, so that rounding never splits a tie.
    """
    x = np.asarray(scores, dtype=float)
    order = np.argsort(-x, kind='stable')
    gap = TIE_TOLERANCE * max(float(np.ptp(x)) if len(x) else 0.0, 1e-3)
    new = np.r_[True, -np.diff(x[order]) > gap] if len(x) else np.zeros(0, bool)
    ranks = np.empty(len(x), dtype=np.int64)
    ranks[order] = np.maximum.accumulate(np.where(new, np.arange(1, len(x) + 1), 0))
    return ranks


@dataclass(frozen=True)
class Shown:
    """
    What is shown of one policy.

    ``interval`` and ``ranks`` in words, ``place`` the rank as stated (1–5 tied); ``left``,
    ``middle`` and ``right`` of its bar in per cent of the axis, ``left`` and ``right`` None where
    no interval is stated.
    """

    interval: str
    ranks: str
    place: str
    left: float | None
    middle: float
    right: float | None


def interval_words(low: float, high: float, few: str = '', form: str = '.2f',
                   between: str = ' to ') -> str:
    """Return an interval in words; one end may be infinite; there is none where ``few`` is why."""
    if few:
        return few
    if math.isnan(low) or math.isnan(high):
        return '–'
    if math.isinf(low) and math.isinf(high):
        return TOO_FEW
    if math.isinf(high):
        return f'above {low:{form}}'
    if math.isinf(low):
        return f'below {high:{form}}'
    return f'{low:{form}}{between}{high:{form}}'


def is_few(found: Standings, k: int) -> bool:
    """Tell whether nothing is stated about policy ``k``."""
    return found.too_few is not None and bool(found.too_few[k])


def few_words(found: Standings, k: int) -> str:
    """Return why nothing is stated about policy ``k``, '' where something is."""
    if not is_few(found, k):
        return ''
    return (found.diagnostics.details.get('intervals') or {}).get('none') or TOO_FEW


def stated_order(found: Standings) -> list[int]:
    """Return the policies best first; those with too few comparisons last, as nothing is told."""
    return sorted(found.order, key=lambda k: is_few(found, k))


def rank_words(found: Standings, k: int, between: str = '–') -> str:
    """Return the likely ranks of policy ``k``, empty without intervals."""
    if found.rank_low is None or found.rank_high is None:
        return ''
    low, high = int(found.rank_low[k]), int(found.rank_high[k])
    return str(low) if low == high else f'{low}{between}{high}'


def place_words(found: Standings, k: int) -> str:
    """Return the rank of policy ``k`` as it may be stated: '3', '1–5 tied', 'too few to tell'."""
    if few := few_words(found, k):
        return few
    if words := rank_words(found, k):
        return words if words.isdecimal() else f'{words} tied'
    same = int((found.ranks == found.ranks[k]).sum())
    return f'{found.ranks[k]}{"=" if same > 1 else ""}'


def axis_ends(found: Standings) -> tuple[float, float]:
    """Return the ends of the axis on which :func:`shown` places the bars."""
    ends = np.concatenate([found.scores, found.low, found.high])
    ends = ends[np.isfinite(ends)]
    return float(ends.min()), float(ends.max())


def basis_words(found: Standings) -> str:
    """Return what the standings are based on, in one sentence."""
    told = found.diagnostics.details
    sessions = int(found.counts.sum()) // 2
    text = f'{sessions} session{"" if sessions == 1 else "s"}'
    if elsewhere := not_relayed(origins := told.get('origins', {})):
        text += f' ({elsewhere if len(origins) > 1 else f"all {next(iter(origins))}"})'
    if told.get('institutions'):
        text += f' at {told["institutions"]} institution{"" if told["institutions"] == 1 else "s"}'
    if told.get('newest'):
        text += f', the newest of {told["newest"][:10]}'
    if told.get('intervals'):
        text += f'; intervals count each {told["intervals"]["by"]} as one observation'
    return text + '.'


def shown(found: Standings, form: str = '.2f') -> list[Shown]:
    """Return what is shown of each policy, in the order of the items; open ends reach the edge."""
    first, last = axis_ends(found)
    span = last - first or 1.0

    def place(value: float) -> float | None:
        if math.isnan(value):
            return None
        return min(max(100.0 * (value - first) / span, 0.0), 100.0)

    rows = []
    for k in range(len(found.items)):
        low, high = float(found.low[k]), float(found.high[k])
        rows.append(Shown(interval_words(low, high, few_words(found, k), form),
                          rank_words(found, k), place_words(found, k), place(low),
                          100.0 * (float(found.scores[k]) - first) / span, place(high)))
    return rows
