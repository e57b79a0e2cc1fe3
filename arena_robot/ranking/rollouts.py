"""
Scored and audited rollouts of the policies that are compared, as arrays beside the comparisons.

An audit is a number from 0 to 1 per session and policy, such as PPL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.episode import Comparison, ScoredRollout
from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons, Floats, Ints


@dataclass(frozen=True)
class Rollouts:
    """
    E scored rollouts of the policies of a ``Comparisons``.

    ``policy`` (E,) indexes its items, ``score`` (E,) is progress 0..1, ``session`` (E,) is the
    session index there, -1 for a rollout of a session without a counted verdict, and
    ``compared`` (E,) marks the rollouts that such a verdict was about: the A and the B.
    """

    policy: Ints
    score: Floats
    session: Ints
    compared: np.ndarray

    def means(self, n: int, mask: np.ndarray | None = None) -> Floats:
        """Return (n,) the mean score of each policy over the rollouts in ``mask``, else NaN."""
        kept = np.ones(len(self.score), bool) if mask is None else mask
        total = np.bincount(self.policy[kept], self.score[kept], minlength=n)
        count = np.bincount(self.policy[kept], minlength=n)
        return np.asarray(np.divide(total, count, out=np.full(n, np.nan), where=count > 0))


@dataclass(frozen=True)
class ArenaTables:
    """Comparisons, and every scored rollout of their policies."""

    comparisons: Comparisons
    rollouts: Rollouts


def arena_tables(counted: Sequence[Comparison], scored: Sequence[ScoredRollout] = (),
                 policies: Sequence[str] | None = None) -> ArenaTables:
    """
    Return counted verdicts and scored rollouts as arrays, between ``policies`` (default: all).

    Rollouts of other sessions keep their score and get session -1: they count in a policy's mean
    over all rollouts and in no comparison.

    :raises DataError: one of ``policies`` is in no counted session.
    """
    met = sorted({row.a for row in counted} | {row.b for row in counted})
    names = list(policies) if policies is not None else met
    unknown = [name for name in names if name not in met]
    if unknown:
        raise DataError(f"no counted session has {', '.join(unknown)}; "
                        f"found: {', '.join(met) or 'none at all'}")
    return ArenaTables(Comparisons.from_words(counted, names), _rollouts(counted, names, scored))


def _rollouts(rows: Sequence[Comparison], names: list[str],
              scored: Sequence[ScoredRollout]) -> Rollouts:
    index = {name: k for k, name in enumerate(names)}
    kept = [r for r in rows if r.a in index and r.b in index]
    place: dict[str, int] = {}
    for row in kept:
        place.setdefault(row.session_id, len(place))
    about = {(r.session_id, name) for r in kept for name in (r.a, r.b)}
    mine = [rollout for rollout in scored if rollout.policy in index]
    return Rollouts(
        np.array([index[rollout.policy] for rollout in mine], dtype=np.int64),
        np.array([rollout.score for rollout in mine], dtype=float),
        np.array([place.get(rollout.session_id, -1) for rollout in mine], dtype=np.int64),
        np.array([(rollout.session_id, rollout.policy) in about for rollout in mine], dtype=bool))


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
