"""The fast computations of the voting rules against plain ones, with ties and partial ballots."""

import numpy as np
import pytest

from arena_robot.ranking.games import zero_sum
from arena_robot.ranking.games.zero_sum import complementary
from arena_robot.ranking.voting import profile as profile_module
from arena_robot.ranking.voting.lotteries import iterative_levels
from arena_robot.ranking.voting.profile import IGNORED, LAST, UNLISTED, Profile
from arena_robot.ranking.voting.scoring import layers_of, majority_blocks, widest_paths


def random_ballots(seed):
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 12)), int(rng.choice([1, 7, 254, 255, 256, 600]))
    ranks = np.argsort(rng.random((n, m)), axis=1) // (1 + seed % 3)
    if seed % 2:
        ranks = np.where(ranks < rng.integers(0, m + 1, (n, 1)), ranks, UNLISTED)
    weights = (np.ones(n), rng.integers(1, 4, n).astype(float), np.round(rng.random(n) + .01, 3))
    return Profile(tuple(f'p{k}' for k in range(m)), ranks, weights[seed // 2 % 3],
                   (IGNORED, LAST)[seed // 4 % 2])


@pytest.mark.parametrize('seed', range(36))
def test_preferences_are_the_weights_added_ballot_by_ballot(seed):
    profile = random_ballots(seed)
    expected = np.zeros((len(profile.names),) * 2)
    for ranks, weight in zip(profile.compared, profile.weights, strict=True):
        listed = ranks != UNLISTED
        expected += weight * (listed[:, None] & listed & (ranks[:, None] < ranks))
    np.testing.assert_array_equal(profile.preferences, profile.tidy(expected))


@pytest.mark.parametrize('seed', range(4))
def test_preferences_of_many_names_are_counted_ballot_by_ballot(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    ranks = np.argsort(rng.random((300, 45)), axis=1) // (1 + seed % 2)
    ranks = np.where(ranks < rng.integers(0, 46, (300, 1)), ranks, UNLISTED)
    weights = rng.choice([0.25, 1.0, 3.0], 300) if seed > 1 else np.ones(300)

    def counted(few):
        monkeypatch.setattr(profile_module, 'FEW_NAMES', few)
        return Profile(tuple(f'p{k}' for k in range(45)), ranks, weights,
                       (IGNORED, LAST)[seed % 2]).preferences
    np.testing.assert_array_equal(counted(40), counted(45))


@pytest.mark.parametrize('count', [255, 256, 600])
def test_preferences_count_more_equal_ballots_than_a_byte_holds(count):
    profile = Profile(('a', 'b'), np.tile([0, 1], (count, 1)), np.ones(count))
    np.testing.assert_array_equal(profile.preferences, [[0, count], [0, 0]])


def test_preferences_hold_ranks_beyond_a_byte():
    ranks = np.arange(300)[None].repeat(2, axis=0)
    ranks[1, 200:] = UNLISTED
    N = Profile(tuple(map(str, range(300))), ranks, np.array([1., 2.])).preferences
    expected = np.triu(np.ones((300, 300)), 1)
    expected[:200, :200] *= 3
    np.testing.assert_array_equal(N, expected)


@pytest.mark.parametrize('scale', [1., 1 / 4, 2. ** 20])
@pytest.mark.parametrize('seed', range(8))
def test_widest_paths_are_the_same_in_short_integers_as_in_floats(seed, scale):
    N = np.random.default_rng(seed).integers(0, 40, (12, 12)).astype(float)
    paths = np.where(N > N.T, N, 0.)
    for k, x, y in np.ndindex(12, 12, 12):
        paths[x, y] = max(paths[x, y], min(paths[x, k], paths[k, y]))
    np.fill_diagonal(paths, 0.)
    np.testing.assert_array_equal(widest_paths(N * scale), paths * scale)


@pytest.mark.parametrize('seed', range(12))
def test_blocks_are_what_reaches_each_other_by_wins_and_draws(seed):
    rng = np.random.default_rng(seed)
    M = np.triu(np.clip(rng.integers(-1, 6, (14, 14)), -1, 1 + seed % 2), 1)[
        np.ix_(order := rng.permutation(14), order)]
    M = (M - M.T).astype(float)
    reached = (M >= 0) | np.eye(14, dtype=bool)
    for _ in range(4):
        reached = reached.astype(int) @ reached > 0
    blocks = majority_blocks(M)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(14))
    for at, block in enumerate(blocks):
        assert (reached & reached.T)[block[0]].nonzero()[0].tolist() == block.tolist()
        assert all((M[np.ix_(block, later)] > 0).all() for later in blocks[at + 1:])


@pytest.mark.parametrize('seed', range(12))
def test_layers_are_peeled_one_by_one(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(9)
    above = np.zeros((9, 9), dtype=bool)
    above[np.ix_(order, order)] = np.triu(rng.random((9, 9)) < .3, 1)
    left, layers = set(range(9)), []
    while left:
        layers.append(tuple(sorted(y for y in left if not any(above[x, y] for x in left))))
        left -= set(layers[-1])
    assert layers_of(above) == tuple(layers)


def random_game(seed):
    rng = np.random.default_rng(seed)
    size, most = int(rng.integers(4, 50)), int(rng.choice([1, 3, 50]))
    M = np.triu(rng.integers(-most, most + 1, (size, size)), 1).astype(float)
    M -= M.T
    if seed % 3:
        return M
    again = rng.integers(0, size, size)  # with clones: many optimal strategies
    return M[np.ix_(again, again)]


@pytest.mark.parametrize('seed', range(60))
def test_the_interior_method_and_the_linear_programme_agree(seed, monkeypatch):
    M = random_game(seed)
    fast, fast_levels = zero_sum.solve_symmetric(M), iterative_levels(M)
    monkeypatch.setattr(zero_sum, 'complementary', lambda _: None)
    plain, plain_levels = zero_sum.solve_symmetric(M), iterative_levels(M)
    assert (fast.essential, fast.unique) == (plain.essential, plain.unique)
    np.testing.assert_allclose(fast.mixed, plain.mixed, atol=1e-9 if plain.unique else 1e-6)
    assert [(set(a.members), a.unique) for a in fast_levels] == [
        (set(b.members), b.unique) for b in plain_levels]


def test_the_interior_method_finds_most_and_what_it_finds_is_strictly_complementary():
    found = 0
    for seed in range(60):
        M = random_game(seed)
        M = M / max(np.abs(M).max(), 1.)
        p = complementary(M)
        if p is not None:
            found += 1
            slack = p @ M
            assert p.sum() == pytest.approx(1)
            assert ((p > 1e-6) == (np.abs(slack) < 1e-9)).all()
            assert ((p == 0) == (slack > 1e-6)).all()
    assert found >= 55


def test_a_game_too_close_to_call_is_left_to_the_linear_programme():
    M = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], dtype=float)
    close = np.zeros((4, 4))
    close[:3, :3] = M
    close[3, :3], close[:3, 3] = -1e-8, 1e-8
    assert complementary(M) is not None
    assert complementary(close) is None
    assert zero_sum.solve_symmetric(close).essential == (0, 1, 2)
