"""
Tables of other libraries in and out: pandas, polars, pyarrow, or a mapping of columns.

A table is read by its columns alone, so that none of these libraries is needed here; pandas or
polars is imported only when standings are asked for as its data frame.
"""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Conditions
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.standings import Standings, is_few

KINDS = ('pandas', 'polars')
PREFERENCES = {'a': 1.0, 'first': 1.0, 'tie': 0.5, 'b': 0.0, 'second': 0.0}


@runtime_checkable
class ArrowTable(Protocol):
    """A table of pyarrow."""

    column_names: list[str]


@runtime_checkable
class DataFrame(Protocol):
    """A data frame of pandas or polars."""

    columns: Iterable[Any]


def from_frame(frame: Any, *, first: str = 'policy_a', second: str = 'policy_b',
               outcome: str = 'preference', weight: str | None = None,
               session: str | None = None, evaluator: str | None = None,
               institution: str | None = None, score_first: str | None = None,
               score_second: str | None = None, category: str | None = None,
               conditions: Mapping[str, str | tuple[str, str]] | None = None) -> Comparisons:
    """
    Return the comparisons of a table with one row per comparison.

    The arguments name its columns. ``outcome`` holds A, B or tie (in any case), or 1, 0 and 0.5.
    Policies are sorted by name. Scores are progress from 0 to 1, empty where there is none.
    ``conditions``: by the names in :class:`Conditions`, a column of words for a factor, the two
    columns of the first's and the second's number for a measure.

    :raises RankingError: a column is missing, or a value is not one.
    """
    a, b = _words(frame, first), _words(frame, second)
    items, codes = np.unique(np.r_[a, b], return_inverse=True)
    places = None if session is None else np.unique(_words(frame, session),
                                                    return_inverse=True)[1]
    return Comparisons.build(
        codes[:len(a)], codes[len(a):], _outcomes(frame, outcome), items=items.tolist(),
        weight=_numbers(frame, weight), session=places,
        evaluator=None if evaluator is None else _words(frame, evaluator).tolist(),
        institution=None if institution is None else _words(frame, institution).tolist(),
        score_first=_numbers(frame, score_first), score_second=_numbers(frame, score_second),
        category=None if category is None else _words(frame, category).tolist(),
        conditions=_conditions(frame, conditions or {}))


def _conditions(frame: Any, names: Mapping[str, str | tuple[str, str]]) -> Conditions:
    words = {name: column for name, column in names.items() if isinstance(column, str)}
    pairs = {name: both for name, both in names.items() if not isinstance(both, str)}
    return Conditions.build(
        {name: ['' if x is None or x != x else str(x) for x in _column(frame, column).tolist()]
         for name, column in words.items()},
        {name: (_column(frame, first).astype(float), _column(frame, second).astype(float))
         for name, (first, second) in pairs.items()})


def columns(standings: Standings) -> dict[str, list[Any]]:
    """Return the standings as columns, best policy first; intervals only where they are known."""
    order = standings.order
    out: dict[str, list[Any]] = {
        'rank': standings.ranks[order].tolist(), 'policy': [standings.items[k] for k in order]}
    for name in ('score', 'low', 'high', 'solve'):
        values = standings.scores if name == 'score' else getattr(standings, name)
        out[name] = values[order].tolist()
    out['n'] = standings.counts[order].tolist()
    for name in ('rank_low', 'rank_high', 'rank_low_joint', 'rank_high_joint'):
        ranks = getattr(standings, name)
        if ranks is not None:
            out[name] = ranks[order].tolist()
    out['too_few'] = [is_few(standings, k) for k in order]
    return out


def to_frame(standings: Standings, kind: str = 'pandas') -> Any:
    """
    Return the standings as a data frame of pandas or polars, best policy first.

    :raises RankingError: ``kind`` is neither, or is not installed.
    """
    return _framed(columns(standings), kind)


def win_rates(comparisons: Comparisons, kind: str | None = None) -> Any:
    """
    Return a row per compared pair and direction: wins, ties, losses, comparisons, share won.

    A tie is half a win in the share. As a mapping of columns, or the data frame of ``kind``.

    :raises RankingError: ``kind`` is no data frame, or is not installed.
    """
    counts = count_pairs(comparisons)
    first, second = np.r_[counts.low, counts.high], np.r_[counts.high, counts.low]
    wins, losses = np.r_[counts.wins, counts.losses], np.r_[counts.losses, counts.wins]
    ties = np.tile(counts.ties, 2)
    order = np.lexsort((second, first))
    table = {'policy': [counts.items[k] for k in first[order]],
             'against': [counts.items[k] for k in second[order]]}
    numbers = {'wins': wins, 'ties': ties, 'losses': losses, 'n': wins + ties + losses,
               'share': (wins + ties / 2) / (wins + ties + losses)}
    out = {**table, **{name: values[order].tolist() for name, values in numbers.items()}}
    return out if kind is None else _framed(out, kind)


def _framed(table: dict[str, list[Any]], kind: str) -> Any:
    if kind not in KINDS:
        raise RankingError(f"no data frame '{kind}'; known: {', '.join(KINDS)}")
    try:
        library = importlib.import_module(kind)
    except ImportError as error:
        raise RankingError(f'{kind} is not installed: pip install {kind}, or use the columns of '
                           'arena_robot.ranking.frames') from error
    return library.DataFrame(table)


def _column(frame: Any, name: str) -> np.ndarray:
    known = [str(x) for x in _names(frame)]
    if name not in known:
        raise RankingError(f"the table has no column '{name}'; it has {', '.join(known)}")
    return np.asarray(frame[name])


def _names(frame: Any) -> Iterable[Any]:
    if isinstance(frame, ArrowTable):
        return frame.column_names
    if isinstance(frame, Mapping):
        return frame
    if isinstance(frame, DataFrame):
        return frame.columns
    raise RankingError('expected a data frame, an Arrow table or a mapping of columns, found '
                       f'{type(frame).__name__}')


def _words(frame: Any, name: str) -> np.ndarray:
    values = _column(frame, name)
    empty = np.array([x is None or x != x for x in values.tolist()], dtype=bool)
    if empty.any():
        raise RankingError(f"column '{name}' is empty in row {np.flatnonzero(empty)[0]}")
    return values.astype(str)


def _numbers(frame: Any, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    try:
        return _column(frame, name).astype(float)
    except (TypeError, ValueError) as error:
        raise RankingError(f"column '{name}' must hold numbers: {error}") from error


def _outcomes(frame: Any, name: str) -> np.ndarray:
    values = _column(frame, name)
    if values.dtype.kind in 'biuf':
        return values.astype(float)
    words, place = np.unique(_words(frame, name), return_inverse=True)
    unknown = [word for word in words if word.lower() not in PREFERENCES]
    if unknown:
        raise RankingError(f"column '{name}' has '{unknown[0]}'; expected A, B or tie, or 1, 0 "
                           'and 0.5')
    return np.array([PREFERENCES[word.lower()] for word in words])[place]
