import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank
from arena_robot.ranking.plots import plot_efficiency, plot_standings, plot_win_matrix
from arena_robot.ranking.voting.profile import from_scores
from arena_robot.reports.game_plots import _needed, draw_contributions, draw_ranked_pairs

VOTES = Comparisons.build([0, 1, 2, 0, 1], [1, 2, 0, 2, 0], [1, 1, 0.5, 1, 0.5],
                          items=['alpha', 'beta', 'gamma'])
SCORES = np.random.default_rng(0).random((5, 12))
NAMES = tuple(f'policy {i}' for i in range(5))


@pytest.mark.parametrize('suffix', ['png', 'svg'])
@pytest.mark.parametrize('intervals', [0, 30])
def test_every_picture_is_written(tmp_path, suffix, intervals):
    result = rank(VOTES, 'elo', intervals=intervals)
    curves = {f'm{k}': {10: {'pearson': (0.5, 0.4, 0.6), 'mmrv': (0.1, 0.0, 0.2)},
                        20: {'pearson': (0.8, 0.7, 0.9), 'mmrv': (np.nan,) * 3}}
              for k in range(2)}
    paths = [tmp_path / 'new' / f'{name}.{suffix}' for name in ('one', 'two', 'three')]
    plot_standings(result, paths[0], 'Elo points')
    plot_win_matrix(VOTES, result, paths[1])
    plot_efficiency(curves, paths[2])
    for path in paths:
        if suffix == 'png':
            with Image.open(path) as image:
                assert min(image.size) > 100
                assert len(image.convert('RGB').getcolors(1 << 20)) > 20
        else:
            assert '</svg>' in path.read_text()
    if suffix == 'svg':
        assert paths[0].stat().st_size > 2000


def test_other_kinds_of_file_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"'.*x.pdf'.*\.png or \.svg"):
        plot_standings(rank(VOTES, 'elo'), tmp_path / 'x.pdf')
    (tmp_path / 'file').write_text('')
    with pytest.raises(DataError, match='cannot draw'):
        plot_standings(rank(VOTES, 'elo'), tmp_path / 'file' / 'x.png')


def test_a_site_that_starts_does_not_wait_for_matplotlib():
    code = "import sys, arena_robot.web.site.app; print('matplotlib' in sys.modules)"
    assert subprocess.check_output([sys.executable, '-c', code], text=True) == 'False\n'


@pytest.mark.parametrize('suffix', ['png', 'svg'])
@pytest.mark.parametrize('scores', [SCORES, [[0, 1, 2], [2, 0, 1], [1, 2, 0]], np.zeros((2, 1))])
def test_pictures_are_written_also_of_cycles_and_of_nothing(tmp_path, suffix, scores):
    table = np.asarray(scores, float)
    graph, bars = tmp_path / 'new' / f'graph.{suffix}', tmp_path / f'bars.{suffix}'
    draw_ranked_pairs(from_scores(table, NAMES[:len(table)]), graph)
    draw_contributions(table - .5, NAMES[:len(table)], [f't{i}' for i in range(table.shape[1])],
                       bars)
    for path in (graph, bars):
        if suffix == 'png':
            with Image.open(path) as image:
                assert min(image.size) > 60
                assert len(image.convert('RGB').getcolors(1 << 20)) > 10
        else:
            assert '</svg>' in path.read_text(encoding='utf-8')


def test_only_arrows_that_no_chain_implies_are_dark():
    chain = np.triu(np.ones((4, 4), dtype=bool), 1)
    np.testing.assert_array_equal(_needed(chain), np.eye(4, k=1, dtype=bool))


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"'.*x.pdf'.*\.png or \.svg"):
        draw_contributions(SCORES, NAMES, [str(i) for i in range(12)], tmp_path / 'x.pdf')
    with pytest.raises(DataError, match='do not fit 5 models and 3 tasks'):
        draw_contributions(SCORES, NAMES, ['a', 'b', 'c'], tmp_path / 'x.png')


def test_the_commands_draw(tmp_path, capsys):
    vote, game = tmp_path / 'vote.json', tmp_path / 'game.json'
    vote.write_text('{"alternatives": ["a", "b"], "votes": [{"ranking": ["a", "b"]}]}')
    game.write_text('{"scores": [[1, 0], [0, 1]], "kind": "model_vs_model_vs_task"}')
    assert main(['vote', str(vote), '--method', 'borda', '--plot', f'{tmp_path}/a.svg']) == 0
    assert main(['game', str(game), '--plot', f'{tmp_path}/b.svg']) == 0
    capsys.readouterr()
    assert (tmp_path / 'a.svg').exists()
    assert (tmp_path / 'b.svg').exists()
