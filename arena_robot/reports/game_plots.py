"""Plots of games and votes: what tasks add to deviation ratings, graphs of ranked pairs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import DataError
from arena_robot.core.figures import COLOURS, INK, LINE, new_figure, save_figure
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.ranked_pairs import ranked_pairs

REST = '#b8c0c8'
FAINT = '#c9d6df'


def draw_contributions(contributions: ArrayLike, models: Sequence[str], tasks: Sequence[str],
                       path: Path | str, shown: int = 8) -> None:
    """
    Draw a bar per model, stacked by task, with the rating (the sum of its bar) as a diamond.

    contributions: shape (models, tasks), in the units of the scores. The ``shown`` tasks that
    weigh most over all models get a colour each, the others are added up in grey.

    :raises DataError: the shape does not fit the names, or the path not .png or .svg.
    """
    table = np.asarray(contributions, dtype=float)
    if table.shape != (len(models), len(tasks)):
        raise DataError(f'contributions of shape {table.shape} do not fit {len(models)} models '
                        f'and {len(tasks)} tasks')
    rating = table.sum(axis=1)
    order = np.argsort(rating, kind='stable')
    weight = np.abs(table).sum(axis=0)
    first = np.argsort(-weight, kind='stable')[:min(shown, len(COLOURS))]
    first = first[weight[first] > 1e-9 * max(float(weight.max()), 1e-300)]
    parts = [(tasks[t], table[order, t], colour)
             for t, colour in zip(first, COLOURS, strict=False)]
    others = np.delete(table, first, axis=1)[order].sum(axis=1)
    if np.abs(others).max() > 0:
        parts.append((f'{len(tasks) - len(first)} others', others, REST))
    figure, axes = new_figure(8.2, 1.3 + .36 * len(models))
    rows = np.arange(len(models))
    left, right = np.zeros(len(models)), np.zeros(len(models))
    for name, part, colour in parts:
        axes.barh(rows, part, left=np.where(part < 0, left, right), color=colour, height=.62,
                  label=name)
        left, right = left + np.minimum(part, 0), right + np.maximum(part, 0)
    axes.plot(rating[order], rows, 'D', color=INK, markersize=5, label='rating')
    axes.axvline(0, color=INK, linewidth=.8)
    axes.set_yticks(rows, [models[m] for m in order])
    axes.set_xlabel('deviation rating, and what each task adds to it', fontsize=9)
    axes.legend(frameon=False, fontsize=7, loc='center left', bbox_to_anchor=(1, .5))
    save_figure(figure, path)


def draw_ranked_pairs(profile: Profile, path: Path | str) -> None:
    """
    Draw the locked majorities of ranked pairs, tier by tier from the top.

    Dark arrows with their margin are those that no chain of others implies; faint ones are the
    rest. Tied margins that allow several graphs leave only the arrows that all of them share.

    :raises DataError: the path does not end in .png or .svg.
    """
    result = ranked_pairs(profile)
    tiers = result.tiers or ()
    graph = np.zeros((len(profile.names),) * 2) if result.graph is None else result.graph
    wide = max(len(tier) for tier in tiers)
    longest = max(map(len, profile.names)) * .095 + .5
    figure, axes = new_figure(2.2 + wide * longest, 1. + .85 * len(tiers))
    at = {x: ((k - (len(tier) - 1) / 2) * longest, -.85 * depth)
          for depth, tier in enumerate(tiers) for k, x in enumerate(tier)}
    needed = _needed(graph > 0)
    for x, y in np.argwhere(graph > 0).tolist():
        _arrow(axes, at[x], at[y], graph[x, y] if needed[x, y] else None)
    for x, place in at.items():
        axes.text(*place, profile.names[x], ha='center', va='center', fontsize=9, color=INK,
                  bbox={'boxstyle': 'round,pad=0.35', 'facecolor': 'white', 'edgecolor': LINE},
                  zorder=3)
    reach = wide * longest / 2 + .8
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-.85 * (len(tiers) - 1) - .4, .4)
    axes.set_axis_off()
    note = '' if result.unique else ' (not unique)'
    axes.set_title(f'ranked pairs: margins of locked majorities{note}', fontsize=9, color=INK)
    save_figure(figure, path)


def _needed(graph: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the edges of an acyclic graph that are not the ends of a longer path."""
    reach = graph.copy()
    for k in range(len(reach)):
        reach |= reach[:, k, None] & reach[None, k]
    longer = (graph[:, :, None] & reach[None, :, :]).any(axis=1)
    out: NDArray[np.bool_] = graph & ~longer
    return out


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float],
           margin: float | None) -> None:
    colour, bend = (FAINT, .35) if margin is None else (LINE, 0.)
    axes.annotate('', end, start, zorder=1 if margin is None else 2, arrowprops={
        'arrowstyle': '-|>', 'color': colour, 'shrinkA': 12, 'shrinkB': 12,
        'linewidth': .8 if margin is None else 1.4, 'connectionstyle': f'arc3,rad={bend}'})
    if margin is not None:
        axes.text((start[0] + end[0]) / 2 + .12, (start[1] + end[1]) / 2, f'{margin:g}',
                  fontsize=8, color=LINE, va='center', zorder=3)
