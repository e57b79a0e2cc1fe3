"""What notebooks use: names of the package, tables in and out, HTML."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking import (
    Comparisons,
    adjusted,
    agreement_alpha,
    decayed,
    intransitivity,
    plackett_luce,
    win_rates,
)
from arena_robot.ranking.frames import from_frame
from arena_robot.ranking.methods import rank
from arena_robot.ranking.standings import framed, place_words

NOTEBOOK = Path(__file__).parents[2] / 'docs' / 'gallery.ipynb'
ROWS = {'policy_a': ['pi0', 'octo', 'pi0', 'act'] * 5,
        'policy_b': ['octo', 'act', 'act', 'pi0'] * 5,
        'preference': ['A', 'tie', 'a', 'A', 'B', 'B', 'A', 'TIE', 'A', 'A'] * 2,
        'evaluator': ['eve', 'ann'] * 10}


def test_a_mapping_and_an_arrow_table_are_read_alike():
    read = from_frame(ROWS, evaluator='evaluator')
    assert read.items == ('act', 'octo', 'pi0')
    assert [read.items[k] for k in read.first[:3]] == ['pi0', 'octo', 'pi0']
    assert read.outcome[:5].tolist() == [1, 0.5, 1, 1, 0]
    assert read.evaluators == ('eve', 'ann')
    arrow = from_frame(pyarrow.table(ROWS), evaluator='evaluator')
    assert np.array_equal(arrow.outcome, read.outcome)
    assert np.array_equal(arrow.first, read.first)
    numbers = from_frame({**ROWS, 'preference': read.outcome.tolist()})
    assert np.array_equal(numbers.outcome, read.outcome)


def spelt(kind):
    """Return how a library's frames of one kind are made from columns."""
    library = pytest.importorskip(kind.partition(' ')[0])
    if kind == 'pyarrow dictionaries':
        return lambda rows: library.table({
            name: library.chunked_array([library.DictionaryArray.from_arrays(
                [None if word is None else words.index(word) for word in column], words)
                for column in (values[:7], values[7:])])
            for name, values in rows.items()
            for words in [['nobody', *dict.fromkeys(x for x in values if x is not None)]]})
    return {'pyarrow strings': getattr(library, 'table', None),
            'pandas strings': lambda rows: library.DataFrame(rows),
            'pandas objects': lambda rows: library.DataFrame(rows, dtype=object),
            'pandas categories': lambda rows: library.DataFrame(rows).astype('category'),
            'polars strings': lambda rows: library.DataFrame(rows),
            'polars categories': lambda rows: library.DataFrame(rows).cast(library.Categorical),
            'polars lazy': lambda rows: library.DataFrame(rows).lazy()}[kind]


@pytest.mark.parametrize('kind', [
    'pyarrow strings', 'pyarrow dictionaries', 'pandas strings', 'pandas objects',
    'pandas categories', 'polars strings', 'polars categories', 'polars lazy'])
def test_every_kind_of_frame_is_read_like_its_columns(kind):
    make = spelt(kind)
    read, wanted = (from_frame(frame, evaluator='evaluator', session='evaluator')
                    for frame in (make(ROWS), ROWS))
    assert (read.items, read.evaluators) == (wanted.items, wanted.evaluators)
    for name in ('first', 'second', 'outcome', 'session', 'evaluator'):
        np.testing.assert_array_equal(getattr(read, name), getattr(wanted, name))
    with pytest.raises(RankingError, match="column 'policy_b' is empty in row 8"):
        from_frame(make({**ROWS, 'policy_b': [*ROWS['policy_b'][:8], None,
                                              *ROWS['policy_b'][9:]]}))
    with pytest.raises(RankingError, match="no column 'winner'; it has policy_a, policy_b"):
        from_frame(make(ROWS), outcome='winner')


@pytest.mark.parametrize(('changes', 'options', 'words'), [
    ({}, {'outcome': 'winner'}, "no column 'winner'; it has policy_a"),
    ({'preference': ['up'] * 20}, {}, "'preference' has 'up'; expected A, B or tie"),
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
    standings = rank(votes, intervals=50)
    assert isinstance(votes, Comparisons)
    out = standings.columns()
    assert out['policy'][0] == standings.items[standings.order[0]]
    assert out['score'] == sorted(out['score'], reverse=True)
    assert set(out) >= {'rank', 'low', 'high', 'n', 'rank_low_joint', 'too_few'}
    html = standings._repr_html_()
    assert '&lt;b&gt;&amp;' in html
    assert '<b>' not in html
    assert [f'<td>{place_words(standings, k)}</td>' in html for k in standings.order] == [True] * 3
    few = rank(from_frame({name: rows[:6] for name, rows in ROWS.items()}), intervals=20)
    assert few._repr_html_().count('<td>too few to tell</td>') == 3
    with pytest.raises(RankingError, match="no data frame 'excel'; known: pandas, polars"):
        framed(out, 'excel')


def test_the_example_of_the_page_prints_what_the_page_says(capsys):
    page = (Path(__file__).parents[2] / 'docs' / 'ranking.md').read_text(encoding='utf-8')
    example, shown = re.search(r'<!-- example -->\n```python\n(.*?)```\n\n```\n(.*?)```', page,
                               re.DOTALL).groups()
    exec(example, {})
    assert capsys.readouterr().out == shown


def drawn(seed=0, m=800, theta=(1.0, 0.0, -1.0), extra=0.0, people=20):
    rng = np.random.default_rng(seed)
    n, theta = len(theta), np.array(theta)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    x = rng.normal(size=m)
    y = (rng.random(m) < expit(theta[i] - theta[j] + extra * x)).astype(float)
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)],
                             evaluator=[f'e{k % people}' for k in range(m)]), x


def test_covariates_are_estimated_and_leave_the_abilities():
    votes, x = drawn(extra=1.5)
    fit = adjusted(votes, np.stack([x, np.ones(len(x))], axis=1), ['duration', 'side'])
    assert fit.low[0] < 1.5 < fit.high[0]
    assert fit.low[1] < 0 < fit.high[1]
    np.testing.assert_allclose(fit.fit.scores, [1, 0, -1], atol=0.3)
    assert rank(votes, 'bt').scores[0] < fit.fit.scores[0] - 0.1
    none = adjusted(votes, np.zeros(len(x)))
    np.testing.assert_allclose(none.fit.scores, rank(votes, 'bt').scores, atol=1e-6)
    plain = rank(votes, 'bt', intervals=20)
    np.testing.assert_allclose(none.standings.low, plain.low, atol=1e-3)
    assert none.standings.rank_high.tolist() == plain.rank_high.tolist() == [1, 2, 3]
    with pytest.raises(RankingError, match=r'800 rows of numbers.*found \(3, 1\)'):
        adjusted(votes, [1, 2, 3])


def test_plackett_luce_is_at_the_maximum_and_is_bradley_terry_for_two():
    rng = np.random.default_rng(1)
    names = list('abcd')
    rows = [[names[k] for k in np.argsort(-(np.arange(4) / 2 + rng.gumbel(size=4)))[:r]]
            for r in rng.integers(2, 5, 150)]
    fit = plackett_luce(rows)

    def loss(theta):
        places = [[names.index(name) for name in row] for row in rows]
        return -sum(theta[o[k]] - np.log(np.exp(theta[o[k:]]).sum())
                    for o in places for k in range(len(o) - 1))

    best = minimize(loss, np.zeros(4), options={'gtol': 1e-6}).x
    np.testing.assert_allclose(fit.scores, best - best.mean(), atol=1e-4)
    assert fit.diagnostics.log_likelihood == pytest.approx(-loss(best), abs=1e-6)
    votes, _ = drawn(m=60)
    pairs = [[votes.items[a], votes.items[b]] if y else [votes.items[b], votes.items[a]]
             for a, b, y in zip(votes.first, votes.second, votes.outcome, strict=True)]
    np.testing.assert_allclose(plackett_luce(pairs).scores, rank(votes, 'bt').scores, atol=1e-8)
    ranked = plackett_luce([['a', 'b', 'c'], ['a', 'c', 'b']])
    assert np.isfinite(ranked.scores).all()
    assert 'held by a prior' in ranked.diagnostics.warnings[0]
    with pytest.raises(RankingError, match="ranking 1 is \\['a'\\]"):
        plackett_luce([['a', 'b'], ['a']])


def test_alpha_is_one_for_agreement_and_about_zero_for_chance():
    votes, _ = drawn(m=240, theta=(9.0, 0.0, -9.0))
    sure = Comparisons.build(votes.first, votes.second, votes.first < votes.second,
                             evaluator=[f'e{k}' for k in votes.evaluator])
    assert agreement_alpha(sure) == pytest.approx(1)
    chance, _ = drawn(m=4000, theta=(0.0,) * 6, people=40)
    assert abs(agreement_alpha(chance)) < 0.15
    # Two evaluators on one pair, 1 and 0: units {1, 0} and its mirror, by hand.
    two = Comparisons.build([0, 0], [1, 1], [1, 0], evaluator=['a', 'b'])
    assert agreement_alpha(two) == pytest.approx(1 - 1 / (2 / 3))
    assert np.isnan(agreement_alpha(two.take(np.array([0]))))


def test_cycles_are_found_and_one_order_is_not_refuted():
    ring = Comparisons.build([0, 1, 2] * 20, [1, 2, 0] * 20, [1, 1, 1, 1, 1, 0] * 10,
                             items=['a', 'b', 'c'])
    cycles = intransitivity(ring)
    assert cycles.cycles == () or set(cycles.cycles[0]) == {'a', 'b', 'c'}
    whole = intransitivity(Comparisons.build([0, 1, 2] * 20, [1, 2, 0] * 20, [1] * 60,
                                             items=['a', 'b', 'c']))
    assert whole.cycles == (('a', 'b', 'c'),)
    assert (whole.triples, whole.freedom) == (1, 1)
    assert whole.p_value < 1e-6
    values = [intransitivity(drawn(k, 300, (1, .5, 0, -1))[0]).p_value for k in range(30)]
    assert 0.3 < np.mean(values) < 0.7


def test_old_verdicts_count_less():
    votes, _ = drawn(m=10)
    old = decayed(votes, [0, 30] * 5, 30)
    np.testing.assert_allclose(old.weight, [1, 0.5] * 5)
    with pytest.raises(RankingError, match='half-life above 0'):
        decayed(votes, [0] * 10, 0)


@pytest.mark.parametrize('name', ['bt', 'davidson', 'bt_robust', 'bt_shrunk'])
def test_a_policy_whose_losses_are_old_has_no_upper_end_instead_of_a_false_one(name):
    rng = np.random.default_rng(0)
    i = rng.integers(0, 5, 200)
    j = (i + rng.integers(1, 5, 200)) % 5
    y = (rng.random(200) < expit((i - j) / 2)).astype(float)
    lost = ((i == 4) & (y == 0)) | ((j == 4) & (y == 1))
    votes = Comparisons.build(i, j, y, items=list('abcde'))
    for age in (2000.0, 30000.0):
        standings = rank(decayed(votes, np.where(lost, age, 1.0), 30.0), name, intervals=20)
        assert 2 < standings.scores[4] < 6
        assert standings.high[4] > standings.scores[4] + 1
        assert np.isfinite(standings.high[:4]).all()
    apart = decayed(votes, np.where((i < 2) != (j < 2), 1500.0, 1.0), 30.0)
    assert rank(apart, name, intervals=20).too_few.tolist() == [True, True, False, False, False]
    assert rank(decayed(votes, np.full(200, 3000.0), 30.0), name, intervals=20).too_few.all()


def test_win_rates_have_a_row_for_each_pair_and_direction():
    table = win_rates(Comparisons.build([0, 0, 1], [1, 1, 2], [1, 0.5, 0], items=list('abc')))
    assert table == {
        'policy': ['a', 'b', 'b', 'c'], 'against': ['b', 'a', 'c', 'b'],
        'wins': [1, 0, 0, 1], 'ties': [1, 1, 0, 0], 'losses': [0, 1, 1, 0], 'n': [2, 2, 1, 1],
        'share': [0.75, 0.25, 0, 1]}


def test_the_library_needs_neither_ros_nor_simulator_nor_server():
    code = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        words = name.split('.')
        if words[0] not in ('numpy', 'scipy', 'arena_robot') and words[0] in OUTSIDE:
            raise ImportError(name)
        if words[0] == 'arena_robot' and words[1:2] not in ([], ['core'], ['ranking'], ['robots']):
            raise ImportError(name)
OUTSIDE = {'rclpy', 'arena_msgs', 'mujoco', 'grpc', 'google', 'fastapi', 'sqlalchemy', 'alembic',
           'matplotlib', 'PIL', 'cv2', 'yaml', 'websockets', 'mcap', 'joblib', 'cryptography'}
sys.meta_path.insert(0, Refused())
import arena_robot.ranking as r
for name in r.__all__:
    getattr(r, name)
table = {'policy_a': ['x', 'y', 'z'] * 8, 'policy_b': ['y', 'z', 'x'] * 8,
         'preference': ['A', 'B', 'tie', 'A'] * 6}
votes = r.load(table)
for name in ('bt', 'davidson', 'hierarchical', 'task', 'elo', 'bt_robust'):
    r.fit(votes, name, intervals=20)
print(r.sessions_needed(votes).sessions, len(OUTSIDE & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.split() == ['24', '0'], done.stderr


def run(source, names):
    """Run a cell; return the value of its last line if that is an expression, as notebooks do."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), 'exec'), names)
    return None if last is None else eval(
        compile(ast.Expression(last.value), str(NOTEBOOK), 'eval'), names)


def test_every_cell_of_the_gallery_runs_and_is_kept_without_output(capsys):
    cells = json.loads(NOTEBOOK.read_text(encoding='utf-8'))['cells']
    code = [cell for cell in cells if cell['cell_type'] == 'code']
    assert not any(cell['outputs'] or cell['execution_count'] for cell in code)
    names = {}
    shown = [run(''.join(cell['source']), names) for cell in code]
    assert '<td>pi0</td>' in shown[0]._repr_html_()
    assert shown[1].standings.too_few.any()
    effect, low, high = names['effect'], names['low'], names['high']
    assert low < -2 < high < 0
    assert low < effect < high
    assert names['freed'].order[0] == 0 != names['plain'].order[0]
    said = capsys.readouterr().out
    assert 'more sessions are needed' in said
    assert 'pi0      against octo' in said
