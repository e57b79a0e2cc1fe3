"""Standings as an HTML table, for notebooks."""

from collections.abc import Sequence
from html import escape
from typing import Any, Protocol

import numpy as np


class Ranked(Protocol):
    """What is shown of standings."""

    @property
    def method(self) -> str:
        """The method's name."""

    @property
    def items(self) -> tuple[str, ...]:
        """The policies."""

    @property
    def ranks(self) -> Any:
        """(n,) ranks."""

    @property
    def scores(self) -> Any:
        """(n,) scores."""

    @property
    def low(self) -> Any:
        """(n,) lower ends."""

    @property
    def high(self) -> Any:
        """(n,) upper ends."""

    @property
    def counts(self) -> Any:
        """(n,) numbers of comparisons."""

    @property
    def order(self) -> list[int]:
        """The indices of the policies from best to worst."""


def html_table(found: Ranked) -> str:
    """Return rank, policy, score, interval and number of comparisons, best policy first."""
    rows = [_row('th', ('rank', 'policy', 'score', 'low', 'high', 'n'))]
    rows += [_row('td', (str(found.ranks[k]), found.items[k], _number(found.scores[k]),
                         _number(found.low[k]), _number(found.high[k]), str(found.counts[k])))
             for k in found.order]
    return (f'<table><caption>{escape(found.method)}</caption>' + ''.join(rows) + '</table>')


def _row(tag: str, cells: Sequence[str]) -> str:
    return '<tr>' + ''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells) + '</tr>'


def _number(value: float) -> str:
    if np.isnan(value):
        return '–'
    return f'{value:.3f}' if np.isfinite(value) else ('∞' if value > 0 else '−∞')
