"""What the rules do not promise: small electorates where the property fails."""

import numpy as np
import pytest

from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.rules import vote


def profile(*ballots):
    weights, orders = zip(*ballots, strict=True)
    names = tuple(sorted(orders[0]))
    ranks = np.array([[order.index(name) for name in names] for order in orders])
    return Profile(names, ranks, np.array(weights, float))


def winners(election, method):
    return {election.names[x] for x in vote(election, method, k=2, winners=1).winners}


@pytest.mark.parametrize(('method', 'ballots', 'best', 'elected'), [
    ('approval', [(1, 'bca'), (2, 'abc')], 'a', {'b'}),
    ('borda', [(3, 'cba'), (2, 'bac')], 'c', {'b'}),
    ('plurality', [(2, 'cba'), (1, 'bac'), (2, 'abc')], 'b', {'a', 'c'}),
    ('stv', [(1, 'acb'), (2, 'bac'), (2, 'cab')], 'a', {'c'})])
def test_a_condorcet_winner_can_lose(method, ballots, best, elected):
    election = profile(*ballots)
    assert [election.names[x] for x in election.condorcet_winners()] == [best]
    assert winners(election, method) == elected


@pytest.mark.parametrize(('method', 'first', 'second', 'agreed', 'together'), [
    ('stv', [(2, 'bac'), (1, 'cab'), (1, 'cba'), (1, 'acb')],
     [(3, 'abc'), (3, 'cba'), (1, 'cab')], {'c'}, {'a', 'c'}),
    ('copeland', [(1, 'bcda'), (2, 'cadb'), (1, 'dbca'), (1, 'bcad'), (1, 'adbc')],
     [(1, 'cbda'), (2, 'cdab'), (1, 'bcad'), (1, 'bcda')], {'c'}, {'b', 'c', 'd'}),
    ('kemeny_young', [(5, 'cdba'), (5, 'abcd'), (4, 'dbac')],
     [(7, 'dacb'), (6, 'cbda'), (2, 'bdac'), (7, 'abdc')], {'d'}, {'b'}),
    ('schulze', [(1, 'cba'), (3, 'bca'), (1, 'abc'), (2, 'cab')],
     [(3, 'bac'), (2, 'cba'), (2, 'acb')], {'b'}, {'b', 'c'}),
    ('ranked_pairs', [(9, 'dabc'), (7, 'bcda'), (6, 'cdba')],
     [(3, 'cabd'), (5, 'dacb'), (2, 'badc'), (3, 'cdab')], {'d'}, {'c'})])
def test_two_electorates_can_agree_and_be_overruled(method, first, second, agreed, together):
    assert winners(profile(*first), method) == agreed
    assert winners(profile(*second), method) == agreed
    assert winners(profile(*first, *second), method) == together


@pytest.mark.parametrize(('method', 'before', 'after', 'clones', 'won', 'wins'), [
    ('approval', [(3, 'cab'), (1, 'acb'), (1, 'abc')],
     [(2, 'cdab'), (1, 'dcab'), (1, 'adcb'), (1, 'abcd')], 'cd', {'a'}, {'d'}),
    ('borda', [(2, 'ba'), (3, 'ab')], [(2, 'bca'), (3, 'abc')], 'bc', {'a'}, {'b'}),
    ('plurality', [(4, 'ba'), (3, 'ab')], [(2, 'cba'), (3, 'acb'), (2, 'bca')], 'bc',
     {'b'}, {'a'}),
    ('copeland', [(1, 'cbda'), (2, 'acbd'), (7, 'cdab'), (8, 'bdac')],
     [(1, 'cbdea'), (2, 'aecbd'), (7, 'cdeab'), (8, 'bdeac')], 'ae', {'c'}, {'e'}),
    ('kemeny_young', [(10, 'bcad'), (5, 'cdba'), (9, 'dbca')],
     [(3, 'becad'), (7, 'ebcad'), (5, 'cdbea'), (9, 'dbeca')], 'be', {'b'}, {'d'})])
def test_a_clone_can_change_who_wins(method, before, after, clones, won, wins):
    for _, order in after:
        assert abs(order.index(clones[0]) - order.index(clones[1])) == 1
    assert winners(profile(*before), method) == won
    assert winners(profile(*after), method) == wins


def test_schulze_differs_by_winning_votes_and_by_margins_on_partial_ballots():
    from arena_robot.ranking.voting.profile import profile_from_json
    election = profile_from_json({'alternatives': ['a', 'b', 'c'], 'votes': [
        {'weight': 6, 'ranking': ['a', 'b']}, {'weight': 5, 'ranking': ['b', 'a']},
        {'weight': 5, 'ranking': ['b', 'c']}, {'weight': 2, 'ranking': ['c', 'b']},
        {'weight': 4, 'ranking': ['c', 'a']}]})
    # a beats b 6:5, b beats c 5:2, c beats a 4:0; the weakest link is c-a by votes, a-b by margin
    assert vote(election, 'schulze').winners == (0,)
    assert vote(election, 'ranked_pairs').winners == (1,)
