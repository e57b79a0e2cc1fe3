"""Plot of the tasks' contributions to the models' deviation ratings, as PNG or SVG."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.core.errors import DataError
from arena_robot.reports.figures import COLOURS, INK, new_figure, save_figure

REST = '#b8c0c8'


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
    rest = np.delete(table, first, axis=1)[order].sum(axis=1)
    if np.abs(rest).max() > 0:
        parts.append((f'{len(tasks) - len(first)} others', rest, REST))
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
