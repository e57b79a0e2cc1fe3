"""
Plots of standings, of shares won in groups, and a card for links to the standings.

Files are PNG or SVG by their suffix.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arena_robot.core.figures import (
    COLOURS,
    INK,
    LINE,
    empty_figure,
    new_figure,
    plain_axes,
    plain_text,
    save_figure,
)
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.standings import (
    TOO_FEW,
    Standings,
    basis_words,
    is_few,
    place_words,
    shown_order,
    stated_interval,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = '#a9cbe0'
GROUND, TEXT, SOFT, MARK = '#14213d', '#ffffff', '#b8c4dc', '#fca311'
LONGEST, FOOT_CHARS = 34, 90
BAR_LEFT, BAR_WIDTH = .56, .2    # of a card's width: between the longest name and the value


def plot_standings(standings: Standings, path: Path | str, unit: str = 'score') -> None:
    """
    Draw each policy's score with its interval, best on top.

    :raises DataError: the path does not end in .png or .svg.
    """
    save_figure(standings_figure(standings, unit), path)


def standings_figure(standings: Standings, unit: str = 'score') -> 'Figure':
    """
    Return each policy's score with its interval in picture and numbers, best on top.

    An interval without an end on one side has an arrow there; a policy with too few comparisons
    has an empty circle and no interval, and is below the others.
    """
    order = shown_order(standings)[::-1]
    figure, axes = new_figure(6.4, 1.2 + 0.36 * len(order))
    rows = np.arange(len(order))
    scores = standings.scores[order]
    few = np.array([is_few(standings, k) for k in order], dtype=bool)
    _bands(axes, rows, standings.low[order], standings.high[order])
    axes.plot(scores[~few], rows[~few], 'o', color=LINE, zorder=2)
    axes.plot(scores[few], rows[few], 'o', color=LINE, markerfacecolor='none', zorder=2)
    for row, k in enumerate(order):
        words = stated_interval(standings, k)
        axes.annotate(words, (1, row), (4, 0), xycoords=('axes fraction', 'data'),
                      textcoords='offset points', va='center', fontsize=7, color=INK)
    axes.set_yticks(rows, [f'{plain_text(standings.items[k])}   {_place(standings, k)}'
                           for k in order])
    axes.set_title(f'based on {basis_words(standings)}', fontsize=7, color=INK, loc='right')
    axes.set_xlabel(f'{standings.method}: {unit}')
    axes.grid(axis='x', alpha=0.3)
    return figure


def _place(standings: Standings, k: int) -> str:
    """Return the rank that is stated; nothing where the data are too few to tell."""
    return '' if is_few(standings, k) else place_words(standings, k)


def _bands(axes: 'Axes', rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Draw the intervals; an end that the data do not bound fades out in an arrow."""
    ends = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])
    reach = 0.15 * float(np.ptp(ends)) + 0.5 if len(ends) else 1.0
    for row, left, right in zip(rows, low, high, strict=True):
        if np.isnan(left) or np.isnan(right):
            continue
        start = left if np.isfinite(left) else min(ends) - reach
        stop = right if np.isfinite(right) else max(ends) + reach
        axes.hlines(row, start, stop, color=BAND, linewidth=6, zorder=1)
        if not np.isfinite(right):
            axes.plot(stop, row, '>', color=BAND, markersize=10, zorder=1)
        if not np.isfinite(left):
            axes.plot(start, row, '<', color=BAND, markersize=10, zorder=1)


def plot_win_matrix(comparisons: Comparisons, standings: Standings, path: Path | str) -> None:
    """
    Draw the share of verdicts the row's policy won against the column's, ties half, with counts.

    :raises DataError: the path does not end in .png or .svg.
    """
    save_figure(win_matrix_figure(comparisons, standings), path)


def win_matrix_figure(comparisons: Comparisons, standings: Standings) -> 'Figure':
    """Return the share of verdicts the row's policy won against the column's, ties half."""
    counts = count_pairs(comparisons)
    n = counts.n
    share, total = np.full((n, n), np.nan), np.zeros((n, n))
    won = (counts.wins + counts.ties / 2) / counts.total
    share[counts.low, counts.high], share[counts.high, counts.low] = won, 1 - won
    total[counts.low, counts.high] = total[counts.high, counts.low] = counts.total
    order = standings.order
    share, total = share[np.ix_(order, order)], total[np.ix_(order, order)]
    figure, axes = new_figure(2.6 + 0.62 * n, 1.9 + 0.52 * n)
    image = axes.imshow(share, cmap='RdYlBu', vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(total), strict=True):
        value = share[row, column]
        axes.text(column, row, f'{value:.2f}\n{total[row, column]:g}', ha='center', va='center',
                  fontsize=7, color='white' if abs(value - 0.5) > 0.35 else INK)
    names = [plain_text(standings.items[k]) for k in order]
    axes.set_xticks(range(n), names, rotation=40, ha='right')
    axes.set_yticks(range(n), names)
    axes.set_title('share won by the row (number of verdicts)', fontsize=9)
    figure.colorbar(image, ax=axes, fraction=0.04)
    return figure


def history_figure(days: Sequence[str], curves: Mapping[str, Sequence[tuple[float, float, float]]],
                   unit: str = 'score') -> 'Figure':
    """
    Return the scores of policies over time, with bands of their intervals.

    ``days`` are dates, ``curves`` policy → (score, low, high) per day; NaN where it was too early
    to tell.
    """
    figure, axes = new_figure(7.6, 3.8)
    stamps = np.array(days, dtype='datetime64[D]')
    for colour, (name, values) in zip(_cycle(len(curves)), curves.items(), strict=True):
        table = np.array(values, dtype=float).reshape(-1, 3)
        score, low, high = np.where(np.isfinite(table[:, :1]), table, np.nan).T
        low, high = (np.where(np.isfinite(x), x, score) for x in (low, high))
        axes.fill_between(stamps, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(stamps, score, 'o-', color=colour, markersize=3, label=plain_text(name))
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.tick_params(axis='x', rotation=25)
    if curves:
        figure.legend(frameon=False, fontsize=8, loc='outside right upper')
    return figure


def plot_efficiency(curves: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]],
                    path: Path | str, measures: Sequence[str] = ('pearson', 'mmrv')) -> None:
    """
    Draw measures over the number of sessions; up to three curves get bands of the central 95 %.

    ``curves`` is method → sessions → measure → (mean, low, high).

    :raises DataError: the path does not end in .png or .svg.
    """
    figure = empty_figure(4.2 * len(measures), 3.2, layout='constrained')
    for place, measure in enumerate(measures, 1):
        axes = figure.add_subplot(1, len(measures), place)
        plain_axes(axes)
        for colour, (name, curve) in zip(_cycle(len(curves)), curves.items(), strict=True):
            sizes = sorted(curve)
            mean, low, high = (np.array([curve[s][measure][k] for s in sizes], dtype=float)
                               for k in range(3))
            if len(curves) <= 3:
                axes.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(sizes, mean, 'o-', color=colour, markersize=3, label=name)
        axes.set_xlabel('sessions')
        axes.set_ylabel(measure)
        axes.grid(alpha=0.3)
        if place == 1:
            axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def _cycle(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]


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
        interval = TOO_FEW if math.isnan(self.share) else (
            f'{100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]')
        return f'{interval}, n = {self.count}'


def shares_figure(groups: Mapping[str, Sequence[WonShare]]) -> 'Figure':
    """Return the shares of each group below its name, with intervals in picture and numbers."""
    rows = [(group, share) for group, shares in groups.items() for share in (None, *shares)]
    figure, axes = new_figure(6.8, 1.0 + 0.24 * len(rows))
    axes.set_xlim(0, 100)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for row, (_, share) in enumerate(rows):
        if share is None:
            continue
        axes.annotate(share.words, (1, row), (4, 0), xycoords=('axes fraction', 'data'),
                      textcoords='offset points', va='center', fontsize=7, color=INK)
        if not math.isnan(share.share):
            axes.hlines(row, 100 * share.low, 100 * share.high, color=BAND, linewidth=6, zorder=1)
            axes.plot(100 * share.share, row, 'o', color=LINE, zorder=2)
    axes.set_yticks(range(len(rows)), [plain_text(share.name if share else group)
                                       for group, share in rows])
    for label, (_, share) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight('normal' if share else 'bold')
    axes.axvline(50, color=INK, linewidth=0.6, alpha=0.5)
    axes.set_xlabel('comparisons won in %, ties half, with 95 % intervals', fontsize=8)
    axes.grid(axis='x', alpha=0.3)
    return figure


@dataclass(frozen=True)
class CardLine:
    """
    A line of a card: ``name`` left, ``value`` right.

    ``bar`` is drawn between them: low, middle and high from 0 to 1; None: nothing is stated.
    """

    name: str
    value: str
    bar: tuple[float, float, float] | None = None


def card_figure(title: str, lines: Sequence[CardLine], foot: str) -> 'Figure':
    """Return the card: title, up to six lines, a foot of what it is based on."""
    figure = empty_figure(10, 5.25, facecolor=GROUND)
    figure.text(.06, .86, 'arena', color=MARK, fontsize=20, weight='bold')
    figure.text(.06, .74, _short(title), color=TEXT, fontsize=30, weight='bold')
    for k, line in enumerate(lines[:6]):
        height = .63 - .085 * k
        figure.text(.06, height, _short(line.name), color=TEXT, fontsize=18)
        figure.text(.94, height, plain_text(line.value), color=MARK, fontsize=18, ha='right')
        if line.bar is not None:
            axes = figure.add_axes((BAR_LEFT, height, BAR_WIDTH, .03))
            axes.set_axis_off()
            axes.set_xlim(0, 1)
            low, middle, high = line.bar
            axes.hlines(0, low, high, color=SOFT, linewidth=8)
            axes.plot(middle, 0, 'o', color=MARK)
    figure.text(.06, .05, '\n'.join(map(plain_text, textwrap.wrap(foot, FOOT_CHARS))), color=SOFT,
                fontsize=12, va='bottom')
    return figure


def _short(text: str) -> str:
    return plain_text(text if len(text) <= LONGEST else f'{text[:LONGEST - 1]}…')
