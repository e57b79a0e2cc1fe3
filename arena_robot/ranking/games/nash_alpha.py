"""
Nash averaging and α-Rank: ratings of strategies by an equilibrium, and by an evolution.

Nash averaging (Balduzzi et al. 2018) is the payoff against the equilibrium of largest entropy,
α-Rank (Omidshafiei et al. 2019) the stationary distribution of an evolution of strategies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.games.payoffs import RatingsTable, checked_payoffs
from arena_robot.ranking.games.zero_sum import Strategies, solve

CONSTANT = 1e-9
Floats = NDArray[np.float64]
LIMIT = 2000    # the chain is a dense matrix, 32 MB
EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class NashAverage(RatingsTable):
    """
    ratings: shapes (m,) and (n,), expected payoff of each strategy against the other's mixture.

    value: of the game to the first player. first, second: the optimal strategies of each player;
    ``mixed`` is the one of largest entropy.
    """

    ratings: tuple[Floats, Floats]
    value: float
    first: Strategies
    second: Strategies


def nash_average(payoffs: Sequence[ArrayLike]) -> NashAverage:
    """
    Rate both players' strategies in a two-player zero-sum game.

    payoffs: two matrices, shape (m, n); their sum must be constant. Every strategy in the
    support of an equilibrium gets the value of the game, so the best ones tie, and the ratings
    depend on the few strategies of the other player in the equilibrium. Copies of a strategy
    change nothing where the equilibrium is unique; where it is not, they can move the one of
    largest entropy. Raises DataError for another number of players or a sum that is not constant.
    """
    tensors = checked_payoffs(payoffs)
    if len(tensors) != 2:
        raise DataError(f'Nash averaging rates two players; this game has {len(tensors)}. '
                        'Deviation ratings work for any number')
    P, Q = tensors
    total = P + Q
    if np.ptp(total) > CONSTANT * max(float(np.abs(P).max()), 1.):
        raise DataError('Nash averaging needs a zero-sum game; the payoffs of this one sum to '
                        f'{total.min():g} … {total.max():g}. Deviation ratings work for any game')
    equilibrium = solve(P)
    row, column = equilibrium.row, equilibrium.column
    return NashAverage((P @ column.mixed, Q.T @ row.mixed), equilibrium.value, row, column)


@dataclass(frozen=True, eq=False)
class AlphaRank(RatingsTable):
    """
    joint: stationary probability of each joint strategy, shape (A₁, …, A_N).

    ratings: per player the probability of each of its strategies, shape (A_p,).
    """

    joint: Floats
    ratings: tuple[Floats, ...]


def alpha_rank(payoffs: Sequence[ArrayLike], alpha: float | None = None, population: int = 50,
               epsilon: float = .01) -> AlphaRank:
    """
    Return the stationary distribution over joint strategies, one population per player.

    From a joint strategy, each change of one player's strategy is proposed with probability η =
    1/Σ(A_p − 1) and accepted with probability ρ, where Δ is that player's gain: ρ = (1 − e^(−αΔ))
    / (1 − e^(−αmΔ)), and 1/m at Δ = 0. ``alpha=None`` is the limit of strong selection, perturbed
    so that it is unique: ρ = 1 − ε for a gain, ½ for none, ε for a loss. Raises RankingError above
    ``LIMIT`` joint strategies, DataError for a bad game or parameter.
    """
    tensors = checked_payoffs(payoffs)
    _check(alpha, population, epsilon)
    shape, size = tensors[0].shape, tensors[0].size
    if size > LIMIT:
        raise RankingError(f'α-Rank on {size} joint strategies; the limit is {LIMIT}')
    eta = 1 / max(sum(n - 1 for n in shape), 1)
    flat = np.arange(size).reshape(shape)
    chain = np.zeros((size, size))
    for p, G in enumerate(tensors):
        index, gain = np.moveaxis(flat, p, 0), np.moveaxis(G, p, 0)
        for a in range(shape[p]):
            for b in range(shape[p]):
                if a != b:
                    take = _takeover(gain[b] - gain[a], alpha, population, epsilon)
                    chain[index[a].ravel(), index[b].ravel()] = eta * take.ravel()
    joint = stationary(chain).reshape(shape)
    axes = range(len(shape))
    return AlphaRank(joint, tuple(joint.sum(axis=tuple(q for q in axes if q != p)) for p in axes))


def stationary(rates: ArrayLike) -> Floats:
    """
    Return π with π R = 0 for transition rates, shape (n, n), diagonal ignored.

    Grassmann, Taksar and Heyman's elimination: no subtractions, so the result is accurate also for
    a nearly decomposable chain. Raises RankingError if the earlier states cannot be reached from
    some state.
    """
    R = np.array(rates, dtype=float)
    n = len(R)
    np.fill_diagonal(R, 0.)
    for k in range(n - 1, 0, -1):
        out = R[k, :k].sum()
        if out <= 0:
            raise RankingError('α-Rank: the Markov chain has several closed classes; lower '
            'alpha or use alpha=None')
        R[:k, k] /= out
        R[:k, :k] += np.outer(R[:k, k], R[k, :k])
    pi = np.zeros(n)
    pi[0] = 1.
    for k in range(1, n):
        pi[k] = pi[:k] @ R[:k, k]
    result: Floats = pi / pi.sum()
    return result


def _check(alpha: float | None, population: int, epsilon: float) -> None:
    if (alpha is not None and not 0 < alpha < np.inf) or population < 2 or not 0 < epsilon < .5:
        raise DataError(f'α-Rank needs alpha > 0, a population of 2 or more and epsilon in '
                        f'(0, ½); got {alpha}, {population}, {epsilon}')


def _takeover(gain: Floats, alpha: float | None, population: int, epsilon: float) -> Floats:
    if alpha is None:
        return np.where(np.abs(gain) <= EQUAL, .5, np.where(gain > 0, 1 - epsilon, epsilon))
    x = np.clip(alpha * gain, -700. / population, 700.)
    small = np.abs(x) < 1e-12
    with np.errstate(over='ignore'):
        return np.where(small, 1 / population,
                        np.expm1(-np.where(small, 1., x))
                        / np.expm1(-population * np.where(small, 1., x)))
