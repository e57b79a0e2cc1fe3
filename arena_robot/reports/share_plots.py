"""Plots of shares of comparisons won, in groups."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena_robot.ranking.standings import TOO_FEW
from arena_robot.reports.figures import INK, LINE, new_figure, plain_text
from arena_robot.reports.ranking_plots import BAND

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class WonShare:
    """Share of ``count`` comparisons won, 0 to 1, ties half, with 95 %; NaN: too few to tell."""

    name: str
    count: int
    share: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def words(self) -> str:
        """The interval in percent and the number of comparisons."""
        told = TOO_FEW if math.isnan(self.share) else (
            f'{100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]')
        return f'{told}, n = {self.count}'


def shares_figure(groups: Mapping[str, Sequence[WonShare]]) -> 'Figure':
    """Return the shares of each group below its name, with intervals in picture and numbers."""
    rows = [(group, one) for group, shares in groups.items() for one in (None, *shares)]
    figure, axes = new_figure(6.8, 1.0 + 0.24 * len(rows))
    axes.set_xlim(0, 100)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for row, (_, one) in enumerate(rows):
        if one is None:
            continue
        axes.annotate(one.words, (1, row), (4, 0), xycoords=('axes fraction', 'data'),
                      textcoords='offset points', va='center', fontsize=7, color=INK)
        if not math.isnan(one.share):
            axes.hlines(row, 100 * one.low, 100 * one.high, color=BAND, linewidth=6, zorder=1)
            axes.plot(100 * one.share, row, 'o', color=LINE, zorder=2)
    axes.set_yticks(range(len(rows)), [plain_text(one.name if one else group)
                                       for group, one in rows])
    for label, (_, one) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight('normal' if one else 'bold')
    axes.axvline(50, color=INK, linewidth=0.6, alpha=0.5)
    axes.set_xlabel('comparisons won in %, ties half, with 95 % intervals', fontsize=8)
    axes.grid(axis='x', alpha=0.3)
    return figure
