"""
Tables of other libraries as comparisons: pandas, polars, pyarrow, or a mapping of columns.

A table is read by its columns alone, so that none of these libraries is needed here.
"""

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

import numpy as np

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Conditions, Ints
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.standings import framed

# The words of RoboArena's tables, of LMArena's and evalica's, and of numbers in a CSV file.
PREFERENCES = {
    **dict.fromkeys(('a', 'first', 'model_a', 'left', '1', '1.0'), 1.0),
    **dict.fromkeys(('tie', 'draw', 'both_bad', 'bothbad', 'tie (bothbad)', '0.5'), 0.5),
    **dict.fromkeys(('b', 'second', 'model_b', 'right', '0', '0.0'), 0.0)}


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

    The arguments name its columns. ``outcome`` holds words of ``PREFERENCES`` in any case, such as
    A, B or tie, or 1, 0 and 0.5. Policies are sorted by name. Scores are progress from 0 to 1,
    empty where there is none; so may evaluators, institutions and categories be.
    ``conditions``: by the names in :class:`Conditions`, a column of words for a factor, the two
    columns of the first's and the second's number for a measure.

    :raises RankingError: a column is missing, or a value is not one.
    """
    frame = _loaded(frame, (first, second, outcome, weight, session, evaluator, institution,
                            score_first, score_second, category, *_columns_of(conditions or {})))
    items, a, b = _policies(frame, first, second)
    return Comparisons.build(
        a, b, _outcomes(frame, outcome), items=items, weight=_numbers(frame, weight),
        session=None if session is None else _coded(frame, session)[1],
        evaluator=_words(frame, evaluator), institution=_words(frame, institution),
        score_first=_numbers(frame, score_first), score_second=_numbers(frame, score_second),
        category=_words(frame, category), conditions=_conditions(frame, conditions or {}))


def _columns_of(conditions: Mapping[str, str | tuple[str, str]]) -> list[str]:
    return [name for both in conditions.values()
            for name in ([both] if isinstance(both, str) else both)]


def _conditions(frame: Any, names: Mapping[str, str | tuple[str, str]]) -> Conditions:
    words = {name: column for name, column in names.items() if isinstance(column, str)}
    pairs = {name: both for name, both in names.items() if not isinstance(both, str)}
    return Conditions.build(
        {name: ['' if x is None or x != x else str(x)
                for x in np.asarray(_column(frame, column)).tolist()]
         for name, column in words.items()},
        {name: (_floats(frame, first), _floats(frame, second))
         for name, (first, second) in pairs.items()})


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
    return out if kind is None else framed(out, kind)


def _loaded(frame: Any, asked: Iterable[str | None]) -> Any:
    """Return the table; of a lazy one, the asked columns are collected."""
    if not is_lazy(frame):
        return frame
    known = column_names(frame)
    chosen = [name for name in dict.fromkeys(asked) if name is not None]
    for name in chosen:
        _require(name, known)
    return frame.select(chosen).collect()


def is_lazy(frame: Any) -> bool:
    """Tell whether a table is a query of polars that has not run."""
    return _kind(frame) == 'polars.LazyFrame'


def _kind(value: Any) -> str:
    """Return the library and the type of a frame or a column."""
    return f'{type(value).__module__.partition(".")[0]}.{type(value).__name__}'


def _require(name: str, known: Iterable[Any]) -> None:
    names = [str(x) for x in known]
    if name not in names:
        raise RankingError(f"the table has no column '{name}'; it has {', '.join(names)}")


def _column(frame: Any, name: str) -> Any:
    _require(name, column_names(frame))
    return frame[name]


def column_names(frame: Any) -> Iterable[Any]:
    """Return the names of a table's columns; RankingError for what is no table."""
    if is_lazy(frame):
        return list(frame.collect_schema().names())
    if isinstance(frame, ArrowTable):
        return frame.column_names
    if isinstance(frame, Mapping):
        return frame
    if isinstance(frame, DataFrame):
        return frame.columns
    raise RankingError('expected a data frame, an Arrow table or a mapping of columns, found '
                       f'{type(frame).__name__}')


def _policies(frame: Any, first: str, second: str) -> tuple[list[str], Ints, Ints]:
    """Return the names in both columns, sorted, and (M,) their places in either column."""
    columns = [_coded(frame, name) for name in (first, second)]
    items = sorted({name for names, _ in columns for name in names})
    index = {name: k for k, name in enumerate(items)}
    a, b = (np.array([index[name] for name in names], dtype=np.int64)[codes]
            for names, codes in columns)
    return items, a, b


def _coded(frame: Any, name: str, empty: bool = False) -> tuple[list[str], Ints]:
    """
    Return the different words of a column, and (M,) the place of each row's word among them.

    :raises RankingError: a row has none, unless it may be ``empty``.
    """
    column = _column(frame, name)
    words, codes = FACTORISE.get(_kind(column), _factorised)(column)
    if codes.min(initial=0) < 0 and empty:
        return [*map(str, words), ''], np.where(codes < 0, len(words), codes)
    if codes.min(initial=0) < 0:
        raise RankingError(f"column '{name}' is empty in row {int(np.argmax(codes < 0))}")
    return [str(word) for word in words], codes


def _factorised(column: Any) -> tuple[list[Any], Ints]:
    """Return the different values in the order of their first rows, and (M,) places, -1: none."""
    values = column if isinstance(column, list) else np.asarray(column).tolist()
    words = [value for value in dict.fromkeys(values) if value is not None and value == value]
    index = {word: k for k, word in enumerate(words)}
    return words, np.fromiter(map(index.get, values, repeat(-1)), np.int64, len(values))


def _factorised_pandas(column: Any) -> tuple[list[Any], Ints]:
    codes, words = column.factorize()
    return np.asarray(words).tolist(), np.asarray(codes, dtype=np.int64)


def _factorised_polars(column: Any) -> tuple[list[Any], Ints]:
    column = column.cast(str)
    words = column.unique(maintain_order=True).drop_nulls()
    codes = column.replace_strict(words, range(len(words)), default=-1, return_dtype=int)
    return words.to_list(), np.asarray(codes, dtype=np.int64)


def _factorised_arrow(column: Any) -> tuple[list[Any], Ints]:
    if str(column.type).startswith('dictionary'):    # it may name what no row has
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode().combine_chunks()
    codes = encoded.indices.fill_null(-1)
    return encoded.dictionary.to_pylist(), np.asarray(codes, dtype=np.int64)


# By the type of a column. Its library's way needs no string of Python for each row.
FACTORISE = {'pandas.Series': _factorised_pandas, 'polars.Series': _factorised_polars,
             'pyarrow.ChunkedArray': _factorised_arrow}


def _words(frame: Any, name: str | None) -> list[str] | None:
    if name is None:
        return None
    words, codes = _coded(frame, name, empty=True)
    rows: list[str] = np.array(words, dtype=object)[codes].tolist()
    return rows


def _numbers(frame: Any, name: str | None) -> np.ndarray | None:
    return None if name is None else _floats(frame, name)


def _floats(frame: Any, name: str) -> np.ndarray:
    try:
        values = np.asarray(_column(frame, name))
        return np.where(values == '', 'nan', values).astype(float) if values.dtype.kind in 'UO' \
            else values.astype(float)
    except (TypeError, ValueError) as error:
        raise RankingError(f"column '{name}' must hold numbers: {error}") from error


def _outcomes(frame: Any, name: str) -> np.ndarray:
    if np.asarray(_column(frame, name)[:1]).dtype.kind in 'biuf':
        return _floats(frame, name)
    words, codes = _coded(frame, name)
    unknown = [word for word in words if word.lower() not in PREFERENCES]
    if unknown:
        raise RankingError(f"column '{name}' has '{unknown[0]}'; expected A, B or tie, or 1, 0 "
                           'and 0.5')
    return np.array([PREFERENCES[word.lower()] for word in words], dtype=float)[codes]
