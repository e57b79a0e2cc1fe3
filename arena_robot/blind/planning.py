"""
How many blocks a study needs, and how long a sequential one takes.

The fixed number is exact, from the chance that a block is won or lost. A sequential study is
played many times with a seed. For success the two policies are taken as independent within a
block; where hard start conditions are hard for both, fewer blocks tell them apart and more are
needed for the same rates.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_robot.blind.shares import Floats, blocks_needed, blocks_power
from arena_robot.blind.study import DecisionRule, Measure, Study
from arena_robot.ranking.intervals.needed import log_capital

PLAYS, MOST_CELLS = 4000, 4_000_000    # a share of 80 % has a standard error of 0.6 %
LONGEST = 2000    # blocks of a played study; more than anybody runs
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StudyPlan:
    """
    What a study may expect, for every two arms that are compared.

    ``planned`` blocks are in the schedule, ``needed`` by a fixed test for the power that is
    asked for (infinite above 5000), which has ``power`` at what is planned. The sequential test
    finds the better policy within the planned blocks with ``found``; it then ends after ``mean``
    and ``median`` blocks, counting studies that end without a decision. ``level`` is the share of
    the study's level that one comparison of several has.
    """

    level: float
    planned: int
    needed: float
    power: float
    found: float
    mean: float
    median: float


def block_chances(rule: DecisionRule) -> tuple[float, float]:
    """Return the assumed chances that the better policy wins a block, and that it loses it."""
    low, high = rule.assumed
    if rule.measure is Measure.SUCCESS:
        return high * (1 - low), low * (1 - high)
    return high, low


def plan(study: Study, seed: int = 0) -> StudyPlan:
    """Return what a study may expect where its assumption holds."""
    rule, planned = study.decision, study.blocks_per_contrast()
    return plan_of(rule, planned, len(study.contrasts()), seed)


def plan_of(rule: DecisionRule, planned: int = 0, contrasts: int = 1, seed: int = 0) -> StudyPlan:
    """Return what ``planned`` blocks may expect; those that a fixed test needs for 0."""
    level, (win, loss) = rule.level / contrasts, block_chances(rule)
    needed = blocks_needed(win, loss, level, rule.power)
    blocks = planned or int(min(needed, LONGEST))
    used, who = play(win, loss, blocks, level, np.random.default_rng(seed),
                     min(PLAYS, MOST_CELLS // blocks))
    return StudyPlan(level, blocks, needed, blocks_power(blocks, win, loss, level),
                     float((who > 0).mean()), float(used.mean()), float(np.median(used)))


def play(win: float, loss: float, blocks: int, level: float, rng: np.random.Generator,
         plays: int, before: tuple[int, int] = (0, 0)) -> tuple[Ints, Ints]:
    """
    Play sequential studies; return (plays,) the blocks used and who was found: 1, -1 or 0.

    A block is won or lost with these chances; ``before`` are wins and losses before the first of
    up to ``blocks``.
    """
    drawn = rng.random((plays, blocks))
    return decided((drawn < win).astype(int) - (drawn >= 1 - loss), level, before)


def decided(outcome: Ints, level: float, before: tuple[int, int] = (0, 0)) -> tuple[Ints, Ints]:
    """Return (plays,) the blocks until the sequential test decides, and for whom; 0 for nobody."""
    wins = before[0] + np.cumsum(outcome > 0, axis=1)
    losses = before[1] + np.cumsum(outcome < 0, axis=1)
    reached = _capital(wins, losses) >= -math.log(level)
    at = np.where(reached.any(axis=1), np.argmax(reached, axis=1), outcome.shape[1] - 1)
    rows = np.arange(len(outcome))
    lead = np.sign(wins[rows, at] - losses[rows, at])
    return at + 1, np.where(reached[rows, at], lead, 0)


def _capital(wins: Ints, losses: Ints) -> Floats:
    """Return log E of counts of any shape; each is computed once where there are many alike."""
    most = int(max(wins.max(), losses.max())) + 1
    if most ** 2 > wins.size:
        return log_capital(wins, losses)
    return log_capital(*np.indices((most, most)))[wins, losses]


def more_blocks(wins: int, losses: int, blocks: int, level: float, power: float,
                sequential: bool, seed: int = 0) -> float:
    """
    Return how many blocks would tell two policies apart if they go on as observed.

    A sequential study is continued, a fixed one made anew. Infinite where more than 5000 would
    be needed, or where both won as often. A win and a loss are added to what was observed, so
    that a few blocks promise nothing certain.
    """
    win, loss = ((max(wins, losses) + 1) / (blocks + 3), (min(wins, losses) + 1) / (blocks + 3))
    if wins == losses:
        return math.inf
    if not sequential:
        return blocks_needed(win, loss, level, power)
    used, who = play(win, loss, LONGEST, level, np.random.default_rng(seed), 400,
                     (max(wins, losses), min(wins, losses)))
    return float(np.quantile(np.where(who > 0, used, math.inf), power, method='higher'))
