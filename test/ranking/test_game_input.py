"""Games from JSON and the command that rates them."""

import json

import numpy as np
import pytest

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.ranking.games.payoffs import game_from_json

TABLE = {'scores': [[.9, .1, .5], [.2, .8, .5], [.5, .5, .1]], 'models': ['a', 'b', 'c'],
         'tasks': ['x', 'y', 'z'], 'kind': 'model_vs_model_vs_task'}
CYCLE = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
GAME = {'players': 2, 'shape': [3, 3], 'payoffs': [CYCLE, (-np.array(CYCLE)).tolist()],
        'labels': [['r', 'p', 's'], ['r', 'p', 's']]}


@pytest.mark.parametrize(('change', 'said'), [
    ({'kind': 'models'}, "needs 'kind'"),
    ({'scores': [[1, 2], [3]]}, 'nested lists of numbers'),
    ({'scores': [[1, None], [3, 4]]}, 'score of model 0 on task 1 is nan'),
    ({'scores': [['high', 1]]}, 'nested lists of numbers'),
    ({'scores': []}, 'table of models by tasks'),
    ({'models': ['a', 'b']}, 'must be 3 different names; found 2'),
    ({'models': ['a', 'b', 'b']}, 'found 3, 2 of them different'),
    ({'tasks': 'xyz'}, "'tasks' must be a list of names"),
    ({'weights': [1, 1]}, 'unknown keys weights')])
def test_bad_tables_are_refused_with_a_reason(change, said):
    with pytest.raises(DataError, match=said):
        game_from_json({**TABLE, **change})


@pytest.mark.parametrize(('change', 'said'), [
    ({'players': 0}, "needs 'players'"),
    ({'players': 3}, 'each of the 3 players; found 2'),
    ({'shape': [3, 2]}, r'have shape \[3, 3\]'),
    ({'payoffs': [CYCLE, [[0, 1], [1, 0]]]}, r'player 1 have shape \[2, 2\]'),
    ({'payoffs': [CYCLE, [[0, 1], [1, 0]]], 'shape': None}, 'all of one shape'),
    ({'payoffs': [CYCLE, [[float('nan')] * 3] * 3]}, r'player 1 at \[0, 0\] is nan'),
    ({'labels': [['r', 'p', 's']]}, "'labels' must be null or"),
    ({'labels': [['r', 'p'], ['r', 'p', 's']]}, 'labels of player 0 must be 3'),
    ({'name': 'rps'}, 'unknown keys name')])
def test_bad_games_are_refused_with_a_reason(change, said):
    with pytest.raises(DataError, match=said):
        game_from_json({**GAME, **change})


def test_names_are_made_up_where_none_are_given():
    assert game_from_json({**TABLE, 'models': None}).names[0] == ('model 0', 'model 1', 'model 2')
    assert game_from_json({**GAME, 'labels': None}).names[1] == ('0', '1', '2')


def run(tmp_path, capsys, data, *words):
    path = tmp_path / 'game.json'
    path.write_text(json.dumps(data), encoding='utf-8')
    code = main(['game', str(path), *words])
    return code, capsys.readouterr()


def test_the_command_prints_ratings_that_its_equilibrium_has(tmp_path, capsys):
    code, out = run(tmp_path, capsys, TABLE, '--rating', 'deviation', '--json')
    assert code == 0
    answer = json.loads(out.out)
    assert [len(r) for r in answer['ratings']] == [3, 3, 3]
    scores = np.array(TABLE['scores'])
    sigma = np.zeros((3, 3, 3))
    sigma[tuple(np.transpose(answer['equilibrium']['joint']))] = \
        answer['equilibrium']['probability']
    gain = scores[:, None, None, :] - scores[None, :, None, :]
    np.testing.assert_allclose((sigma * gain).sum(axis=(1, 2, 3)), answer['ratings'][0],
                               atol=1e-9)
    np.testing.assert_allclose(np.sum(answer['contributions'], axis=1), answer['ratings'][0],
                               atol=1e-9)
    assert answer['diagnostics']['residual'] < 1e-9


@pytest.mark.parametrize('rating', ['deviation', 'nash', 'uniform', 'alpha_rank'])
def test_every_rating_of_a_fair_game_is_equal(tmp_path, capsys, rating):
    code, out = run(tmp_path, capsys, GAME, '--rating', rating, '--json')
    assert code == 0
    ratings = np.array(json.loads(out.out)['ratings'])
    np.testing.assert_allclose(ratings, ratings[0, 0], atol=1e-9)
    code, out = run(tmp_path, capsys, GAME, '--rating', rating)
    assert code == 0
    assert f'player 2: {rating} ratings' in out.out


def test_normalise_is_for_tables(tmp_path, capsys):
    table = {**TABLE, 'scores': [[900, .1, .5], [200, .8, .5], [500, .5, .1]]}
    code, out = run(tmp_path, capsys, table, '--normalise', '--rating', 'uniform', '--json')
    assert code == 0
    assert max(json.loads(out.out)['ratings'][0]) < 1
    code, out = run(tmp_path, capsys, GAME, '--normalise')
    assert code == 2
    assert 'tables of scores' in out.err


def test_bad_requests_end_with_exit_code_two(tmp_path, capsys):
    code, out = run(tmp_path, capsys, TABLE, '--rating', 'nash')
    assert code == 2
    assert "for the kind 'model_vs_task'" in out.err
    code, out = run(tmp_path, capsys, {**TABLE, 'scores': [[float('nan')]]}, '--json')
    assert code == 2
    assert 'is nan' in out.err
    code, out = run(tmp_path, capsys, GAME, '--plot', str(tmp_path / 'x.png'))
    assert code == 2
    assert 'task contributions' in out.err
