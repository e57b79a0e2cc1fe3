"""What the methods reach on the RoboArena snapshot; skipped where it is not at hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from arena_robot.ranking.holdout import redraws, splits
from arena_robot.ranking.methods import method, rank
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.records.roboarena_csv import read_tables

DATA = Path(__file__).parents[3] / 'shared' / 'data' / 'roboarena'
POLICIES = [f'{name}_droid' for name in (
    'paligemma_binning', 'paligemma_diffusion', 'paligemma_fast', 'paligemma_fast_specialist',
    'paligemma_vq', 'pi0', 'pi0_fast')]
pytestmark = pytest.mark.skipif(not DATA.exists(), reason='needs ../shared/data/roboarena')


@pytest.fixture(scope='module')
def arena():
    data = read_tables(DATA / 'sessions.csv', DATA / 'episodes.csv')
    return arena_tables(data.comparisons(), data.scored(), POLICIES)


@pytest.fixture(scope='module')
def measured(arena):
    names = ('bt', 'davidson', 'task', 'task_partial')
    return {leak_free: splits(arena, {name: method(name, **({'seed': 0} if 'task' in name else {}))
                                      for name in names}, leak_free=leak_free)
            for leak_free in (False, True)}


def mean(scored, name):
    return scored.summaries()[name][0]


def test_the_snapshot_is_read_as_described(arena):
    votes = arena.comparisons
    assert len(votes) == 517
    assert [(votes.outcome == y).sum() for y in (1, 0, 0.5)] == [200, 235, 82]
    assert np.isfinite(votes.score_first).all()
    assert np.isfinite(votes.score_second).all(), 'scores are there although letters are missing'
    assert len(arena.rollouts.score) == 3958
    assert arena.rollouts.compared.sum() == 2 * 517


def test_preferences_alone_reach_what_they_should(measured):
    task = measured[False]['task']
    assert task.failed == task.rescued == 0
    assert mean(task, 'pearson') >= 0.985
    assert mean(task, 'mmrv') <= 0.018
    assert mean(task, 'pearson') > mean(measured[False]['bt'], 'pearson')


def test_progress_too_reaches_more_and_not_by_leaking(measured):
    partial = measured[False]['task_partial']
    assert mean(partial, 'pearson') >= 0.992
    assert mean(partial, 'mmrv') <= 0.009
    assert mean(measured[True]['task_partial'], 'pearson') >= 0.987


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


def test_the_diagnostics_say_what_preferences_cannot_tell(arena):
    told = rank(arena.comparisons, 'task').diagnostics
    assert told.converged
    assert told.details['sufficient_counts'] == 63
    assert told.details['bucket_gain'] < 2
    assert any('buckets mean nothing on these data' in x for x in told.warnings)
    davidson = rank(arena.comparisons, 'davidson').diagnostics
    assert davidson.details['sufficient_counts'] == 63
    assert davidson.details['saturated_log_likelihood'] > davidson.log_likelihood


def test_redrawn_pairs_spread_more_than_splits_show(arena, measured):
    drawn = redraws(arena, {'bt': method('bt')}, 60)['bt']
    assert 0.008 < drawn.values['pearson'].std() < 0.03
    assert 0.008 < drawn.values['mmrv'].std() < 0.02
    assert drawn.values['pearson'].std() > \
        1.5 * measured[False]['bt'].values['pearson'].std()


def test_elo_depends_on_the_order(arena):
    order = rank(arena.comparisons, 'elo').diagnostics.details['order_spread']
    assert min(order) > 10
