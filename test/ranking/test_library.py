"""What notebooks use: names of the package, tables in and out, HTML."""

import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from arena_robot.core.errors import RankingError
from arena_robot.ranking import Comparisons, from_frame, rank, to_frame
from arena_robot.ranking.frames import columns
from arena_robot.ranking.standings import place_words

ROWS = {'policy_a': ['pi0', 'octo', 'pi0', 'act'] * 5,
        'policy_b': ['octo', 'act', 'act', 'pi0'] * 5,
        'preference': ['A', 'tie', 'a', 'A', 'B', 'B', 'A', 'TIE', 'A', 'A'] * 2,
        'evaluator': ['eve', 'ann'] * 10}


def test_a_mapping_and_an_arrow_table_are_read_alike():
    found = from_frame(ROWS, evaluator='evaluator')
    assert found.items == ('act', 'octo', 'pi0')
    assert [found.items[k] for k in found.first[:3]] == ['pi0', 'octo', 'pi0']
    assert found.outcome[:5].tolist() == [1, 0.5, 1, 1, 0]
    assert found.evaluators == ('eve', 'ann')
    arrow = from_frame(pyarrow.table(ROWS), evaluator='evaluator')
    assert np.array_equal(arrow.outcome, found.outcome)
    assert np.array_equal(arrow.first, found.first)
    numbers = from_frame({**ROWS, 'preference': found.outcome.tolist()})
    assert np.array_equal(numbers.outcome, found.outcome)


@pytest.mark.parametrize(('changes', 'options', 'words'), [
    ({}, {'outcome': 'winner'}, "no column 'winner'; it has policy_a"),
    ({'preference': ['left'] * 20}, {}, "'preference' has 'left'; expected A, B or tie"),
    ({'policy_a': [None] * 20}, {}, "column 'policy_a' is empty in row 0"),
    ({'policy_a': ['act'] * 20, 'policy_b': ['act'] * 20}, {}, 'compares act with itself'),
    ({}, {'weight': 'evaluator'}, "column 'evaluator' must hold numbers")])
def test_a_table_that_is_none_is_refused(changes, options, words):
    with pytest.raises(RankingError, match=words):
        from_frame({**ROWS, **changes}, **options)


def test_what_is_no_table_is_refused():
    with pytest.raises(RankingError, match='columns, found list'):
        from_frame([1, 2])


def test_standings_come_out_best_first_and_as_html_that_no_name_can_break():
    votes = from_frame({**ROWS, 'policy_a': [x.replace('pi0', '<b>&') for x in ROWS['policy_a']],
                        'policy_b': [x.replace('pi0', '<b>&') for x in ROWS['policy_b']]})
    found = rank(votes, intervals=50)
    assert isinstance(votes, Comparisons)
    out = columns(found)
    assert out['policy'][0] == found.items[found.order[0]]
    assert out['score'] == sorted(out['score'], reverse=True)
    assert set(out) >= {'rank', 'low', 'high', 'n', 'rank_low_joint', 'too_few'}
    html = found._repr_html_()
    assert '&lt;b&gt;&amp;' in html
    assert '<b>' not in html
    assert [f'<td>{place_words(found, k)}</td>' in html for k in found.order] == [True] * 3
    few = rank(from_frame({name: rows[:6] for name, rows in ROWS.items()}), intervals=20)
    assert few._repr_html_().count('<td>too few to tell</td>') == 3
    with pytest.raises(RankingError, match="no data frame 'excel'; known: pandas, polars"):
        to_frame(found, 'excel')


def test_the_example_of_the_page_prints_what_the_page_says(capsys):
    page = (Path(__file__).parents[2] / 'docs' / 'ranking.md').read_text(encoding='utf-8')
    example, shown = re.search(r'<!-- example -->\n```python\n(.*?)```\n\n```\n(.*?)```', page,
                               re.DOTALL).groups()
    exec(example, {})
    assert capsys.readouterr().out == shown
