"""How standings are shown: intervals and ranks in words, bars within an axis."""

import math
from dataclasses import dataclass

import numpy as np

from arena_robot.ranking.origins import not_relayed
from arena_robot.ranking.ranked import Ranked

TOO_FEW = 'too few to tell'


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


def is_few(found: Ranked, k: int) -> bool:
    """Tell whether nothing is stated about policy ``k``."""
    return found.too_few is not None and bool(found.too_few[k])


def few_words(found: Ranked, k: int) -> str:
    """Return why nothing is stated about policy ``k``, '' where something is."""
    if not is_few(found, k):
        return ''
    return (found.diagnostics.details.get('intervals') or {}).get('none') or TOO_FEW


def stated_order(found: Ranked) -> list[int]:
    """Return the policies best first; those with too few comparisons last, as nothing is told."""
    return sorted(found.order, key=lambda k: is_few(found, k))


def rank_words(found: Ranked, k: int, between: str = '–') -> str:
    """Return the likely ranks of policy ``k``, empty without intervals."""
    if found.rank_low is None or found.rank_high is None:
        return ''
    low, high = int(found.rank_low[k]), int(found.rank_high[k])
    return str(low) if low == high else f'{low}{between}{high}'


def place_words(found: Ranked, k: int) -> str:
    """Return the rank of policy ``k`` as it may be stated: '3', '1–5 tied', 'too few to tell'."""
    if few := few_words(found, k):
        return few
    if words := rank_words(found, k):
        return words if words.isdecimal() else f'{words} tied'
    same = int((found.ranks == found.ranks[k]).sum())
    return f'{found.ranks[k]}{"=" if same > 1 else ""}'


def axis_ends(found: Ranked) -> tuple[float, float]:
    """Return the ends of the axis on which :func:`shown` places the bars."""
    ends = np.concatenate([found.scores, found.low, found.high])
    ends = ends[np.isfinite(ends)]
    return float(ends.min()), float(ends.max())


def basis_words(found: Ranked) -> str:
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


def shown(found: Ranked, form: str = '.2f') -> list[Shown]:
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
