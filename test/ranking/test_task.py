from dataclasses import replace

import numpy as np
import pytest

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import method
from arena_robot.ranking.task.buckets import SolveModel, TaskOptions, TaskState, make_rows
from arena_robot.ranking.task.em import TAU_RIDGE, TaskModel, joint_step, run_em


def drawn(seed=0, n=5, m=150, scores=True):
    rng = np.random.default_rng(seed)
    theta, hard = rng.normal(0, 1, n), rng.normal(0, 1, m)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    a, b = (np.clip(np.round(1 / (1 + np.exp(hard - theta[k])) + rng.normal(0, .1, m), 1), 0, 1)
            for k in (i, j))
    y = np.where(a == b, 0.5, (a > b).astype(float))
    b = np.where(rng.random(m) < 0.1, np.nan, b)
    more = {'score_first': a, 'score_second': b} if scores else {}
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)], **more)


@pytest.mark.parametrize('precision', [0.0, 8.0])
def test_derivatives_match_finite_differences(precision):
    model = SolveModel(make_rows(drawn(), precision))
    rng = np.random.default_rng(5)
    z, share = rng.normal(0, 1, (5, 3)), rng.random((len(model.rows.weight), 3))

    def value(z):
        return float((share * model.log_likelihood(z)).sum())

    def slope(z):
        return model.derivatives(z, share, exact=True)[0]

    numeric, bend = np.zeros((5, 3)), np.zeros((5, 3))
    for p in range(5):
        for t in range(3):
            e = np.zeros((5, 3))
            e[p, t] = 1e-5
            numeric[p, t] = (value(z + e) - value(z - e)) / 2e-5
            change = (slope(z + e) - slope(z - e)) / 2e-5
            bend[p, t], change[p, t] = change[p, t], 0.0
            np.testing.assert_allclose(change, 0, atol=1e-8)
    gradient, curvature = model.derivatives(z, share, exact=True)
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)
    np.testing.assert_allclose(-curvature, bend, atol=1e-6)


def test_the_joint_step_solves_the_whole_system():
    rng = np.random.default_rng(0)
    n, t, ridges = 4, 3, (0.3, 0.2)
    bend, slope = rng.random((n, t)) + 0.1, rng.normal(size=(n, t))
    theta, psi, tau = rng.normal(size=n), rng.normal(size=(n, t)), rng.normal(size=t)
    jac = np.zeros((t, n, n + n * t + t))
    for k in range(t):
        jac[k, :, :n] = np.eye(n)
        jac[k, np.arange(n), n + np.arange(n) * t + k] = 1
        jac[k, :, n + n * t + k] = -1
    hess = sum(jac[k].T @ np.diag(bend[:, k]) @ jac[k] for k in range(t))
    hess += np.diag(np.r_[np.full(n, ridges[0]), np.full(n * t, ridges[1]),
                          np.full(t, TAU_RIDGE)])
    grad = sum(jac[k].T @ slope[:, k] for k in range(t))
    grad -= np.r_[ridges[0] * theta, ridges[1] * psi.ravel(), TAU_RIDGE * tau]
    got = joint_step(TaskState(theta, psi, tau, np.full(t, 1 / t)), slope, bend, ridges)
    np.testing.assert_allclose(np.concatenate([got[0], got[1].ravel(), got[2]]),
                               np.linalg.solve(hess, grad), atol=1e-8)


@pytest.mark.parametrize('partial', [False, True])
def test_every_iteration_climbs(partial):
    model = SolveModel(make_rows(drawn(3), 10.0 if partial else 0.0))
    options = TaskOptions(buckets=6, tolerance=0.0)
    values = [run_em(model, replace(options, iterations=k), np.random.default_rng(1)).value
              for k in (1, 2, 4, 8, 16, 32)]
    assert np.all(np.diff(values) >= -1e-8)
    assert values[-1] > values[0]


def test_one_bucket_is_the_logit_of_the_win_rate():
    votes = drawn(1, scores=False)
    fit = TaskModel(TaskOptions(buckets=1, l2_theta=1e-9, l2_psi=1e9, tolerance=1e-12))(votes)
    won = np.bincount(votes.first, votes.outcome, minlength=5) \
        + np.bincount(votes.second, 1 - votes.outcome, minlength=5)
    rate = won / votes.appearances()
    logit = np.log(rate / (1 - rate))
    np.testing.assert_allclose(fit.scores, logit - logit.mean(), atol=1e-6)
    np.testing.assert_allclose(fit.solve, rate, atol=1e-6)


def test_merging_equal_verdicts_changes_nothing():
    votes = drawn(4)
    merged = make_rows(votes)
    assert len(merged.weight) <= 3 * 10
    assert merged.weight.sum() == len(votes)
    order = np.random.default_rng(0).permutation(len(votes))
    turned = Comparisons.build(votes.second[order], votes.first[order], 1 - votes.outcome[order],
                               items=votes.items, score_first=votes.score_second[order],
                               score_second=votes.score_first[order])
    for partial in (False, True):
        here, there = (TaskModel(TaskOptions(buckets=4), partial)(x) for x in (votes, turned))
        np.testing.assert_allclose(here.scores, there.scores, atol=1e-9)


def test_the_diagnostics_say_when_buckets_mean_nothing():
    votes = drawn(7, m=400, scores=False)
    fit = TaskModel()(votes)
    diagnostics = fit.diagnostics
    assert diagnostics.details['sufficient_counts'] == 30
    assert diagnostics.details['bucket_gain'] < 5
    assert any('the buckets mean nothing on these data' in x for x in diagnostics.warnings)
    assert diagnostics.details['bucket_gain'] == pytest.approx(
        diagnostics.log_likelihood - diagnostics.details['one_bucket_log_likelihood'])


def test_scores_let_buckets_find_hard_tasks():
    fit = TaskModel(TaskOptions(sigma=0.1, iterations=200), partial=True)(drawn(8, m=400))
    assert fit.diagnostics.details['bucket_gain'] > 50
    assert not any('mean nothing' in x for x in fit.diagnostics.warnings)


def test_an_unfinished_fit_says_so():
    diagnostics = TaskModel(TaskOptions(iterations=2))(drawn()).diagnostics
    assert not diagnostics.converged
    assert any('stopped at 2 iterations' in x for x in diagnostics.warnings)


def test_restarts_keep_the_best_and_the_seed_decides():
    votes = drawn(9)
    fit = TaskModel(TaskOptions(buckets=5, restarts=4), partial=True)(votes)
    tried = fit.diagnostics.details['restart_log_likelihoods']
    assert len(tried) == 4
    again = TaskModel(TaskOptions(buckets=5, restarts=4), partial=True)(votes)
    np.testing.assert_array_equal(fit.scores, again.scores)
    other = TaskModel(TaskOptions(buckets=5, restarts=4, seed=1), partial=True)(votes)
    assert not np.array_equal(fit.scores, other.scores)


def test_the_printed_algorithm_runs_and_ranks_alike():
    votes = drawn(10, m=600, scores=False)
    paper, ours = method('task_paper')(votes), TaskModel()(votes)
    assert paper.diagnostics.details['variant'] == 'paper'
    assert np.corrcoef(paper.scores, ours.scores)[0, 1] > 0.98
    assert paper.diagnostics.log_likelihood < ours.diagnostics.log_likelihood


def test_bad_options_and_missing_scores_are_refused():
    with pytest.raises(RankingError, match="unknown variant 'best'"):
        TaskModel(TaskOptions(variant='best'))(drawn())
    with pytest.raises(RankingError, match='buckets >= 1'):
        TaskModel(TaskOptions(buckets=0))(drawn())
    with pytest.raises(RankingError, match='no comparison has one'):
        TaskModel(partial=True)(drawn(scores=False))


@pytest.mark.parametrize('partial', [False, True])
def test_the_order_of_the_policies_changes_nothing(partial):
    rng = np.random.default_rng(0)
    i = rng.integers(0, 5, 120)
    votes = Comparisons.build(i, (i + rng.integers(1, 5, 120)) % 5, rng.integers(0, 3, 120) / 2,
                              items=list('dbace'), score_first=rng.random(120).round(1),
                              score_second=rng.random(120).round(1))
    other = votes.only(list('ecabd'))
    method = TaskModel(TaskOptions(buckets=6), partial=partial)
    fit, reordered = method(votes), method(other)
    place = [other.items.index(name) for name in votes.items]
    np.testing.assert_allclose(reordered.scores[place], fit.scores, atol=1e-9)
    np.testing.assert_allclose(reordered.solve[place], fit.solve, atol=1e-9)
