"""What a stranger meets first: load, fit, and what the result answers."""

import csv
import doctest
import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from roboarena_tables import SAMPLE
from scipy.special import expit

from arena_robot import ranking
from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import METHODS
from arena_robot.ranking.pairwise.progress import Opd, PreferenceAudit
from arena_robot.records.roboarena_files import read_tables

PAGE = Path(__file__).parents[2] / 'docs' / 'ranking.md'
TUPLES = [('pi0', 'octo', 'A'), ('octo', 'act', 'tie'), ('pi0', 'act', 'A'), ('act', 'octo', 'B'),
          ('act', 'pi0', 'A')]
COLUMNS = ('first', 'second', 'outcome', 'weight', 'session', 'evaluator', 'institution')


def same(a, b):
    return a.items == b.items and a.evaluators == b.evaluators and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in COLUMNS)


@pytest.mark.parametrize('name', [
    'base', 'standings', 'loading', 'fitting', 'differences', 'methods', 'intervals.adjusted'])
def test_examples_in_docstrings_are_right(name):
    module = importlib.import_module(f'arena_robot.ranking.{name}')
    failed, attempted = doctest.testmod(module)
    assert failed == 0
    assert attempted > 0


def test_the_first_lines_of_the_page_print_what_they_say(tmp_path, monkeypatch, capsys):
    example, shown = re.search(r'```python\n(.*?)```\n\n```\n(.*?)```',
                               PAGE.read_text(encoding='utf-8'), re.DOTALL).groups()
    assert len(example.splitlines()) <= 5
    (tmp_path / 'sessions.csv').write_bytes((SAMPLE / 'sessions.csv').read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert capsys.readouterr().out == shown


def test_a_csv_file_counts_the_sessions_that_arena_rank_counts():
    data = read_tables(SAMPLE / 'sessions.csv')
    read, counted = ranking.load(SAMPLE / 'sessions.csv'), data.comparisons()
    kept = Comparisons.from_words(counted)
    assert len(read) == len(kept) < len(data.sessions)
    assert read.items == kept.items
    assert np.array_equal(read.outcome, kept.outcome)
    assert [read.evaluators[k] for k in read.evaluator] == [row.evaluator for row in counted]
    assert [read.institutions[k] for k in read.institution] == [
        row.institution for row in counted]


def test_pairs_that_a_server_chose_stay_marked():
    table = {'policy_a': ['a', 'b', 'a'], 'policy_b': ['b', 'a', 'b'],
             'preference': ['A', 'B', ''], 'valid': [1, 1, 1], 'chosen': ['0', '1', '1'],
             'waited_a': [0.1, '', 0.2], 'waited_b': [0.3, 0.4, 0.2]}
    votes = ranking.load(table)
    assert votes.chosen.tolist() == [False, True]
    assert np.isnan(votes.conditions.measures['waited'][1, 0])
    assert ranking.load({**table, 'chosen': ['', '', '']}).chosen is None


def test_tuples_tables_and_lmarena_are_read_alike(tmp_path):
    read = ranking.load(TUPLES)
    first, second, outcome = zip(*TUPLES, strict=True)
    battles = {'model_a': first, 'model_b': second, 'winner': [
        {'A': 'model_a', 'B': 'model_b'}.get(word, 'tie (bothbad)') for word in outcome]}
    assert same(ranking.load(battles), read)
    assert same(ranking.load({**battles, 'winner': [
        word.replace('tie (bothbad)', 'both_bad') for word in battles['winner']]}), read)
    assert same(ranking.load(pyarrow.table(battles)), read)
    named = {'robot': first, 'other': second, 'verdict': [
        {'A': 1, 'B': 0}.get(word, 0.5) for word in outcome]}
    assert same(ranking.load(named, first='robot', second='other', outcome='verdict'), read)
    path = tmp_path / 'battles.csv'
    with path.open('w', newline='', encoding='utf-8') as file:
        csv.writer(file).writerows([named, *zip(*named.values(), strict=True)])
    assert same(ranking.load(path, first='robot', second='other', outcome='verdict'), read)
    wins = [pair[::-1] if word == 'B' else pair for *pair, word in TUPLES if word != 'tie']
    assert ranking.load(wins).outcome.tolist() == [1, 1, 1, 1]


def test_frames_of_pandas_are_read_and_written():
    pandas = pytest.importorskip('pandas', reason='pandas is missing')
    table = pandas.DataFrame(TUPLES, columns=['model_a', 'model_b', 'winner'])
    assert same(ranking.load(table), ranking.load(TUPLES))
    counts = pandas.DataFrame([[np.nan, 2], [1, np.nan]], ['pi0', 'octo'], ['pi0', 'octo'])
    assert ranking.load(counts).items == ('pi0', 'octo')
    assert len(ranking.load(counts)) == 3
    result = ranking.fit(ranking.load(TUPLES), 'bt')
    frame = result.standings.to_pandas()
    assert frame['policy'].tolist() == [row.policy for row in result.standings]
    assert result.win_probabilities('pandas').set_index('policy').loc['pi0', 'act'] == \
        result.probability('pi0', 'act')


def test_frames_of_polars_are_read_and_written():
    polars = pytest.importorskip('polars', reason='polars is missing')
    table = polars.DataFrame(TUPLES, schema=['model_a', 'model_b', 'winner'], orient='row')
    assert same(ranking.load(table), ranking.load(TUPLES))
    assert same(ranking.load(table.lazy()), ranking.load(TUPLES))
    valid = table.with_columns(valid=polars.Series([1, 1, 1, 1, 0]))
    assert same(ranking.load(valid.lazy()), ranking.load(TUPLES[:4]))
    standings = ranking.fit(ranking.load(TUPLES), 'bt').standings
    assert standings.to_polars()['policy'].to_list() == [row.policy for row in standings]


def test_a_matrix_of_counts_has_as_many_verdicts_and_the_same_abilities():
    votes = ranking.load([[0, 3.5, 2], [1.5, 0, 4], [1, 2, 0]], names=['pi0', 'octo', 'act'])
    assert len(votes) == 14
    assert votes.outcome.tolist().count(0.5) == 1
    rows = [('pi0', 'octo', 'A')] * 3 + [('pi0', 'octo', 'B')] + [('pi0', 'octo', 'tie')] + [
        ('pi0', 'act', 'A')] * 2 + [('pi0', 'act', 'B')] + [('octo', 'act', 'A')] * 4 + [
        ('octo', 'act', 'B')] * 2
    by_rows = ranking.fit(ranking.load(rows), 'bt', intervals=0)
    by_counts = ranking.fit(votes, 'bt', intervals=0)
    assert by_counts['octo'].score == pytest.approx(by_rows['octo'].score, abs=1e-12)


@pytest.mark.parametrize(('source', 'options', 'said'), [
    ([[0, 1]], {'names': ['a', 'b']}, r'2 rows and columns .* found \(1, 2\)'),
    ([[0, 0.5], [1, 0]], {'names': ['a', 'b']}, 'a half on both sides'),
    ([[0, 0.3], [1, 0]], {'names': ['a', 'b']}, 'whole numbers'),
    ([[0, -1], [1, 0]], {'names': ['a', 'b']}, 'whole numbers'),
    ([('a', 'b', 'A'), ('a', 'b')], {}, 'every row of a list'),
    ([1, 2], {}, 'every row of a list'), ([], {}, 'every row of a list'),
    ({'model_a': ['x'], 'other': ['y'], 'winner': ['tie']}, {},
     r"no column 'second' among model_a, other, winner; .* load\(…, second='…'\)"),
    ({'model_a': ['x'], 'model_b': ['y'], 'winner': ['nobody']}, {}, "has 'nobody'"),
    (TUPLES, {'evaluater': 'x'}, "no 'evaluater'. Did you mean 'evaluator'"),
    (3, {}, 'found int')])
def test_what_is_no_comparisons_is_refused_with_a_reason(source, options, said):
    with pytest.raises(RankingError, match=said):
        ranking.load(source, **options)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r'none.csv: cannot be read: .*No such file'):
        ranking.load(tmp_path / 'none.csv')


def test_an_evaluator_may_be_empty_a_policy_not():
    table = {'policy_a': ['a', 'a', 'b'], 'policy_b': ['b', 'b', 'a'],
             'preference': ['A', 'B', 'A'], 'evaluator': ['eve', None, float('nan')],
             'institution': ['', 'lab', None]}
    votes = ranking.load(table)
    assert votes.evaluators == ('eve', '')
    assert votes.institutions == ('', 'lab')
    assert votes.evaluator.tolist() == [0, 1, 1]
    with pytest.raises(RankingError, match="'policy_a' is empty in row 1"):
        ranking.load({**table, 'policy_a': ['a', None, 'b']})


def drawn(truth, m=400, seed=0, evaluators=20):
    rng = np.random.default_rng(seed)
    n, theta = len(truth), np.array(list(truth.values()))
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    y = np.where(rng.random(m) < 0.15, 0.5, rng.random(m) < expit(theta[i] - theta[j]))
    return Comparisons.build(i, j, y, items=list(truth),
                             evaluator=[f'e{k % evaluators}' for k in range(m)])


TRUTH = {'act': -1.0, 'octo': 0.0, 'pi0': 1.0}


@pytest.fixture(scope='module')
def result():
    return ranking.fit(drawn(TRUTH), 'davidson')


def test_a_result_answers_by_name(result):
    row = result['pi0']
    assert (row.policy, row.rank, row.rank_low, row.rank_high, row.too_few) == (
        'pi0', 1, 1, 1, False)
    assert result.interval('pi0') == (row.low, row.high)
    assert row.low < row.score < row.high
    assert [row.policy for row in result.standings] == ['pi0', 'octo', 'act']
    assert len(result.standings) == 3
    assert result.better('pi0', 'act') > 0.999
    assert result.better('act', 'pi0') == pytest.approx(1 - result.better('pi0', 'act'))
    with pytest.raises(RankingError, match=r"no policy 'pi'. Did you mean 'pi0'"):
        result['pi']
    with pytest.raises(RankingError, match='asked for without'):
        ranking.fit(drawn(TRUTH), 'bt', intervals=0).better('pi0', 'act')


@pytest.mark.parametrize('name', ['bt', 'bt_shrunk', 'davidson', 'elo', 'bt_robust',
                                  'hierarchical'])
def test_predictions_are_the_shares_that_are_won(name):
    # The mean prediction of a policy's verdicts is near the share it won: of Bradley–Terry equal.
    votes = drawn(TRUTH, 600)
    result = ranking.fit(votes, name, intervals=0)
    pairs = [(votes.items[a], votes.items[b])
             for a, b in zip(votes.first, votes.second, strict=True)]
    chances = result.predict(pairs)
    for k in range(3):
        won = np.r_[votes.outcome[votes.first == k], 1 - votes.outcome[votes.second == k]]
        said = np.r_[chances[votes.first == k], 1 - chances[votes.second == k]]
        assert said.mean() == pytest.approx(won.mean(), abs=1e-6 if name == 'bt' else 0.03)
    table = result.win_probabilities()
    assert table['policy'] == ['pi0', 'octo', 'act']
    assert table['act'][0] == pytest.approx(result.probability('pi0', 'act'))
    assert table['pi0'][0] == pytest.approx(0.5)
    assert result.predict([]).shape == (0,)


def test_scores_that_are_no_log_odds_of_winning_predict_nothing():
    with pytest.raises(RankingError, match='log-odds of solving, which say nothing of who wins'):
        ranking.fit(drawn(TRUTH), 'task', intervals=0).probability('pi0', 'act')


def test_a_result_is_pickled_and_shown(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.interval('octo') == result.interval('octo')
    html = result._repr_html_()
    assert '<td>pi0</td>' in html
    assert 'based' not in html
    assert '400 sessions; intervals count each evaluator as one observation.' in html
    apart = ranking.load([('a', 'b', 'A'), ('b', 'a', 'A'), ('c', 'd', 'A'), ('d', 'c', 'A')] * 9)
    left = ranking.fit(apart, 'elo', intervals=0)
    assert left.left_out == ('c', 'd')
    assert 'not comparable with the others: c, d' in left._repr_html_()
    assert str(result.standings).splitlines()[1].split()[:2] == ['1', 'pi0']


def test_a_plot_is_made_only_when_asked_for(result, tmp_path):
    path = tmp_path / 'standings.png'
    assert result.plot(path).axes
    assert path.read_bytes().startswith(b'\x89PNG')
    with pytest.raises(DataError, match=r'must end in \.png or \.svg'):
        result.plot(tmp_path / 'standings.gif')


WITHOUT = """
import sys
for name in ('matplotlib', 'pandas', 'polars', 'yaml'):
    sys.modules[name] = None
from arena_robot import ranking
result = ranking.fit(ranking.load([('a', 'b', 'A'), ('b', 'a', 'A'), ('a', 'b', 'tie')] * 5))
print(result.standings)
for ask in (result.plot, result.standings.to_pandas, result.standings.to_polars):
    try:
        ask()
    except ranking.RankingError as error:
        print(error)
"""


def test_what_is_not_installed_is_told():
    done = subprocess.run([sys.executable, '-c', WITHOUT], capture_output=True, text=True,
                          timeout=120, check=True)
    assert done.stdout.splitlines()[-3:] == [
        "a plot needs Matplotlib, which is not installed: pip install 'droid-arena[ranking]'",
        'pandas is not installed: pip install pandas, or use the columns without it',
        'polars is not installed: pip install polars, or use the columns without it']


def test_every_name_of_the_package_is_there():
    assert set(ranking.__all__) <= set(dir(ranking))
    assert [name for name in ranking.__all__ if getattr(ranking, name) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'ranker'"):
        ranking.ranker  # noqa: B018
    scores = [[3, 1, 2], [1, 2, 1]]
    winner = ranking.vote(ranking.from_scores(scores, ['pi0', 'octo']), 'borda')
    assert winner.winners == (0,)
    assert '<td>1</td><td>pi0</td><td>2.000</td>' in winner._repr_html_()
    lottery = ranking.vote(ranking.from_scores([[1, 1], [1, 1]], ['<a>', 'b']), 'maximal_lottery')
    assert '<th>chance</th>' in lottery._repr_html_()
    assert '<td>1=</td><td>&lt;a&gt;</td><td>0.500</td>' in lottery._repr_html_()
    rated = ranking.rate_table(scores, 'model_vs_task')
    assert len(rated.ratings[0]) == 2
    assert rated._repr_html_().startswith('<table><caption>DeviationRatings</caption>')
    matching = [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]
    assert '<td>2</td><td>0</td><td>0.500</td>' in ranking.alpha_rank(matching)._repr_html_()


def test_every_method_says_what_it_assumes():
    made = [METHODS.find(name).make() for name in METHODS.built_in
            if not METHODS.find(name).needs_audits]
    assert len(made) > 10
    assert {type(method).__name__ for method in [*made, Opd(), PreferenceAudit()]
            if 'assumes' not in type(method).__doc__} == set()
