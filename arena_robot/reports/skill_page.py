"""Solutions of a skill task beside their videos, labels and scores; a verifier's calibration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.core.figures import COLOURS, INK, new_figure, save_figure
from arena_robot.core.files import write_text
from arena_robot.core.wilson import wilson
from arena_robot.reports.tournament import TEMPLATES
from arena_robot.skills.labelling import LabelledTask, TriedSolution, label_prefixes, prefix_keys
from arena_robot.skills.verifier import PrefixScorer, strategy

DONE = {True: 'done', False: 'failed', None: 'not reached'}
_MARKS = 'os^D'
_APART = 0.012      # of the score, so that intervals of splits do not hide each other


def solution_rows(task: LabelledTask, scorer: PrefixScorer | None = None, how: str = 'last'
                  ) -> list[dict[str, Any]]:
    """Return a task's solutions with results, labels and scores, as JSON values."""
    good = {label.key: label.good for label in label_prefixes(task.tried)}
    rows = []
    for tried in task.tried:
        scores = np.zeros(0) if scorer is None else scorer.prefixes(task.spec, tried.solution)
        results = tried.execution.results
        rows.append({
            'origin': tried.origin, 'kept': tried.kept, 'success': tried.execution.success,
            'claimed': tried.execution.claimed, 'oracle': tried.execution.oracle,
            'score': round(strategy(how)(scores), 3) if len(scores) else None,
            'subtasks': [{
                'name': step.name, 'kind': step.kind.value, 'code': step.code, 'good': good[key],
                'executed': results[k].success if k < len(results) else None,
                'error': results[k].error if k < len(results) else '',
                'score': round(float(scores[k]), 3) if len(scores) else None}
                for k, (step, key) in enumerate(zip(
                    tried.solution.subtasks, prefix_keys(tried.solution), strict=True))]})
    return rows


def end_words(row: Mapping[str, Any]) -> str:
    """Return how a solution ended."""
    return ('succeeds' if row['success'] else
            'claims success, the check says no' if row['claimed'] else 'fails')


def write_skill_page(folder: Path, task: LabelledTask, rows: Sequence[Mapping[str, Any]],
                     films: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> Path:
    """
    Write ``index.html`` into ``folder`` and return its path.

    ``rows`` are those of :func:`solution_rows`. ``films`` has for each the ``video`` beside the
    page, the second at which each subtask ``begins``, and whether it ``differs`` from the dataset.
    """
    shown = [_shown(row, film, tried)
             for row, film, tried in zip(rows, films, task.tried, strict=True)]
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
                              undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = made.get_template('skill_page.html').render(
        spec=task.spec, rows=shown, about=about, succeeded=sum(row['success'] for row in rows))
    path = folder / 'index.html'
    try:
        write_text(path, page)
    except OSError as error:
        raise DataError(f'the page cannot be written to {folder}: {error}') from error
    return path


def _shown(row: Mapping[str, Any], film: Mapping[str, Any], tried: TriedSolution
           ) -> dict[str, Any]:
    begins = film['begins']
    steps = [{**step, 'done': DONE[step['executed']],
              'begins_s': begins[k] if k < len(begins) else None}
             for k, step in enumerate(row['subtasks'])]
    return {**row, 'end': end_words(row), 'subtasks': steps, 'video': film['video'],
            'differs': film['differs'],
            'words': ', '.join(step.name for step in tried.solution.subtasks)}


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
