"""Bad profiles are refused with a reason; the command prints tables and full-precision JSON."""

import json

import numpy as np
import pytest

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.ranking.voting.profile import Profile, from_games, from_scores, profile_from_json
from arena_robot.ranking.voting.rules import RULES, vote

GOOD = {'alternatives': ['a', 'b', 'c', 'd'], 'unranked': 'ignored',
        'votes': [{'weight': 1, 'ranking': ['a', ['b', 'c'], 'd']}, {'ranking': ['b', 'a']}]}


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
    for name, found in answer['methods'].items():
        assert {'scores', 'winners', 'tiers', 'unique'} <= set(found), name
    assert sum(answer['methods']['maximal_lottery']['lottery'].values()) == pytest.approx(1)
    levels = answer['methods']['iterative_maximal_lotteries']['levels']
    assert sorted(x for level in levels for x in level) == GOOD['alternatives']


def test_the_command_prints_a_readable_table(profile_file, capsys):
    assert main(['vote', profile_file, '--method', 'borda']) == 0
    assert 'borda: winners a' in capsys.readouterr().out
    assert main(['vote', profile_file, '--method', 'all']) == 0
    out = capsys.readouterr().out
    assert all(f'{name}: winners' in out for name in RULES.built_in)


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
