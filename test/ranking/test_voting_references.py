"""The fast algorithms against slow ones that follow the definitions word by word."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from arena_robot.core.errors import RankingError
from arena_robot.ranking.games import zero_sum
from arena_robot.ranking.games.zero_sum import complementary
from arena_robot.ranking.voting import profile as profile_module
from arena_robot.ranking.voting import ranked_pairs as pairs_module
from arena_robot.ranking.voting.kemeny import LIMIT, optimal_orders
from arena_robot.ranking.voting.lotteries import iterative_levels
from arena_robot.ranking.voting.profile import (
    IGNORED,
    LAST,
    UNLISTED,
    Profile,
    from_games,
    from_scores,
)
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import layers_of, majority_blocks, widest_paths


def random_profile(seed, m, n, partial=False, weight=4):
    rng = np.random.default_rng(seed)
    ranks = np.argsort(rng.random((n, m)), axis=1)
    if partial:
        ranks = np.where(ranks < rng.integers(1, m + 1, (n, 1)), ranks, UNLISTED)
    return Profile(tuple('abcdefghijkl'[:m]), ranks, rng.integers(1, weight, n).astype(float))


@pytest.mark.parametrize('seed', range(20))
def test_kemeny_finds_every_optimal_order(seed):
    profile = random_profile(seed, 5, 3 + seed % 4, weight=2)
    N = profile.preferences
    values = {order: sum(N[x, y] for x, y in itertools.combinations(order, 2))
              for order in itertools.permutations(range(5))}
    best = [o for o, v in values.items() if v == max(values.values())]
    result = vote(profile, 'kemeny_young')
    assert result.unique == (len(best) == 1)
    assert set(result.winners) == {o[0] for o in best}
    orders = optimal_orders(N, 1e-9)
    assert (orders.value, orders.count) == (max(values.values()), len(best))
    place = {x: k for k, tier in enumerate(result.tiers) for x in tier}
    for x, y in itertools.permutations(range(5), 2):
        if all(o.index(x) < o.index(y) for o in best):
            assert place[x] < place[y]
    if len(best) == 1:
        assert [t[0] for t in result.tiers] == list(best[0])
        assert result.scores.sum() == max(values.values())


def test_kemeny_refuses_a_large_cycle_but_not_a_long_chain_of_small_ones():
    rng = np.random.default_rng(0)
    wide = from_scores(rng.random((30, 400)), [str(i) for i in range(30)])
    largest = max(len(block) for block in majority_blocks(wide.margins))
    assert largest > LIMIT
    with pytest.raises(RankingError, match=f'exact up to .* here are {largest}'):
        vote(wide, 'kemeny_young')
    strength = np.repeat(np.arange(20.), 3)[:, None]
    cycle = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]]) / 10
    long = from_scores(strength + np.tile(cycle, (20, 1)), [str(i) for i in range(60)])
    result = vote(long, 'kemeny_young')
    assert len(result.tiers) == 20
    assert result.winners == (57, 58, 59)


@pytest.mark.parametrize('scale', [1., 1 / 4, 2. ** 20])
@pytest.mark.parametrize('seed', range(12))
def test_widest_paths_are_the_strongest_of_all_paths(seed, scale):
    profile = random_profile(seed, 5, 5, partial=seed % 2 == 1)
    N = profile.preferences * scale
    widest = widest_paths(N)
    for x, y in itertools.permutations(range(5), 2):
        rest = [z for z in range(5) if z not in (x, y)]
        best = 0.
        for size in range(4):
            for middle in itertools.permutations(rest, size):
                path = list(itertools.pairwise((x, *middle, y)))
                if all(N[a, b] > N[b, a] for a, b in path):
                    best = max(best, min(N[a, b] for a, b in path))
        assert widest[x, y] == best


def graphs_over_all_orders(margins):
    by_size = {}
    for x, y in np.argwhere(margins > 0).tolist():
        by_size.setdefault(margins[x, y], []).append((x, y))
    blocks = [list(itertools.permutations(by_size[s])) for s in sorted(by_size, reverse=True)]
    graphs = set()
    for order in itertools.product(*blocks):
        edges = set()
        for x, y in itertools.chain(*order):
            reach, grow = {y}, True
            while grow:
                new = {b for a, b in edges if a in reach} - reach
                reach, grow = reach | new, bool(new)
            if x not in reach:
                edges.add((x, y))
        graphs.add(frozenset(edges))
    return graphs


@pytest.mark.parametrize('seed', range(25))
def test_ranked_pairs_lists_the_graphs_of_all_orders_of_tied_margins(seed):
    profile = random_profile(seed, 4, 3, weight=2)
    margins = profile.margins
    graphs = graphs_over_all_orders(margins)
    result = vote(profile, 'ranked_pairs')
    sources = {x for g in graphs for x in range(4) if not any(b == x for _, b in g)}
    assert set(result.winners) == sources
    assert result.unique == (len(graphs) == 1 and len(sources) == 1)
    shared = frozenset.intersection(*graphs)
    assert {tuple(e) for e in np.argwhere(result.graph).tolist()} == shared


def test_ranked_pairs_says_when_tied_margins_allow_too_many_graphs(monkeypatch):
    monkeypatch.setattr(pairs_module, 'CONFLICT_LIMIT', 2)
    profile = from_scores([[0, 1, 2], [2, 0, 1], [1, 2, 0]], 'abc')
    result = vote(profile, 'ranked_pairs')
    assert not result.unique
    assert result.winners == (0, 1, 2)
    assert 'left out' in result.warnings[0]


def stv_all_ways(ranks, weights, seats):
    """Follow every tie for elimination, in exact fractions; strict partial ballots."""
    m = ranks.shape[1]
    quota = Fraction(int(weights.sum()) // (seats + 1) + 1)
    ends = set()

    def count(left, running, elected):
        if not running:
            ends.add(frozenset(elected))
            return
        choice = []
        for row in ranks:
            named = [x for x in running if row[x] >= 0]
            choice.append(min(named, key=lambda x: row[x]) if named else None)
        votes = {x: sum((w for w, c in zip(left, choice, strict=True) if c == x), Fraction(0))
                 for x in running}
        reach = [x for x in running if votes[x] >= quota] if len(elected) < seats else []
        if reach:
            after = [w * (votes[c] - quota) / votes[c] if c in reach else w
                     for w, c in zip(left, choice, strict=True)]
            count(after, running - set(reach), elected | set(reach))
            return
        least = min(votes.values())
        for x in [x for x in running if votes[x] == least]:
            count(left, running - {x}, elected)

    count([Fraction(int(w)) for w in weights], frozenset(range(m)), frozenset())
    return ends


@pytest.mark.parametrize('seed', range(40))
def test_stv_follows_every_way_of_counting(seed):
    profile = random_profile(seed, 4, 6, partial=seed % 2 == 1)
    seats = 1 + seed % 3
    ends = stv_all_ways(profile.ranks, profile.weights, seats)
    result = vote(profile, 'stv', winners=seats)
    assert set(result.winners) == set().union(*ends)
    assert result.unique == (len(ends) == 1)


def test_stv_with_a_large_tie_eliminates_it_at_once_and_says_so():
    profile = from_scores(np.eye(8), [str(i) for i in range(8)])
    one_each = Profile(profile.names, np.where(np.eye(8, dtype=bool), 0, UNLISTED), np.ones(8))
    result = vote(one_each, 'stv', winners=2)
    assert result.winners == tuple(range(8))
    assert not result.unique
    assert 'all of it at once' in result.warnings[0]


def test_games_and_scores_make_the_same_profile():
    scores = np.array([[3., 1., 2.], [2., 1., 3.]])
    tasks = from_scores(scores, ['p', 'q'])
    games = from_games([0, 0, 1], [1, 1, 0], [1, .5, 1], ['p', 'q'])
    np.testing.assert_array_equal(tasks.preferences, games.preferences)
    assert games.margins[0, 1] == 0
    weighted = from_scores(scores, ['p', 'q'], weights=[5, 1, 1])
    assert weighted.margins[0, 1] == 4
    missing = from_scores([[3., np.nan], [2., 1.]], ['p', 'q'], missing_unlisted=True)
    np.testing.assert_array_equal(missing.preferences, [[0, 1], [0, 0]])


def test_approval_shares_the_places_that_a_tie_straddles():
    profile = Profile(tuple('abcd'), np.array([[0, 1, 1, 1]]), np.array([3.]))
    np.testing.assert_allclose(vote(profile, 'approval', k=2).scores, [3, 1, 1, 1])


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


def test_preferences_hold_ranks_beyond_a_byte():
    ranks = np.arange(300)[None].repeat(2, axis=0)
    ranks[1, 200:] = UNLISTED
    N = Profile(tuple(map(str, range(300))), ranks, np.array([1., 2.])).preferences
    expected = np.triu(np.ones((300, 300)), 1)
    expected[:200, :200] *= 3
    np.testing.assert_array_equal(N, expected)


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
    fast, fast_levels = zero_sum.solve_antisymmetric(M), iterative_levels(M)
    monkeypatch.setattr(zero_sum, 'complementary', lambda _: None)
    plain, plain_levels = zero_sum.solve_antisymmetric(M), iterative_levels(M)
    assert (fast.essential, fast.unique) == (plain.essential, plain.unique)
    np.testing.assert_allclose(fast.mixed, plain.mixed, atol=1e-9 if plain.unique else 1e-6)
    assert [(set(a.members), a.unique) for a in fast_levels] == [
        (set(b.members), b.unique) for b in plain_levels]


def test_the_interior_method_finds_most_and_what_it_finds_is_strictly_complementary():
    solved = 0
    for seed in range(60):
        M = random_game(seed)
        M = M / max(np.abs(M).max(), 1.)
        p = complementary(M)
        if p is not None:
            solved += 1
            slack = p @ M
            assert p.sum() == pytest.approx(1)
            assert ((p > 1e-6) == (np.abs(slack) < 1e-9)).all()
            assert ((p == 0) == (slack > 1e-6)).all()
    assert solved >= 55


def test_a_game_too_close_to_call_is_left_to_the_linear_programme():
    M = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], dtype=float)
    close = np.zeros((4, 4))
    close[:3, :3] = M
    close[3, :3], close[:3, 3] = -1e-8, 1e-8
    assert complementary(M) is not None
    assert complementary(close) is None
    assert zero_sum.solve_antisymmetric(close).essential == (0, 1, 2)
