"""Standings as an HTML table, for notebooks."""

from collections.abc import Sequence
from html import escape

import numpy as np

from arena_robot.ranking.standings import Standings, place_words, stated_order


def html_table(found: Standings) -> str:
    """
    Return rank, policy, score, interval and number of comparisons, best policy first.

    The rank is as it may be stated: '3', '1–5 tied', 'too few to tell'.
    """
    rows = [_row('th', ('rank', 'policy', 'score', 'low', 'high', 'n'))]
    rows += [_row('td', (place_words(found, k), found.items[k], _number(found.scores[k]),
                         _number(found.low[k]), _number(found.high[k]), str(found.counts[k])))
             for k in stated_order(found)]
    return (f'<table><caption>{escape(found.method)}</caption>' + ''.join(rows) + '</table>')


def _row(tag: str, cells: Sequence[str]) -> str:
    return '<tr>' + ''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells) + '</tr>'


def _number(value: float) -> str:
    if np.isnan(value):
        return '–'
    return f'{value:.3f}' if np.isfinite(value) else ('∞' if value > 0 else '−∞')
