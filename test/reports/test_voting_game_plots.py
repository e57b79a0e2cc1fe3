import numpy as np
import pytest
from PIL import Image

from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.ranking.voting.profile import from_scores
from arena_robot.reports.game_plots import _needed, draw_contributions, draw_ranked_pairs

SCORES = np.random.default_rng(0).random((5, 12))
NAMES = tuple(f'policy {i}' for i in range(5))


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
