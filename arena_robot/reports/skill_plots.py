"""Plot of a verifier's calibration on held-out solutions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from arena_robot.core.wilson import wilson
from arena_robot.reports.figures import COLOURS, INK, new_figure, save_figure

_MARKS = 'os^D'
_APART = 0.012      # of the score, so that intervals of splits do not hide each other


def plot_calibration(bins: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """
    Draw the share of successes over the mean score of each bin, for each split, with 95 %.

    ``bins`` are those of :func:`skills.metrics.calibration`; the intervals are Wilson's and take
    solutions of one task as independent. Raises DataError when the file cannot be written.
    """
    figure, axes = new_figure(4.6, 3.6)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.6, alpha=0.5)
    for k, (name, rows) in enumerate(bins.items()):
        counts = np.array([int(row['count']) for row in rows])
        share = np.array([row['success'] for row in rows])
        ends = np.array([wilson(s * n, n) for s, n in zip(share, counts, strict=True)])
        where = np.array([row['score'] for row in rows]) + k * _APART
        axes.errorbar(where, share, np.abs(ends.T - share), fmt=_MARKS[k % len(_MARKS)],
                      color=COLOURS[k], markersize=4, linewidth=0.9,
                      label=f'by {name}, {counts.sum()} solutions')
    axes.set(xlim=(-0.03, 1.05), ylim=(-0.03, 1.03))
    axes.set_xlabel('score of the verifier', fontsize=8)
    axes.set_ylabel('share that succeeds', fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False)
    save_figure(figure, path)
