"""View models of the site's pages: leaderboard rows with bars, matrix cells with colours."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import Depends
from markupsafe import Markup, escape

from arena_robot.core.clock import to_utc
from arena_robot.core.episode import EndReason
from arena_robot.core.errors import NotComputed, RankingError
from arena_robot.ranking.intervals.needed import SessionsNeeded, needed_words
from arena_robot.ranking.methods import METHODS
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Shown, axis_ends, basis_words, headline, shown
from arena_robot.reports.audit_agreement import mean_words
from arena_robot.server.results.standings import Results
from arena_robot.server.store.browse import Filter
from arena_robot.server.store.verdicts import ALL, Selection

T = TypeVar('T')
Chosen = Annotated[Selection, Depends()]    # of an address's query
# Columns of the leaderboard that a reader may leave out, and their words.
COLUMNS = {'score': 'Score', 'plot': 'Plot', 'interval': '95 % interval', 'progress': 'Progress',
           'comparisons': 'Comparisons'}

ENDS = {
    EndReason.DONE.value: 'task done', EndReason.STOPPED.value: 'stopped by the evaluator',
    EndReason.TIMEOUT.value: 'out of time', EndReason.POLICY_ERROR.value: 'the policy failed',
    EndReason.SAFETY_STOP.value: 'stopped by the safety layer',
    EndReason.DRIVER_ERROR.value: 'a robot part failed',
    EndReason.INTERRUPTED.value: 'interrupted'}


@dataclass(frozen=True)
class Row:
    """
    A line of the leaderboard; ``shown`` are interval and ranks in words, and its bar.

    ``elsewhere`` says how many comparisons did not pass a relay: '3 imported', '' for none.
    ``progress`` is its mean progress, 0 to 1, None where nobody scored it.
    """

    policy: str
    rank: int
    score: float
    shown: Shown
    solve: float
    n: int
    elsewhere: str = ''
    progress: float | None = None


SORTS: dict[str, Callable[[Row], float]] = {
    'score': lambda row: -row.score, 'comparisons': lambda row: -row.n,
    'progress': lambda row: math.inf if row.progress is None else -row.progress}


@dataclass(frozen=True)
class Board:
    """
    A leaderboard: rows best first, policies that could not be compared, warnings of the fit.

    ``about`` is a sentence on the method and its intervals, ``basis`` what they are based on.
    ``method`` is the one that was used, ``instead`` says why it is not the one that was asked for.
    ``axis`` are the ends of the bars' axis. ``headline`` says in a sentence what the standings
    show. ``needed`` says how many more sessions are needed until it is known who is first,
    ``fragility`` on how few verdicts that hangs.
    """

    rows: tuple[Row, ...]
    unit: str
    others: tuple[str, ...]
    notes: tuple[str, ...]
    empty: str = ''
    about: str = ''
    basis: str = ''
    method: str = RECOMMENDED
    instead: str = ''
    axis: tuple[float, float] = (0.0, 0.0)
    needed: str = ''
    fragility: str = ''
    headline: str = ''

    @property
    def zero(self) -> float | None:
        """Where zero is on the axis, in per cent; None where it is not."""
        first, last = self.axis
        return -100.0 * first / (last - first) if first < 0.0 < last else None

    def sorted_by(self, column: str) -> list[Row]:
        """Return the rows by a column of ``SORTS``; those of which nothing is stated come last."""
        return sorted(self.rows, key=lambda row: (row.shown.left is None, SORTS[column](row)))


@dataclass(frozen=True)
class Cell:
    """Row against column: wins, ties, losses, and the share of wins (ties half), NaN for none."""

    wins: int
    ties: int
    losses: int
    share: float


@dataclass(frozen=True)
class Matrix:
    """Table of wins per pair."""

    policies: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


class Gathered:
    """What a page shows of values made in the background; ``pending``: some are not there yet."""

    def __init__(self) -> None:
        self.pending = False

    def __call__(self, get: Callable[[], T]) -> T | None:
        """Return what ``get`` returns; None while it is being computed."""
        try:
            return get()
        except NotComputed:
            self.pending = True
            return None


def board(results: Results, method: str, chosen: Selection = ALL) -> Board:
    """Return the leaderboard of a method on the chosen verdicts; an empty one says why."""
    row = METHODS.find_named(method)
    try:
        standings, not_placed = results.standings(method, chosen)
    except RankingError as error:
        if not row.needs_scores or method == RECOMMENDED:
            return Board((), '', (), (), str(error), method=method)
        return replace(board(results, RECOMMENDED, chosen), instead=(
            f'{method} needs progress scores, and these sessions have too few: this is '
            f'{RECOMMENDED}.'))
    look, details = shown(standings), standings.diagnostics.details
    # Where all are imported, the page says it once.
    elsewhere = details.get('not_relayed', {}) if len(details.get('origins', {})) > 1 else {}
    progress = details.get('progress', {})
    rows = [Row(name, int(standings.ranks[k]), float(standings.scores[k]), look[k],
                float(standings.solve[k]), int(standings.counts[k]), elsewhere.get(name, ''),
                progress.get(name))
            for k, name in ((k, standings.items[k]) for k in standings.order)]
    # Where nothing can be told, a place among the others would tell something.
    rows.sort(key=lambda row: row.shown.left is None)
    return Board(tuple(rows), row.unit, tuple(not_placed), standings.diagnostics.warnings, '',
                 f'{row.description}.', basis_words(standings), method, '', axis_ends(standings),
                 '' if chosen.is_part else _needed(details.get('needed')),
                 details.get('fragility', ''),
                 headline(standings))


def _needed(needed: dict[str, Any] | None) -> str:
    return needed_words(SessionsNeeded(**needed) if needed else None)


def row_of(results: Results, policy: str) -> Row | None:
    """Return a policy's line of the default leaderboard, None when it has none."""
    rows = board(results, RECOMMENDED).rows
    return next((row for row in rows if row.policy == policy), None)


def matrix(results: Results) -> Matrix:
    """Return the table of verdicts, policies in the order of the default leaderboard."""
    counts = results.counts_by_name()
    compared = {name for a, b, _ in counts for name in (a, b)}
    names = [row.policy for row in board(results, RECOMMENDED).rows]
    names += sorted(compared - set(names))
    return Matrix(tuple(names), tuple(tuple(_cell(counts, a, b) for b in names) for a in names))


def _cell(counts: dict[tuple[str, str, str], int], a: str, b: str) -> Cell:
    wins = counts.get((a, b, 'A'), 0) + counts.get((b, a, 'B'), 0)
    losses = counts.get((a, b, 'B'), 0) + counts.get((b, a, 'A'), 0)
    ties = counts.get((a, b, 'TIE'), 0) + counts.get((b, a, 'TIE'), 0)
    total = wins + losses + ties
    return Cell(wins, ties, losses, (wins + ties / 2) / total if total else math.nan)


def board_query(method: str, chosen: Selection, columns: Sequence[str] = ()) -> str:
    """Return what a leaderboard shows as the query of an address: 'method=bt&category=Sorting'."""
    fields = {name: 'true' if value is True else value
              for name, value in asdict(chosen).items() if value}
    return urlencode({'method': method, **fields, 'columns': list(columns)}, doseq=True)


def query(wanted: Filter) -> str:
    """Return a filter as the query of an address, without its page."""
    fields = {k: v for k, v in wanted.__dict__.items() if v and k not in ('before', 'limit')}
    return urlencode(fields)


def _number(value: float | None, digits: int = 2) -> str:
    return '–' if value is None or not math.isfinite(value) else f'{value:.{digits}f}'


def _percent(value: float | None) -> str:
    return '–' if value is None or not math.isfinite(value) else f'{100.0 * value:.0f}'


def _day(stamp_ns: int) -> str:
    return f'{to_utc(stamp_ns):%Y-%m-%d %H:%M}'


def _tint(share: float) -> str:
    """Return a background between red (never wins) and green (always wins)."""
    if not math.isfinite(share):
        return 'transparent'
    return f'hsl({120.0 * share:.0f} 55% 50% / {0.15 + 0.7 * abs(share - 0.5):.2f})'


def _breakable(name: str) -> Markup:
    """Return a name that may break behind its underscores, on a narrow screen."""
    return Markup(str(escape(name)).replace('_', '_<wbr>'))


def _eye(view: str) -> str:
    """Return a view in words: ``left_right`` is the right eye of the left camera."""
    camera, _, eye = view.partition('_')
    return f'{camera} camera, {eye} eye' if eye else f'{camera} camera'


FILTERS: dict[str, Any] = {'number': _number, 'percent': _percent, 'day': _day, 'tint': _tint,
                           'breakable': _breakable, 'eye': _eye, 'mean': mean_words}
