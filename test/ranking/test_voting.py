"""Worked cases in voting_cases.json: every rule against numbers by hand or published."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from roboarena_tables import SAMPLE, WHOLE, needs_whole

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.ranking.games.deviation import rate_table
from arena_robot.ranking.games.payoffs import game_from_json
from arena_robot.ranking.voting.profile import Profile, from_games, from_scores, profile_from_json
from arena_robot.ranking.voting.rules import RULES, vote
from arena_robot.ranking.voting.scoring import result_to_json

CASES = json.loads((Path(__file__).parent / 'voting_cases.json').read_text(encoding='utf-8'))
ANSWERS = [pytest.param(case, method, id=f'{i}-{method}')
           for i, case in enumerate(CASES) for method in case['expected']]
GOOD = {'alternatives': ['a', 'b', 'c', 'd'], 'unranked': 'ignored',
        'votes': [{'weight': 1, 'ranking': ['a', ['b', 'c'], 'd']}, {'ranking': ['b', 'a']}]}
ROOT = Path(__file__).parents[2]
# The counted verdicts, and who wins the ballots of the sessions.
FOUND = {SAMPLE: (66, 'pi0_fast_droid'), WHOLE: (517, 'pi0_fast_droid')}


@pytest.mark.parametrize(('case', 'method'), ANSWERS)
def test_a_rule_gives_the_worked_answer(case, method):
    profile = profile_from_json(case['profile'])
    expected = dict(case['expected'][method])
    result = vote(profile, method, expected.pop('k', None), expected.pop('winners_wanted', None))
    answer = result_to_json(result, profile.names)
    for key, value in expected.items():
        if isinstance(value, dict):
            assert answer[key] == pytest.approx(value, abs=1e-12), key
        else:
            assert answer[key] == value, key


@pytest.mark.parametrize('case', [c for c in CASES if 'preferences' in c],
                         ids=lambda c: c['case'][:30])
def test_preferences_and_condorcet_winner(case):
    profile = profile_from_json(case['profile'])
    np.testing.assert_array_equal(profile.preferences, case['preferences'])
    np.testing.assert_array_equal(profile.margins, -profile.margins.T)
    if 'condorcet' in case:
        assert [profile.names[x] for x in profile.condorcet_winners()] == case['condorcet']


def test_every_rule_has_a_worked_case():
    assert set(RULES.built_in) == {method for case in CASES for method in case['expected']}


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


@pytest.mark.parametrize(('change', 'said'), [
    ({'alternatives': ['a', 'a', 'b']}, 'named twice: a'),
    ({'alternatives': ['a']}, 'at least two'),
    ({'alternatives': ['a', 3]}, '3 is not a name'),
    ({'alternatives': 'abc'}, "needs 'alternatives'"),
    ({'votes': []}, 'at least one ballot'),
    ({'votes': [{'ranking': []}]}, "ballot 0 needs 'ranking'"),
    ({'votes': [{'ranking': ['a', 'e']}]}, "names 'e', which is not among"),
    ({'votes': [{'ranking': ['a', ['b', 'a']]}]}, "lists 'a' twice"),
    ({'votes': [{'ranking': ['a', []]}]}, 'empty tie'),
    ({'votes': [{'ranking': [['a', ['b']]]}]}, 'which is not among'),
    ({'votes': [{'ranking': ['a'], 'weight': -1}]}, 'weight -1'),
    ({'votes': [{'ranking': ['a'], 'weight': float('nan')}]}, 'weight nan'),
    ({'votes': [{'ranking': ['a'], 'weight': float('inf')}]}, 'weight inf'),
    ({'votes': [{'ranking': ['a'], 'weight': True}]}, 'weight True'),
    ({'votes': [{'ranking': ['a'], 'weight': 0}]}, 'positive weight'),
    ({'votes': [{'ranking': ['a'], 'wieght': 2}]}, 'unknown keys wieght'),
    ({'votes': ['a']}, 'ballot 0 must be an object'),
    ({'unranked': 'first'}, "'ignored' or 'last'"),
    ({'unraked': 'last'}, 'unknown keys unraked')])
def test_bad_profiles_are_refused_with_a_reason(change, said):
    profile_from_json(GOOD)
    with pytest.raises(DataError, match=said):
        profile_from_json({**GOOD, **change})


@pytest.mark.parametrize(('make', 'said'), [
    (lambda: from_scores([[1, 2], [3, np.nan]], ['p', 'q']), 'score of q on task 1 is nan'),
    (lambda: from_scores([[1, np.inf], [3, 4]], ['p', 'q'], missing_unlisted=True), 'inf'),
    (lambda: from_scores([1, 2], ['p', 'q']), 'do not fit 2 agents'),
    (lambda: from_games([0], [0], [1], ['p', 'q']), 'one against itself'),
    (lambda: from_games([0], [2], [1], ['p', 'q']), 'outside 0 … 1'),
    (lambda: from_games([0], [1], [.3], ['p', 'q']), 'neither 1'),
    (lambda: from_games([0], [1], [1], ['p', 'q'], [-1]), 'negative'),
    (lambda: from_games([], [], [], ['p', 'q']), 'non-empty'),
    (lambda: Profile(('a', 'b'), np.zeros((2, 3), int), np.ones(2)), 'do not fit 2 ballots'),
    (lambda: vote(profile_from_json(GOOD), 'condorcet'), 'Known: approval'),
    (lambda: vote(profile_from_json(GOOD), 'approval', k=5), 'choose k from 1 to 4'),
    (lambda: vote(profile_from_json(GOOD), 'stv', winners=4), 'choose from 1 to 3')])
def test_bad_arguments_are_refused_with_a_reason(make, said):
    with pytest.raises(DataError, match=said):
        make()


def test_a_profile_says_what_its_ballots_leave_open():
    apart = profile_from_json({'alternatives': list('abcde'), 'votes': [
        {'ranking': ['a', 'b']}, {'ranking': ['c', 'd']}]})
    assert any('lists e' in w for w in apart.warnings())
    assert any('{a, b} and {c, d} and {e}' in w for w in apart.warnings())
    tied = profile_from_json({'alternatives': ['a', 'b'], 'votes': [{'ranking': [['a', 'b']]}]})
    assert any('all are tied' in w for w in tied.warnings())
    assert profile_from_json(GOOD).warnings() == ()


@pytest.fixture
def profile_file(tmp_path):
    path = tmp_path / 'profile.json'
    path.write_text(json.dumps(GOOD), encoding='utf-8')
    return str(path)


def test_the_command_prints_every_rule_as_json(profile_file, capsys):
    assert main(['vote', profile_file, '--method', 'all', '--k', '2', '--json']) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer['methods']) == list(RULES.built_in)
    for name, result in answer['methods'].items():
        assert {'scores', 'winners', 'tiers', 'unique'} <= set(result), name
    assert sum(answer['methods']['maximal_lottery']['lottery'].values()) == pytest.approx(1)
    levels = answer['methods']['iterative_maximal_lotteries']['levels']
    assert sorted(x for level in levels for x in level) == GOOD['alternatives']


def test_the_command_prints_a_readable_table(profile_file, capsys):
    assert main(['vote', profile_file, '--method', 'borda']) == 0
    assert 'borda: winners a' in capsys.readouterr().out
    assert main(['vote', profile_file, '--method', 'all']) == 0
    out = capsys.readouterr().out
    assert all(f'{name}: winners' in out for name in RULES.built_in)


def test_the_command_counts_as_the_tables_are_printed(tmp_path, capsys):
    path = tmp_path / 'pentathlon.json'
    path.write_text(json.dumps(CASES[0]['profile']), encoding='utf-8')
    scores = []
    for words in ([], ['--as-printed']):
        assert main(['vote', str(path), '--method', 'schulze', '--json', *words]) == 0
        scores.append(json.loads(capsys.readouterr().out)['scores'])
    assert scores == [{'A': 4, 'B': 0, 'C': 6}, {'A': 4, 'B': 0, 'C': 7}]
    tied = tmp_path / 'tied.json'
    tied.write_text(json.dumps(GOOD), encoding='utf-8')
    assert main(['vote', str(tied), '--method', 'stv', '--as-printed']) == 1
    assert 'without ties' in capsys.readouterr().err
    assert main(['vote', str(tied), '--method', 'all', '--as-printed', '--json']) == 0
    assert 'without ties' in json.loads(capsys.readouterr().out)['methods']['stv']['refused']


def test_the_command_goes_on_when_one_rule_refuses(tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = [f'n{i}' for i in range(30)]
    votes = [{'ranking': [names[i] for i in rng.permutation(30)]} for _ in range(40)]
    path = tmp_path / 'wide.json'
    path.write_text(json.dumps({'alternatives': names, 'votes': votes}), encoding='utf-8')
    assert main(['vote', str(path), '--method', 'all', '--json']) == 0
    answer = json.loads(capsys.readouterr().out)['methods']
    assert 'exact up to' in answer['kemeny_young']['refused']
    assert answer['schulze']['winners']
    assert main(['vote', str(path), '--method', 'kemeny_young']) == 1
    assert 'exact up to' in capsys.readouterr().err


@pytest.mark.parametrize(('text', 'said'), [
    ('{', 'is not JSON'), ('[]', 'must be an object'),
    ('{"alternatives": ["a", "b"], "votes": [{"ranking": ["a"], "weight": NaN}]}', 'weight nan')])
def test_the_command_refuses_bad_input_with_exit_code_two(tmp_path, capsys, text, said):
    path = tmp_path / 'bad.json'
    path.write_text(text, encoding='utf-8')
    assert main(['vote', str(path), '--method', 'borda']) == 2
    assert said in capsys.readouterr().err
    assert main(['vote', str(tmp_path / 'none.json'), '--method', 'borda']) == 2
    assert 'cannot read' in capsys.readouterr().err


@pytest.fixture(scope='module', params=[
    SAMPLE, pytest.param(WHOLE, marks=needs_whole)], ids=['sample', 'whole'])
def tables(request):
    return request.param


@pytest.fixture(scope='module')
def made(tables, tmp_path_factory):
    spec = importlib.util.spec_from_file_location('votes', ROOT / 'docs' / 'roboarena_votes.py')
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = tmp_path_factory.mktemp('votes')
    script.main(tables, out)
    return {name: json.loads((out / f'{name}.json').read_text(encoding='utf-8'))
            for name in ('preferences', 'sessions', 'categories')}


def test_sessions_as_ballots_have_a_condorcet_winner_that_every_rule_elects(made, tables):
    profile = profile_from_json(made['sessions'])
    assert profile.warnings() == ()
    best = profile.names.index(FOUND[tables][1])
    assert profile.condorcet_winners() == (best,)
    for method in RULES.built_in:
        assert vote(profile, method).winners[0] == best, method


def test_preferences_are_the_counted_verdicts(made, tables):
    profile = profile_from_json(made['preferences'])
    assert (len(profile.names), len(profile.ranks)) == (7, FOUND[tables][0])
    assert profile.ranks.max() == 1
    assert ((profile.ranks >= 0).sum(axis=1) == 2).all()


def test_contributions_of_the_categories_sum_to_the_ratings(made):
    game = game_from_json(made['categories'])
    rated = rate_table(game.scores, game.kind)
    np.testing.assert_allclose(rated.contributions.sum(axis=1), rated.ratings[0], atol=1e-9)
    assert rated.residual < 1e-9
