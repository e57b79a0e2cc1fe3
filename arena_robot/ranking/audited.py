"""
Rankings that use an audit of the rollouts: by the audit alone, or to break the ties of evaluators.

An audit is a number from 0 to 1 per session and policy, such as PPL. ``opd`` is the mean of these
numbers. ``preference_audit`` is Davidson's model of the preferences, in which a tie counts for the
rollout with the higher number where they differ by more than ``margin``. Verdicts with a winner
stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Fit, Floats, Method
from arena_robot.ranking.davidson import Davidson
from arena_robot.ranking.progress import Progress

MARGIN = 0.1


@dataclass(frozen=True)
class AuditTable:
    """``values`` (S, n) by session and policy, NaN without an audit; ``items`` as in the data."""

    items: tuple[str, ...]
    values: Floats

    @classmethod
    def build(cls, rows: Sequence[Comparison], items: Sequence[str],
              scores: Mapping[tuple[str, str], float]) -> 'AuditTable':
        """Return the table for ``Comparisons.from_words(rows, items)``."""
        index, known = {name: k for k, name in enumerate(items)}, set(items)
        kept = [r.session_id for r in rows if {r.a, r.b} <= known]
        place = {session: k for k, session in enumerate(dict.fromkeys(kept))}
        values = np.full((len(place), len(index)), np.nan)
        for (session, policy), score in scores.items():
            if session in place and policy in index:
                values[place[session], index[policy]] = score
        return cls(tuple(items), values)

    def of(self, comparisons: Comparisons) -> tuple[Floats, Floats]:
        """Return (M,) the audits of the first and of the second policy; NaN without one."""
        column = np.array([self.items.index(name) for name in comparisons.items])
        first, second = (self.values[comparisons.session, column[policy]]
                         for policy in (comparisons.first, comparisons.second))
        return first, second

    def within(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons with the audits among their conditions."""
        return replace(comparisons, conditions=comparisons.conditions.with_measure(
            'audit', *self.of(comparisons)))

    @property
    def policies(self) -> list[str]:
        """The policies of which a rollout is audited."""
        seen = np.asarray(np.isfinite(self.values).any(axis=0))
        return [name for name, is_seen in zip(self.items, seen.tolist(), strict=True) if is_seen]


class AuditedMethod:
    """A method that first writes the audits into the comparisons; see the module."""

    inner: Method

    def __init__(self, table: AuditTable | None) -> None:
        self._table = table

    def __call__(self, comparisons: Comparisons) -> Fit:
        """Fit; RankingError as the inner method, and without audits."""
        return self.inner(self.prepared(comparisons))

    def prepared(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons as the inner method takes them; sessions are the table's."""
        if self._table is None:
            raise RankingError('this method needs audits of the rollouts: `arena audit --json` '
                               'writes them, and --audits takes them')
        return self._with(comparisons, *self._table.of(comparisons))

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        raise NotImplementedError


class Opd(AuditedMethod):
    """Mean of the audits' numbers."""

    def __init__(self, audits: AuditTable | None = None) -> None:
        super().__init__(audits)
        self.inner = Progress()

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        return replace(comparisons, score_first=first, score_second=second)


class PreferenceAudit(AuditedMethod):
    """Davidson's model; ties count for the rollout with the clearly higher audit."""

    def __init__(self, audits: AuditTable | None = None, margin: float = MARGIN) -> None:
        super().__init__(audits)
        self.inner, self._margin = Davidson(), margin

    def _with(self, comparisons: Comparisons, first: Floats, second: Floats) -> Comparisons:
        apart = np.nan_to_num(first - second)
        broken = (comparisons.outcome == 0.5) & (np.abs(apart) > self._margin)
        return replace(comparisons, outcome=np.where(broken, apart > 0, comparisons.outcome))
