"""
How many comparisons a way of choosing pairs needs, on pools whose truth is known.

A pool is a table of verdict probabilities per ordered pair: from abilities drawn at random, or
from real verdicts, which are then resampled pair by pair. Both ways of choosing play on the same
pools; what is reported is the rank correlation with the truth after every so many comparisons.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import DataError, RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.quality import spearman
from arena_robot.server.config import Weights
from arena_robot.server.sessions.assignment import Aim, posterior_of, weight_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WAYS = ('uniform', 'informative')
EVERY = 10    # comparisons between two points of a curve
# Comparisons between two looks at the posterior, and pools that are played together.
LOOK = 2
TOGETHER = 50


@dataclass(frozen=True)
class PoolTruth:
    """``abilities`` (n,), higher is better; ``verdicts`` (n, n, 3) P(first wins, tie, loses)."""

    abilities: Floats
    verdicts: Floats


@dataclass(frozen=True)
class Curve:
    """
    What is known after ``comparisons`` (k,).

    ``correlation`` (k,) is the mean rank correlation with the truth, ``error`` its standard error;
    ``first``, ``top`` and ``placed`` (k,) are the shares of pools whose first is right, whose
    first ``top_k`` are right, and whose policy 0 is placed within one rank.
    """

    comparisons: NDArray[np.int64]
    correlation: Floats
    error: Floats
    first: Floats
    top: Floats
    placed: Floats

    def needed(self, level: float, what: str = 'correlation') -> int | None:
        """
        Return after how many comparisons ``what`` reaches ``level``; None when never.

        Shares are averaged over five neighbours first, so that chance does not decide.
        """
        line = getattr(self, what)
        if what != 'correlation':
            padded = np.pad(line, 2, mode='edge')
            line = np.convolve(padded, np.full(5, 0.2), 'valid')
        reached = np.flatnonzero(line >= level)
        return int(self.comparisons[reached[0]]) if len(reached) else None


def synthetic(policies: int, rng: np.random.Generator, spread: float = 1.0,
              ties: float = 0.16) -> PoolTruth:
    """Return a pool of normal abilities with ``spread`` in log odds and a share of ties."""
    abilities = rng.normal(0.0, spread, policies)
    win = expit(abilities[:, None] - abilities[None, :]) * (1.0 - ties)
    return PoolTruth(abilities, np.stack([win, np.full_like(win, ties), win.T], axis=-1))


def resampled(rows: Sequence[Comparison]) -> PoolTruth:
    """
    Return the pool that real verdicts describe; pairs that never met follow the fit.

    Raises DataError when there are too few verdicts to know the order.
    """
    comparisons = Comparisons.from_words(rows)
    try:
        fit = BradleyTerry().fit_counts(count_pairs(comparisons))
    except RankingError as error:
        raise DataError(f'these verdicts give no order to resample: {error}') from error
    table = np.zeros((comparisons.n, comparisons.n, 3))
    # Column 0 is a win of the first, 1 a tie, 2 a loss.
    column = np.rint(2.0 - 2.0 * comparisons.outcome).astype(int)
    np.add.at(table, (comparisons.first, comparisons.second, column), comparisons.weight)
    np.add.at(table, (comparisons.second, comparisons.first, 2 - column), comparisons.weight)
    win = expit(fit.scores[:, None] - fit.scores[None, :])
    table += 1e-9 * np.stack([win, np.zeros_like(win), win.T], axis=-1)
    return PoolTruth(fit.scores, table / table.sum(axis=-1, keepdims=True))


def play(truths: Sequence[PoolTruth], way: str, comparisons: int, seed: int,
         weights: Weights | None = None, workers: Workers = HERE, aim: Aim | None = None,
         before: int = 0) -> Curve:
    """
    Play every pool once with one way of choosing and return the mean curve.

    ``informative`` is the server's choice, with its ``weights`` and its ``aim``; ``uniform`` draws
    every pair equally often. Policy 0 enters after ``before`` uniform comparisons of the others.
    Pools are of one size.
    """
    chosen = Weights(evenness=0.0) if way == 'uniform' else weights or Weights()
    parts = [(k, truths[k:k + TOGETHER]) for k in range(0, len(truths), TOGETHER)]
    game = _Game(way == 'informative', comparisons, seed, chosen, aim or Aim(), before)
    runs = np.concatenate(workers.map(game.run, parts))  # (pools, steps, 4)
    mean = runs.mean(axis=0)
    error = runs[:, :, 0].std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else (
        0.0 * mean[:, 0])
    steps = np.arange(EVERY, comparisons + 1, EVERY)
    return Curve(steps, mean[:, 0], error, mean[:, 1], mean[:, 2], mean[:, 3])


@dataclass(frozen=True)
class _Game:
    """One way of choosing pairs, played on many pools at once."""

    informative: bool
    comparisons: int
    seed: int
    weights: Weights
    aim: Aim
    before: int

    def run(self, part: tuple[int, Sequence[PoolTruth]]) -> Floats:
        """Return (pools, steps, 4) what is known after every 10 comparisons."""
        number, truths = part
        rng = np.random.default_rng([self.seed, number])
        abilities = np.stack([t.abilities for t in truths])
        verdicts = np.stack([t.verdicts for t in truths])
        wins = self._played_before(verdicts, rng)
        requested = wins.sum(axis=-1) + wins.sum(axis=-2)
        permitted = np.broadcast_to(1.0 - np.eye(wins.shape[-1]), wins.shape)
        known, looks, table = None, [], None
        for step in range(1, self.comparisons + 1):
            if table is None or (self.informative and step % LOOK == 1):
                known = posterior_of(wins, known.mean if known else None)
                table = weight_table(requested, permitted, self.weights,
                                     known if self.informative and wins.any() else None,
                                     self.aim)
            _add_verdicts(wins, requested, _drawn_pairs(table, rng), verdicts, rng)
            if step % EVERY == 0:
                known = posterior_of(wins, known.mean if known else None)
                looks.append(_known(known.mean, abilities, self.aim.top_k))
        return np.stack(looks, axis=1)

    def _played_before(self, verdicts: Floats, rng: np.random.Generator) -> Floats:
        wins = np.zeros_like(verdicts[..., 0])
        others = 1.0 - np.eye(wins.shape[-1])
        others[0] = others[:, 0] = 0.0
        requested = wins.sum(axis=-1)
        for _ in range(self.before):
            _add_verdicts(wins, requested,
                          _drawn_pairs(np.broadcast_to(others, wins.shape), rng), verdicts, rng)
        return wins


def _drawn_pairs(table: Floats, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return one pair of each pool (R,), in random order, by the weights (R, n, n)."""
    rows, columns = np.triu_indices(table.shape[-1], 1)
    upto = np.cumsum(table[:, rows, columns], axis=1)
    at = (upto <= rng.random((len(table), 1)) * upto[:, -1:]).sum(axis=1)
    at = np.minimum(at, len(rows) - 1)
    turned = rng.random(len(table)) < 0.5
    return np.where(turned, columns[at], rows[at]), np.where(turned, rows[at], columns[at])


def _add_verdicts(wins: Floats, requested: Floats, pair: tuple[Ints, Ints], verdicts: Floats,
                  rng: np.random.Generator) -> None:
    pool, (a, b) = np.arange(len(wins)), pair
    chances = np.cumsum(verdicts[pool, a, b], axis=1)
    share = 1.0 - np.minimum((chances <= rng.random((len(wins), 1))).sum(axis=1), 2) / 2.0
    wins[pool, a, b] += share
    wins[pool, b, a] += 1.0 - share
    requested[pool, a] += 1.0
    requested[pool, b] += 1.0


def _known(mean: Floats, abilities: Floats, top_k: int) -> Floats:
    """Return (R, 4) the rank correlation, and whether first, first k and policy 0 are right."""
    correlation = np.array([spearman(x, y) for x, y in zip(mean, abilities, strict=True)])
    place, truth = (np.argsort(np.argsort(-x, axis=1), axis=1) for x in (mean, abilities))
    return np.stack([
        np.nan_to_num(correlation), ((place == 0) & (truth == 0)).any(axis=1),
        ((place < top_k) == (truth < top_k)).all(axis=1),
        np.abs(place[:, 0] - truth[:, 0]) <= 1], axis=1)
