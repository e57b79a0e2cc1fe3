import numpy as np
import pytest
from scipy.stats import multivariate_normal

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.pairwise.elo import SCALE, Elo, run_orders
from arena_robot.ranking.pairwise.progress import Progress, ProgressGls, gls


def drawn(seed=0, n=4, m=120, shared=0.5, missing=0.1):
    rng = np.random.default_rng(seed)
    mean = np.linspace(0.3, 0.7, n)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    task = rng.normal(0, np.sqrt(shared), m)
    a, b = (np.clip(mean[k] + 0.1 * (task + rng.normal(0, np.sqrt(1 - shared), m)), 0, 1)
            for k in (i, j))
    a = np.where(rng.random(m) < missing, np.nan, a)
    y = np.where(np.nan_to_num(a, nan=0.5) > b, 1.0, 0.0)
    return Comparisons.build(i, j, y, items=list('abcd')[:n], score_first=a, score_second=b)


def test_elo_follows_the_update_by_hand():
    votes = Comparisons.build([0, 1], [1, 0], [1, 0.5], items=['a', 'b'])
    fit = Elo(k=32, orders=0)(votes)
    up = 32 * 0.5
    gain = 32 * (0.5 - 1 / (1 + 10 ** (2 * up / 400)))
    assert fit.scores.tolist() == pytest.approx([1500 + up - gain, 1500 - up + gain])
    assert any('one order only' in x for x in fit.diagnostics.warnings)
    assert pytest.approx(400 / np.log(10)) == SCALE


def test_elo_over_orders_is_the_mean_of_single_orders():
    votes = drawn()
    rng = np.random.default_rng(1)
    orders = rng.permuted(np.tile(np.arange(len(votes)), (5, 1)), axis=1)
    together = run_orders(votes, orders, 16.0)
    for row, order in zip(together, orders, strict=True):
        single = run_orders(votes.take(order), np.arange(len(votes))[None], 16.0)[0]
        np.testing.assert_allclose(row, single, atol=1e-9)
    assert together.sum(axis=1) == pytest.approx(0, abs=1e-9)
    fit = Elo(orders=50)(votes)
    spread = fit.diagnostics.details['order_spread']
    assert min(spread) > 1, 'Elo depends on the order, and the diagnostics show how much'
    with pytest.raises(RankingError, match='k > 0'):
        Elo(k=0)(votes)


def test_progress_is_the_mean_over_scored_rollouts():
    votes = drawn()
    fit = Progress()(votes)
    for k in range(4):
        mine = np.r_[votes.score_first[votes.first == k], votes.score_second[votes.second == k]]
        assert fit.scores[k] == pytest.approx(np.nanmean(mine))
    assert np.linalg.eigvalsh(fit.covariance).min() > -1e-12


def test_gls_is_the_maximum_of_the_normal_likelihood():
    votes = drawn(3, missing=0.0)
    fit = ProgressGls()(votes)
    rho, sigma = fit.diagnostics.details['shared'], fit.diagnostics.details['sigma']
    pairs = np.stack([votes.score_first, votes.score_second], axis=1)

    def value(mean, rho, sigma):
        cov = sigma ** 2 * np.array([[1, rho], [rho, 1]])
        left = pairs - np.stack([mean[votes.first], mean[votes.second]], axis=1)
        return multivariate_normal([0, 0], cov).logpdf(left).sum()

    best = value(fit.scores, rho, sigma)
    assert best == pytest.approx(fit.diagnostics.log_likelihood, abs=1e-8)
    for k in range(4):
        for step in (-1e-3, 1e-3):
            assert value(fit.scores + step * np.eye(4)[k], rho, sigma) < best
    for step in (-1e-2, 1e-2):
        assert value(fit.scores, rho + step, sigma) < best
        assert value(fit.scores, rho, sigma * (1 + step)) < best
    assert 0.3 < rho < 0.7


def test_without_sharing_gls_is_the_mean_and_missing_scores_are_used():
    votes = drawn(1)
    np.testing.assert_allclose(gls(votes, 0.0)[0], Progress()(votes).scores, atol=1e-12)
    assert len(votes.take(np.isnan(votes.score_first))) > 0
    fit = ProgressGls()(votes)
    spread = np.sqrt(np.diag(fit.covariance))
    np.testing.assert_allclose(fit.scores, np.linspace(0.3, 0.7, 4), atol=5 * spread.max())


def test_a_policy_that_met_easy_tasks_is_not_flattered():
    rng = np.random.default_rng(0)
    m = 400
    i, j = np.zeros(m, int), rng.integers(1, 3, m)
    easy = np.where(j == 1, 0.2, -0.2) + rng.normal(0, 0.1, m)
    y = rng.integers(0, 2, m).astype(float)
    votes = Comparisons.build(i, j, y, items=list('abc'),
                              score_first=np.clip(0.5 + easy + rng.normal(0, 0.02, m), 0, 1),
                              score_second=np.clip(0.5 + easy + rng.normal(0, 0.02, m), 0, 1))
    plain, fair = Progress()(votes).scores, ProgressGls()(votes).scores
    assert plain[1] - plain[2] > 0.3
    assert abs(fair[1] - fair[2]) < 0.05


def test_a_policy_without_scores_is_named():
    votes = Comparisons.build([0, 1], [1, 2], [1, 0], items=['a', 'b', 'c'],
                              score_first=[0.1, 0.2], score_second=[0.3, np.nan])
    for make in (Progress(), ProgressGls()):
        with pytest.raises(RankingError, match='no scored rollout of c'):
            make(votes)
