"""
Comparisons from what they are kept in: a CSV file, a data frame, tuples, a matrix of counts.

>>> votes = load([('pi0', 'octo', 'A'), ('octo', 'act', 'tie'), ('pi0', 'act', 'A')])
>>> votes.items
('act', 'octo', 'pi0')
>>> load([[0, 2.5], [1.5, 0]], names=['pi0', 'octo']).outcome.tolist()
[1.0, 1.0, 1.0, 0.5]
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from arena_robot.core.config import nearest
from arena_robot.core.csv_tables import rows_of
from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, frozen
from arena_robot.ranking.frames import column_names, from_frame, is_lazy

# Columns of RoboArena's sessions, LMArena's battles and evalica's tables, the preferred first.
KNOWN_COLUMNS = {
    'first': ('policy_a', 'model_a', 'left'), 'second': ('policy_b', 'model_b', 'right'),
    'outcome': ('preference', 'winner'), 'weight': ('weight',),
    'session': ('session_uuid', 'session_id'), 'evaluator': ('evaluator', 'judge'),
    'institution': ('institution',), 'category': ('category',),
    'score_first': ('progress_a',), 'score_second': ('progress_b',)}
WAITED = ('waited_a', 'waited_b')
ROBOT, VALID, CHOSEN, YES = 'robot', 'valid', 'chosen', ('1', '1.0', 'true', 'yes')


@runtime_checkable
class LabelledMatrix(Protocol):
    """A data frame of pandas, whose rows have names too."""

    index: Any
    columns: Any

    def to_numpy(self) -> Any:
        """Return its values."""


def load(source: Any, *, names: Sequence[str] | None = None, **columns: str) -> Comparisons:
    """
    Return the comparisons in ``source``.

    - The path of a CSV file, a data frame of pandas or polars (a lazy one too), an Arrow table, or
      a mapping of columns: one row per comparison. ``columns`` name the columns of ``first``,
      ``second``, ``outcome``, ``weight``, ``session``, ``evaluator``, ``institution``,
      ``category``, ``score_first`` and ``score_second``; those of ``KNOWN_COLUMNS`` are found by
      themselves. Where there is a column ``valid``, only rows that are valid and have an outcome
      count, as in `arena rank`; ``chosen`` marks pairs chosen by earlier verdicts and
      ``robot`` names the kind of the station's. Outcomes are those of :func:`.frames.from_frame`.
    - A list of (winner, loser), (first, second, outcome) or (first, second, outcome, evaluator).
    - A square matrix of how often the row's policy beat the column's, a tie being half a win for
      each: an array with ``names``, or a data frame of pandas with the same names on both sides.

    :raises RankingError: the source is none of these, lacks a column, or a value is not one.
    :raises DataError: the file cannot be read.
    """
    if names is not None:
        return from_counts(source, names)
    if isinstance(source, str | Path):
        rows = [row for _, row in rows_of(Path(source))]
        source = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    elif isinstance(source, Sequence):
        source = _tuples(source)
    elif isinstance(source, LabelledMatrix) and len(source.index) == len(source.columns) \
            and list(source.index) == list(source.columns):
        return from_counts(source.to_numpy(), [str(name) for name in source.columns])
    known = [str(name) for name in column_names(source)]
    used = _used(known, columns)
    if is_lazy(source) and {VALID, CHOSEN} & set(known):
        source = source.collect()
    if VALID in known:
        others = [name for name in (*WAITED, CHOSEN, ROBOT) if name in known]
        source = _counted(source, [*used.values(), *others], used['outcome'])
    votes = from_frame(source, **used, conditions=_conditions(known))
    chosen = _flags(source[CHOSEN]) if CHOSEN in known else np.zeros(0, bool)
    return replace(votes, chosen=frozen(chosen)) if chosen.any() else votes


def _conditions(known: Sequence[str]) -> dict[str, str | tuple[str, str]]:
    """Return the columns of the conditions that a table has."""
    return {**({'waited': WAITED} if set(WAITED) <= set(known) else {}),
            **({ROBOT: ROBOT} if ROBOT in known else {})}


def _used(known: Sequence[str], asked: dict[str, str]) -> dict[str, str]:
    """Return the column of each role: the one that was asked for, or the first that is known."""
    for role in asked:
        if role not in KNOWN_COLUMNS:
            raise RankingError(f"a comparison has no '{role}'.{nearest(role, KNOWN_COLUMNS)}")
    used = {role: asked.get(role) or next((name for name in choices if name in known), '')
            for role, choices in KNOWN_COLUMNS.items()}
    for role in ('first', 'second', 'outcome'):
        if not used[role]:
            raise RankingError(f"found no column '{role}' among {', '.join(known)}; say which it "
                               f"is: load(…, {role}='…')")
    return {role: name for role, name in used.items() if name}


def _counted(source: Any, used: Sequence[str], outcome: str) -> dict[str, np.ndarray]:
    """Return the used columns of the rows that are valid and have an outcome."""
    table = {name: np.asarray(source[name]) for name in (*used, VALID)}
    kept = _flags(table[VALID]) & np.array([bool(word) and word == word
                                            for word in table[outcome].tolist()], dtype=bool)
    return {name: values[kept] for name, values in table.items()}


def _flags(column: Any) -> np.ndarray:
    return np.array([str(word).strip().lower() in YES for word in np.asarray(column).tolist()],
                    dtype=bool)


def _tuples(rows: Sequence[Any]) -> dict[str, list[Any]]:
    sizes = {len(row) if isinstance(row, Sequence) and not isinstance(row, str) else 0
             for row in rows}
    if len(sizes) != 1 or not sizes <= {2, 3, 4}:
        raise RankingError('every row of a list is (winner, loser), (first, second, outcome) or '
                           '(first, second, outcome, evaluator); a matrix of counts needs names=')
    columns = map(list, zip(*rows, strict=True))
    return {'preference': ['A'] * len(rows), **dict(zip(
        ('policy_a', 'policy_b', 'preference', 'evaluator'), columns, strict=False))}


def from_counts(counts: ArrayLike, names: Sequence[str]) -> Comparisons:
    """
    Return the comparisons behind a matrix (n, n) of wins of the row's policy over the column's.

    A tie is half a win for each, so two ties are one win for each. NaN counts as 0.

    :raises RankingError: the matrix does not fit the names, or a count is not one.
    """
    won = np.nan_to_num(np.asarray(counts, dtype=float))
    half = won % 1
    if won.shape != (len(names),) * 2 or (won < 0).any() or won.diagonal().any() \
            or not np.isin(half, (0, 0.5)).all() or not np.array_equal(half, half.T):
        raise RankingError(f'a matrix of counts of {len(names)} policies has {len(names)} rows '
                           'and columns of whole numbers, 0 on the diagonal, or numbers and a '
                           f'half on both sides for a tie; found {won.shape}')
    (i, j), (a, b) = np.nonzero(won >= 1), np.nonzero(np.triu(half))
    times = won[i, j].astype(np.int64)
    return Comparisons.build(
        np.r_[np.repeat(i, times), a], np.r_[np.repeat(j, times), b],
        np.r_[np.ones(times.sum()), np.full(len(a), 0.5)], items=list(names))
