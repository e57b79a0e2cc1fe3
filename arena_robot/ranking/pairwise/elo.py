"""
Elo: one pass over the comparisons in the order they were made, or the mean over many orders.

After each verdict y ∈ {1, ½, 0}:  θ_i += K w (y - p), θ_j -= K w (y - p), with
p = 1 / (1 + 10^{-(θ_i - θ_j)/400}) and w the weight. The result depends on the order: on 500
verdicts of seven policies the last few dozen have the largest weight.
``orders`` > 0 runs that many random orders and returns their mean; ``orders`` = 0 keeps the order
of the rows and adds a warning.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import count_pairs, require_connected, vote_warnings
from arena_robot.ranking.pairwise.bradley_terry import expected_share

SCALE = 400.0 / np.log(10.0)
CELLS_AT_ONCE = 10_000_000    # places in the orders that run at once, 80 MB


@dataclass(frozen=True)
class Elo:
    """
    The method: step ``k``, starting rating ``start``, number of random ``orders``, a seed.

    It assumes one ability for each policy; in the order of the rows, that recent verdicts matter
    most.
    """

    k: float = 16.0
    start: float = 1500.0
    orders: int = 100
    seed: int = 0

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Run Elo.

        ``details['order_spread']`` is the standard deviation of the ratings over the orders.

        :raises RankingError: the comparisons cannot order the policies, or k is not positive.
        """
        if not self.k > 0:
            raise RankingError(f'Elo needs k > 0; got {self.k}')
        require_connected(count_pairs(comparisons))
        warnings = vote_warnings(comparisons)
        m = len(comparisons)
        if self.orders:
            rng = np.random.default_rng(self.seed)
            block = max(1, min(self.orders, CELLS_AT_ONCE // m))
            runs = np.concatenate([
                run_orders(comparisons, np.array([rng.permutation(m) for _ in range(count)]),
                           self.k)
                for count in (min(block, self.orders - done)
                              for done in range(0, self.orders, block))])
        else:
            runs = run_orders(comparisons, np.arange(m)[None, :], self.k)
            warnings = (*warnings, 'one order only: the last verdicts have the largest weight')
        ratings = self.start + runs.mean(axis=0)
        spread = runs.std(axis=0, ddof=1) if self.orders > 1 else np.full(comparisons.n, np.nan)
        return Fit(ratings, expected_share((ratings - self.start) / SCALE), Diagnostics(
            True, m, float('nan'), warnings,
            {'k': self.k, 'orders': self.orders, 'order_spread': spread.tolist()}))


def run_orders(comparisons: Comparisons, orders: np.ndarray, k: float) -> Floats:
    """Return (R, n) the ratings after each order (R, M) of the comparisons, starting from 0."""
    count, m = orders.shape
    ratings = np.zeros((count, comparisons.n))
    flat = ratings.reshape(-1)
    base = np.arange(count) * comparisons.n
    first = comparisons.first[orders] + base[:, None]
    second = comparisons.second[orders] + base[:, None]
    outcome, step = comparisons.outcome[orders], k * comparisons.weight[orders]
    for at in range(m):
        i, j = first[:, at], second[:, at]
        gain = step[:, at] * (outcome[:, at] - expit((flat[i] - flat[j]) / SCALE))
        flat[i] += gain
        flat[j] -= gain
    return ratings
