"""Nash averaging (Balduzzi et al. 2018): payoff against the equilibrium of largest entropy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import DataError
from arena_robot.ranking.deviation.ratings import checked_payoffs, checked_scores
from arena_robot.ranking.zero_sum import Strategies, solve

CONSTANT = 1e-9
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NashAverage:
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
    found = solve(P)
    return NashAverage((P @ found.column.mixed, Q.T @ found.row.mixed), found.value,
                       found.row, found.column)


def nash_average_table(scores: ArrayLike) -> NashAverage:
    """
    Rate models against tasks, shape (models, tasks): the task player is paid for low scores.

    Scores are used without scaling; tasks with larger scales would get all the weight, so scale
    them first.
    """
    table = checked_scores(scores)
    return nash_average((table, -table))
