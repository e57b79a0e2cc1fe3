"""Plots of episodes: curves of progress, failure fingerprints, and repeated inferences."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from arena_robot.audit.aggregate import FINGERPRINT, Fingerprint
from arena_robot.audit.opd import QUARTERS
from arena_robot.core.errors import DataError
from arena_robot.core.figures import COLOURS, INK, empty_figure, new_figure, save_figure
from arena_robot.recording.episode.requery import Compared
from arena_robot.records.audit_file import EpisodeAudit

SHOWN = 12
_COLUMNS = 2


def plot_curves(audits: Sequence[EpisodeAudit], path: Path | str) -> None:
    """Draw the progress of up to twelve episodes over time, a colour each."""
    figure, axes = new_figure(7.0, 3.2)
    shown = [a for a in audits if a.valid][:SHOWN]
    for number, audit in enumerate(shown):
        axes.plot(audit.times_s, audit.phi, color=COLOURS[number % len(COLOURS)], lw=1.4,
                  ls='-' if number < len(COLOURS) else '--', label=audit.name[-14:])
    _milestones(axes)
    if shown:
        axes.legend(fontsize=6, frameon=False, loc='center left', bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)


def plot_fingerprints(prints: Sequence[Fingerprint], path: Path | str) -> None:
    """Draw the z-scores of the policies' failures, a row per policy and task."""
    rows = [p for p in prints if any(z is not None for z in p.z.values())]
    figure, axes = new_figure(6.0, 1.2 + 0.32 * max(len(rows), 1))
    table = np.array([[np.nan if p.z[m] is None else p.z[m] for m in FINGERPRINT]
                      for p in rows], float).reshape(-1, len(FINGERPRINT))
    axes.imshow(np.ma.masked_invalid(table) if len(rows) else np.zeros((1, len(FINGERPRINT))),
                cmap='RdBu', vmin=-2, vmax=2, aspect='auto')
    for i, j in np.ndindex(table.shape):
        axes.text(j, i, 'n/a' if np.isnan(table[i, j]) else f'{table[i, j]:+.1f}', ha='center',
                  va='center', fontsize=7, color=INK)
    axes.set_xticks(range(len(FINGERPRINT)), [m.upper() for m in FINGERPRINT])
    axes.set_yticks(range(max(len(rows), 1)), [f'{p.policy}, {p.task[:28]} ({p.failures})'
                                               for p in rows] or ['too few failures'])
    axes.set_title('failures against the other policies (z-scores; more is better)', fontsize=8)
    save_figure(figure, path)


def _milestones(axes: Axes) -> None:
    for quarter in QUARTERS:
        axes.axhline(quarter, color=INK, lw=0.4, alpha=0.35)
    axes.set_ylim(-0.03, 1.05)
    axes.set_yticks([0.0, *QUARTERS], ['0', '25', '50', '75', '100'])
    axes.set_xlabel('time, s', fontsize=8)
    axes.set_ylabel('progress, %', fontsize=8)


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
