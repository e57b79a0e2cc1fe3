"""Every scored rollout of the policies that are compared, as arrays beside the comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    mine = [one for one in scored if one.policy in index]
    return Rollouts(
        np.array([index[one.policy] for one in mine], dtype=np.int64),
        np.array([one.score for one in mine], dtype=float),
        np.array([place.get(one.session_id, -1) for one in mine], dtype=np.int64),
        np.array([(one.session_id, one.policy) in about for one in mine], dtype=bool))
