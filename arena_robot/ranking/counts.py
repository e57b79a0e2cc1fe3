"""Sufficient counts of pairwise verdicts, and checks that they can order the policies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats, Ints

DENSE_CELLS = 4_000_000


@dataclass(frozen=True)
class PairCounts:
    """
    Verdicts of n policies summed per pair: sufficient for Bradley–Terry and Davidson.

    P compared pairs,
    ``low`` < ``high`` (P,); ``wins`` (P,) of the lower index, ``losses`` (P,), ``ties`` (P,), all
    weighted.
    """

    items: tuple[str, ...]
    low: Ints
    high: Ints
    wins: Floats
    losses: Floats
    ties: Floats

    @property
    def n(self) -> int:
        """Number of policies."""
        return len(self.items)

    @property
    def total(self) -> Floats:
        """(P,) comparisons per pair."""
        return np.asarray(self.wins + self.losses + self.ties)

    @property
    def sufficient(self) -> int:
        """The number of outcome counts the pairs have: three each."""
        return 3 * len(self.low)

    def saturated(self) -> float:
        """Return the log-likelihood (nats) of the observed shares: the maximum for any model."""
        seen = np.stack([self.wins, self.ties, self.losses])
        share = np.where(seen > 0, seen, 1.0) / self.total
        return float(np.sum(seen * np.log(np.where(seen > 0, share, 1.0))))


def count_pairs(comparisons: Comparisons) -> PairCounts:
    """Sum comparisons per pair; pairs without weight are left out."""
    n = comparisons.n
    cells = outcome_cells(comparisons)
    if 3 * n * n <= DENSE_CELLS:
        sums = np.bincount(cells, comparisons.weight, minlength=3 * n * n).reshape(-1, 3)
        keys = np.flatnonzero(sums.any(axis=1))
        table = sums[keys]
    else:
        keys, place = np.unique(cells // 3, return_inverse=True)
        table = np.bincount(3 * place + cells % 3, comparisons.weight,
                            minlength=3 * len(keys)).reshape(-1, 3)
        kept = table.any(axis=1)
        keys, table = keys[kept], table[kept]
    losses, ties, wins = table.T.copy()
    return PairCounts(comparisons.items, keys // n, keys % n, wins, losses, ties)


def outcome_cells(comparisons: Comparisons) -> Ints:
    """
    Return (M,) the cell of each verdict: 3 (low n + high) + outcome of the lower index.

    The outcome is 0 for a loss, 1 for a tie, 2 for a win, so the order of presentation is not
    kept.
    """
    i, j = comparisons.first, comparisons.second
    outcome = (2 * comparisons.outcome).astype(np.int64)
    swapped = i > j
    return np.asarray(3 * (np.minimum(i, j) * comparisons.n + np.maximum(i, j))
                      + np.where(swapped, 2 - outcome, outcome))


def groups(counts: PairCounts, *, beaten: bool = False) -> list[list[str]]:
    """
    Return the groups of policies that can be compared with each other, largest first.

    With ``beaten`` a group is one in which everyone is reached from everyone by "won or tied
    against": exactly where the maximum of the likelihood is finite (Ford's condition). Without
    it, a group is connected by any comparison.
    """
    label = labels(counts, beaten=beaten)
    found = [[counts.items[k] for k in np.flatnonzero(label == g)]
             for g in range(int(label.max(initial=-1)) + 1)]
    return sorted(found, key=lambda group: -len(group))


def labels(counts: PairCounts, *, beaten: bool) -> Ints:
    """Return (n,) the number of each policy's group; see :func:`groups`."""
    down = counts.wins + counts.ties > 0
    up = counts.losses + counts.ties > 0
    rows = np.concatenate([counts.low[down], counts.high[up]])
    columns = np.concatenate([counts.high[down], counts.low[up]])
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(counts.n, counts.n))
    _, label = connected_components(graph, directed=True,
                                    connection='strong' if beaten else 'weak')
    return np.asarray(label, dtype=np.int64)


def require_connected(counts: PairCounts) -> None:
    """
    Raise RankingError for comparisons that cannot order their policies.

    :raises RankingError: fewer than two policies, no comparisons, or groups that were never
    compared.
    """
    require_comparisons(counts)
    if len(counts.low) == counts.n * (counts.n - 1) // 2:
        return
    found = groups(counts)
    if len(found) > 1:
        raise RankingError(
            f'{counts.n} policies fall into {len(found)} groups that were never compared '
            f'with each other: {listed(found)}; rank a group alone or compare across the groups')


def require_comparisons(counts: PairCounts) -> None:
    """
    Raise RankingError without two policies and a comparison.

    :raises RankingError: fewer than two policies, or no comparisons.
    """
    if counts.n < 2:
        raise RankingError(f'asked to rank {counts.n} policy ({named(counts.items)}); '
                           'a ranking needs at least two')
    if len(counts.low) == 0:
        raise RankingError(f'asked to rank {named(counts.items)}; found no comparison between '
                           'them; collect some, or check the policies and the valid column')


def is_connected(counts: PairCounts) -> bool:
    """Tell whether every policy is reached from every other by wins and ties."""
    return not one_way(counts)


def require_finite(counts: PairCounts) -> None:
    """
    Raise RankingError for comparisons whose likelihood has no finite maximum.

    :raises RankingError: some policies never won or tied against the rest, or the other way.
    """
    require_connected(counts)
    for told in one_way(counts):
        raise RankingError(f'no finite maximum: {told}; use l2 > 0, leave policies out, or '
                           'collect more comparisons')


def one_way(counts: PairCounts) -> tuple[str, ...]:
    """Return a message naming groups of policies that only won or only lost, or ''."""
    met_all = len(counts.low) == counts.n * (counts.n - 1) // 2
    if met_all and np.all(counts.wins + counts.ties > 0) \
            and np.all(counts.losses + counts.ties > 0):
        return ()
    found = groups(counts, beaten=True)
    return () if len(found) == 1 else (
        f'between these groups every verdict went one way: {listed(found)}',)


def shrunk_warnings(counts: PairCounts) -> tuple[str, ...]:
    """Say where abilities are limited by the prior instead of the data."""
    return tuple('some policies only won or only lost, so their abilities are limited by the '
                 f'prior (the ridge), not by the data: {told}' for told in one_way(counts))


def named(items: Sequence[str], most: int = 8) -> str:
    """Return names as text, the first few when there are many."""
    shown = ', '.join(items[:most]) or 'nothing'
    return shown if len(items) <= most else f'{shown} and {len(items) - most} more'


def listed(found: list[list[str]]) -> str:
    """Return groups of names as text."""
    shown = '; '.join(f'{{{named(group)}}}' for group in found[:6])
    return shown if len(found) <= 6 else f'{shown}; and {len(found) - 6} more groups'


def vote_warnings(comparisons: Comparisons) -> tuple[str, ...]:
    """Say when every verdict is the same, which tells of the voter rather than of the policies."""
    used = comparisons.outcome[comparisons.weight > 0]
    if len(used) < 3 or np.ptp(used) > 0:
        return ()
    what = {1.0: 'for the policy shown first', 0.5: 'a tie', 0.0: 'for the policy shown second'}
    return (f'all {len(used)} votes are the same: {what[float(used[0])]}',)
