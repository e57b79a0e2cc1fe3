"""
What every ranking method takes and returns: Comparisons and Fit.

Comparisons are verdicts as arrays. Their Conditions are what else is known of each: the light and
clutter of the scene, how long the arms waited, and what an audit found.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import RankingError
from arena_robot.core.task_categories import categorise
from arena_robot.core.verdict import SCENE_FIELDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTCOME = {Preference.A: 1.0, Preference.TIE: 0.5, Preference.B: 0.0}
CLUSTERS = ('session', 'evaluator', 'institution')
# Of the scene: how bright, how cluttered, which robot. Of a rollout: the share of its steps in
# which the arm stood still and waited for its policy, and what an audit said of it.
FACTORS = (*SCENE_FIELDS, 'robot')
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
        pairs = {name: np.stack([np.asarray(side, dtype=float) for side in both], axis=1)
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


@dataclass(frozen=True, repr=False)
class Comparisons:
    """
    M verdicts between n policies, as read-only arrays.

    ``items`` are the names of the policies 0 to n-1. ``first``, ``second`` (M,) index them in the
    order A, B; ``outcome`` (M,) is 1 where the first was preferred, 0.5 for a tie, 0 where the
    second was; ``weight`` (M,) >= 0. ``session``, ``evaluator``, ``institution`` and ``category``
    (M,) are indices, the last three into ``evaluators``, ``institutions`` and ``categories`` (of
    tasks).
    ``score_first``, ``score_second`` (M,) are progress 0..1, NaN where there is none.
    ``conditions`` are those of the scene and of the rollouts, as far as they are known.
    ``chosen`` (M,) marks the pairs that were chosen by earlier verdicts; None: none that is known.
    """

    items: tuple[str, ...]
    first: Ints
    second: Ints
    outcome: Floats
    weight: Floats
    session: Ints
    evaluator: Ints
    institution: Ints
    evaluators: tuple[str, ...]
    institutions: tuple[str, ...]
    score_first: Floats
    score_second: Floats
    category: Ints
    categories: tuple[str, ...]
    conditions: Conditions = field(default_factory=Conditions)
    chosen: NDArray[np.bool_] | None = None

    @classmethod
    def build(cls, first: ArrayLike, second: ArrayLike, outcome: ArrayLike, *,
              items: Sequence[str] | None = None, weight: ArrayLike | None = None,
              session: ArrayLike | None = None, evaluator: Sequence[str] | None = None,
              institution: Sequence[str] | None = None, score_first: ArrayLike | None = None,
              score_second: ArrayLike | None = None,
              category: Sequence[str] | None = None,
              conditions: Conditions | None = None) -> 'Comparisons':
        """
        Check and store comparisons; defaults are weight 1, unknown, and one session each.

        >>> Comparisons.build([0, 1, 0], [1, 2, 2], [1, 0.5, 0], items=['pi0', 'octo', 'act'])
        Comparisons(3 verdicts on 3 policies)

        :raises RankingError: lengths differ, an index or outcome is out of range, a policy is
        compared with itself, a weight is negative or NaN.
        """
        i, j = indices(first, 'first'), indices(second, 'second')
        y = np.asarray(outcome, dtype=float)
        m = len(i)
        n = len(items) if items is not None else int(max(i.max(initial=-1), j.max(initial=-1))) + 1
        names = tuple(items) if items is not None else tuple(f'item_{k}' for k in range(n))
        w = np.ones(m) if weight is None else np.asarray(weight, dtype=float)
        s = np.arange(m) if session is None else indices(session, 'session')
        people, e = coded(evaluator, m)
        places, h = coded(institution, m)
        kinds, c = coded(category, m)
        a, b = (np.full(m, np.nan) if x is None else np.asarray(x, dtype=float)
                for x in (score_first, score_second))
        known = conditions or Conditions()
        check(names, i, j, y, w, (s, e, h, a, b, c), known.lengths())
        i, j, y, w, s, e, h, a, b, c = (frozen(x) for x in (i, j, y, w, s, e, h, a, b, c))
        return cls(names, i, j, y, w, s, e, h, people, places, a, b, c, kinds, known)

    @classmethod
    def from_words(cls, rows: Iterable[Comparison], items: Sequence[str] | None = None,
                   ) -> 'Comparisons':
        """
        Build from core comparisons; default ``items``: the policies that occur, sorted by name.

        Rows with a policy outside ``items`` are left out.
        """
        kept = list(rows)
        names = sorted({r.a for r in kept} | {r.b for r in kept}) if items is None else list(items)
        index = {name: k for k, name in enumerate(names)}
        kept = [r for r in kept if r.a in index and r.b in index]
        sessions: dict[str, int] = {}
        found = cls.build(
            np.array([index[r.a] for r in kept], dtype=int),
            np.array([index[r.b] for r in kept], dtype=int),
            np.array([OUTCOME[r.preference] for r in kept], dtype=float), items=names,
            session=np.array([sessions.setdefault(r.session_id, len(sessions)) for r in kept],
                             dtype=int),
            evaluator=[r.evaluator for r in kept], institution=[r.institution for r in kept],
            category=[categorise(r.prompt) for r in kept],
            score_first=[r.progress_a for r in kept], score_second=[r.progress_b for r in kept],
            conditions=Conditions.build({'robot': [r.robot for r in kept]}, {
                'waited': ([nan_if_none(r.waited_a) for r in kept],
                           [nan_if_none(r.waited_b) for r in kept])}))
        chosen = np.array([r.chosen is True for r in kept], dtype=bool)
        return dataclasses.replace(found, chosen=frozen(chosen)) if chosen.any() else found

    def __len__(self) -> int:
        return len(self.first)

    def __repr__(self) -> str:
        return f'Comparisons({len(self)} verdicts on {self.n} policies)'

    @property
    def n(self) -> int:
        """Number of policies, with and without comparisons."""
        return len(self.items)

    def take(self, rows: NDArray[Any]) -> 'Comparisons':
        """Return the comparisons at ``rows`` (indices or a mask); ``items`` stay the same."""
        columns: dict[str, Any] = {
            name: frozen(getattr(self, name)[rows])
            for name in ('first', 'second', 'outcome', 'weight', 'session', 'evaluator',
                         'institution', 'category', 'score_first', 'score_second')}
        return dataclasses.replace(
            self, **columns, conditions=self.conditions.take(rows),
            chosen=None if self.chosen is None else frozen(self.chosen[rows]))

    def reweighted(self, weight: Floats) -> 'Comparisons':
        """Return the same comparisons with other weights (M,)."""
        return dataclasses.replace(self, weight=frozen(np.asarray(weight, dtype=float)))

    def only(self, items: Sequence[str]) -> 'Comparisons':
        """
        Return the comparisons between ``items``, which become the policies in that order.

        :raises RankingError: a name is unknown or comes twice.
        """
        unknown = [name for name in items if name not in self.items]
        if unknown or len(set(items)) != len(items):
            raise RankingError(f"asked for policies {', '.join(items)}; "
                               f"unknown or twice: {', '.join(unknown) or 'one of them'}; "
                               f"known: {', '.join(self.items)}")
        place = np.full(self.n, -1)
        place[[self.items.index(name) for name in items]] = np.arange(len(items))
        i, j = place[self.first], place[self.second]
        kept = self.take((i >= 0) & (j >= 0))
        return dataclasses.replace(kept, items=tuple(items), first=frozen(place[kept.first]),
                                   second=frozen(place[kept.second]))

    def clusters(self, by: str) -> Ints:
        """
        Return (M,) which comparisons hang together: by 'session', 'evaluator' or 'institution'.

        A comparison whose evaluator or institution is not known is a cluster of its session.

        :raises RankingError: ``by`` is none of these.
        """
        if by not in CLUSTERS:
            raise RankingError(f"cannot cluster by '{by}'; known: {', '.join(CLUSTERS)}")
        if by == 'session':
            return self.session
        names, code = (self.evaluators, self.evaluator) if by == 'evaluator' else (
            self.institutions, self.institution)
        known = np.array([bool(name) for name in names], dtype=bool)[code]
        return np.where(known, code, len(names) + self.session)

    def appearances(self) -> Ints:
        """Return (n,) the number of comparisons with a positive weight each policy is in."""
        used = self.weight > 0
        return np.asarray(np.bincount(self.first[used], minlength=self.n)
                          + np.bincount(self.second[used], minlength=self.n), dtype=np.int64)


@dataclass(frozen=True)
class Diagnostics:
    """
    Convergence of a fit, warnings, and numbers specific to the method.

    ``log_likelihood`` is in nats and NaN where the method has none; ``details`` are specific to
    the method.
    """

    converged: bool = True
    iterations: int = 0
    log_likelihood: float = float('nan')
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """
    Result of a method without intervals; arrays as in ``Standings``.

    ``ridge`` (n,) is the strength of the prior behind each ability, 0 where none was needed.
    ``anchor`` (n,) marks the policies whose mean score is 0; None where the scores have a zero of
    their own.
    """

    scores: Floats
    solve: Floats
    diagnostics: Diagnostics
    covariance: Floats | None = None
    ridge: Floats | None = None
    anchor: NDArray[np.bool_] | None = None


class Method(Protocol):
    """A ranking method: a callable from Comparisons to Fit."""

    def __call__(self, comparisons: Comparisons) -> Fit:
        """Fit; RankingError when the comparisons do not determine the abilities."""


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
    copy = np.array(array)
    copy.setflags(write=False)
    return copy
