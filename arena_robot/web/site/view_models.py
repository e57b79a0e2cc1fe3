"""View models of the site's pages: leaderboard rows with bars, matrix cells with colours."""

import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np

from arena_robot.core.errors import RankingError
from arena_robot.core.iso_time import to_utc
from arena_robot.ranking.methods import METHODS
from arena_robot.server.results import Results
from arena_robot.server.store.browse import Filter


@dataclass(frozen=True)
class Row:
    """A line of the leaderboard; ``left``, ``middle``, ``right`` place its bar, 0..100."""

    policy: str
    rank: int
    tied: bool
    score: float
    low: float
    high: float
    rank_low: int
    rank_high: int
    solve: float
    n: int
    left: float
    middle: float
    right: float


@dataclass(frozen=True)
class Board:
    """A leaderboard: rows best first, policies that could not be compared, warnings of the fit."""

    rows: tuple[Row, ...]
    unit: str
    others: tuple[str, ...]
    notes: tuple[str, ...]
    empty: str = ''


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


def board(results: Results, method: str, open_source: bool) -> Board:
    """Return the leaderboard of a method; an empty one says why."""
    try:
        found, others = results.latest(method, open_source)
    except RankingError as error:
        METHODS.find_named(method)
        return Board((), '', (), (), str(error))
    ends = np.concatenate([found.scores, found.low, found.high])
    ends = ends[np.isfinite(ends)]
    low, span = float(ends.min()), float(np.ptp(ends)) or 1.0

    def place(value: float) -> float:
        return 100.0 * (value - low) / span

    rows = []
    for k in found.order:
        score = float(found.scores[k])
        left, right = (float(x) if math.isfinite(x) else score
                       for x in (found.low[k], found.high[k]))
        rows.append(Row(
            found.items[k], int(found.ranks[k]), bool((found.ranks == found.ranks[k]).sum() > 1),
            score, left, right,
            int(found.ranks[k] if found.rank_low is None else found.rank_low[k]),
            int(found.ranks[k] if found.rank_high is None else found.rank_high[k]),
            float(found.solve[k]), int(found.counts[k]), place(left), place(score),
            place(right)))
    return Board(tuple(rows), METHODS.find_named(method).unit, tuple(others),
                 found.diagnostics.warnings)


def row_of(results: Results, policy: str) -> Row | None:
    """Return a policy's line of the default leaderboard, None when it has none."""
    return next((row for row in board(results, 'bt', False).rows if row.policy == policy), None)


def matrix(results: Results) -> Matrix:
    """Return the table of verdicts, policies in the order of the default leaderboard."""
    counts = results.counts_by_name()
    known = {name for a, b, _ in counts for name in (a, b)}
    names = [row.policy for row in board(results, 'bt', False).rows]
    names += sorted(known - set(names))
    return Matrix(tuple(names), tuple(tuple(_cell(counts, a, b) for b in names) for a in names))


def _cell(counts: dict[tuple[str, str, str], int], a: str, b: str) -> Cell:
    wins = counts.get((a, b, 'A'), 0) + counts.get((b, a, 'B'), 0)
    losses = counts.get((a, b, 'B'), 0) + counts.get((b, a, 'A'), 0)
    ties = counts.get((a, b, 'TIE'), 0) + counts.get((b, a, 'TIE'), 0)
    total = wins + losses + ties
    return Cell(wins, ties, losses, (wins + ties / 2) / total if total else math.nan)


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


FILTERS: dict[str, Any] = {'number': _number, 'percent': _percent, 'day': _day, 'tint': _tint}
