"""The properties that the paper proves of deviation ratings, on random games."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_robot.ranking.games.deviation import deviation_ratings, rate_table
from arena_robot.ranking.games.zero_sum import solve

CLOSE = 1e-6
quick = settings(max_examples=25, derandomize=True)


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


def same(one, two):
    for a, b in zip(one, two, strict=True):
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
    one, two = rated(game), rated([10 * game[0], game[1]])
    assert np.abs(one[0] * 10 - two[0]).max() > .01


@quick
@given(seed=st.integers(0, 10 ** 6), m=st.integers(1, 5), n=st.integers(1, 5))
def test_zero_sum_games_rate_by_payoff_against_an_optimal_opponent(seed, m, n):
    P = np.random.default_rng(seed).integers(-3, 4, (m, n)).astype(float)
    found, nash = deviation_ratings([P, -P]), solve(P)
    sigma = np.zeros((m, n))
    sigma[tuple(found.joint.T)] = found.mass
    x, y = sigma.sum(axis=1), sigma.sum(axis=0)
    paid = (sigma * P).sum()
    assert paid == pytest.approx(nash.value, abs=CLOSE)
    assert (x @ P).min() >= nash.value - CLOSE
    assert (P @ y).max() <= nash.value + CLOSE
    np.testing.assert_allclose(found.ratings[0], P @ y - paid, atol=CLOSE)
    if nash.row.unique and nash.column.unique:
        np.testing.assert_allclose(found.ratings[0], P @ nash.column.mixed - nash.value,
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
