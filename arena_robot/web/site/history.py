"""Standings over time: as they were on earlier days, and which method they used since when."""

import json
import time
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.templating import Jinja2Templates

from arena_robot.core.clock import Clock, to_utc
from arena_robot.core.errors import DataError, NotComputed, RankingError
from arena_robot.core.files import write_json
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Shown, Standings, as_json, is_few, shown
from arena_robot.server.results.standings import INTERVALS, Results

MOST_DAYS = 24    # of a plot: each costs a ranking with its intervals
PART_S = 0.5    # of processor time for past days at once: so long a new verdict waits for them
SHOWN_DAYS = 5    # below the leaderboard, the newest
FIRST_DAY = '1971'    # older: nobody kept the time
_LEFT_OUT = ('p_better', 'solve')
FILE = 'standings_method.json'


@dataclass(frozen=True)
class PastStandings:
    """The standings of all sessions up to the end of a day (UTC)."""

    day: str
    sessions: int
    standings: Standings

    def plain(self) -> dict[str, Any]:
        """Return the standings as JSON values, without the table of pairs."""
        rows = as_json(self.standings)['standings']
        return {'day': self.day, 'sessions': self.sessions, 'standings': [
            {key: value for key, value in row.items() if key not in _LEFT_OUT} for row in rows]}


@dataclass(frozen=True)
class HistoryTable:
    """The last days, newest first; per policy what was stated on each, None: not ranked yet."""

    days: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[float, Shown] | None, ...]], ...]


class History:
    """
    Past standings by the recommended method, renewed like the other results.

    A day is computed again when the sessions up to it are others than before. The newest days
    come first, as many at once as ``PART_S`` allows, so that a verdict is on the leaderboard
    before the older days are made; until then these are left out.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._days: dict[tuple[str, Hashable], PastStandings | None] = {}

    def past(self) -> tuple[PastStandings, ...]:
        """Return the standings of up to 24 days with sessions, oldest first, that are made."""
        try:
            return self.renew()
        except NotComputed:
            return _oldest_first(self._days)

    def renew(self) -> tuple[PastStandings, ...]:
        """Return all of them; NotComputed while some are not made yet."""
        return self._results.kept.get('history', self._computed, slow=True, late=True)

    def _computed(self) -> tuple[PastStandings, ...]:
        votes, owners = self._results.dated(), self._results.owners()
        until_s, is_late = time.thread_time() + PART_S, False
        days: dict[tuple[str, Hashable], PastStandings | None] = {}
        for day in reversed(chosen_days([day for day in np.unique(votes.days).tolist()
                                         if day >= FIRST_DAY])):
            comparisons, mark = votes.up_to(day)
            if (day, mark) in self._days:
                days[day, mark] = self._days[day, mark]
                continue
            if is_late:
                self._days |= days
                raise NotComputed('the standings of earlier days are being computed')
            days[day, mark] = _as_of(day, comparisons, owners)
            is_late = time.thread_time() > until_s
        self._days = days
        return _oldest_first(days)


def _oldest_first(days: Mapping[tuple[str, Hashable], PastStandings | None],
                  ) -> tuple[PastStandings, ...]:
    """Return what is made, of a day that changed meanwhile the last."""
    made = {day: past for (day, _), past in days.items() if past is not None}
    return tuple(made[day] for day in sorted(made))


def _as_of(day: str, comparisons: Comparisons, owners: Mapping[str, str]) -> PastStandings | None:
    """Return the standings of a day, None where nobody can be compared yet."""
    try:
        standings, _ = rank_comparable(comparisons, RECOMMENDED, intervals=INTERVALS,
                                       owners=owners)
    except RankingError:
        return None
    return PastStandings(day, len(comparisons), standings)


def chosen_days(days: list[str]) -> list[str]:
    """Return up to 24 of the days, evenly spread, the first and the last among them."""
    if len(days) <= MOST_DAYS:
        return days
    last = len(days) - 1
    return [days[round(k * last / (MOST_DAYS - 1))] for k in range(MOST_DAYS)]


def curves(past: tuple[PastStandings, ...]) -> dict[str, list[tuple[float, float, float]]]:
    """
    Return (score, low, high) per policy and day, NaN where it was too early to tell.

    Policies of which nothing can be told yet are left out.
    """
    nothing = (float('nan'),) * 3
    names = past[-1].standings.items if past else ()
    ordered = [past[-1].standings.items[k] for k in past[-1].standings.order] if past else names
    lines: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ordered}
    for entry in past:
        place = {name: k for k, name in enumerate(entry.standings.items)}
        for name, values in lines.items():
            k = place.get(name, -1)
            values.append(nothing if k < 0 or is_few(entry.standings, k) else (
                float(entry.standings.scores[k]), float(entry.standings.low[k]),
                float(entry.standings.high[k])))
    return {name: values for name, values in lines.items()
            if any(score == score for score, _, _ in values)}


def is_line(past: tuple[PastStandings, ...]) -> bool:
    """Tell whether the plot of a policy has two days: others have axes and no line."""
    return any(sum(score == score for score, _, _ in values) > 1
               for values in curves(past).values())


def table(past: tuple[PastStandings, ...]) -> HistoryTable:
    """Return what was stated on the last days, the last one first, the best of it first."""
    last = past[-SHOWN_DAYS:][::-1]
    names = [last[0].standings.items[k] for k in last[0].standings.order] if last else []
    looks = [dict(zip(entry.standings.items, zip(entry.standings.scores.tolist(),
                                                 shown(entry.standings), strict=True),
                      strict=True)) for entry in last]
    return HistoryTable(tuple(entry.day for entry in last),
                        tuple((name, tuple(look.get(name) for look in looks)) for name in names))


def add_history(app: FastAPI, pages: Jinja2Templates, results: Results,
                history: History) -> None:
    """Add the page of past standings and its JSON."""
    results.kept.always(history.renew, late=True)

    @app.get('/history', response_class=HTMLResponse, include_in_schema=False)
    def page(request: Request) -> Response:
        past = history.past()
        return pages.TemplateResponse(request, 'history.html', {
            'past': past, 'table': table(past), 'drawn': is_line(past),
            'method': METHODS.find(RECOMMENDED)})

    @app.get('/api/history')
    def past() -> dict[str, Any]:
        """Return the standings as of up to 24 earlier days, oldest first."""
        return {'method': RECOMMENDED, 'days': [entry.plain() for entry in history.past()]}


@dataclass(frozen=True)
class MethodSince:
    """The standings' method since a day (UTC)."""

    method: str
    since: str


class MethodChanges:
    """Keeps the list in a file of the server's data folder; :meth:`open` adds today's method."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / FILE
        self._clock = clock
        self.methods: tuple[MethodSince, ...] = ()

    def open(self) -> None:
        """Read the list, add the method when it is another; DataError for a broken file."""
        self.methods = self._read()
        if not self.methods or self.methods[-1].method != RECOMMENDED:
            today = f'{to_utc(self._clock.now_ns()):%Y-%m-%d}'
            self.methods += (MethodSince(RECOMMENDED, today),)
            write_json(self._path, {'methods': [asdict(method) for method in self.methods]})

    def announcement(self) -> str:
        """Return what readers must know of the last change, '' without one."""
        if len(self.methods) < 2:
            return ''
        before, now = self.methods[-2:]
        return (f'The method of the standings changed on {now.since} from {before.method} to '
                f'{now.method}. Scores from before that day cannot be compared with these.')

    def _read(self) -> tuple[MethodSince, ...]:
        if not self._path.exists():
            return ()
        try:
            rows = json.loads(self._path.read_text(encoding='utf-8'))['methods']
            return tuple(MethodSince(str(row['method']), str(row['since'])) for row in rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f'{self._path} cannot be read: {error!r}; restore it from a backup, '
                            'or remove it to begin a new list') from error
