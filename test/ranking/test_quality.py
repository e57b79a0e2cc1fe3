from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roboarena_tables import POLICIES, SAMPLE, WHOLE, needs_whole
from scipy import stats

from arena_robot.core.errors import RankingError
from arena_robot.ranking import quality
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import method, rank
from arena_robot.ranking.quality import efficiency, redraw, redraws, reference, splits
from arena_robot.ranking.rollouts import ArenaTables, Rollouts, arena_tables
from arena_robot.records.roboarena_files import read_tables


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=9))
def test_correlations_are_scipys(pairs):
    x, y = np.array(pairs, dtype=float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        for measure in (quality.pearson, quality.spearman, quality.kendall):
            assert np.isnan(measure(x, y))
        return
    assert quality.pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
    assert quality.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)
    assert quality.kendall(x, y) == pytest.approx(stats.kendalltau(x, y)[0], abs=1e-12)


def test_mmrv_by_hand():
    reference = [0.9, 0.5, 0.4]
    assert quality.mmrv([3, 2, 1], reference) == 0
    assert quality.mmrv([3, 1, 2], reference) == pytest.approx((0 + 0.1 + 0.1) / 3)
    assert quality.mmrv([1, 2, 3], reference) == pytest.approx((0.5 + 0.4 + 0.5) / 3)


def test_accuracy_counts_decisive_verdicts():
    votes = Comparisons.build([0, 1, 0, 2], [1, 0, 2, 1], [1, 1, 0.5, 0], items=['a', 'b', 'c'])
    assert quality.accuracy([2, 1, 1], votes) == pytest.approx((1 + 0 + 0.5) / 3)
    assert np.isnan(quality.accuracy([2, 1, 1], votes.take(np.array([2]))))


def test_what_cannot_be_measured_is_refused():
    for scores, ref in (([1, 2], [1, 2, 3]), ([1], [1]), ([1, np.nan], [1, 2])):
        with pytest.raises(RankingError):
            quality.mmrv(scores, ref)
    assert quality.summary([1, 2, 3, np.nan])[0] == 2
    assert np.isnan(quality.summary([np.nan])[0])


def planted(seed=0, n=5, sessions=160):
    """Sessions in which every policy ran; the first two are the A and B."""
    rng = np.random.default_rng(seed)
    skill = np.linspace(0.2, 0.8, n)
    ran = np.array([rng.permutation(n) for _ in range(sessions)])
    score = np.clip(skill + rng.normal(0, 0.2, (sessions, n)) + rng.normal(0, .1, (sessions, 1)),
                    0, 1)
    i, j = ran[:, 0], ran[:, 1]
    rows = np.arange(sessions)
    a, b = score[rows, i], score[rows, j]
    y = np.select([a > b + 0.05, b > a + 0.05], [1.0, 0.0], 0.5)
    votes = Comparisons.build(i, j, y, items=list('abcde'), score_first=a, score_second=b)
    session = np.repeat(rows, n)
    policy = np.tile(np.arange(n), sessions)
    compared = (policy == i[session]) | (policy == j[session])
    return ArenaTables(votes, Rollouts(policy, score.ravel(), session, compared))


def test_splits_train_and_test_apart():
    arena = planted()
    methods = {name: method(name) for name in ('bt', 'progress')}
    measured = splits(arena, methods, 20, 0.8, seed=3)
    for scored in measured.values():
        assert scored.values['pearson'].shape == (20,)
        assert scored.failed == 0
        mean, low, high = scored.summaries()['pearson']
        assert 0.9 < low <= mean <= high <= 1
        assert 0.6 < scored.summaries()['accuracy'][0] < 1
    again = splits(arena, methods, 20, 0.8, seed=3)
    np.testing.assert_array_equal(measured['bt'].values['mmrv'], again['bt'].values['mmrv'])
    assert not np.array_equal(measured['bt'].values['accuracy'],
                              splits(arena, methods, 20, 0.8, seed=4)['bt'].values['accuracy'])
    with pytest.raises(RankingError, match='cannot split'):
        splits(arena, methods, 2, 1.0)


def test_more_sessions_measure_better():
    measured = efficiency(planted(1), {'bt': method('bt')}, [12, 40, 150], 12)['bt']
    means = [measured[size].summaries()['pearson'][0] for size in (12, 40, 150)]
    assert means[0] < means[2]
    assert measured[12].rescued > 0, 'small subsets have no finite maximum and say so'
    assert measured[150].rescued == 0


def test_a_redraw_keeps_sessions_and_how_people_vote():
    arena = planted(2, sessions=600)
    drawn = redraw(arena, np.random.default_rng(0))
    assert len(drawn) == 600
    assert np.mean(drawn.first != arena.comparisons.first) > 0.5
    ahead = drawn.score_first - drawn.score_second
    real = arena.comparisons.score_first - arena.comparisons.score_second
    for low, high in ((0.11, 0.29), (0.31, 1.0)):
        new = np.abs(ahead) > low
        old = (np.abs(real) > low) & (np.abs(real) < high)
        new &= np.abs(ahead) < high
        share = np.mean(drawn.outcome[new] == (ahead[new] > 0))
        assert share == pytest.approx(
            np.mean(arena.comparisons.outcome[old] == (real[old] > 0)), abs=0.06)
    measured = redraws(arena, {'bt': method('bt')}, 10)['bt']
    assert measured.values['pearson'].std() > 0
    assert 'accuracy' not in measured.values


def test_leak_free_measures_stand_beside_the_others_for_splits_and_redraws():
    arena = planted()
    methods = {'p': method('progress')}
    split, drawn = splits(arena, methods, 20)['p'], redraws(arena, methods, 10)['p']
    for measured in (split, drawn):
        assert measured.summaries()['pearson_leak_free'][0] < measured.summaries()['pearson'][0]
        assert measured.summaries()['mmrv_leak_free'][0] >= 0
    with pytest.raises(RankingError, match='no scored rollout to serve as reference'):
        reference(Rollouts(np.array([0]), np.array([1.0]), np.array([0]), np.array([True])), 2)


def test_leak_free_measures_leave_out_what_was_trained_on():
    arena = planted()
    others = [arena.rollouts.score[(arena.rollouts.policy == k) & ~arena.rollouts.compared].mean()
              for k in range(5)]
    scores = method('progress')(arena.comparisons).scores
    assert quality.without_leak(scores, arena.rollouts, arena.comparisons) == pytest.approx(
        (quality.pearson(scores, others), quality.mmrv(scores, others)))
    assert not np.allclose(reference(arena.rollouts, 5), others)


@dataclass(frozen=True)
class Expected:
    """Of one set of tables: what is in it, and what the methods must reach on it."""

    outcomes: tuple[int, int, int]  # of A, of B, of TIE
    rollouts: int
    task: tuple[float, float]       # least Pearson correlation, most MMRV
    partial: tuple[float, float]
    leak_free: float                # least Pearson correlation of task_partial
    redrawn_pearson: tuple[float, float]  # the standard deviation lies between these
    redrawn_mmrv: tuple[float, float]


EXPECTED = {
    SAMPLE: Expected((23, 38, 5), 464, (0.915, 0.051), (0.955, 0.031), 0.925,
                     (0.05, 0.2), (0.02, 0.05)),
    WHOLE: Expected((200, 235, 82), 3582, (0.985, 0.018), (0.992, 0.009), 0.987,
                    (0.008, 0.03), (0.008, 0.02)),
}


@pytest.fixture(scope='module', params=[
    SAMPLE, pytest.param(WHOLE, marks=needs_whole)], ids=['sample', 'whole'])
def tables(request):
    return request.param


@pytest.fixture(scope='module')
def expected(tables):
    return EXPECTED[tables]


@pytest.fixture(scope='module')
def arena(tables):
    data = read_tables(tables / 'sessions.csv', tables / 'episodes.csv')
    return arena_tables(data.comparisons(), data.scored(), POLICIES)


@pytest.fixture(scope='module')
def measured(arena):
    names = ('bt', 'davidson', 'task', 'task_partial')
    return splits(arena, {name: method(name, **({'seed': 0} if 'task' in name else {}))
                          for name in names})


def mean(scored, name):
    return scored.summaries()[name][0]


def test_the_tables_are_read_as_described(arena, expected):
    votes = arena.comparisons
    assert tuple((votes.outcome == y).sum() for y in (1, 0, 0.5)) == expected.outcomes
    assert np.isfinite(votes.score_first).all()
    assert np.isfinite(votes.score_second).all(), 'scores are there although letters are missing'
    assert len(arena.rollouts.score) == expected.rollouts
    assert arena.rollouts.compared.sum() == 2 * len(votes) == 2 * sum(expected.outcomes)


def test_preferences_alone_reach_what_they_should(measured, expected, tables):
    task = measured['task']
    assert task.failed == task.rescued == 0
    assert mean(task, 'pearson') >= expected.task[0]
    assert mean(task, 'mmrv') <= expected.task[1]
    if tables == WHOLE:  # the sample is too small to tell the two apart
        assert mean(task, 'pearson') > mean(measured['bt'], 'pearson')


def test_progress_too_reaches_more_and_not_by_leaking(measured, expected):
    partial = measured['task_partial']
    assert mean(partial, 'pearson') >= expected.partial[0]
    assert mean(partial, 'mmrv') <= expected.partial[1]
    assert mean(partial, 'pearson') > mean(measured['task'], 'pearson')
    assert mean(partial, 'pearson_leak_free') >= expected.leak_free


def test_the_diagnostics_say_what_preferences_cannot_tell(arena, tables):
    diagnostics = rank(arena.comparisons, 'task').diagnostics
    assert diagnostics.converged or tables == SAMPLE
    assert diagnostics.details['sufficient_counts'] == 63
    assert diagnostics.details['bucket_gain'] < 2
    assert any('buckets mean nothing on these data' in x for x in diagnostics.warnings)
    davidson = rank(arena.comparisons, 'davidson').diagnostics
    assert davidson.details['sufficient_counts'] == 63
    assert davidson.details['saturated_log_likelihood'] > davidson.log_likelihood


def test_redrawn_pairs_spread_more_than_splits_show(arena, measured, expected):
    drawn = redraws(arena, {'bt': method('bt')}, 60)['bt']
    for what, (low, high) in (('pearson', expected.redrawn_pearson),
                              ('mmrv', expected.redrawn_mmrv)):
        assert low < drawn.values[what].std() < high
    assert drawn.values['pearson'].std() > \
        1.5 * measured['bt'].values['pearson'].std()


@pytest.mark.parametrize('name', ['bt', 'davidson', 'task', 'task_partial'])
def test_the_page_says_what_is_measured(measured, tables, name):
    if tables == SAMPLE:
        return
    page = (Path(__file__).parents[2] / 'docs' / 'ranking.md').read_text(encoding='utf-8')
    block = page[page.index('<!-- measured -->'):].split('<!-- end -->')[0]
    row = next(line for line in block.splitlines() if line.startswith(f'| `{name}` |'))
    cells = [cell.split()[0] for cell in row.split('|')[2:7]]
    means = [mean(measured[name], what) for what in
             ('pearson', 'mmrv', 'accuracy', 'pearson_leak_free', 'mmrv_leak_free')]
    assert [float(cell) for cell in cells] == pytest.approx(means, abs=6e-4)


def test_one_bucket_is_as_good_as_sixty_with_progress(arena, measured, tables):
    if tables == SAMPLE:
        return
    one_bucket = splits(arena, {'one': method('task_partial', buckets=1)}, 100)['one']
    apart = one_bucket.values['pearson'] - measured['task_partial'].values['pearson']
    assert abs(apart.mean()) < 0.002
