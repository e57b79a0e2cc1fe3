"""Maximal lotteries and iterative maximal lotteries of antisymmetric margins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.ranking.games.zero_sum import Strategies, antisymmetric, solve_antisymmetric
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.scoring import VoteResult, majority_blocks, tiers_of

SAME = 1e-9


@dataclass(frozen=True)
class LotteryRound:
    """One round of iterative maximal lotteries: the removed set and its lottery."""

    members: tuple[int, ...]
    probabilities: tuple[float, ...]
    unique: bool


def maximal_lottery(margins: ArrayLike) -> Strategies:
    """
    Return the maximal lotteries p: pᵀ M q ≥ 0 for every lottery q.

    margins: shape (m, m), antisymmetric. They are the optimal strategies of the symmetric
    zero-sum game M; unique if all margins off the diagonal are odd. Where they are not unique,
    ``mixed`` is the one of largest entropy and ``essential`` is the union of the supports. Only
    the first majority block can be played, so only that is solved.
    """
    M = antisymmetric(margins)
    block = majority_blocks(M)[0]
    lottery = _solved(M, block)
    mixed = np.zeros(len(M))
    mixed[block] = lottery.mixed
    return Strategies(mixed, tuple(block[list(lottery.essential)].tolist()), lottery.unique)


def iterative_levels(margins: ArrayLike) -> tuple[LotteryRound, ...]:
    """
    Solve, remove the essential set, and repeat until no alternative is left.

    Members of a level are sorted by falling probability (by index where that is equal or the
    lottery is not unique). Removing an alternative changes only its own block.
    """
    M = antisymmetric(margins)
    blocks, levels = majority_blocks(M)[::-1], []
    while blocks:
        block = blocks.pop()
        lottery = _solved(M, block)
        inside = list(lottery.essential)
        chance = lottery.mixed[inside]
        order = np.argsort(-np.round(chance, 12), kind='stable') if lottery.unique \
            else np.arange(len(inside))
        levels.append(LotteryRound(tuple(block[inside][order].tolist()),
                                   tuple(chance[order].tolist()), lottery.unique))
        rest = np.delete(block, inside)
        if len(rest):
            blocks += [rest[b] for b in majority_blocks(M[np.ix_(rest, rest)])[::-1]]
    return tuple(levels)


def _solved(M: NDArray[np.float64], block: NDArray[np.int64]) -> Strategies:
    if len(block) == 1:
        return Strategies(np.ones(1), (0,), unique=True)
    return solve_antisymmetric(M[np.ix_(block, block)])


def maximal_lottery_vote(profile: Profile) -> VoteResult:
    """
    Return the maximal lottery over the alternatives; winners are the essential set.

    The scores are the probabilities, given only where the lottery is unique.
    """
    lottery = maximal_lottery(profile.margins)
    notes = () if lottery.unique else (
        'several maximal lotteries; the one of largest entropy is shown', )
    return VoteResult('maximal_lottery', lottery.mixed if lottery.unique else None,
                      lottery.essential, None, lottery.unique, lottery=lottery.mixed,
                      warnings=notes)


def iterative_maximal_lotteries(profile: Profile) -> VoteResult:
    """
    Rank by level, then by probability within the level.

    Score, after the paper: (levels − 1 − index of the level) + probability, so three levels of
    one score 3, 2 and 1; NaN within a level whose lottery is not unique, which stays one tier.
    Winners are the first level.
    """
    levels = iterative_levels(profile.margins)
    scores: NDArray[np.float64] = np.full(len(profile.names), np.nan)
    tiers: list[tuple[int, ...]] = []
    for index, level in enumerate(levels):
        if level.unique:
            chance = np.array(level.probabilities)
            scores[list(level.members)] = len(levels) - 1 - index + chance
            tiers += [tuple(sorted(level.members[k] for k in tier))
                      for tier in tiers_of(chance, SAME)]
        else:
            tiers.append(tuple(sorted(level.members)))
    open_levels = [str(k) for k, level in enumerate(levels) if not level.unique]
    notes = (f'the lottery is not unique at level {", ".join(open_levels)} (from 0)',) \
        if open_levels else ()
    return VoteResult('iterative_maximal_lotteries', scores, levels[0].members, tuple(tiers),
                      not open_levels, levels=tuple(level.members for level in levels),
                      warnings=notes)
