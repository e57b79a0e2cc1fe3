"""`arena study papers` says of every published line whether it is found again."""

import json
import re

import numpy as np
import pytest
from roboarena_tables import SAMPLE

from arena_robot.cli.main import main
from arena_robot.ranking.reproduce.games import ELO, VOTES, atari_lines, elo


def agreements(capsys, *words):
    assert main(['study', 'papers', *words, '--json']) == 0
    return {one['what']: one for one in json.loads(capsys.readouterr().out)}


def test_without_data_only_what_is_printed_whole_is_checked(capsys):
    found = agreements(capsys)
    assert found['table 2, four strategies have one deviation rating']['agreement'] == 'reproduced'
    nash = found['table 2, uniform rating of N']
    assert (nash['agreement'], nash['found'], nash['published']) == (
        'differs', '-2496/964', '-2497/964')
    assert found['figure 2, four models share the first place']['agreement'] == 'cannot be checked'
    assert main(['study', 'papers']) == 0
    assert '4 reproduced, 1 differs, 0 within the noise, 4 cannot' in capsys.readouterr().out


def test_roboarenas_tables_are_compared_line_by_line(capsys):
    found = agreements(capsys, '--roboarena', str(SAMPLE))
    assert found['rollouts behind the oracle']['found'] == '464'
    assert found['rollouts behind the oracle']['agreement'] == 'differs'
    assert 'snapshot' in found['rollouts behind the oracle']['why']
    task = found['figure 6, TASK agrees better with the oracle than Elo and Bradley–Terry']
    assert task['agreement'] == 'within the noise'
    assert re.search(r'smallest margin [-+]0\.\d{4} \[-0\.\d{4}, \+0\.\d{4}\]', task['found'])
    flow = found['figure 5, FAST is better than flow (pi0)']
    assert (flow['agreement'], '[+0.' in flow['found']) == ('reproduced', True)
    assert '%' in found['preference does not agree with progress']['found']
    assert '%' in found['figure 8, accuracy of task categories']['found']


def test_a_table_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / 'scores.csv').write_text('model,a,b\nx,1,no\n')
    assert main(['study', 'papers', '--livebench', str(tmp_path / 'scores.csv')]) == 2
    assert 'is not a table of scores' in capsys.readouterr().err


def test_the_printed_tables_are_whole_and_a_made_up_one_differs():
    for count, names in ((8, set(ELO[8])), (10, set(ELO[10]))):
        assert len(names) == count
        assert all(set(table) == names for table in VOTES[count].values())
    # Borda's points of 54 complete ballots.
    assert sum(VOTES[8]['borda'].values()) == 54 * 28
    assert sum(VOTES[10]['borda'].values()) == pytest.approx(54 * 45)
    agents = sorted(ELO[8])
    scores = np.random.default_rng(0).random((8, 54))
    lines = atari_lines(agents, scores)
    assert len(lines) == 12
    assert sum(one.agreement.value == 'differs' for one in lines) >= 9
    assert min(elo(agents, scores).values()) == 0
