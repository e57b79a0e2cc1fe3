"""Kemeny–Young by dynamic programming over subsets, exact; Soft Condorcet Optimisation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.scoring import (
    VoteResult,
    by_score,
    layers_of,
    majority_blocks,
    votes_over_lower,
)

LIMIT = 20    # there are 2²⁰ subsets, a million
# The descent of the paper's example: 10000 steps of 0.01, here in ten times longer ones.
STEPS, RATE = 1000, 0.1
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Orders:
    """
    All optimal orders of m alternatives, summed up.

    value: the largest Σ N[x, y] over pairs with x placed above y. count: how many orders reach
    it. can_be_above: shape (m, m), some optimal order places x above y. tops: who heads one.
    """

    value: float
    count: float
    can_be_above: NDArray[np.bool_]
    tops: tuple[int, ...]


def kemeny_young(profile: Profile) -> VoteResult:
    """
    Find every order R that maximises Σ N[x, y] over the pairs with x above y in R.

    The optimum is the same with margins instead of N. Alternatives fall into blocks such that
    each one of a block beats each one of every later block; every optimal order respects the
    blocks, so the dynamic programme runs inside them: O(2ᵏ k) for a block of k. Raises
    RankingError for a block larger than ``LIMIT``.

    With several optimal orders the tiers are the layers of "above in all of them", and the
    winners are all that head one. The score of an alternative is the paper's: the ballots that
    prefer it to those below it, Σ N[x, y] over lower tiers.
    """
    preferences, m = profile.preferences, len(profile.names)
    blocks = majority_blocks(profile.margins)
    largest = max(len(b) for b in blocks)
    if largest > LIMIT:
        raise RankingError(f'Kemeny–Young is exact up to {LIMIT} alternatives that beat each '
                           f'other in cycles or draw; here are {largest}. Leave alternatives '
                           'out, or use ranked pairs, Schulze or a lottery')
    maybe = np.zeros((m, m), dtype=bool)
    count, winners = 1., ()
    for k, block in enumerate(blocks):
        orders = optimal_orders(preferences[np.ix_(block, block)], profile.resolution)
        maybe[np.ix_(block, block)] = orders.can_be_above
        for later in blocks[k + 1:]:
            maybe[np.ix_(block, later)] = True
        count *= orders.count
        winners = winners if k else tuple(block[list(orders.tops)].tolist())
    tiers = layers_of(maybe & ~maybe.T)
    scores = votes_over_lower(preferences, tiers)
    warnings = () if count == 1 else (f'{count:.6g} orders share the best Kemeny value',)
    return VoteResult('kemeny_young', scores, winners, tiers, count == 1, warnings=warnings)


def soft_condorcet(profile: Profile, temperature: float = 1.0, steps: int = STEPS) -> VoteResult:
    """
    Rate by Soft Condorcet Optimisation, a smooth stand-in for Kemeny–Young (Lanctot et al. 2024).

    Minimise Σ N[x, y] σ((r_y − r_x)/τ) per ballot, by gradient descent from equal ratings: the
    sigmoid σ stands for "placed the wrong way round", which Kemeny–Young counts. The loss is not
    convex, and where somebody beats everybody its ratings grow for ever, ever more slowly; so the
    descent has a fixed length, that of the paper's example, and the order is what counts. Raises
    DataError unless temperature τ and steps are positive.
    """
    if not temperature > 0 or steps < 1:
        raise DataError(f'soft Condorcet needs a temperature above 0 and at least one step; got '
                        f'{temperature:g} and {steps}')
    N = profile.preferences / profile.weights.sum()
    ratings = np.zeros(len(N))
    for _ in range(steps):
        wrong = expit((ratings[None, :] - ratings[:, None]) / temperature)
        pull = N * wrong * (1 - wrong)
        # rounded, so that what is equal by symmetry does not drift apart in rounding
        ratings = ratings + np.round(RATE / temperature * (pull.sum(1) - pull.sum(0)), 12)
    return by_score(profile, 'soft_condorcet', np.round(ratings, 6) + 0.)


def optimal_orders(preferences: Floats, resolution: float) -> Orders:
    """
    Run the programme F(S) = max over x in S of F(S − x) + Σ N[x, y] for y in S − x.

    preferences: shape (m, m). Layer by layer of |S|, x being the top of S. A second pass from
    the full set keeps only the choices that lie on an optimal order.
    """
    m = len(preferences)
    full = (1 << m) - 1
    layers = _layers(m)
    value, count = np.zeros(full + 1), np.zeros(full + 1)
    count[0] = 1.
    value[1:] = -np.inf
    gain = _Gain(preferences)
    for sets in layers[1:]:
        for x in range(m):
            here = sets[(sets >> x) & 1 == 1]
            rest = here ^ (1 << x)
            reached = value[rest] + gain(x, rest)
            better = reached > value[here] + resolution
            equal = ~better & (reached > value[here] - resolution)
            count[here] = np.where(better, count[rest], count[here] + equal * count[rest])
            value[here] = np.where(better, reached, value[here])
    above, tops = _on_optimal_orders(layers, value, gain, m, resolution)
    return Orders(float(value[full]), float(count[full]), above, tops)


def _on_optimal_orders(layers: list[Ints], value: Floats, gain: '_Gain', m: int,
                       resolution: float) -> tuple[NDArray[np.bool_], tuple[int, ...]]:
    on = np.zeros(len(value), dtype=bool)
    on[-1] = True
    under, tops = np.zeros(m, dtype=np.int64), []
    for sets in reversed(layers[1:]):
        live = sets[on[sets]]
        for x in range(m):
            here = live[(live >> x) & 1 == 1]
            rest = here ^ (1 << x)
            rest = rest[value[rest] + gain(x, rest) > value[here] - resolution]
            if len(rest):
                on[rest] = True
                under[x] |= np.bitwise_or.reduce(rest)
                if len(sets) == 1:
                    tops.append(x)
    return (under[:, None] >> np.arange(m)) & 1 == 1, tuple(tops)


def _layers(m: int) -> list[Ints]:
    sets = np.arange(1 << m, dtype=np.int64)
    size = np.zeros(1 << m, dtype=np.int64)
    for x in range(m):
        size += (sets >> x) & 1
    order = np.argsort(size, kind='stable')
    return np.split(order, np.searchsorted(size[order], np.arange(1, m + 1)))


class _Gain:
    """Σ N[x, y] over y in a set, for many sets at once, from two tables of half the bits."""

    def __init__(self, preferences: Floats) -> None:
        self._low_bits = (len(preferences) + 1) // 2
        self._low = self._table(preferences[:, :self._low_bits])
        self._high = self._table(preferences[:, self._low_bits:])

    @staticmethod
    def _table(part: Floats) -> Floats:
        table = np.zeros((len(part), 1))
        for column in part.T:
            table = np.concatenate([table, table + column[:, None]], axis=1)
        return table

    def __call__(self, x: int, sets: Ints) -> Floats:
        mask = (1 << self._low_bits) - 1
        out: Floats = self._low[x, sets & mask] + self._high[x, sets >> self._low_bits]
        return out
