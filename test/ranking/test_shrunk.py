"""Shrunk Bradley–Terry: the sums over evaluators and institutions are those of its formula."""

import numpy as np
import pytest
from scipy.special import expit

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.intervals import shrunk
from arena_robot.ranking.intervals.sandwich import with_ties
from arena_robot.ranking.intervals.shrunk import ShrunkBradleyTerry


def votes_of(seed, policies=6, sessions=400, people=15, labs=4):
    """Return weighted verdicts with ties; one evaluator and one laboratory have no name."""
    rng = np.random.default_rng(seed)
    ability, own = rng.normal(0, 1, policies), rng.normal(0, 0.6, (people, policies))
    i = rng.integers(0, policies, sessions)
    j = (i + rng.integers(1, policies, sessions)) % policies
    who, lab = rng.integers(0, people, sessions), rng.integers(0, labs, sessions)
    chance = expit(ability[i] - ability[j] + own[who, i] - own[who, j])
    y = (rng.random(sessions) < chance).astype(float)
    y[rng.random(sessions) < 0.2] = 0.5
    return Comparisons.build(
        i, j, y, items=[f'p{k}' for k in range(policies)], weight=rng.random(sessions) + 0.5,
        evaluator=[f'e{k}' if k else '' for k in who],
        institution=[f'h{k}' if k else '' for k in lab])


def posterior(votes, theta, covariance, tau, sigma, of_lab):
    """Return mean and covariance after one step from ``theta``, verdict by verdict and dense."""
    n, edges = votes.n, np.eye(votes.n)[votes.first] - np.eye(votes.n)[votes.second]
    flat = 1 / np.sqrt(1 + np.pi / 8 * np.einsum('ma,ab,mb->m', edges, covariance, edges))
    p = expit(flat * (edges @ theta))
    bend, slope = votes.weight * flat * p * (1 - p), votes.weight * (votes.outcome - p)
    total = votes.weight.sum()
    noise = with_ties(votes.weight[votes.outcome == 0.5].sum(), total,
                      (votes.weight * p * (1 - p)).sum())
    psi = max(noise - 2 * (sigma ** 2 + of_lab ** 2) * bend.sum() / total, 0.2 * noise)
    score, information = np.zeros(n), np.zeros((n, n))
    for place, lab in enumerate(votes.institutions):
        part, whole = np.zeros(n), np.zeros((n, n))
        for number, person in enumerate(votes.evaluators):
            rows = (votes.institution == place) & (votes.evaluator == number)
            seen = edges[rows].T * bend[rows] @ edges[rows]
            left = np.linalg.inv(psi * np.eye(n) + (sigma ** 2 if person else 0) * seen)
            part += left @ (slope[rows] @ edges[rows])
            whole += left @ seen
        left = np.linalg.inv(np.eye(n) + (of_lab ** 2 if lab else 0) * whole)
        score, information = score + left @ part, information + left @ whole
    # Without the common shift of all abilities.
    basis = np.linalg.svd(np.ones((1, n)))[2][1:].T
    inside = basis.T @ information @ basis + np.eye(n - 1) / tau ** 2
    left = basis @ np.linalg.inv(inside) @ basis.T
    return left @ (score + information @ theta), left


@pytest.mark.parametrize('spreads', [(1.0, 0.5, 0.3), (0.6, 0.0, 0.4), (2.0, 0.7, 0.0)])
def test_a_fit_with_known_spreads_is_the_posterior_of_the_formula(spreads, monkeypatch):
    monkeypatch.setattr(shrunk, 'CLOSE', 1e-13)
    votes = votes_of(1)
    fit = ShrunkBradleyTerry(spreads=spreads)(votes)
    mean, covariance = posterior(votes, fit.scores, fit.covariance, *spreads)
    np.testing.assert_allclose(fit.scores, mean, atol=1e-9)
    np.testing.assert_allclose(fit.covariance, covariance, atol=1e-9)


def test_sums_in_small_pieces_are_the_same(monkeypatch):
    votes = votes_of(2)
    whole = ShrunkBradleyTerry()(votes)
    monkeypatch.setattr(shrunk, 'MOST_CELLS', 15 * 4 * 36)
    pieces = ShrunkBradleyTerry()(votes)
    np.testing.assert_allclose(pieces.scores, whole.scores, atol=1e-9)
    np.testing.assert_allclose(pieces.variances.gap, whole.variances.gap, atol=1e-9)
    assert pieces.diagnostics.details['spread'] == pytest.approx(
        whole.diagnostics.details['spread'])


def test_offsets_of_pairs_are_those_of_the_joint_posterior(monkeypatch):
    """Abilities and an offset per pair, also of pairs that never met, solved as one."""
    tau, rho, n = 1.0, 0.6, 5
    monkeypatch.setattr(shrunk, 'CLOSE', 1e-13)
    monkeypatch.setattr(shrunk, 'TAUS', np.array([tau]))
    monkeypatch.setattr(shrunk, 'CIRCLES', np.array([rho]))
    rng = np.random.default_rng(3)
    i, j = np.triu_indices(n, 1)
    met = rng.choice([0, 1, 2, 4, 5, 7, 8, 9], 200)
    votes = Comparisons.build(i[met], j[met], (rng.random(200) < 0.6).astype(float),
                              items=[f'p{k}' for k in range(n)])
    fit = ShrunkBradleyTerry()(votes)
    centre, mean = np.eye(n) - 1 / n, fit.scores - fit.scores.mean()
    for _ in range(100):    # of the flattening about the posterior of the abilities alone
        levels = shrunk._levels(shrunk._sums(votes, 'auto'), mean, np.zeros((n, n)), 0.0, True)
        mean = shrunk._mixed(levels, mean, shrunk.TAUS, [np.zeros(1)] * 2).mean
    assert np.abs(mean - fit.scores).max() > 0.01
    edges = (np.eye(n)[i] - np.eye(n)[j])[met]
    design = np.hstack([edges, np.eye(len(i))[met]])
    p = expit(edges @ mean)
    noise = with_ties(0.0, 200.0, (p * (1 - p)).sum())
    information = design.T * (p * (1 - p) / noise) @ design + np.diag(
        [1 / tau ** 2] * n + [1 / rho ** 2] * len(i))
    pull = design.T @ ((votes.outcome - p + p * (1 - p) * (edges @ mean)) / noise)
    whole = np.hstack([np.eye(n), (np.eye(n)[i] - np.eye(n)[j]).T / n])
    left = centre @ whole @ np.linalg.inv(information)
    np.testing.assert_allclose(centre @ (mean + levels.offsets.shift), left @ pull, atol=1e-6)
    own = np.diagonal(left @ (centre @ whole).T)
    assert (np.diagonal(fit.covariance) > 0.95 * own).all()


def test_circles_widen_the_intervals():
    even, ahead = np.tile([0, 1, 0], 40), np.tile([1, 2, 2], 40)
    up = Comparisons.build(even, ahead, np.arange(120) % 8 < 6, items=list('abc'))
    turned = Comparisons.build(even, ahead, (np.arange(120) % 8 < 6) == (ahead - even == 1),
                               items=list('abc'))
    spread, wide = zip(*((fit.diagnostics.details['spread']['pair'], fit.variances.gap[0, 1])
                         for fit in map(ShrunkBradleyTerry(), (up, turned))), strict=True)
    assert spread[0] < 0.25 < 0.4 < spread[1]
    assert wide[1] > 1.2 * wide[0]
