"""Checks of the columns that comparisons are built of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Floats, Ints



def indices(values: ArrayLike, name: str) -> Ints:
    """Return whole numbers as an array; RankingError for others."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in 'iu':
        raise RankingError(f'{name} must be whole numbers, found dtype {array.dtype}')
    return array.astype(np.int64)


def coded(names: Sequence[str] | None, m: int) -> tuple[tuple[str, ...], Ints]:
    """Return the different names in the order of their first occurrence, and (m,) their place."""
    if names is None:
        return ('',), np.zeros(m, dtype=np.int64)
    index: dict[str, int] = {}
    codes = np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)
    return tuple(index), codes


def check(items: tuple[str, ...], i: Ints, j: Ints, y: Floats, w: Floats,
          others: tuple[NDArray[Any], ...], more: set[int]) -> None:
    """Raise RankingError for columns that are no comparisons; ``more`` are lengths of others."""
    lengths = {len(i), len(j), len(y), len(w), *(len(x) for x in others)} | more
    if len(lengths) != 1:
        raise RankingError(f'columns of comparisons differ in length: {sorted(lengths)}')
    if len(set(items)) != len(items):
        raise RankingError('a policy is named twice; give each policy one name')
    if len(i) == 0:
        return
    if min(i.min(), j.min()) < 0 or max(i.max(), j.max()) >= len(items):
        raise RankingError(f'policy indices must be 0 to {len(items) - 1}')
    itself = np.flatnonzero(i == j)
    if len(itself):
        raise RankingError(f'comparison {itself[0]} compares {items[i[itself[0]]]} with itself')
    bad = np.flatnonzero(~((y == 0) | (y == 0.5) | (y == 1)))
    if len(bad):
        raise RankingError(f'comparison {bad[0]} has outcome {y[bad[0]]}; expected 1, 0.5 or 0')
    bad = np.flatnonzero(~(w >= 0) | ~np.isfinite(w))
    if len(bad):
        raise RankingError(f'comparison {bad[0]} has weight {w[bad[0]]}; expected >= 0')


def nan_if_none(value: float | None) -> float:
    """Return the value, NaN for none."""
    return float('nan') if value is None else value


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written to."""
    held = np.array(array)
    held.setflags(write=False)
    return held
