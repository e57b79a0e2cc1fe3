"""Where Davidson's likelihood has a finite maximum, against brute force on small tables."""

import itertools

import numpy as np
import pytest

from arena_robot.core.errors import RankingError
from arena_robot.ranking.counts import PairCounts
from arena_robot.ranking.pairwise.davidson import fit_counts, has_finite_maximum

STEPS = np.arange(-4, 5) / 2.0
PAIRS = {2: [(0, 1)], 3: [(0, 1), (0, 2), (1, 2)]}


def table(n, cells):
    """Counts of n policies from (wins, ties, losses) per pair; pairs without verdicts left out."""
    kept = [(pair, cell) for pair, cell in zip(PAIRS[n], cells, strict=True) if any(cell)]
    low, high = (np.array([pair[k] for pair, _ in kept]) for k in (0, 1))
    wins, ties, losses = np.array([cell for _, cell in kept], float).T
    return PairCounts(tuple('abc'[:n]), low, high, wins, losses, ties)


def grows(counts):
    """
    Tell whether some direction never loses and somewhere gains, by trying many directions.

    For up to three policies the extreme directions have D and k among a few small ratios: those
    of the lines where two predictors of some pair change equally.
    """
    axes = [np.zeros(1), *[STEPS] * counts.n]
    *delta, k = (axis.ravel() for axis in np.meshgrid(*axes, indexing='ij'))
    d = np.array(delta)[counts.low] - np.array(delta)[counts.high]
    change = np.stack([d / 2, np.broadcast_to(k, d.shape), -d / 2])
    seen = np.stack([counts.wins, counts.ties, counts.losses]) > 0
    behind = change < change.max(axis=0)
    never_loses = ~np.any(behind & seen[:, :, None], axis=(0, 1))
    return bool(np.any(never_loses & np.any(behind, axis=(0, 1))))


def connected(counts):
    return len({*counts.low.tolist(), *counts.high.tolist()}) == counts.n and (
        counts.n == 2 or len(counts.low) >= 2)


@pytest.mark.parametrize('n', [2, 3])
def test_existence_is_what_brute_force_finds_on_every_small_table(n):
    shapes = list(itertools.product((0, 1), repeat=3))
    tried = 0
    for cells in itertools.product(shapes, repeat=len(PAIRS[n])):
        if not any(cell[1] for cell in cells):
            continue
        counts = table(n, cells)
        if not connected(counts):
            continue
        tried += 1
        assert has_finite_maximum(counts) is not grows(counts), cells
    assert tried == {2: 4, 3: 436}[n]


@pytest.mark.parametrize('cells', [
    [(5, 3, 0)],                           # wins and ties of one pair: d/2 = log kappa, both grow
    [(0, 3, 5)],
    [(0, 4, 0)],                           # nothing but ties
])
def test_a_pair_without_a_finite_maximum_is_refused(cells):
    with pytest.raises(RankingError, match=r'no finite maximum|are ties'):
        fit_counts(table(2, cells))


def test_every_small_table_is_fitted_or_refused_in_words():
    fitted = refused = 0
    for cells in itertools.product(itertools.product((0, 1), repeat=3), repeat=3):
        if not any(map(any, cells)):
            continue
        counts = table(3, cells)
        try:
            fit = fit_counts(counts)
        except RankingError:
            refused += 1
            continue
        fitted += 1
        assert np.ptp(fit.scores) < 20.0
    assert fitted > 100
    assert refused > 100


def test_a_ridge_fits_what_has_no_maximum():
    fit = fit_counts(table(2, [(5, 3, 0)]), l2=0.1)
    assert 0 < np.ptp(fit.scores) < 20.0
