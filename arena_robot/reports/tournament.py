"""HTML report of a tournament without external files: standings, wins per pair, sessions."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

import arena_robot
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import count_pairs, mean_progress
from arena_robot.ranking.plots import plot_standings, plot_win_matrix
from arena_robot.ranking.standings import (
    RELAYED,
    Standings,
    interval_words,
    is_few,
    not_relayed,
    not_relayed_of,
    origins,
    shown,
    shown_order,
)
from arena_robot.reports.audit_agreement import mean_words
from arena_robot.reports.tournament_records import Record, RolloutRow, audit_lines, judged

TEMPLATES = Path(__file__).parent / 'templates'
WIDTH, HEIGHT = 560, 120
PAD = (34, 8, 8, 18)    # left, right, top, bottom


@dataclass(frozen=True)
class Gap:
    """Difference of two policies with an interval; log-odds of winning."""

    better: str
    worse: str
    score: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """The interval in words; one end may be infinite."""
        return interval_words(self.low, self.high, '', '+.2f', ' … ')

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True)
class TournamentReport:
    """
    Contents of a report.

    ``about`` says in a sentence what each policy is. ``facts`` are label and value. ``gap`` is
    the difference that matters most.
    """

    title: str
    records: Sequence[Record]
    comparisons: Comparisons
    standings: Standings
    unit: str
    gap: Gap | None = None
    about: Mapping[str, str] | None = None
    facts: Sequence[tuple[str, str]] = ()


def write_report(tournament: TournamentReport, folder: Path) -> Path:
    """
    Write ``index.html`` with its videos and plots into ``folder`` and return its path.

    Videos are linked to their originals where the file system can, else copied. Raises DataError
    when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plot_standings(tournament.standings, folder / 'standings.svg', tournament.unit)
        plot_win_matrix(tournament.comparisons, tournament.standings, folder / 'matrix.svg')
        sessions = [_session(number, record, folder)
                    for number, record in enumerate(tournament.records, 1)]
        page = _environment().get_template('tournament.html').render(
            t=tournament, rows=_rows(tournament), matrix=_matrix(tournament), sessions=sessions,
            numbers={r.session.session_id: k for k, r in enumerate(tournament.records, 1)},
            judged=judged(tournament.records), pad=PAD, elsewhere=_elsewhere(tournament),
            version=arena_robot.__version__)
        path = folder / 'index.html'
        write_text(path, page)
    except OSError as error:
        raise DataError(f'the report cannot be written to {folder}: {error}') from error
    return path


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
                              undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    made.filters['percent'] = lambda x: '–' if x is None else f'{100.0 * x:.0f}'
    made.filters['mean'] = mean_words
    made.filters['signed'] = lambda x: f'{x:+.2f}'.replace('-', '−')
    return made


def _rows(tournament: TournamentReport) -> list[dict[str, Any]]:
    standings = tournament.standings
    look, means = shown(standings, '+.2f'), mean_progress(tournament.comparisons)
    elsewhere = not_relayed_of(record.verdict for record in tournament.records)
    return [{'rank': '' if is_few(standings, k) else look[k].place, 'policy': standings.items[k],
             'score': float(standings.scores[k]), 'shown': look[k],
             'count': int(standings.counts[k]), 'elsewhere': elsewhere.get(standings.items[k], ''),
             'mean': means.get(standings.items[k]),
             'about': (tournament.about or {}).get(standings.items[k], '')}
            for k in shown_order(standings)]


def _elsewhere(tournament: TournamentReport) -> dict[str, Any]:
    """Return how many sessions did not pass a server's relay, in words, and their numbers."""
    counts = origins(record.verdict for record in tournament.records)
    return {'words': not_relayed(counts), 'all': len(tournament.records), 'numbers': [
        number for number, record in enumerate(tournament.records, 1)
        if record.verdict.origin != RELAYED]}


def _matrix(tournament: TournamentReport) -> dict[str, Any]:
    counts = count_pairs(tournament.comparisons)
    cells: dict[tuple[int, int], tuple[float, float, float]] = {}
    for i, j, won, lost, tied in zip(counts.low, counts.high, counts.wins,
                                     counts.losses, counts.ties,
                                     strict=True):
        cells[int(i), int(j)] = float(won), float(tied), float(lost)
        cells[int(j), int(i)] = float(lost), float(tied), float(won)
    order = tournament.standings.order
    names = tournament.standings.items
    return {'names': [names[k] for k in order],
            'rows': [{'name': names[i], 'cells': [_cell(cells.get((i, j)), i == j)
                                                  for j in order]} for i in order]}


def _cell(verdicts: tuple[float, float, float] | None, itself: bool) -> dict[str, Any]:
    if verdicts is None:
        return {'text': '', 'share': None, 'self': itself}
    won, tied, lost = verdicts
    return {'text': f'{won:g} – {tied:g} – {lost:g}', 'self': itself,
            'share': (won + tied / 2) / (won + tied + lost)}


def _session(number: int, record: Record, folder: Path) -> dict[str, Any]:
    seconds = max([1.0, *(t for r in record.rollouts for t, _ in r.curve[-1:])])
    return {'number': number, 'record': record, 'width': WIDTH, 'height': HEIGHT,
            'axes': axes(seconds), 'audits': audit_lines(record, seconds, polyline),
            'seconds': seconds, 'rollouts': [
                {'r': r, 'won': record.verdict.preference.value == r.slot,
                 'line': line(r, seconds),
                 'videos': {view: _linked(path, folder, f'{record.folder.name}_{r.slot}_{view}')
                            for view, path in r.videos.items()}} for r in record.rollouts]}


def _linked(source: Path, folder: Path, name: str) -> str:
    """Return the name of a video beside the page, by a hard link or a copy."""
    target = folder / 'videos' / f'{name}.mp4'
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target.relative_to(folder).as_posix()


def line(rollout: RolloutRow, seconds: float) -> str:
    """Return a rollout's progress as the points of an SVG polyline, in pixels."""
    return polyline(rollout.curve, seconds)


def polyline(curve: Sequence[tuple[float, float]], seconds: float) -> str:
    """Return (seconds, progress) as the points of an SVG polyline, in pixels."""
    return ' '.join(f'{_x(t, seconds):.1f},{_y(p):.1f}' for t, p in curve)


def axes(seconds: float) -> dict[str, Any]:
    """Return where the lines and labels of a progress plot are, in pixels."""
    step = next((s for s in (1, 2, 5, 10, 20, 60) if seconds / s <= 8), 300)
    return {'x': [(_x(t, seconds), t) for t in range(0, int(seconds) + 1, step)],
            'y': [(_y(p / 100), p) for p in (0, 25, 50, 75, 100)],
            'left': PAD[0], 'right': WIDTH - PAD[1], 'top': PAD[2], 'bottom': HEIGHT - PAD[3]}


def _x(t: float, seconds: float) -> float:
    return PAD[0] + (WIDTH - PAD[0] - PAD[1]) * t / seconds


def _y(progress: float) -> float:
    return PAD[2] + (HEIGHT - PAD[2] - PAD[3]) * (1.0 - progress)
