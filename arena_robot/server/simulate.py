"""
How many comparisons a way of choosing pairs needs, on pools whose truth is known.

A pool is a table of verdict probabilities per ordered pair: from abilities drawn at random, or
from real verdicts, which are then resampled pair by pair. Both ways of choosing play on the same
pools; what is reported is the rank correlation with the truth after every so many comparisons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import DataError, RankingError
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.bradley_terry import fit_counts
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.quality import spearman
from arena_robot.server.assignment import Candidate, Posterior, Weights, choose
from arena_robot.server.results import PRIOR_L2

Floats = NDArray[np.float64]
WAYS = ('uniform', 'informative')
EVERY = 10


@dataclass(frozen=True)
class PoolTruth:
    """``abilities`` (n,), higher is better; ``verdicts`` (n, n, 3) P(first wins, tie, loses)."""

    abilities: Floats
    verdicts: Floats


@dataclass(frozen=True)
class Curve:
    """Mean rank correlation (k,) and its standard error after ``comparisons`` (k,)."""

    comparisons: NDArray[np.int64]
    correlation: Floats
    error: Floats

    def needed(self, level: float) -> int | None:
        """Return after how many comparisons the mean reaches ``level``; None when never."""
        reached = np.flatnonzero(self.correlation >= level)
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
        fit = fit_counts(count_pairs(comparisons))
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
         weights: Weights | None = None, workers: Workers = HERE) -> Curve:
    """
    Play every pool once with one way of choosing and return the mean curve.

    ``informative`` is the server's choice, with its ``weights``; ``uniform`` draws every pair
    equally often.
    """
    chosen = Weights(evenness=0.0) if way == 'uniform' else weights or Weights()
    work = partial(_run, way, comparisons, seed, chosen)
    runs = np.array(workers.map(work, list(enumerate(truths))))
    steps = np.arange(EVERY, comparisons + 1, EVERY)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0.0 * runs[0]
    return Curve(steps, runs.mean(axis=0), error)


def _run(way: str, comparisons: int, seed: int, weights: Weights,
         numbered: tuple[int, PoolTruth]) -> list[float]:
    k, truth = numbered
    rng = np.random.default_rng([seed, k])
    n = len(truth.abilities)
    counts = np.zeros((n, n, 3))
    requested = np.zeros(n, dtype=int)
    posterior: Posterior | None = None
    curve = []
    for step in range(1, comparisons + 1):
        known = posterior if way == 'informative' else None
        candidates = [Candidate(k, k, int(requested[k])) for k in range(n)]
        a, b = choose(candidates, rng, weights, known)
        requested[[a.id, b.id]] += 1
        outcome = rng.choice(3, p=truth.verdicts[a.id, b.id])
        counts[a.id, b.id, outcome] += 1
        if step % EVERY == 0:
            posterior = posterior_of(counts)
            score = 0.0 if posterior is None else spearman(posterior.mean, truth.abilities)
            curve.append(0.0 if np.isnan(score) else float(score))
    return curve


def posterior_of(counts: Floats) -> Posterior | None:
    """Return the posterior of a table (n, n, 3) of verdicts; None while groups never met."""
    first, second, column = np.nonzero(counts)
    comparisons = Comparisons.build(
        first, second, 1.0 - column / 2.0, items=[str(k) for k in range(len(counts))],
        weight=counts[first, second, column])
    try:
        fit = fit_counts(count_pairs(comparisons), PRIOR_L2)
    except RankingError:
        return None
    if fit.covariance is None:
        return None
    return Posterior(fit.scores, fit.covariance)
