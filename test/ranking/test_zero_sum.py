"""Equilibria of matrix games: values, essential sets, uniqueness, largest entropy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from arena_robot.core.errors import DataError
from arena_robot.ranking.games.zero_sum import solve, solve_symmetric

RPS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def test_rock_paper_scissors():
    for found in (solve_symmetric(RPS), solve(RPS).row, solve(RPS).column):
        np.testing.assert_allclose(found.mixed, [1 / 3] * 3, atol=1e-12)
        assert found.unique
        assert found.essential == (0, 1, 2)


def test_matching_pennies_with_an_offset_has_that_value():
    found = solve(np.array([[1., -1.], [-1., 1.]]) + 5)
    assert found.value == pytest.approx(5)
    np.testing.assert_allclose(found.row.mixed, [.5, .5])


def test_nothing_at_stake_is_played_uniformly():
    found = solve(np.full((3, 4), 2.))
    assert found.value == 2
    np.testing.assert_allclose(found.row.mixed, [1 / 3] * 3)
    np.testing.assert_allclose(found.column.mixed, [1 / 4] * 4)
    assert not found.row.unique
    np.testing.assert_allclose(solve_symmetric(np.zeros((2, 2))).mixed, [.5, .5])


def test_clones_share_what_the_original_had():
    cloned = RPS[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    found = solve_symmetric(cloned)
    assert not found.unique
    np.testing.assert_allclose(found.mixed, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-9)


@pytest.mark.parametrize('seed', range(12))
def test_the_mixture_is_optimal_and_of_largest_entropy(seed):
    rng = np.random.default_rng(seed)
    P = rng.integers(-1, 2, (4, 3 + seed % 3)).astype(float)
    found = solve(P)
    x, y = found.row.mixed, found.column.mixed
    assert (x @ P).min() == pytest.approx(found.value, abs=1e-8)
    assert (P @ y).max() == pytest.approx(found.value, abs=1e-8)
    best = minimize(
        lambda p: float((p * np.log(np.maximum(p, 1e-300))).sum()), x, method='SLSQP',
        bounds=[(0, 1)] * 4, options={'ftol': 1e-14, 'maxiter': 500},
        constraints=[{'type': 'eq', 'fun': lambda p: p.sum() - 1},
                     {'type': 'ineq', 'fun': lambda p: p @ P - found.value}])
    entropy = -(x[x > 0] * np.log(x[x > 0])).sum()
    assert entropy >= -best.fun - 1e-6


def test_an_entropy_that_is_largest_where_a_free_constraint_is_just_met():
    M = np.array([[0, 1, 0, -1, -1, 0, 1], [-1, 0, 0, -1, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0],
                  [1, 1, -1, 0, 1, 1, 0], [1, -1, 0, -1, 0, -1, 0], [0, 0, 0, -1, 1, 0, 0],
                  [-1, -1, 0, 0, 0, 0, 0]])
    for found in (solve_symmetric(M), solve(M).row):
        assert found.essential == (0, 2, 5)
        np.testing.assert_allclose(found.mixed, [.25, 0, .5, 0, 0, .25, 0], atol=1e-7)


@pytest.mark.parametrize('seed', range(150))
def test_the_symmetric_way_and_the_general_one_agree(seed):
    rng = np.random.default_rng(seed)
    size, most = 2 + seed % 7, 1 + seed % 3
    M = np.triu(rng.integers(-most, most + 1, (size, size)), 1)
    own, general = solve_symmetric(M - M.T), solve(M - M.T).row
    assert (own.essential, own.unique) == (general.essential, general.unique)
    np.testing.assert_allclose(own.mixed, general.mixed, atol=1e-6)


@pytest.mark.parametrize('seed', range(10))
def test_the_essential_set_is_every_strategy_that_some_optimum_plays(seed):
    from scipy.optimize import linprog
    rng = np.random.default_rng(seed)
    M = np.triu(rng.integers(-1, 2, (5, 5)), 1).astype(float)
    M -= M.T
    found = solve_symmetric(M)
    for i in range(5):
        most = linprog(-np.eye(5)[i], A_ub=-M.T, b_ub=np.zeros(5), A_eq=np.ones((1, 5)),
                       b_eq=[1], method='highs-ds')
        assert (-most.fun > 1e-7) == (i in found.essential)


@pytest.mark.parametrize(('matrix', 'said'), [
    ([[0, np.nan], [0, 0]], r'payoff at \[0, 1\] is nan'), ([], 'non-empty matrix')])
def test_bad_matrices_are_refused(matrix, said):
    with pytest.raises(DataError, match=said):
        solve(matrix)
    with pytest.raises(DataError, match=said):
        solve_symmetric(matrix)


def test_a_symmetric_game_must_be_antisymmetric():
    with pytest.raises(DataError, match='antisymmetric'):
        solve_symmetric([[0, 1], [1, 0]])
