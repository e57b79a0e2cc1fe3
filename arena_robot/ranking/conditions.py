"""What is known of a comparison beside its verdict and its scores: the scene, and the rollouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import RankingError
from arena_robot.core.verdict import SCENE_FIELDS
from arena_robot.ranking.comparison_columns import coded, frozen
from arena_robot.ranking.base import Floats, Ints

# Of the scene: how bright, how cluttered. Of a rollout: the share of its steps in which the arm
# stood still and waited for its policy, and what an audit said of it.
FACTORS = SCENE_FIELDS
MEASURES = ('waited', 'audit')


@dataclass(frozen=True)
class Conditions:
    """
    Conditions of M comparisons; what is not known of any is left out.

    ``factors``: by name, the levels and (M,) an index into them, '' for not known. ``measures``:
    by name, (M, 2) values of the first's and of the second's rollout, NaN for not known.
    """

    factors: Mapping[str, tuple[tuple[str, ...], Ints]] = field(default_factory=dict)
    measures: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def build(cls, factors: Mapping[str, Sequence[str]] | None = None,
              measures: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None) -> 'Conditions':
        """
        Return conditions from words and pairs of columns, by name.

        :raises RankingError: a name is none of ``FACTORS`` or ``MEASURES``.
        """
        given, numbers = factors or {}, measures or {}
        unknown = [name for name in given if name not in FACTORS] + [
            name for name in numbers if name not in MEASURES]
        if unknown:
            raise RankingError(f"unknown condition '{unknown[0]}'; known factors: "
                               f"{', '.join(FACTORS)}; known measures: {', '.join(MEASURES)}")
        words = {name: coded(list(levels), len(levels)) for name, levels in given.items()}
        pairs = {name: np.stack([np.asarray(one, dtype=float) for one in both], axis=1)
                 for name, both in numbers.items()}
        return cls({name: (levels, frozen(code)) for name, (levels, code) in words.items()
                    if any(levels)},
                   {name: frozen(both) for name, both in pairs.items()
                    if np.isfinite(both).all(axis=1).any()})

    def lengths(self) -> set[int]:
        """Return the numbers of comparisons of the columns."""
        return {len(code) for _, code in self.factors.values()} | {
            len(both) for both in self.measures.values()}

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> 'Conditions':
        """Return the conditions of the comparisons at ``rows`` (indices or a mask)."""
        return Conditions({name: (levels, frozen(code[rows]))
                           for name, (levels, code) in self.factors.items()},
                          {name: frozen(both[rows]) for name, both in self.measures.items()})

    def with_measure(self, name: str, first: Floats, second: Floats) -> 'Conditions':
        """Return the conditions with a measure more, or with other values of it."""
        return Conditions(self.factors, {**self.measures,
                                         name: frozen(np.stack([first, second], axis=1))})
