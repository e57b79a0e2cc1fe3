"""Deviation ratings against one LP per stage without any reduction, and on known games."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from arena_robot.core.errors import DataError
from arena_robot.ranking.games.deviation import (
    deviation_ratings,
    rate_table,
    uniform_ratings,
    uniform_table,
)
from arena_robot.ranking.games.gains import TensorGains, symmetric_groups
from arena_robot.ranking.games.payoffs import KINDS, normalised
from arena_robot.ranking.games.zero_sum import solve

SHAPLEY = np.array([[-8, -2, 4, -680 / 241], [2, -8, -1, -680 / 241], [-4, 1, -8, -680 / 241],
                    [-712 / 241, -920 / 241, -184 / 241, -680 / 241]])
CLOSE = 1e-6
quick = settings(max_examples=25, derandomize=True)


def gain_matrix(payoffs):
    """Write A[c, a] = G_p(a', a_-p) - G_p(a) out, rows by player and strategy."""
    return np.array([(np.take(G, [a], axis=p) - G).ravel()
                     for p, G in enumerate(payoffs) for a in range(G.shape[p])])


def plain_ratings(payoffs):
    """Algorithm 1 of the paper: an LP over all joint strategies per stage."""
    A = gain_matrix(payoffs)
    C, K = A.shape
    ratings, free = np.zeros(C), np.ones(C, dtype=bool)
    while free.any():
        answer = linprog(np.r_[np.zeros(K), 1.], A_ub=np.c_[A, -free.astype(float)],
                         b_ub=np.where(free, 0., ratings), A_eq=np.r_[np.ones(K), 0.][None],
                         b_eq=[1], bounds=[(0, None)] * K + [(None, None)], method='highs-ds',
                         options={'primal_feasibility_tolerance': 1e-10,
                                  'dual_feasibility_tolerance': 1e-10})
        assert answer.status == 0
        fixed = free & (-answer.ineqlin.marginals > 1e-7)
        ratings[fixed], free = answer.fun, free & ~fixed
    return ratings


def table_game(scores, kind):
    if kind == 'model_vs_task':
        return [scores, -scores]
    apart = scores[:, None, :] - scores[None, :, :]
    return [apart, -apart, np.abs(apart)]


def random_game(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, 1 + seed % 3))
    if seed % 2:
        return [rng.normal(size=shape) for _ in shape]
    return [rng.integers(-2, 3, shape).astype(float) for _ in shape]


@pytest.mark.parametrize('seed', range(40))
def test_ratings_are_those_of_the_plain_algorithm(seed):
    game = random_game(seed)
    rated = deviation_ratings(game)
    np.testing.assert_allclose(np.concatenate(rated.ratings), plain_ratings(game), atol=1e-7)
    assert rated.residual < 1e-8


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('seed', range(15))
def test_tables_are_rated_as_the_tensors_that_they_stand_for(seed, kind):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, rng.integers(2, 6, 2)) / 3 if seed % 2 else rng.random((4, 3))
    game = table_game(scores, kind)
    table, tensor = rate_table(scores, kind), deviation_ratings(game)
    for left, right in zip(table.ratings, tensor.ratings, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-7)
    np.testing.assert_allclose(np.concatenate(table.ratings), plain_ratings(game), atol=1e-7)
    np.testing.assert_allclose(table.contributions.sum(axis=1), table.ratings[0], atol=1e-8)
    for left, right in zip(uniform_table(scores, kind), uniform_ratings(game), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)


@pytest.mark.parametrize('kind', KINDS)
def test_the_equilibrium_has_the_ratings_as_its_deviation_gains(kind):
    rng = np.random.default_rng(3)
    scores = rng.random((5, 4))
    game = table_game(scores, kind)
    for rated in (rate_table(scores, kind), deviation_ratings(game)):
        sigma = np.zeros(game[0].shape)
        sigma[tuple(rated.joint.T)] = rated.mass
        assert sigma.sum() == pytest.approx(1)
        assert rated.mass.min() > 0
        gains = gain_matrix(game) @ sigma.ravel()
        np.testing.assert_allclose(gains, np.concatenate(rated.ratings), atol=1e-8)


def test_contributions_follow_from_the_equilibrium_task_by_task():
    rng = np.random.default_rng(4)
    scores = rng.random((4, 3))
    rated = rate_table(scores)
    sigma = np.zeros((4, 4, 3))
    sigma[tuple(rated.joint.T)] = rated.mass
    np.testing.assert_allclose(sigma, sigma.swapaxes(0, 1))
    gain = scores[:, None, None, :] - scores[None, :, None, :]
    expected = (sigma[None] * gain).sum(axis=(1, 2))
    np.testing.assert_allclose(rated.contributions, expected, atol=1e-12)


def test_the_biased_shapley_game_rates_all_four_strategies_equally():
    rated = deviation_ratings([SHAPLEY, SHAPLEY.T])
    np.testing.assert_allclose(np.concatenate(rated.ratings), rated.ratings[0][0], atol=1e-9)
    assert rated.ratings[0][0] < 0
    uniform = uniform_ratings([SHAPLEY, SHAPLEY.T])
    # the paper prints -2497 for the last, which its own payoffs do not give
    np.testing.assert_allclose(uniform[0] * 964, [-2126, -2367, -3331, -2496])


def test_a_dominant_model_stands_alone_and_specialists_stand_together():
    scores = np.array([[1., 0., 0.], [0., 1., 0.], [0., 0., 1.], [.2, .2, .2]])
    models = rate_table(scores).ratings[0]
    np.testing.assert_allclose(models[:3], models[0], atol=1e-9)
    assert models[3] < models[0] - .01
    best = rate_table(np.vstack([scores, [2., 2., 2.]])).ratings[0]
    assert (best[:4] < best[4] - .1).all()


def test_a_player_with_one_strategy_does_not_end_the_stages_early():
    game = [np.array([[3.], [1.], [0.]]), np.zeros((3, 1))]
    rated = deviation_ratings(game)
    np.testing.assert_allclose(rated.ratings[0], [0, -2, -3], atol=1e-9)
    np.testing.assert_allclose(rated.ratings[1], [0])
    assert not np.signbit(rated.ratings[1]).any()


def test_symmetric_players_are_found_and_solved_as_one():
    scores = np.random.default_rng(0).random((3, 2))
    game = tuple(table_game(scores, 'model_vs_model_vs_task'))
    assert symmetric_groups(game) == [[0, 1], [2]]
    gains = TensorGains(game)
    assert gains.rows == 5
    assert np.isfinite(gains.price(np.ones(5))).sum() == 3 * 4 / 2 * 2
    assert symmetric_groups((game[0], game[1] + 1, game[2])) == [[0], [1], [2]]


def test_three_symmetric_players():
    rng = np.random.default_rng(1)
    base = rng.normal(size=(3, 3, 3))
    first = (base + base.swapaxes(1, 2)) / 2
    game = [first, first.swapaxes(0, 1), first.swapaxes(0, 2)]
    assert symmetric_groups(tuple(game)) == [[0, 1, 2]]
    np.testing.assert_allclose(np.concatenate(deviation_ratings(game).ratings),
                               plain_ratings(game), atol=1e-7)


def test_prices_are_the_products_with_the_columns():
    rng = np.random.default_rng(2)
    gains = TensorGains(tuple(rng.normal(size=(3, 2, 4)) for _ in range(3)))
    y = rng.random(gains.rows)
    np.testing.assert_allclose(gains.price(y), y @ gains.columns(np.arange(gains.size)))


def test_normalised_brings_each_task_to_zero_to_one():
    table = normalised([[1., 5., 7.], [3., 5., 9.], [2., 5., 7.]])
    np.testing.assert_allclose(table, [[0, 0, 0], [1, 0, 1], [.5, 0, 0]])


@pytest.mark.parametrize(('call', 'said'), [
    (lambda: deviation_ratings([]), 'one payoff tensor per player'),
    (lambda: deviation_ratings([np.zeros((2, 2)), np.zeros((2, 3))]), 'all of one shape'),
    (lambda: deviation_ratings([np.zeros((2, 2))]), '1 players need tensors with 1 axes'),
    (lambda: deviation_ratings([np.zeros((2, 0)), np.zeros((2, 0))]), 'at least one strategy'),
    (lambda: deviation_ratings([[[0, np.nan]], [[0, 0]]]), r'player 0 at \[0, 1\] is nan'),
    (lambda: rate_table([[1, np.inf]]), 'score of model 0 on task 1 is inf'),
    (lambda: rate_table([1, 2]), 'table of models by tasks'),
    (lambda: rate_table([[1.]], 'models'), 'choose from model_vs_task'),
    (lambda: uniform_table([[1.]], 'models'), 'choose from model_vs_task')])
def test_bad_games_are_refused_with_a_reason(call, said):
    with pytest.raises(DataError, match=said):
        call()


@st.composite
def games(draw, players=(1, 3)):
    N = draw(st.integers(*players))
    shape = tuple(draw(st.integers(1, 3 if N == 3 else 4)) for _ in range(N))
    rng = np.random.default_rng(draw(st.integers(0, 10 ** 6)))
    if draw(st.booleans()):
        return [rng.integers(-2, 3, shape).astype(float) for _ in shape]
    return [rng.normal(size=shape) for _ in shape]


def rated(game):
    return deviation_ratings(game).ratings


def same(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, atol=CLOSE)


@quick
@given(game=games())
def test_ratings_exist_within_their_bounds(game):
    for p, (G, ratings) in enumerate(zip(game, rated(game), strict=True)):
        assert (ratings <= CLOSE).all()
        for a, rating in enumerate(ratings):
            assert rating >= (np.take(G, [a], axis=p) - G).min() - CLOSE


@quick
@given(game=games(), data=st.data())
def test_renaming_strategies_and_players_renames_the_ratings(game, data):
    orders = [data.draw(st.permutations(range(n))) for n in game[0].shape]
    players = data.draw(st.permutations(range(len(game))))
    moved = [np.transpose(game[p][np.ix_(*orders)], players) for p in players]
    same([rated(game)[p][list(orders[p])] for p in players], rated(moved))


@quick
@given(game=games(), data=st.data())
def test_an_offset_that_the_player_cannot_choose_changes_nothing(game, data):
    p = data.draw(st.integers(0, len(game) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 10 ** 6)))
    offset = rng.normal(size=tuple(1 if q == p else n for q, n in enumerate(game[p].shape)))
    shifted = [G + offset if q == p else G for q, G in enumerate(game)]
    same(rated(game), rated(shifted))


@quick
@given(game=games(), data=st.data())
def test_a_copy_or_mixture_is_rated_as_its_parts_and_changes_no_other(game, data):
    p = data.draw(st.integers(0, len(game) - 1))
    n = game[0].shape[p]
    mix = np.zeros(n)
    mix[data.draw(st.integers(0, n - 1))] += 1
    if data.draw(st.booleans()):
        mix[data.draw(st.integers(0, n - 1))] += 1
    mix /= mix.sum()
    grown = [np.concatenate([G, np.expand_dims(np.tensordot(mix, G, axes=(0, p)), p)], axis=p)
             for G in game]
    before, after = rated(game), rated(grown)
    assert after[p][-1] == pytest.approx(mix @ before[p], abs=CLOSE)
    same(before, [r[:-1] if q == p else r for q, r in enumerate(after)])


@quick
@given(game=games(), data=st.data())
def test_a_dominant_strategy_is_rated_no_lower(game, data):
    p = data.draw(st.integers(0, len(game) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 10 ** 6)))
    grown = []
    for q, G in enumerate(game):
        extra = np.take(G, [0], axis=p) if q == p else np.take(G, [0], axis=p) * 0
        bonus = rng.random(extra.shape) if q == p else rng.normal(size=extra.shape)
        grown.append(np.concatenate([G, extra + bonus], axis=p))
    ratings = rated(grown)[p]
    assert ratings[-1] >= ratings[0] - CLOSE


@quick
@given(game=games(), scale=st.floats(.1, 10))
def test_one_scale_for_all_players_scales_the_ratings(game, scale):
    same([scale * r for r in rated(game)], rated([scale * G for G in game]))


def test_scaling_one_player_against_another_does_change_ratings():
    rng = np.random.default_rng(1)
    game = [rng.normal(size=(3, 3)) for _ in range(2)]
    plain, scaled = rated(game), rated([10 * game[0], game[1]])
    assert np.abs(plain[0] * 10 - scaled[0]).max() > .01


@quick
@given(seed=st.integers(0, 10 ** 6), m=st.integers(1, 5), n=st.integers(1, 5))
def test_zero_sum_games_rate_by_payoff_against_an_optimal_opponent(seed, m, n):
    P = np.random.default_rng(seed).integers(-3, 4, (m, n)).astype(float)
    rated, nash = deviation_ratings([P, -P]), solve(P)
    sigma = np.zeros((m, n))
    sigma[tuple(rated.joint.T)] = rated.mass
    x, y = sigma.sum(axis=1), sigma.sum(axis=0)
    paid = (sigma * P).sum()
    assert paid == pytest.approx(nash.value, abs=CLOSE)
    assert (x @ P).min() >= nash.value - CLOSE
    assert (P @ y).max() <= nash.value + CLOSE
    np.testing.assert_allclose(rated.ratings[0], P @ y - paid, atol=CLOSE)
    if nash.row.unique and nash.column.unique:
        np.testing.assert_allclose(rated.ratings[0], P @ nash.column.mixed - nash.value,
                                   atol=CLOSE)


@quick
@given(seed=st.integers(0, 10 ** 6), data=st.data())
def test_copies_of_models_and_tasks_change_no_rating_of_a_table(seed, data):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (4, 3)) / 4
    models = [*range(4), *data.draw(st.lists(st.integers(0, 3), max_size=3))]
    tasks = [*range(3), *data.draw(st.lists(st.integers(0, 2), max_size=3))]
    for kind in ('model_vs_task', 'model_vs_model_vs_task'):
        before = rate_table(scores, kind).ratings
        after = rate_table(scores[np.ix_(models, tasks)], kind).ratings
        np.testing.assert_allclose(after[0], before[0][models], atol=CLOSE)
        np.testing.assert_allclose(after[-1], before[-1][tasks], atol=CLOSE)
