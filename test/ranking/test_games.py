"""Equilibria of matrix games: values, essential sets, uniqueness, largest entropy."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.games.nash_alpha import (
    alpha_rank,
    nash_average,
    stationary,
)
from arena_robot.ranking.games.payoffs import game_from_json
from arena_robot.ranking.games.zero_sum import antisymmetric, solve, solve_antisymmetric

RPS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
COPIES = np.ix_([0, 0, 1, 2], [0, 1, 1, 1, 2])
TABLE = {'scores': [[.9, .1, .5], [.2, .8, .5], [.5, .5, .1]], 'models': ['a', 'b', 'c'],
         'tasks': ['x', 'y', 'z'], 'kind': 'model_vs_model_vs_task'}
CYCLE = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
GAME = {'players': 2, 'shape': [3, 3], 'payoffs': [CYCLE, (-np.array(CYCLE)).tolist()],
        'labels': [['r', 'p', 's'], ['r', 'p', 's']]}


def test_rock_paper_scissors():
    for solution in (solve_antisymmetric(antisymmetric(RPS)), solve(RPS).row, solve(RPS).column):
        np.testing.assert_allclose(solution.mixed, [1 / 3] * 3, atol=1e-12)
        assert solution.unique
        assert solution.essential == (0, 1, 2)


def test_matching_pennies_with_an_offset_has_that_value():
    solution = solve(np.array([[1., -1.], [-1., 1.]]) + 5)
    assert solution.value == pytest.approx(5)
    np.testing.assert_allclose(solution.row.mixed, [.5, .5])


def test_nothing_at_stake_is_played_uniformly():
    solution = solve(np.full((3, 4), 2.))
    assert solution.value == 2
    np.testing.assert_allclose(solution.row.mixed, [1 / 3] * 3)
    np.testing.assert_allclose(solution.column.mixed, [1 / 4] * 4)
    assert not solution.row.unique
    np.testing.assert_allclose(solve_antisymmetric(np.zeros((2, 2))).mixed, [.5, .5])


def test_clones_share_what_the_original_had():
    cloned = RPS[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    solution = solve_antisymmetric(antisymmetric(cloned))
    assert not solution.unique
    np.testing.assert_allclose(solution.mixed, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-9)


@pytest.mark.parametrize('seed', range(12))
def test_the_mixture_is_optimal_and_of_largest_entropy(seed):
    rng = np.random.default_rng(seed)
    P = rng.integers(-1, 2, (4, 3 + seed % 3)).astype(float)
    solution = solve(P)
    x, y = solution.row.mixed, solution.column.mixed
    assert (x @ P).min() == pytest.approx(solution.value, abs=1e-8)
    assert (P @ y).max() == pytest.approx(solution.value, abs=1e-8)
    best = minimize(
        lambda p: float((p * np.log(np.maximum(p, 1e-300))).sum()), x, method='SLSQP',
        bounds=[(0, 1)] * 4, options={'ftol': 1e-14, 'maxiter': 500},
        constraints=[{'type': 'eq', 'fun': lambda p: p.sum() - 1},
                     {'type': 'ineq', 'fun': lambda p: p @ P - solution.value}])
    entropy = -(x[x > 0] * np.log(x[x > 0])).sum()
    assert entropy >= -best.fun - 1e-6


def test_an_entropy_that_is_largest_where_a_free_constraint_is_just_met():
    M = np.array([[0, 1, 0, -1, -1, 0, 1], [-1, 0, 0, -1, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0],
                  [1, 1, -1, 0, 1, 1, 0], [1, -1, 0, -1, 0, -1, 0], [0, 0, 0, -1, 1, 0, 0],
                  [-1, -1, 0, 0, 0, 0, 0]])
    for solution in (solve_antisymmetric(antisymmetric(M)), solve(M).row):
        assert solution.essential == (0, 2, 5)
        np.testing.assert_allclose(solution.mixed, [.25, 0, .5, 0, 0, .25, 0], atol=1e-7)


@pytest.mark.parametrize('seed', range(150))
def test_the_symmetric_way_and_the_general_one_agree(seed):
    rng = np.random.default_rng(seed)
    size, most = 2 + seed % 7, 1 + seed % 3
    M = np.triu(rng.integers(-most, most + 1, (size, size)), 1)
    own, general = solve_antisymmetric(antisymmetric(M - M.T)), solve(M - M.T).row
    assert (own.essential, own.unique) == (general.essential, general.unique)
    np.testing.assert_allclose(own.mixed, general.mixed, atol=1e-6)


@pytest.mark.parametrize('seed', range(10))
def test_the_essential_set_is_every_strategy_that_some_optimum_plays(seed):
    from scipy.optimize import linprog
    rng = np.random.default_rng(seed)
    M = np.triu(rng.integers(-1, 2, (5, 5)), 1).astype(float)
    M -= M.T
    solution = solve_antisymmetric(antisymmetric(M))
    for i in range(5):
        most = linprog(-np.eye(5)[i], A_ub=-M.T, b_ub=np.zeros(5), A_eq=np.ones((1, 5)),
                       b_eq=[1], method='highs-ds')
        assert (-most.fun > 1e-7) == (i in solution.essential)


@pytest.mark.parametrize(('matrix', 'said'), [
    ([[0, np.nan], [0, 0]], r'payoff at \[0, 1\] is nan'), ([], 'non-empty matrix')])
def test_bad_matrices_are_refused(matrix, said):
    with pytest.raises(DataError, match=said):
        solve(matrix)
    with pytest.raises(DataError, match=said):
        solve_antisymmetric(antisymmetric(matrix))


def test_a_symmetric_game_must_be_antisymmetric():
    with pytest.raises(DataError, match='antisymmetric'):
        solve_antisymmetric(antisymmetric([[0, 1], [1, 0]]))


def average_of(scores):
    """Rate models against tasks; the task player is paid for low scores."""
    return nash_average((scores, -scores))


def test_copies_change_no_average_where_the_equilibrium_is_unique():
    scores = np.array([[1., 0., .6], [0., 1., .6], [.3, .3, .3]])
    before, after = average_of(scores), average_of(scores[COPIES])
    assert before.first.unique
    assert before.second.unique
    np.testing.assert_allclose(after.ratings[0], before.ratings[0][[0, 0, 1, 2]], atol=1e-8)
    np.testing.assert_allclose(after.ratings[1], before.ratings[1][[0, 1, 1, 1, 2]], atol=1e-8)


def test_copies_can_shift_the_equilibrium_of_largest_entropy_where_it_is_not():
    scores = np.array([[1., 0., .4], [0., 1., .4], [.3, .3, .3]])
    before, after = average_of(scores), average_of(scores[COPIES])
    assert not before.first.unique
    assert abs(after.ratings[1][0] - before.ratings[1][0]) > .05


def test_agents_in_a_support_tie_at_the_value():
    average = average_of(np.random.default_rng(0).random((6, 9)))
    np.testing.assert_allclose(average.ratings[0][list(average.first.essential)], average.value,
                               atol=1e-8)
    assert average.ratings[0].max() == pytest.approx(average.value, abs=1e-8)


def test_one_task_on_a_larger_scale_takes_all_the_weight():
    scores = np.array([[1., 0., -5000.], [0., 1., -6000.]])
    np.testing.assert_allclose(average_of(scores).second.mixed, [0, 0, 1], atol=1e-9)


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
    np.testing.assert_allclose(alpha_rank([rps, -rps]).joint, np.full((3, 3), 1 / 9))
    better = np.array([[0, 1, 1], [-1, 0, 0], [-1, 0, 0]], float)
    assert alpha_rank([better, better.T]).ratings[0][0] > .95
    assert alpha_rank([better, better.T], alpha=20.).ratings[0][0] > 1 - 1e-8


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
    ranked = alpha_rank(game, alpha=alpha, population=m)
    np.testing.assert_allclose(ranked.joint.ravel() @ chain, ranked.joint.ravel(), atol=1e-14)
    np.testing.assert_allclose(ranked.ratings[0], ranked.joint.sum(axis=1))


def test_strong_selection_keeps_its_digits():
    tiny = stationary([[0, 1e-200, 0], [1., 0, 1e-200], [0, 1., 0]])
    np.testing.assert_allclose(tiny, [1, 1e-200, 0], rtol=1e-12)
    swing = np.array([[0, 9.], [-9., 0]])
    assert np.isfinite(alpha_rank([swing, swing.T], alpha=100.).joint).all()
    even = alpha_rank([np.zeros((3, 3))] * 2, alpha=1.).ratings[0]
    np.testing.assert_allclose(even, [1 / 3] * 3)


def test_alpha_rank_refuses_what_it_cannot_do():
    with pytest.raises(RankingError, match='limit is 2000'):
        alpha_rank([np.zeros((50, 50))] * 2)
    with pytest.raises(DataError, match='alpha > 0'):
        alpha_rank([np.zeros((2, 2))] * 2, alpha=-1.)
    with pytest.raises(RankingError, match='several closed classes'):
        stationary([[0, 0], [0, 0]])


@pytest.mark.parametrize(('change', 'said'), [
    ({'kind': 'models'}, "needs 'kind'"),
    ({'scores': [[1, 2], [3]]}, 'nested lists of numbers'),
    ({'scores': [[1, None], [3, 4]]}, 'score of model 0 on task 1 is nan'),
    ({'scores': [['high', 1]]}, 'nested lists of numbers'),
    ({'scores': []}, 'table of models by tasks'),
    ({'models': ['a', 'b']}, 'must be 3 different names; found 2'),
    ({'models': ['a', 'b', 'b']}, 'found 3, 2 of them different'),
    ({'tasks': 'xyz'}, "'tasks' must be a list of names"),
    ({'weights': [1, 1]}, 'unknown keys weights')])
def test_bad_tables_are_refused_with_a_reason(change, said):
    with pytest.raises(DataError, match=said):
        game_from_json({**TABLE, **change})


@pytest.mark.parametrize(('change', 'said'), [
    ({'players': 0}, "needs 'players'"),
    ({'players': 3}, 'each of the 3 players; found 2'),
    ({'shape': [3, 2]}, r'have shape \[3, 3\]'),
    ({'payoffs': [CYCLE, [[0, 1], [1, 0]]]}, r'player 1 have shape \[2, 2\]'),
    ({'payoffs': [CYCLE, [[0, 1], [1, 0]]], 'shape': None}, 'all of one shape'),
    ({'payoffs': [CYCLE, [[float('nan')] * 3] * 3]}, r'player 1 at \[0, 0\] is nan'),
    ({'labels': [['r', 'p', 's']]}, "'labels' must be null or"),
    ({'labels': [['r', 'p'], ['r', 'p', 's']]}, 'labels of player 0 must be 3'),
    ({'name': 'rps'}, 'unknown keys name')])
def test_bad_games_are_refused_with_a_reason(change, said):
    with pytest.raises(DataError, match=said):
        game_from_json({**GAME, **change})


def test_names_are_made_up_where_none_are_given():
    assert game_from_json({**TABLE, 'models': None}).names[0] == ('model 0', 'model 1', 'model 2')
    assert game_from_json({**GAME, 'labels': None}).names[1] == ('0', '1', '2')


def run(tmp_path, capsys, data, *words):
    path = tmp_path / 'game.json'
    path.write_text(json.dumps(data), encoding='utf-8')
    code = main(['game', str(path), *words])
    return code, capsys.readouterr()


def test_the_command_prints_ratings_that_its_equilibrium_has(tmp_path, capsys):
    code, out = run(tmp_path, capsys, TABLE, '--rating', 'deviation', '--json')
    assert code == 0
    answer = json.loads(out.out)
    assert [len(r) for r in answer['ratings']] == [3, 3, 3]
    scores = np.array(TABLE['scores'])
    sigma = np.zeros((3, 3, 3))
    sigma[tuple(np.transpose(answer['equilibrium']['joint']))] = \
        answer['equilibrium']['probability']
    gain = scores[:, None, None, :] - scores[None, :, None, :]
    np.testing.assert_allclose((sigma * gain).sum(axis=(1, 2, 3)), answer['ratings'][0],
                               atol=1e-9)
    np.testing.assert_allclose(np.sum(answer['contributions'], axis=1), answer['ratings'][0],
                               atol=1e-9)
    assert answer['diagnostics']['residual'] < 1e-9


@pytest.mark.parametrize('rating', ['deviation', 'nash', 'uniform', 'alpha_rank'])
def test_every_rating_of_a_fair_game_is_equal(tmp_path, capsys, rating):
    code, out = run(tmp_path, capsys, GAME, '--rating', rating, '--json')
    assert code == 0
    ratings = np.array(json.loads(out.out)['ratings'])
    np.testing.assert_allclose(ratings, ratings[0, 0], atol=1e-9)
    code, out = run(tmp_path, capsys, GAME, '--rating', rating)
    assert code == 0
    assert f'player 2: {rating} ratings' in out.out


def test_normalise_is_for_tables(tmp_path, capsys):
    table = {**TABLE, 'scores': [[900, .1, .5], [200, .8, .5], [500, .5, .1]]}
    code, out = run(tmp_path, capsys, table, '--normalise', '--rating', 'uniform', '--json')
    assert code == 0
    assert max(json.loads(out.out)['ratings'][0]) < 1
    code, out = run(tmp_path, capsys, GAME, '--normalise')
    assert code == 2
    assert 'tables of scores' in out.err


def test_bad_requests_end_with_exit_code_two(tmp_path, capsys):
    code, out = run(tmp_path, capsys, TABLE, '--rating', 'nash')
    assert code == 2
    assert "for the kind 'model_vs_task'" in out.err
    code, out = run(tmp_path, capsys, {**TABLE, 'scores': [[float('nan')]]}, '--json')
    assert code == 2
    assert 'is nan' in out.err
    code, out = run(tmp_path, capsys, GAME, '--plot', str(tmp_path / 'x.png'))
    assert code == 2
    assert 'task contributions' in out.err
