"""The fast algorithms against slow ones that follow the definitions word by word."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from arena_robot.core.errors import RankingError
from arena_robot.ranking.voting import ranked_pairs as pairs_module
from arena_robot.ranking.voting.kemeny import LIMIT, optimal_orders
from arena_robot.ranking.voting.profile import UNLISTED, Profile, from_games, from_scores
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import majority_blocks, widest_paths


def random_profile(seed, m, n, partial=False, weight=4):
    rng = np.random.default_rng(seed)
    ranks = np.argsort(rng.random((n, m)), axis=1)
    if partial:
        ranks = np.where(ranks < rng.integers(1, m + 1, (n, 1)), ranks, UNLISTED)
    return Profile(tuple('abcdefghijkl'[:m]), ranks, rng.integers(1, weight, n).astype(float))


@pytest.mark.parametrize('seed', range(12))
def test_preferences_count_ballots_pair_by_pair(seed):
    profile = random_profile(seed, 5, 7, partial=True)
    for x, y in itertools.product(range(5), repeat=2):
        expected = sum(w for r, w in zip(profile.ranks, profile.weights, strict=True)
                       if r[x] >= 0 and r[y] >= 0 and r[x] < r[y])
        assert profile.preferences[x, y] == expected


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


@pytest.mark.parametrize('seed', range(12))
def test_widest_paths_are_the_strongest_of_all_paths(seed):
    profile = random_profile(seed, 5, 5, partial=seed % 2 == 1)
    N = profile.preferences
    found = widest_paths(N)
    for x, y in itertools.permutations(range(5), 2):
        rest = [z for z in range(5) if z not in (x, y)]
        best = 0.
        for size in range(4):
            for middle in itertools.permutations(rest, size):
                path = list(itertools.pairwise((x, *middle, y)))
                if all(N[a, b] > N[b, a] for a, b in path):
                    best = max(best, min(N[a, b] for a, b in path))
        assert found[x, y] == best


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
