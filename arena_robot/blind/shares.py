"""
The difference of two shares: its interval, exact tests, and how many trials a test needs.

Two counts, k of n each, were made apart from each other or in matched blocks. Apart:

- interval: R. G. Newcombe, Statistics in Medicine 17:873 (1998), method 10. From the Wilson
  intervals (l, u) of both shares, d - sqrt((p1 - l1)² + (u2 - p2)²) and the other end alike.
- test: R. D. Boschloo, Statistica Neerlandica 24:1 (1970). Fisher's p-value orders the tables;
  p is the largest chance, over all common shares, of one at least as extreme.

In blocks, b were won by the first and c by the second only:

- interval: Newcombe, Statistics in Medicine 17:2635 (1998), method 10, with the correlation
  within blocks.
- test: the sign test on the b + c blocks that tell them apart.

All tests have two sides and tell the direction: each side has half of the level.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, gammaln, logsumexp, ndtri, xlog1py, xlogy

from arena_robot.core.wilson import wilson

Floats = NDArray[np.float64]
MOST_TABLES = 4_000_000    # 32 MB; above, the normal approximation is right to three digits
GRID = 500                 # common shares at which the largest chance is looked for
BETS = np.linspace(0.025, 0.975, 20)    # shares of the capital; even, as no difference is expected


def quantile(level: float) -> float:
    """Return the z that a normal variable exceeds on either side with chance ``level``."""
    return float(ndtri(1.0 - level / 2.0))


def difference_interval(k1: int, n1: int, k2: int, n2: int, level: float = 0.05,
                        ) -> tuple[float, float]:
    """Return Newcombe's interval of k1/n1 - k2/n2 for counts that were made apart."""
    return _square_and_add(k1, n1, k2, n2, 0.0, level)


def paired_interval(both: int, first: int, second: int, neither: int, level: float = 0.05,
                    ) -> tuple[float, float]:
    """Return Newcombe's interval of the difference from blocks: both succeeded, one, none."""
    n = both + first + second + neither
    product: float = both * neither - first * second
    if product > 0:
        product = max(product - n / 2, 0.0)
    spread = math.sqrt((both + first) * (second + neither) * (both + second) * (first + neither))
    return _square_and_add(both + first, n, both + second, n, product / spread if spread else 0.0,
                           level)


def _square_and_add(k1: int, n1: int, k2: int, n2: int, phi: float, level: float,
                    ) -> tuple[float, float]:
    z = quantile(level)
    (l1, u1), (l2, u2), p1, p2 = wilson(k1, n1, z), wilson(k2, n2, z), k1 / n1, k2 / n2

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one ** 2 - 2 * phi * one * other + other ** 2))
    return p1 - p2 - reach(p1 - l1, u2 - p2), p1 - p2 + reach(u1 - p1, p2 - l2)


def boschloo(k1: int, n1: int, k2: int, n2: int) -> float:
    """Return the p-value that the shares are equal, from counts that were made apart."""
    if (n1 + 1) * (n2 + 1) > MOST_TABLES:
        pooled = (k1 + k2) / (n1 + n2)
        spread = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
        return math.erfc(abs(k1 / n1 - k2 / n2) / spread / math.sqrt(2)) if spread else 1.0
    return min(1.0, 2 * min(_one_sided(k1, n1, k2, n2), _one_sided(k2, n2, k1, n1)))


def _one_sided(k1: int, n1: int, k2: int, n2: int) -> float:
    fisher = _fisher_tails(n1, n2)
    region = (fisher <= fisher[k1, k2] * (1 + 1e-9)).astype(float)
    common = np.sin(np.linspace(0, np.pi / 2, GRID + 2)[1:-1]) ** 2
    chance = ((_binomial(n1, common) @ region) * _binomial(n2, common)).sum(axis=1)
    return float(chance.max())


def _fisher_tails(n1: int, n2: int) -> Floats:
    """Return (n1+1, n2+1) the chance, given x + y, of an x at least as large."""
    x, y = np.arange(n1 + 1), np.arange(n2 + 1)
    table = np.exp(_choose(n1, x)[:, None] + _choose(n2, y)
                   - _choose(n1 + n2, x[:, None] + y))
    for k in range(n1 - 1, -1, -1):
        table[k, 1:] += table[k + 1, :-1]
    return table


def _choose(n: int, k: NDArray[np.int64]) -> Floats:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _binomial(n: int, share: Floats) -> Floats:
    """Return (shares, n+1) the chance of every count."""
    k = np.arange(n + 1)
    return np.asarray(np.exp(_choose(n, k) + xlogy(k, share[:, None])
                             + xlog1py(n - k, -share[:, None])))


def sign_test(wins: ArrayLike, losses: ArrayLike) -> Floats:
    """Return the p-value that a win is as likely as a loss; counts of any equal shape."""
    more, n = np.maximum(wins, losses), np.add(wins, losses)
    tail = np.where(more > 0, bdtrc(np.maximum(more - 1, 0), n, 0.5), 1.0)
    return np.asarray(np.minimum(1.0, 2 * tail))


def trials_needed(p1: float, p2: float, level: float = 0.05, power: float = 0.8) -> float:
    """Return how many trials of each show a difference with that power; infinite without one."""
    if p1 == p2:
        return math.inf
    middle = (p1 + p2) / 2
    spread = (quantile(level) * math.sqrt(2 * middle * (1 - middle))
              + float(ndtri(power)) * math.sqrt(p1 * (1 - p1) + p2 * (1 - p2)))
    return math.ceil((spread / (p1 - p2)) ** 2)


def blocks_power(blocks: int, win: float, loss: float, level: float = 0.05) -> float:
    """Return the chance that the sign test finds the one that wins a block more often."""
    n = np.arange(blocks + 1)
    least = np.array([_least_wins(int(k), level) for k in n])
    found = np.where(least <= n, bdtrc(least - 1, n, win / (win + loss)), 0.0)
    return float(_binomial(blocks, np.array([win + loss]))[0] @ found)


@cache
def _least_wins(blocks: int, level: float) -> int:
    """Return how many wins of n decisive blocks the sign test needs; n + 1 if n is too few."""
    wins = np.arange(blocks // 2 + 1, blocks + 2)
    enough = 2 * np.where(wins > blocks, 0.0, bdtrc(np.minimum(wins, blocks) - 1, blocks, 0.5))
    return int(wins[np.argmax(enough <= level)])


def blocks_needed(win: float, loss: float, level: float = 0.05, power: float = 0.8,
                  most: int = 5000) -> float:
    """Return the number of blocks from which on the power is reached; infinite above ``most``."""
    low, high = 1, 8
    while high <= most and blocks_power(high, win, loss, level) < power:
        low, high = high, 2 * high
    if high > most:
        return math.inf
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if blocks_power(middle, win, loss, level) >= power else (
            middle + 1, high)
    return low


def difference_sequence(wins: int, ties: int, losses: int, level: float = 0.05,
                        ) -> tuple[float, float]:
    """
    Return an interval of the mean of +1, 0 and -1 that holds at every look.

    A mean is left out where the capital of bets against it, as in
    :mod:`arena_robot.ranking.intervals.needed`, has reached 1/level (I. Waudby-Smith and
    A. Ramdas, JRSS B 86:1, 2024).
    """
    mean = np.linspace(-0.999, 0.999, 1999)
    bet = np.concatenate([BETS[:, None] / (1 + mean), -BETS[:, None] / (1 - mean)])
    capital = logsumexp(wins * np.log1p(bet * (1 - mean)) + ties * np.log1p(-bet * mean)
                        + losses * np.log1p(bet * (-1 - mean)), axis=0) - math.log(len(bet))
    kept = mean[capital < -math.log(level)]
    return (float(kept[0]) if kept[0] > mean[0] else -1.0,
            float(kept[-1]) if kept[-1] < mean[-1] else 1.0)
