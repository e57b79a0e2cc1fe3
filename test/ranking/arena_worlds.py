"""Simulated arenas: pairs that a server chose, few evaluators, labs with tastes, odd verdicts."""

from dataclasses import dataclass

import numpy as np
from ranking_worlds import NODE_WEIGHTS, NODES
from scipy.special import expit

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import PairCounts, count_pairs
from arena_robot.ranking.intervals.shrunk import ShrunkBradleyTerry
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.pairwise.prior import established
from arena_robot.server.config import AssignmentGoal, Weights
from arena_robot.server.sessions.assignment import Aim, posterior_of, weight_table

LOOK, HALF_TIE = 5, 0.5


@dataclass(frozen=True)
class ArenaWorld:
    """
    Policies, sessions, and what is odd; ``goal`` is the server's, '' for uniformly drawn pairs.

    ``spread``, ``by_evaluator``, ``by_lab`` and ``cycles`` are deviations in log-odds.
    """

    policies: int = 7
    sessions: int = 300
    goal: str = ''
    evaluators: int = 1
    labs: int = 0
    by_evaluator: float = 0.0
    by_lab: float = 0.0
    spread: float = 1.0
    heavy: bool = False
    cycles: float = 0.0
    verdicts: str = 'davidson'
    interleaved: bool = False

    def chances(self, d):
        """Return the chances of a win and of a tie for differences ``d``."""
        if self.verdicts == 'rao-kupper':
            win = expit(d - HALF_TIE)
            return win, 1 - win - expit(-d - HALF_TIE)
        win, tie, _ = outcome_probabilities(np.asarray(d, float),
                                            0.6 if self.verdicts == 'davidson' else 0.0)
        return win, tie

    def draw(self, rng):
        """Return comparisons and (n,) what Bradley–Terry finds of endless uniform ones."""
        n, people = self.policies, self.evaluators
        theta = self.spread * (rng.standard_t(3, n) / np.sqrt(3) if self.heavy else
                               rng.normal(0, 1, n))
        odd = np.triu(rng.normal(0, self.cycles, (n, n)), 1)
        gap = theta[:, None] - theta + odd - odd.T
        who = rng.integers(0, people, self.sessions)
        who = who if self.interleaved else np.sort(who)
        lab = np.arange(people) % max(self.labs, 1)
        own = rng.normal(0, self.by_evaluator, (people, n)) + rng.normal(
            0, self.by_lab, (max(self.labs, 1), n))[lab]
        votes = self._played(rng, gap, own[who])
        return Comparisons.build(
            *votes, items=[f'p{k:02}' for k in range(n)],
            evaluator=[f'e{k}' for k in who] if people > 1 else None,
            institution=[f'h{lab[k]}' for k in who] if self.labs else None), self._truth(gap)

    def _played(self, rng, gap, own):
        n, pairs = self.policies, np.triu_indices(self.policies, 1)
        wins, met, known = np.zeros((n, n)), np.zeros(n), None
        even = np.full(len(pairs[0]), 1 / len(pairs[0]))
        aim = Aim(AssignmentGoal(self.goal)) if self.goal else None
        rows = []
        for k in range(self.sessions):
            if aim and k % LOOK == 0 and wins.any():
                known = posterior_of(wins, known.mean if known else None)
                even = weight_table(met, 1 - np.eye(n), Weights(), known, aim)[pairs]
            at = rng.choice(len(even), p=even / even.sum())
            a, b = pairs[0][at], pairs[1][at]
            win, tie = self.chances(gap[a, b] + own[k, a] - own[k, b])
            u = rng.random()
            y = 1.0 if u < win else 0.5 if u < win + tie else 0.0
            rows.append((a, b, y))
            wins[a, b], wins[b, a] = wins[a, b] + y, wins[b, a] + 1 - y
            met[[a, b]] += 1
        a, b, y = zip(*rows, strict=True)
        return np.array(a), np.array(b), np.array(y)

    def _truth(self, gap):
        low, high = np.triu_indices(self.policies, 1)
        spread = np.sqrt(2 * (self.by_evaluator ** 2 + self.by_lab ** 2))
        win, tie = self.chances(gap[low, high][:, None] + spread * NODES)
        mean = (win + tie / 2) @ NODE_WEIGHTS / NODE_WEIGHTS.sum()
        return BradleyTerry().fit_counts(PairCounts(
            tuple(map(str, range(self.policies))), low, high, mean, 1 - mean, 0 * mean)).scores


def trial(world, method, oracle, seed):
    """
    Return what ``method`` says of one data set and how the oracle's width compares.

    Held, stated and all scores; whether the best is excluded; the widths of the intervals and of
    those of an oracle, who knows all deviations.
    """
    votes, truth = world.draw(np.random.default_rng(seed))
    standings, _ = rank_comparable(votes, method, intervals=100)
    truth = truth - truth[established(count_pairs(votes))].mean()
    inside = (standings.low <= truth) & (truth <= standings.high)
    stated = np.isfinite(standings.low) & np.isfinite(standings.high)
    width = (standings.high - standings.low)[stated].sum()
    known = 0.0
    if oracle:
        share = truth.std() / max(_spread_of(world, seed), 1e-9)
        known = 2 * 1.96 * np.sqrt(ShrunkBradleyTerry(spreads=(
            world.spread * share, world.by_evaluator * share, world.by_lab * share))(
                votes).variances.variance)[stated].sum()
    return (inside[stated].sum(), stated.sum(), len(stated),
            standings.rank_low[int(truth.argmax())] > 1, width, known)


def _spread_of(world, seed):
    rng = np.random.default_rng(seed)
    n = world.policies
    return (world.spread * (rng.standard_t(3, n) / np.sqrt(3) if world.heavy else
                            rng.normal(0, 1, n))).std()
