"""
Whether Davidson's likelihood has a finite maximum: decided exactly, by a linear programme.

In a direction (δ, k) of (θ, log κ) the three predictors of a pair with D = δ_i - δ_j change by
D/2 (win), k (tie) and -D/2 (loss). The likelihood grows for ever, or stays flat, along a
direction in which every outcome that was seen changes by at least as much as the other two of its
pair. A finite maximum exists when the only such directions change all three of each pair equally,
so when the programme

    max Σ slack   with 0 <= slack = (change of the seen outcome) - (change of another) <= 1

has the value 0 (Albert and Anderson 1984, for this exponential family). Policies that beat each
other in a circle have the same δ, so each such group is one variable: with enough verdicts one
group holds every policy, and no programme is solved.
"""

import numpy as np
import scipy  # scipy.optimize loads with the first programme
from scipy.sparse import coo_array, csr_array, vstack
from scipy.sparse.csgraph import connected_components

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Floats, Ints
from arena_robot.ranking.counts import PairCounts

SMALLEST = 1e-7


def has_finite_maximum(counts: PairCounts) -> bool:
    """
    Tell whether (θ up to a shift, log κ) has one finite maximum of the likelihood.

    ``counts`` are connected and hold at least one tie. All verdicts being ties has none.

    :raises RankingError: the linear programme was not solved.
    """
    if len(counts.low) and np.all(counts.wins > 0) and np.all(counts.losses > 0):
        return True
    group = _circles(counts)
    decided = bool(np.any(counts.wins > 0) or np.any(counts.losses > 0))
    if group.max(initial=0) == 0:
        return decided
    seen = np.stack([counts.wins > 0, counts.ties > 0, counts.losses > 0], axis=1)
    cells = np.concatenate([
        np.stack([group[counts.low[rows]], group[counts.high[rows]],
                  np.full(np.count_nonzero(rows), outcome)], axis=1)
        for outcome, rows in enumerate(seen.T)])
    slacks = _slacks(np.unique(cells, axis=0), int(group.max()) + 1)
    found = scipy.optimize.linprog(
        -np.asarray(slacks.sum(axis=0)).ravel(), A_ub=vstack([slacks, -slacks]),
        b_ub=np.r_[np.ones(slacks.shape[0]), np.zeros(slacks.shape[0])],
        bounds=[(0.0, 0.0), *[(None, None)] * (slacks.shape[1] - 1)], method='highs')
    if found.status != 0:
        raise RankingError(f'whether Davidson has a maximum could not be decided: {found.message}')
    return bool(-found.fun < SMALLEST)


def _circles(counts: PairCounts) -> Ints:
    """Return (n,) the group of each policy; members of a group beat each other in a circle."""
    won, lost = counts.wins > 0, counts.losses > 0
    rows = np.r_[counts.low[won], counts.high[lost]]
    columns = np.r_[counts.high[won], counts.low[lost]]
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(counts.n, counts.n))
    _, label = connected_components(graph, directed=True, connection='strong')
    return np.asarray(label, dtype=np.int64)


def _slacks(cells: Ints, groups: int) -> csr_array:
    """
    Return (2 C, groups + 1) the slacks of the seen outcomes as linear functions of (δ, k).

    ``cells`` (C, 3) are group of the lower index, of the higher, and outcome 0 win, 1 tie, 2 loss.
    """
    changes: Floats = np.array([[0.5, 0.0], [0.0, 1.0], [-0.5, 0.0]])  # of D and of k
    rows, columns, values = [], [], []
    for place, (low, high, outcome) in enumerate(cells):
        others = [other for other in range(3) if other != outcome]
        for number, other in enumerate(others):
            by_d, by_k = changes[outcome] - changes[other]
            rows += [2 * place + number] * 3
            columns += [int(low), int(high), groups]
            values += [by_d, -by_d, by_k]
    return coo_array((values, (rows, columns)), shape=(2 * len(cells), groups + 1)).tocsr()
