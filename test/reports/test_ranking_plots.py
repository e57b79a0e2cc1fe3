import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from arena_robot.core.errors import DataError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank
from arena_robot.reports.ranking_plots import plot_efficiency, plot_standings, plot_win_matrix

VOTES = Comparisons.build([0, 1, 2, 0, 1], [1, 2, 0, 2, 0], [1, 1, 0.5, 1, 0.5],
                          items=['alpha', 'beta', 'gamma'])


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
    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert said.stdout == 'False\n'
