"""Published tables and statements computed again: `arena study papers` line by line."""

import itertools
import sys

import numpy as np
import pytest

from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.reproduce import games as marris
from arena_robot.ranking.reproduce import vase
from arena_robot.ranking.reproduce.lines import Reproduction, close, mean_margin, ordered
from arena_robot.ranking.reproduce.vase import (
    ELO,
    PENTATHLON,
    VOTES,
    atari_lines,
    broken_ties,
    clashes,
    elo,
    kendall_error,
    pentathlon_lines,
    prediction_gains,
    prediction_lines,
    regime_line,
)
from arena_robot.ranking.voting.kemeny import soft_condorcet
from arena_robot.ranking.voting.profile import UNLISTED, Profile, from_scores
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import votes_over_lower

REPRODUCED, DIFFERS, OPEN, UNCHECKED = Reproduction


def test_the_printed_tables_are_whole():
    for count, names in ((8, set(ELO[8])), (10, set(ELO[10]))):
        assert len(names) == count
        assert all(set(table) == names for table in VOTES[count].values())
    # Borda's points of 54 complete ballots.
    assert sum(VOTES[8]['borda'].values()) == 54 * 28
    assert sum(VOTES[10]['borda'].values()) == pytest.approx(54 * 45)


def test_the_statements_on_the_pentathlon_are_found():
    lines = pentathlon_lines()
    found = {line.what: line.found for line in lines if line.agreement is REPRODUCED}
    assert len(found) == 6
    assert 'C > A > B' in found.values()
    assert 'A = C > B' in found.values()
    assert '1, 0, 2 and 4, 3, 3' in found.values()
    assert any(text.startswith('largest error 0.20, with ten copies 0.4')
               for text in found.values())
    rest = [line for line in lines if line.agreement is not REPRODUCED]
    assert [(line.what, line.published, line.why) for line in rest] == list(vase.WITHOUT_DATA)
    assert all((line.agreement is UNCHECKED and 'public' in line.why) or 'terms' in line.why
               for line in rest)


def test_elo_of_certain_win_rates_is_their_logit():
    points = elo(np.array([[0, 10.0], [1.0, 0]]))
    np.testing.assert_allclose(points, [400, 0], atol=0.5)


def printed(profile):
    """Return the tables of eight agents as the paper would print them of strict ballots."""
    tables = {}
    for name in VOTES[8]:
        result = vote(profile, name, 3, 3, as_printed=True)
        scores = result.scores
        if name == 'kemeny_young':
            scores = votes_over_lower(profile.preferences,
                                      tuple((x,) for tier in result.tiers for x in tier))
        tables[name] = dict(zip(profile.names, scores.tolist(), strict=True))
    points = elo(profile.preferences, vase.SMOOTHING)
    return tables, dict(zip(profile.names, points.round().tolist(), strict=True))


@pytest.fixture
def tied():
    """Return scores of eight agents in 53 games with ties in two, and the ways to break them."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(8, 53)).round(3) + np.linspace(0, 1, 8)[:, None]
    scores[1, 4], scores[5, 9], scores[6, 9] = scores[2, 4], scores[7, 9], scores[7, 9]
    return scores, list(broken_ties(from_scores(scores, sorted(ELO[8]))))


def test_ties_are_broken_in_every_way(tied):
    scores, ways = tied
    assert len(ways) == 2 * 6
    assert len({way.ranks.tobytes() for way in ways}) == 12
    weak = from_scores(scores, sorted(ELO[8])).ranks
    for way in ways:
        assert way.strict
        assert (np.sign(weak[:, :, None] - weak[:, None, :])
                * np.sign(way.ranks[:, :, None] - way.ranks[:, None, :]) >= 0).all()


def test_the_way_in_which_ties_were_broken_is_found(tied, monkeypatch):
    scores, ways = tied
    agents, games = sorted(ELO[8]), [f'game{k}' for k in range(53)]
    tables, points = printed(ways[7])
    monkeypatch.setitem(VOTES, 8, tables)
    monkeypatch.setitem(ELO, 8, points)
    lines = {line.what: line for line in atari_lines(agents, games, scores)}
    broken = next(line for what, line in lines.items() if what.startswith('appendix E'))
    assert 'the 12 ways' in broken.what
    assert (broken.agreement, broken.found) == (
        REPRODUCED, '10 of 10 by the best, 10 by one each')
    assert all(lines[f'table 6, {name}'].agreement is REPRODUCED for name in tables)
    assert lines['table 5, Elo ratings of 8 agents'].agreement is REPRODUCED
    borda = lines['table 6, borda'].found
    assert 'with game4: ' in borda
    # each rule broke the ties in its own way: no single one is behind all tables
    tables['borda'] = printed(ways[4])[0]['borda']
    lines = {line.what: line for line in atari_lines(agents, games, scores)}
    broken = next(line for what, line in lines.items() if what.startswith('appendix E'))
    assert (broken.agreement, broken.found) == (DIFFERS, '9 of 10 by the best, 10 by one each')
    assert lines['table 6, borda'].agreement is REPRODUCED
    assert lines['table 6, borda'].found != borda


def test_made_up_scores_differ_line_by_line():
    agents, games = sorted(ELO[8]), [f'game{k}' for k in range(54)]
    scores = np.random.default_rng(0).random((8, 54))
    lines = atari_lines(agents, games, scores)
    assert sum(line.agreement is DIFFERS for line in lines) >= 12
    assert all(line.why for line in lines if line.agreement is DIFFERS)
    assert lines[0].found == '0 of 10 by the best, 0 by one each'


def test_the_same_scores_in_two_files_decide_nothing():
    agents = sorted(ELO[8])
    scores = np.random.default_rng(0).random((8, 54))
    assert regime_line(agents, scores, scores.copy()).agreement is UNCHECKED
    other = regime_line(agents, scores, -scores)
    assert (other.agreement, other.found) == (DIFFERS, '0 of 9 rules: ')
    assert regime_line(agents, scores, 2 * scores).agreement is REPRODUCED


def test_pairs_put_both_ways_round_clash():
    clash = clashes([np.array([0, 1, 2]), np.array([0, 2, 1]), np.array([0, 1, 1])])
    assert np.argwhere(clash).tolist() == [[1, 2], [2, 1]]


@pytest.mark.parametrize('seed', range(5))
def test_kendalls_error_counts_pairs_in_the_wrong_order(seed):
    rng = np.random.default_rng(seed)
    ranks = np.argsort(rng.random((6, 5)), axis=1) // (1 + seed % 2)
    ranks = np.where(ranks < rng.integers(1, 6, (6, 1)), ranks, UNLISTED)
    scores = rng.integers(0, 4, 5).astype(float)
    wrong = 0.0
    for row in ranks:
        for x, y in itertools.permutations(range(5), 2):
            if row[x] != UNLISTED and row[y] != UNLISTED and row[x] < row[y]:
                wrong += float(scores[x] < scores[y]) + (scores[x] == scores[y]) / 2
    test = Profile(tuple('abcde'), ranks, np.ones(6))
    assert kendall_error(scores, test) == pytest.approx(wrong / 6)


def test_ballots_that_all_agree_are_predicted_without_error():
    profile = from_scores(np.arange(5.0)[:, None] + np.zeros((5, 30)), list('abcde'))
    gains = prediction_gains(profile, 3)
    assert {name: error for name, (error, _) in gains.items() if error < 1e-9}.keys() >= {
        'elo', 'copeland', 'borda'}
    # nobody but the best is ever first: plurality ties the other four, half an error for each pair
    assert gains['plurality'][0] == pytest.approx(3.0)
    assert [line.agreement for line in prediction_lines(profile, 3)][1] is OPEN


def test_worse_predictions_than_elos_differ():
    rng = np.random.default_rng(0)
    profile = from_scores(rng.normal(size=(6, 200)) + np.arange(6.0)[:, None], list('abcdef'))
    gains = prediction_gains(profile, 20)
    assert all(error > 0 for error, _ in gains.values())
    assert (gains['plurality'][1] < 0).all()


def test_mixtures_of_shapleys_game_rate_as_published():
    lines = marris.population_lines()
    assert [line.agreement for line in lines] == [REPRODUCED] * 4
    assert [line.published for line in lines] == [
        'equal R > P > S', 'equal S > R > P', 'equal', 'P > R; P, R']
    assert lines[3].found == '-3.38 > -3.5; P, R'


def test_a_tie_for_the_first_place_is_counted_with_and_without_a_game():
    agents = ['r2d2(bandit)', 'agent57', 'muzero', 'ngu', 'dqn']
    games = ['solaris', 'pitfall', 'asteroids', marris.LEFT_OUT]
    scores = np.vstack([np.eye(4), np.full((1, 4), 0.1)])
    task, pair = marris.atari_tie_lines(agents, games, scores)
    assert (task.agreement, pair.agreement) == (DIFFERS, REPRODUCED)
    assert pair.found == ('3 of 5: r2d2(bandit), agent57, muzero; with montezuma_revenge 4: '
                          'r2d2(bandit), agent57, muzero, ngu')


def test_without_open_spiel_figure_3_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyspiel', None)
    line, = marris.improvement_lines()
    assert (line.agreement, line.found) == (UNCHECKED, '')
    assert 'pip install open_spiel' in line.why


def test_figure_3_is_played_with_open_spiel():
    spiel = pytest.importorskip('pyspiel', reason='the package open_spiel is not installed')
    name = marris.GAMES['three-player Kuhn poker'][0]
    once, again, uniform = (marris.gap_before_and_after(spiel, name, 3, 1, uniform=uniform)
                            for uniform in (False, False, True))
    assert once == again
    assert once[0] == uniform[0]
    assert min(once + uniform) > 0
    assert once[0] != once[1]


def test_figure_3_is_told_by_margins_over_populations(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyspiel', object())
    monkeypatch.setattr(marris, 'gap_before_and_after', lambda _, name, rounds, seed, uniform: (
        10.0, 5.0 + seed / 10 + uniform * ('sheriff' in name) * (seed - 5)))
    kuhn, sheriff, more = marris.improvement_lines()
    assert [kuhn.agreement, sheriff.agreement, more.agreement] == [REPRODUCED, REPRODUCED, OPEN]
    assert 'from 10.000 to 5.200 by deviation and to 5.200 by uniform' in kuhn.found


def test_whole_ballots_go_on_in_their_order():
    orders = ['abc', 'abc', 'acb', 'acb', 'bac', 'cab']
    ranks = np.array([[order.index(name) for name in 'abc'] for order in orders])
    for rows, elected, scores in (([0, 1, 2, 3, 4, 5], (0, 2), [6.4, 3.1, 5.3]),
                                  ([3, 2, 1, 0, 4, 5], (0, 1), [6.4, 5.3, 3.1])):
        result = vote(Profile(tuple('abc'), ranks[rows], np.ones(6)), 'stv', winners=2,
                      as_printed=True)
        assert result.winners == elected
        np.testing.assert_allclose(result.scores, scores)
    # together in one ballot of weight 2: the first three votes of a are spent all the same
    merged = Profile(tuple('abc'), ranks[[0, 2, 4, 5]], np.array([2.0, 2, 1, 1]))
    assert vote(merged, 'stv', winners=2, as_printed=True).winners == (0, 2)
    with pytest.raises(RankingError, match='whole'):
        vote(Profile(tuple('abc'), ranks, np.full(6, 0.5)), 'stv', as_printed=True)
    with pytest.raises(RankingError, match='without ties'):
        vote(Profile(tuple('abc'), ranks // 2, np.ones(6)), 'stv', as_printed=True)


def test_schulze_as_printed_adds_the_neighbours_of_the_order():
    np.testing.assert_array_equal(vote(PENTATHLON, 'schulze', as_printed=True).scores, [4, 0, 7])
    np.testing.assert_array_equal(vote(PENTATHLON, 'schulze').scores, [4, 0, 6])
    assert vote(PENTATHLON, 'borda', as_printed=True).scores.tolist() == [6, 3, 6]


def loss(N, ratings):
    return (N / (1 + np.exp(ratings[:, None] - ratings))).sum()


@pytest.mark.parametrize('seed', range(6))
def test_soft_condorcet_descends_and_orders_nearly_as_kemeny_young(seed):
    rng = np.random.default_rng(seed)
    profile = from_scores(rng.normal(size=(6, 41)) + np.linspace(0, 1, 6)[:, None], 'abcdef')
    N = profile.preferences / 41
    losses = [loss(N, soft_condorcet(profile, steps=steps).scores) for steps in (1, 30, 1000)]
    assert loss(N, np.zeros(6)) > losses[0] > losses[1] > losses[2]
    step = soft_condorcet(profile, steps=1).scores / 0.1
    slope = [(loss(N, shift) - loss(N, -shift)) / 2e-4 for shift in np.eye(6) * 1e-4]
    np.testing.assert_allclose(step, np.negative(slope), atol=1e-5)
    best = vote(profile, 'kemeny_young')
    order = [x for tier in vote(profile, 'soft_condorcet').tiers for x in tier]
    value = sum(profile.preferences[x, y] for x, y in itertools.combinations(order, 2))
    most = sum(profile.preferences[x, y] for x, y in itertools.combinations(
        [x for tier in best.tiers for x in tier], 2))
    assert value >= 0.97 * most


def test_soft_condorcet_is_that_of_open_spiel():
    sco = pytest.importorskip('open_spiel.python.voting.soft_condorcet_optimization',
                              reason='the package open_spiel is not installed')
    base = pytest.importorskip('open_spiel.python.voting.base')
    votes = [base.WeightedVote(1, ['A', 'B', 'C']), base.WeightedVote(1, ['A', 'C', 'B']),
             base.WeightedVote(2, ['C', 'A', 'B']), base.WeightedVote(1, ['B', 'C', 'A'])]
    theirs = sco.SoftCondorcetOptimizer(
        base.PreferenceProfile(votes=votes, alternatives=list('ABC')), batch_size=0,
        rating_lower_bound=-100.0, rating_upper_bound=100.0)
    ratings, _ = theirs.run_solver(1000, learning_rate=0.1)
    np.testing.assert_allclose(vote(PENTATHLON, 'soft_condorcet').scores, ratings, atol=1e-3)


def test_soft_condorcet_refuses_what_cannot_be_descended():
    with pytest.raises(DataError, match='temperature above 0'):
        soft_condorcet(PENTATHLON, temperature=0)
    with pytest.raises(DataError, match='at least one step'):
        soft_condorcet(PENTATHLON, steps=0)


@pytest.mark.parametrize(('margin', 'stated', 'near'), [
    ((0.1, 0.05, 0.15), REPRODUCED, DIFFERS), ((0.01, -0.01, 0.015), OPEN, REPRODUCED),
    ((0.01, -0.05, 0.07), OPEN, OPEN), ((-0.1, -0.15, -0.05), DIFFERS, DIFFERS)])
def test_a_statement_is_reproduced_only_where_its_margin_allows(margin, stated, near):
    order = ordered('p', 'w', 'x', 'y', [(1.0, 0.9, 1.1), margin], 'of reasons')
    assert order.agreement is stated
    assert ('cannot be told' in order.words()) == (stated is OPEN)
    nearness = close('p', 'w', 'x', 'y', margin, 0.02, 'of reasons')
    assert nearness.agreement is near
    assert f'[{margin[1]:+.4f}, {margin[2]:+.4f}]' in nearness.found


def test_a_mean_has_the_interval_of_student():
    # two degrees of freedom
    assert mean_margin([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2 - 2.484138, 2 + 2.484138))
