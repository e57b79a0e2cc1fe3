"""Nash averaging and α-Rank: definitions, known games, refusals."""

import numpy as np
import pytest

from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.games.nash_alpha import (
    alpha_rank,
    alpha_rank_symmetric,
    nash_average,
    nash_average_table,
    stationary,
)

COPIES = np.ix_([0, 0, 1, 2], [0, 1, 1, 1, 2])


def test_copies_change_no_average_where_the_equilibrium_is_unique():
    scores = np.array([[1., 0., .6], [0., 1., .6], [.3, .3, .3]])
    before, after = nash_average_table(scores), nash_average_table(scores[COPIES])
    assert before.first.unique
    assert before.second.unique
    np.testing.assert_allclose(after.ratings[0], before.ratings[0][[0, 0, 1, 2]], atol=1e-8)
    np.testing.assert_allclose(after.ratings[1], before.ratings[1][[0, 1, 1, 1, 2]], atol=1e-8)


def test_copies_can_shift_the_equilibrium_of_largest_entropy_where_it_is_not():
    scores = np.array([[1., 0., .4], [0., 1., .4], [.3, .3, .3]])
    before, after = nash_average_table(scores), nash_average_table(scores[COPIES])
    assert not before.first.unique
    assert abs(after.ratings[1][0] - before.ratings[1][0]) > .05


def test_agents_in_a_support_tie_at_the_value():
    found = nash_average_table(np.random.default_rng(0).random((6, 9)))
    np.testing.assert_allclose(found.ratings[0][list(found.first.essential)], found.value,
                               atol=1e-8)
    assert found.ratings[0].max() == pytest.approx(found.value, abs=1e-8)


def test_one_task_on_a_larger_scale_takes_all_the_weight():
    scores = np.array([[1., 0., -5000.], [0., 1., -6000.]])
    np.testing.assert_allclose(nash_average_table(scores).second.mixed, [0, 0, 1], atol=1e-9)


def test_a_constant_sum_is_as_good_as_zero():
    P = np.array([[1., 0.], [0., 1.]])
    np.testing.assert_allclose(nash_average([P, 1 - P]).ratings[1], [.5, .5])


@pytest.mark.parametrize(('game', 'said'), [
    ([np.eye(2), np.eye(2)], 'sum to 0 … 2'),
    ([np.zeros((2, 2, 2))] * 3, 'this game has 3')])
def test_nash_averaging_refuses_other_games(game, said):
    with pytest.raises(DataError, match=said):
        nash_average(game)


def test_a_cycle_is_shared_equally_and_a_dominant_strategy_takes_most():
    rps = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)
    np.testing.assert_allclose(alpha_rank_symmetric(rps), [1 / 3] * 3)
    np.testing.assert_allclose(alpha_rank([rps, -rps]).joint, np.full((3, 3), 1 / 9))
    better = np.array([[0, 1, 1], [-1, 0, 0], [-1, 0, 0]], float)
    assert alpha_rank_symmetric(better)[0] > .95
    assert alpha_rank_symmetric(better, alpha=20.)[0] > 1 - 1e-8


@pytest.mark.parametrize('alpha', [None, .1, 2.])
def test_the_distribution_is_stationary_by_the_definition(alpha):
    rng = np.random.default_rng(0)
    game, m = [rng.normal(size=(2, 3)), rng.normal(size=(2, 3))], 10
    chain = np.zeros((6, 6))
    for i, j in np.ndindex(2, 3):
        for p, there in [(0, (k, j)) for k in range(2) if k != i] + [
                (1, (i, k)) for k in range(3) if k != j]:
            gain = game[p][there] - game[p][i, j]
            rho = (.99 if gain > 0 else .01) if alpha is None else \
                (1 - np.exp(-alpha * gain)) / (1 - np.exp(-alpha * m * gain))
            chain[3 * i + j, 3 * there[0] + there[1]] = rho / 3
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    found = alpha_rank(game, alpha=alpha, population=m)
    np.testing.assert_allclose(found.joint.ravel() @ chain, found.joint.ravel(), atol=1e-14)
    np.testing.assert_allclose(found.ratings[0], found.joint.sum(axis=1))


def test_strong_selection_keeps_its_digits():
    tiny = stationary([[0, 1e-200, 0], [1., 0, 1e-200], [0, 1., 0]])
    np.testing.assert_allclose(tiny, [1, 1e-200, 0], rtol=1e-12)
    assert np.isfinite(alpha_rank_symmetric([[0, 9.], [-9., 0]], alpha=100.)).all()
    even = alpha_rank_symmetric(np.zeros((3, 3)), alpha=1.)
    np.testing.assert_allclose(even, [1 / 3] * 3)


def test_alpha_rank_refuses_what_it_cannot_do():
    with pytest.raises(RankingError, match='limit is 2000'):
        alpha_rank([np.zeros((50, 50))] * 2)
    with pytest.raises(DataError, match='alpha > 0'):
        alpha_rank([np.zeros((2, 2))] * 2, alpha=-1.)
    with pytest.raises(DataError, match='square matrix'):
        alpha_rank_symmetric([[1, 2]])
    with pytest.raises(RankingError, match='several closed classes'):
        stationary([[0, 0], [0, 0]])
