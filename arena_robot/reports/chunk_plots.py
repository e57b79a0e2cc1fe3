"""Plots of repeated inferences: new actions over the recorded ones, one plot per number."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.recording.episode.requery import Compared
from arena_robot.reports.figures import empty_figure

_COLUMNS = 2


def plot_chunks(compared: Sequence[Compared], path: Path, space: str = '') -> None:
    """
    Draw every number of the actions over the steps, recorded and asked again.

    Raises DataError when there is nothing to draw or the path is no .png or .svg.
    """
    if not compared:
        raise DataError('no inference was compared, so there is nothing to plot')
    if path.suffix not in ('.png', '.svg'):
        raise DataError(f"plots are .png or .svg, asked for '{path}'")
    width = compared[0].recorded.shape[1]
    rows = -(-width // _COLUMNS)
    figure = empty_figure(10.0, 1.7 * rows, layout='constrained')
    grid = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).ravel()
    for k, axes in enumerate(grid):
        if k >= width:
            axes.set_visible(False)
            continue
        for c in compared:
            for values, colour, line in ((c.recorded, '#22303c', 2.2), (c.asked, '#c1666b', 1.2)):
                steps = c.step + np.arange(len(values))
                axes.plot(steps, values[:, k], color=colour, linewidth=line)
        axes.set_ylabel('gripper' if k == width - 1 else f'{space} {k + 1}'.strip(), fontsize=8)
        axes.grid(alpha=0.3)
    grid[0].set_title('recorded (dark) and asked again (red), by step', fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
