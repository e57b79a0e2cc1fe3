"""What each rule promises, on random profiles; what it does not promise is in the next file."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arena_robot.ranking.voting.lotteries import iterative_levels, maximal_lottery
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.rules import RULES, vote

SCORING = ('approval', 'plurality', 'borda')
CONDORCET = ('copeland', 'kemeny_young', 'schulze', 'ranked_pairs', 'maximal_lottery',
             'iterative_maximal_lotteries')
CLONE_PROOF = ('schulze', 'ranked_pairs', 'maximal_lottery', 'stv')
quick = settings(max_examples=25, derandomize=True)


@st.composite
def profiles(draw, least=2, most=5, strict=False, weights=True):
    m = draw(st.integers(least, most))
    n = draw(st.integers(1, 6))
    ballots = []
    for _ in range(n):
        order = draw(st.permutations(range(m)))
        if strict:
            ranks = np.argsort(order)
        else:
            cuts = draw(st.lists(st.booleans(), min_size=m, max_size=m))
            length = draw(st.integers(1, m))
            tier = np.cumsum([bool(k and c) for k, c in enumerate(cuts)])
            ranks = np.full(m, -1)
            ranks[list(order[:length])] = tier[:length]
        ballots.append(ranks)
    weight = draw(st.lists(st.integers(1, 9 if weights else 1), min_size=n, max_size=n))
    last = 'ignored' if strict else draw(st.sampled_from(['ignored', 'last']))
    return Profile(tuple('abcdefgh'[:m]), np.array(ballots), np.array(weight, float), last)


def outcome(profile, method, winners=1):
    return vote(profile, method, k=1, winners=winners)


@pytest.mark.parametrize('method', list(RULES.built_in))
@quick
@given(data=st.data())
def test_renaming_alternatives_renames_the_outcome(method, data):
    profile = data.draw(profiles())
    order = np.array(data.draw(st.permutations(range(len(profile.names)))))
    moved = Profile(profile.names, profile.ranks[:, order], profile.weights, profile.unranked)
    before, after = outcome(profile, method), outcome(moved, method)
    assert {order[x] for x in after.winners} == set(before.winners)
    assert after.unique == before.unique
    for field in ('tiers', 'levels'):
        left, right = getattr(before, field), getattr(after, field)
        assert (left is None) == (right is None)
        if left is not None:
            assert [{order[x] for x in t} for t in right] == [set(t) for t in left]
    for field in ('scores', 'lottery'):
        left, right = getattr(before, field), getattr(after, field)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_allclose(right, left[order], atol=1e-7)


@pytest.mark.parametrize('method', list(RULES.built_in))
@quick
@given(profile=profiles())
def test_a_weight_of_two_is_two_ballots_in_any_order(method, profile):
    twice = Profile(profile.names, np.concatenate([profile.ranks, profile.ranks[::-1]]),
                    np.concatenate([profile.weights, profile.weights[::-1]]), profile.unranked)
    doubled = Profile(profile.names, profile.ranks, 2 * profile.weights, profile.unranked)
    left, right = outcome(twice, method), outcome(doubled, method)
    assert (left.winners, left.tiers, left.levels) == (right.winners, right.tiers, right.levels)
    if left.scores is not None:
        np.testing.assert_allclose(left.scores, right.scores, atol=1e-9)


# not stv: a quota counts whole votes
@pytest.mark.parametrize('method', [m for m in RULES.built_in if m != 'stv'])
@quick
@given(profile=profiles())
def test_fractional_weights_leave_the_outcome(method, profile):
    tenth = Profile(profile.names, profile.ranks, profile.weights * .1, profile.unranked)
    left, right = outcome(profile, method), outcome(tenth, method)
    assert (left.winners, left.tiers, left.unique) == (right.winners, right.tiers, right.unique)


@pytest.mark.parametrize('method', CONDORCET)
@quick
@given(profile=profiles(least=3))
def test_a_condorcet_winner_wins_alone(method, profile):
    best = profile.condorcet_winners()
    assume(best)
    assert set(outcome(profile, method).winners) == set(best)


@pytest.mark.parametrize('method', ['kemeny_young', 'schulze', 'ranked_pairs', 'copeland'])
@quick
@given(profile=profiles(least=3))
def test_who_beats_everybody_stands_alone_and_who_loses_to_everybody_is_last(method, profile):
    losers = np.flatnonzero((profile.margins < 0).sum(axis=1) == len(profile.names) - 1)
    assume(len(losers))
    assert outcome(profile, method).tiers[-1] == tuple(losers)


@pytest.mark.parametrize('method', SCORING)
@quick
@given(data=st.data())
def test_scoring_rules_keep_what_two_electorates_agree_on(method, data):
    left = data.draw(profiles(least=3, most=3))
    right = data.draw(profiles(least=3, most=3))
    right = Profile(right.names, right.ranks, right.weights, left.unranked)
    agreed = set(outcome(left, method).winners) & set(outcome(right, method).winners)
    assume(agreed)
    both = Profile(left.names, np.concatenate([left.ranks, right.ranks]),
                   np.concatenate([left.weights, right.weights]), left.unranked)
    assert set(outcome(both, method).winners) == agreed


@quick
@given(data=st.data())
def test_a_lottery_maximal_in_two_electorates_is_maximal_in_their_union(data):
    left, right = data.draw(profiles(least=3, most=3)), data.draw(profiles(least=3, most=3))
    p = maximal_lottery(left.margins).mixed
    assume((p @ right.margins).min() > -1e-9)
    union = left.margins + right.margins
    assert (p @ union).min() > -1e-7
    assert set(np.flatnonzero(p > 1e-9)) <= set(maximal_lottery(union).essential)


def with_clones(profile, x, sides):
    m = len(profile.names)
    ranks = np.empty((len(profile.ranks), m + 1), dtype=int)
    for row, old, side in zip(ranks, profile.ranks, sides, strict=True):
        row[:m] = 2 * old
        row[m] = 2 * old[x] + (1 if side else -1)
    order = np.argsort(np.argsort(ranks, axis=1), axis=1)
    return Profile((*profile.names, 'clone'), order, profile.weights)


@pytest.mark.parametrize('method', CLONE_PROOF)
@quick
@given(data=st.data())
def test_a_clone_changes_nothing_outside_the_clones(method, data):
    profile = data.draw(profiles(most=4, strict=True))
    x = data.draw(st.integers(0, len(profile.names) - 1))
    sides = data.draw(st.lists(st.booleans(), min_size=len(profile.ranks),
                               max_size=len(profile.ranks)))
    cloned = with_clones(profile, x, sides)
    before, after = outcome(profile, method), outcome(cloned, method)
    assert {x if w == len(profile.names) else w for w in after.winners} == set(before.winners)
    if before.lottery is not None and before.unique:
        kept = np.append(np.delete(after.lottery, [x, -1]), after.lottery[[x, -1]].sum())
        np.testing.assert_allclose(kept, np.append(np.delete(before.lottery, x),
                                                   before.lottery[x]), atol=1e-7)


@quick
@given(profile=profiles(least=3))
def test_losers_of_the_lottery_can_leave_the_agenda(profile):
    lottery = maximal_lottery(profile.margins)
    inside = list(lottery.essential)
    alone = maximal_lottery(profile.margins[np.ix_(inside, inside)])
    np.testing.assert_allclose(alone.mixed, lottery.mixed[inside], atol=1e-6)


@quick
@given(profile=profiles())
def test_a_maximal_lottery_is_beaten_by_nobody_and_its_essential_set_draws(profile):
    lottery, M = maximal_lottery(profile.margins), profile.margins
    scale = max(1., np.abs(M).max())
    assert lottery.mixed.sum() == pytest.approx(1)
    assert (lottery.mixed @ M).min() > -1e-9 * scale
    np.testing.assert_allclose((lottery.mixed @ M)[list(lottery.essential)], 0, atol=1e-8 * scale)
    assert set(np.flatnonzero(lottery.mixed)) <= set(lottery.essential)


@quick
@given(profile=profiles(strict=True, weights=False))
def test_odd_margins_make_every_lottery_unique(profile):
    assume(len(profile.ranks) % 2)
    levels = iterative_levels(profile.margins)
    assert all(level.unique for level in levels)
    result = vote(profile, 'iterative_maximal_lotteries')
    for index, level in enumerate(levels):
        assert len(level.members) % 2 == 1
        expected = len(levels) - 1 - index + np.array(level.probabilities)
        np.testing.assert_allclose(result.scores[list(level.members)], expected)
    order = [x for tier in result.tiers for x in tier]
    assert sorted(order) == list(range(len(profile.names)))
    assert all(np.diff(result.scores[order]) < 1e-6)


@quick
@given(profile=profiles())
def test_schulze_tiers_respect_every_strict_beat(profile):
    from arena_robot.ranking.voting.scoring import widest_paths
    paths = widest_paths(profile.preferences)
    place = {x: k for k, tier in enumerate(vote(profile, 'schulze').tiers) for x in tier}
    for x, y in np.argwhere(paths > paths.T):
        assert place[x] < place[y]


@quick
@given(profile=profiles(least=3, most=5), seats=st.integers(1, 2))
def test_stv_elects_at_most_the_seats_in_each_way_of_counting(profile, seats):
    result = vote(profile, 'stv', winners=seats)
    if result.unique:
        assert len(result.winners) <= seats
        assert result.tiers is None or sorted(x for t in result.tiers for x in t) == list(
            range(len(profile.names)))


@pytest.mark.parametrize('method', [*SCORING, 'stv'])
@quick
@given(profile=profiles(strict=True))
def test_complete_strict_ballots_count_as_ballots_with_ties_are_counted(method, profile):
    assert profile.strict
    slow = Profile(profile.names, profile.ranks, profile.weights)
    slow.__dict__['strict'] = False  # as if there were ties: the way for ballots of any kind
    fast, general = outcome(profile, method), outcome(slow, method)
    assert (fast.winners, fast.tiers) == (general.winners, general.tiers)
    if fast.scores is not None:
        np.testing.assert_allclose(fast.scores, general.scores, rtol=1e-12, atol=1e-9)
