"""What the methods reach on RoboArena's evaluations: on the sample, and on all where they are."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from roboarena_tables import POLICIES, SAMPLE, WHOLE, needs_whole
from scipy.optimize import minimize

from arena_robot.ranking.methods import method, rank
from arena_robot.ranking.quality import redraws, splits
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.records.roboarena_files import read_tables


@dataclass(frozen=True)
class Expected:
    """Of one set of tables: what is in it, and what the methods must reach on it."""

    outcomes: tuple[int, int, int]  # of A, of B, of TIE
    rollouts: int
    task: tuple[float, float]       # least Pearson correlation, most MMRV
    partial: tuple[float, float]
    leak_free: float                # least Pearson correlation of task_partial
    order_spread: float
    redrawn_pearson: tuple[float, float]  # the standard deviation lies between these
    redrawn_mmrv: tuple[float, float]


EXPECTED = {
    SAMPLE: Expected((23, 38, 5), 464, (0.915, 0.051), (0.955, 0.031), 0.925, 1.7,
                     (0.05, 0.2), (0.02, 0.05)),
    WHOLE: Expected((200, 235, 82), 3582, (0.985, 0.018), (0.992, 0.009), 0.987, 10.0,
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
    names = {False: ('bt', 'davidson', 'task', 'task_partial'), True: ('task_partial',)}
    return {leak_free: splits(arena, {name: method(name, **({'seed': 0} if 'task' in name else {}))
                                      for name in names[leak_free]}, leak_free=leak_free)
            for leak_free in (False, True)}


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
    task = measured[False]['task']
    assert task.failed == task.rescued == 0
    assert mean(task, 'pearson') >= expected.task[0]
    assert mean(task, 'mmrv') <= expected.task[1]
    if tables == WHOLE:  # the sample is too small to tell the two apart
        assert mean(task, 'pearson') > mean(measured[False]['bt'], 'pearson')


def test_progress_too_reaches_more_and_not_by_leaking(measured, expected):
    partial = measured[False]['task_partial']
    assert mean(partial, 'pearson') >= expected.partial[0]
    assert mean(partial, 'mmrv') <= expected.partial[1]
    assert mean(partial, 'pearson') > mean(measured[False]['task'], 'pearson')
    assert mean(measured[True]['task_partial'], 'pearson') >= expected.leak_free


def test_both_maxima_are_exact(arena):
    votes = arena.comparisons
    i, j, y, n = votes.first, votes.second, votes.outcome, votes.n

    def loss(x, tied):
        theta = np.append(x[:n - 1], -x[:n - 1].sum())
        d = theta[i] - theta[j]
        logits = [d / 2, -d / 2] + ([np.full_like(d, x[-1])] if tied else [])
        top = (y - 0.5) * d + ((y == 0.5) * x[-1] if tied else 0.0)
        total = np.logaddexp.reduce(logits, axis=0)
        p = np.exp(np.array(logits) - total)
        g = y - p[0] - (p[2] / 2 if tied else 0)
        full = np.bincount(i, g, minlength=n) - np.bincount(j, g, minlength=n)
        slope = full[:-1] - full[-1]
        return (total - top).sum(), -np.append(slope, [((y == .5) - p[2]).sum()] if tied else [])

    for name, tied in (('bt', False), ('davidson', True)):
        x = minimize(loss, np.zeros(n - 1 + tied), args=(tied,), jac=True, method='L-BFGS-B',
                     options={'ftol': 1e-15, 'gtol': 1e-9, 'maxiter': 10000}).x
        for _ in range(10):
            bend = np.array([(loss(x + e, tied)[1] - loss(x - e, tied)[1]) / 2e-5
                             for e in np.eye(len(x)) * 1e-5])
            x = x - np.linalg.solve(bend, loss(x, tied)[1])
        result = rank(votes, name)
        wanted = np.append(x[:n - 1], -x[:n - 1].sum())
        np.testing.assert_allclose(result.scores, wanted, atol=1e-8)
        assert result.diagnostics.log_likelihood == pytest.approx(-loss(x, tied)[0], abs=1e-8)


def test_the_diagnostics_say_what_preferences_cannot_tell(arena, tables):
    told = rank(arena.comparisons, 'task').diagnostics
    assert told.converged or tables == SAMPLE
    assert told.details['sufficient_counts'] == 63
    assert told.details['bucket_gain'] < 2
    assert any('buckets mean nothing on these data' in x for x in told.warnings)
    davidson = rank(arena.comparisons, 'davidson').diagnostics
    assert davidson.details['sufficient_counts'] == 63
    assert davidson.details['saturated_log_likelihood'] > davidson.log_likelihood


def test_redrawn_pairs_spread_more_than_splits_show(arena, measured, expected):
    drawn = redraws(arena, {'bt': method('bt')}, 60)['bt']
    for what, (low, high) in (('pearson', expected.redrawn_pearson),
                              ('mmrv', expected.redrawn_mmrv)):
        assert low < drawn.values[what].std() < high
    assert drawn.values['pearson'].std() > \
        1.5 * measured[False]['bt'].values['pearson'].std()


def test_elo_depends_on_the_order(arena, expected):
    order = rank(arena.comparisons, 'elo').diagnostics.details['order_spread']
    assert min(order) > expected.order_spread


@pytest.mark.parametrize('name', ['bt', 'davidson', 'task', 'task_partial'])
def test_the_page_says_what_is_measured(measured, tables, name):
    if tables == SAMPLE:
        return
    page = (Path(__file__).parents[2] / 'docs' / 'ranking.md').read_text(encoding='utf-8')
    block = page[page.index('<!-- measured -->'):].split('<!-- end -->')[0]
    row = next(line for line in block.splitlines() if line.startswith(f'| `{name}` |'))
    cells = [cell.split()[0] for cell in row.split('|')[2:7]]
    found = [mean(measured[False][name], what) for what in
             ('pearson', 'mmrv', 'accuracy', 'pearson_leak_free', 'mmrv_leak_free')]
    assert [float(cell) for cell in cells] == pytest.approx(found, abs=6e-4)


def test_one_bucket_is_as_good_as_sixty_with_progress(arena, measured, tables):
    if tables == SAMPLE:
        return
    one = splits(arena, {'one': method('task_partial', buckets=1)}, 100)['one']
    apart = one.values['pearson'] - measured[False]['task_partial'].values['pearson']
    assert abs(apart.mean()) < 0.002
