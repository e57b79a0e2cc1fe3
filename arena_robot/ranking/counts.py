"""
Verdicts summed per pair of policies, and the linear algebra on the graph of pairs.

The sums are sufficient for Bradley–Terry and Davidson. Checks say whether they can order the
policies: which were never compared with each other, and which only won or only lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg

from arena_robot.core.errors import NotConverged, RankingError
from arena_robot.ranking.base import Comparisons, Floats, Ints

MOST_CELLS = 4_000_000      # numbers in an array that is built at once, 32 MB
ROWS = 1 << 16              # verdicts counted at once: their arrays stay in the cache
LEAST_COMPARISONS = 5       # with fewer of a policy, nothing is stated about it
DENSE_POLICIES = 1500       # a dense matrix of so many takes 18 MB
# The size of the last Newton step: what is left is about its square.
TOLERANCE = 1e-7
# Up to here a step of a pair model cannot lower the likelihood: two predictors change by at most
# r = 1.78 against each other, and eʳ - r - 1 < r² (Bach, 2010).
SURE = 0.89
MAX_STEPS = 100


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
    n, count = comparisons.n, 3 * comparisons.n ** 2
    if count <= MOST_CELLS:
        both = _by_sides(comparisons).reshape(n, n, 3)
        both = both + both.transpose(1, 0, 2)[:, :, ::-1]
        low, high = np.nonzero(np.triu(both[:, :, 0] + both[:, :, 1] + both[:, :, 2], 1))
        losses, ties, wins = both[low, high].T.copy()
    else:
        cells = outcome_cells(comparisons)
        keys, place = np.unique(cells // 3, return_inverse=True)
        table = np.bincount(3 * place + cells % 3, comparisons.weight,
                            minlength=3 * len(keys)).reshape(-1, 3)
        kept = table.any(axis=1)
        low, high = np.divmod(keys[kept], n)
        losses, ties, wins = table[kept].T.copy()
    return PairCounts(comparisons.items, low, high, wins, losses, ties)


def _by_sides(comparisons: Comparisons) -> Floats:
    """Return (3 n²,) the weight by first, second, and outcome of the first: 0 loss, 1 tie."""
    sums = np.zeros(3 * comparisons.n ** 2)
    step = max(ROWS, len(sums))
    for start in range(0, len(comparisons), step):
        part = slice(start, start + step)
        cells = comparisons.first[part] * comparisons.n
        cells += comparisons.second[part]
        cells *= 3
        cells += (2 * comparisons.outcome[part]).astype(np.int64)
        sums += np.bincount(cells, comparisons.weight[part], minlength=len(sums))
    return sums


def outcome_cells(comparisons: Comparisons) -> Ints:
    """
    Return (M,) the cell of each verdict: 3 (low n + high) + outcome of the lower index.

    The outcome is 0 for a loss, 1 for a tie, 2 for a win, so the order of presentation is not
    kept.
    """
    i, j = comparisons.first, comparisons.second
    outcome = (2 * comparisons.outcome).astype(np.int64)
    return np.asarray(3 * (np.minimum(i, j) * comparisons.n + np.maximum(i, j))
                      + np.where(i > j, 2 - outcome, outcome))


def numbered(values: Ints) -> tuple[Ints, int]:
    """Return (M,) the place of each value among the different ones, and how many these are."""
    if np.all(values[1:] > values[:-1]):
        return np.arange(len(values)), len(values)
    different, place = np.unique(values, return_inverse=True)
    return place, len(different)


def mean_progress(comparisons: Comparisons) -> dict[str, float]:
    """Return the mean progress, 0 to 1, of each policy that was scored."""
    policies = np.concatenate([comparisons.first, comparisons.second])
    scores = np.concatenate([comparisons.score_first, comparisons.score_second])
    scored = np.isfinite(scores)
    n = len(comparisons.items)
    counts = np.bincount(policies[scored], minlength=n)
    sums = np.bincount(policies[scored], scores[scored], minlength=n)
    return {name: float(sums[k] / counts[k]) for k, name in enumerate(comparisons.items)
            if counts[k]}


def groups(counts: PairCounts, *, beaten: bool = False) -> list[list[str]]:
    """
    Return the groups of policies that can be compared with each other, largest first.

    With ``beaten`` a group is one in which everyone is reached from everyone by "won or tied
    against": exactly where the maximum of the likelihood is finite (Ford's condition). Without
    it, a group is connected by any comparison.
    """
    label = labels(counts, beaten=beaten)
    members = [[counts.items[k] for k in np.flatnonzero(label == g)]
               for g in range(int(label.max(initial=-1)) + 1)]
    return sorted(members, key=lambda group: -len(group))


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
    apart = groups(counts)
    if len(apart) > 1:
        raise RankingError(
            f'{counts.n} policies fall into {len(apart)} groups that were never compared '
            f'with each other: {listed(apart)}; rank a group alone or compare across the groups')


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
    for message in one_way(counts):
        raise RankingError(f'no finite maximum: {message}; use l2 > 0, leave policies out, or '
                           'collect more comparisons')


def one_way(counts: PairCounts) -> tuple[str, ...]:
    """Return a message naming groups of policies that only won or only lost, or ()."""
    met_all = len(counts.low) == counts.n * (counts.n - 1) // 2
    if met_all and np.all(counts.wins + counts.ties > 0) \
            and np.all(counts.losses + counts.ties > 0):
        return ()
    apart = groups(counts, beaten=True)
    return () if len(apart) == 1 else (
        f'between these groups every verdict went one way: {listed(apart)}',)


def shrunk_warnings(counts: PairCounts) -> tuple[str, ...]:
    """Say where abilities are limited by the prior instead of the data."""
    return tuple('some policies only won or only lost, so their abilities are limited by the '
                 f'prior (the ridge), not by the data: {message}' for message in one_way(counts))


def named(items: Sequence[str], most: int = 8) -> str:
    """Return names as text, the first few when there are many."""
    shown = ', '.join(items[:most]) or 'nothing'
    return shown if len(items) <= most else f'{shown} and {len(items) - most} more'


def listed(apart: list[list[str]]) -> str:
    """Return groups of names as text."""
    shown = '; '.join(f'{{{named(group)}}}' for group in apart[:6])
    return shown if len(apart) <= 6 else f'{shown}; and {len(apart) - 6} more groups'


def vote_warnings(comparisons: Comparisons) -> tuple[str, ...]:
    """Say when every verdict is the same, which tells of the voter rather than of the policies."""
    for rows in (slice(100), slice(None)):    # mostly the first verdicts already differ
        used = comparisons.outcome[rows][comparisons.weight[rows] > 0]
        if len(used) and np.ptp(used) > 0:
            return ()
    if len(used) < 3:
        return ()
    what = {1.0: 'for the policy shown first', 0.5: 'a tie', 0.0: 'for the policy shown second'}
    return (f'all {len(used)} votes are the same: {what[float(used[0])]}',)


def scatter(counts: PairCounts, values: Floats) -> Floats:
    """Return (n,) the sum of ``values`` (P,) into each pair's lower index, minus the higher's."""
    return np.asarray(np.bincount(counts.low, values, minlength=counts.n)
                      - np.bincount(counts.high, values, minlength=counts.n))


def laplacian_factor(counts: PairCounts, weight: Floats, anchor: float, ridge: float,
                     ) -> tuple[Floats, bool]:
    """
    Return the Cholesky factor of L + anchor 11ᵀ + ridge I; L is Σ weight (e_i - e_j)(e_i - e_j)ᵀ.

    :raises NotConverged: it has none.
    """
    n = counts.n
    matrix = np.full((n, n), anchor)    # Cholesky reads one half
    matrix[counts.low, counts.high] = anchor - weight
    matrix.flat[::n + 1] += degrees(counts, weight) + ridge
    try:
        lower: tuple[Floats, bool] = cho_factor(matrix.T, lower=True, overwrite_a=True,
                                                check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NotConverged(f'some of {n} policies are hardly connected; use l2 > 0') from error
    return lower


def solve_laplacian(counts: PairCounts, weight: Floats, right: Floats, ridge: float) -> Floats:
    """
    Solve (L + ridge I) x = right; without a ridge, x with mean 0 where ``right`` sums to 0.

    ``right`` (n,) or (n, k). Dense Cholesky up to 1500 policies, beyond that conjugate gradients
    on the sparse graph.
    """
    n = counts.n
    if n <= DENSE_POLICIES:
        anchor = 0.0 if ridge > 0 else float(2 * weight.sum()) / n / n
        return np.asarray(cho_solve(laplacian_factor(counts, weight, anchor, ridge), right,
                                    check_finite=False))
    if right.ndim == 1:
        return _solve_sparse(counts, weight, right, ridge)
    return np.stack([_solve_sparse(counts, weight, column, ridge) for column in right.T], axis=1)


def degrees(counts: PairCounts, weight: Floats) -> Floats:
    """Return (n,) the sum of ``weight`` (P,) over the pairs of each policy."""
    return np.asarray(np.bincount(counts.low, weight, minlength=counts.n)
                      + np.bincount(counts.high, weight, minlength=counts.n))


def _solve_sparse(counts: PairCounts, weight: Floats, right: Floats, ridge: float) -> Floats:
    n, degree = counts.n, degrees(counts, weight) + ridge
    rows, columns = np.r_[counts.low, counts.high], np.r_[counts.high, counts.low]
    off = coo_array((np.r_[weight, weight], (rows, columns)), shape=(n, n)).tocsr()
    matrix = LinearOperator((n, n), matvec=lambda x: degree * x - off @ x, dtype=float)
    jacobi = LinearOperator((n, n), matvec=lambda x: x / degree, dtype=float)
    answer, failed = cg(matrix, right, rtol=1e-12, atol=1e-12, maxiter=20 * n, M=jacobi)
    if failed:
        raise NotConverged(f'conjugate gradients on {n} policies did not converge in {20 * n} '
                           'steps; use l2 > 0')
    return np.asarray(answer if ridge > 0 else answer - answer.mean())


def ascend(point: Floats, value: Callable[[Floats], float], step: Callable[[Floats], Floats],
           what: str) -> tuple[Floats, int]:
    """
    Return the maximum of a concave function by Newton steps, and their number.

    A long step is halved until the value does not fall.

    :raises NotConverged: after 100 steps the point still changes.
    """
    size = np.inf
    for count in range(1, MAX_STEPS + 1):
        move = step(point)
        if float(np.abs(move).max(initial=0.0)) > SURE:
            move = _halved(point, move, value)
        point, size = point + move, float(np.abs(move).max(initial=0.0))
        if size < TOLERANCE:
            return point, count
    raise NotConverged(f'{what} still changed by {size:.2e} after {MAX_STEPS} Newton steps; '
                       'use l2 > 0')


def _halved(point: Floats, step: Floats, value: Callable[[Floats], float]) -> Floats:
    """Return the step, shortened so that the value does not fall."""
    now = value(point)
    slack = 1e-12 * max(1.0, abs(now))
    for halvings in range(60):
        scaled = step * 0.5 ** halvings
        new = value(point + scaled)
        if np.isfinite(new) and new >= now - slack:
            return scaled
    return np.zeros_like(step)
