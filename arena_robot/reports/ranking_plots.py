"""Plots of standings, as PNG or SVG by the file's suffix."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons, Standings
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.wording import TOO_FEW, is_few

INK, LINE, BAND = '#22303c', '#2a6f97', '#a9cbe0'
COLOURS = ('#2a6f97', '#c1666b', '#4c956c', '#d4a017', '#6d597a', '#5c677d', '#e07a5f', '#118ab2')
SUFFIXES = ('.png', '.svg')


def plot_standings(standings: Standings, path: Path | str, unit: str = 'score') -> None:
    """
    Draw each policy's score with its interval, best on top.

    An interval without an end on one side has an arrow there; a policy with too few comparisons
    has an empty circle and no interval.

    :raises DataError: the path does not end in .png or .svg.
    """
    order = standings.order[::-1]
    figure, axes = _figure(6.4, 1.2 + 0.36 * len(order))
    rows = np.arange(len(order))
    scores = standings.scores[order]
    few = np.array([is_few(standings, k) for k in order], dtype=bool)
    _bands(axes, rows, standings.low[order], standings.high[order])
    axes.plot(scores[~few], rows[~few], 'o', color=LINE, zorder=2)
    axes.plot(scores[few], rows[few], 'o', color=LINE, markerfacecolor='none', zorder=2)
    for row, score in zip(rows[few], scores[few], strict=True):
        axes.annotate(TOO_FEW, (score, row), (8, 0), textcoords='offset points', va='center',
                      fontsize=7, color=INK)
    labels = [f'{standings.ranks[k]}.  {standings.items[k]}' for k in order]
    axes.set_yticks(rows, labels)
    axes.set_xlabel(f'{standings.method}: {unit}')
    axes.grid(axis='x', alpha=0.3)
    _save(figure, path)


def _bands(axes: Axes, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
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
    counts = count_pairs(comparisons)
    n = counts.n
    share, total = np.full((n, n), np.nan), np.zeros((n, n))
    won = (counts.wins + counts.ties / 2) / counts.total
    share[counts.low, counts.high], share[counts.high, counts.low] = won, 1 - won
    total[counts.low, counts.high] = total[counts.high, counts.low] = counts.total
    order = standings.order
    share, total = share[np.ix_(order, order)], total[np.ix_(order, order)]
    figure, axes = _figure(2.6 + 0.62 * n, 1.9 + 0.52 * n)
    image = axes.imshow(share, cmap='RdYlBu', vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(total), strict=True):
        value = share[row, column]
        axes.text(column, row, f'{value:.2f}\n{total[row, column]:g}', ha='center', va='center',
                  fontsize=7, color='white' if abs(value - 0.5) > 0.35 else INK)
    names = [standings.items[k] for k in order]
    axes.set_xticks(range(n), names, rotation=40, ha='right')
    axes.set_yticks(range(n), names)
    axes.set_title('share won by the row (number of verdicts)', fontsize=9)
    figure.colorbar(image, ax=axes, fraction=0.04)
    _save(figure, path)


def plot_efficiency(curves: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]],
                    path: Path | str, measures: Sequence[str] = ('pearson', 'mmrv')) -> None:
    """
    Draw measures over the number of sessions; up to three curves get bands of the central 95 %.

    ``curves`` is method → sessions → measure → (mean, low, high).

    :raises DataError: the path does not end in .png or .svg.
    """
    figure, _ = _figure(4.2 * len(measures), 3.2, 0)
    for place, measure in enumerate(measures, 1):
        axes = figure.add_subplot(1, len(measures), place)
        _style(axes)
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
    _save(figure, path)


def _cycle(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]


def _figure(width: float, height: float, axes: int = 1) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout='constrained')
    FigureCanvasAgg(figure)
    if not axes:
        return figure, Axes(figure, (0, 0, 1, 1))
    made = figure.add_subplot()
    _style(made)
    return figure, made


def _style(axes: Axes) -> None:
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)


def _save(figure: Figure, path: Path | str) -> None:
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise DataError(f"cannot draw '{target}': the name must end in {' or '.join(SUFFIXES)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise DataError(f"cannot draw '{target}': {error}") from error
