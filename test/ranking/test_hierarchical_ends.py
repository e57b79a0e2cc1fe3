"""The hierarchical model of scores that have ends: what is known, expected, and predicted."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from ranking_worlds import World
from roboarena_tables import POLICIES, WHOLE, needs_whole
from scipy.stats import multivariate_normal, norm
from test_hierarchical import simulated

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.hierarchical import terms
from arena_robot.ranking.hierarchical.fit import (
    PRIOR,
    BlockDeviations,
    gap_variances,
    information_of_deviations,
    laplace,
    of_deviations,
    varied_blocks,
)
from arena_robot.ranking.hierarchical.model import Hierarchical, cut, posterior
from arena_robot.ranking.hierarchical.terms import (
    at_ends,
    known_pairs,
    link,
    make_terms,
)
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.records.roboarena_files import read_tables

SIGMA, RHO = 0.35, 0.4
ENDS = np.array([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)])
STEP = 1e-3


def cut_votes(seed, m=900, levels=(-0.3, 0.0, 0.3, 0.6, 0.9), people=1):
    """Sessions whose progress is cut at 0 and 1; the one that got further wins, else a tie."""
    rng, levels = np.random.default_rng(seed), np.array(levels)
    i = rng.integers(0, len(levels), m)
    j = (i + rng.integers(1, len(levels), m)) % len(levels)
    task, own = rng.normal(0, 0.25, (m, 1)), rng.normal(0, 0.3, (m, 2))
    scores = np.clip(levels[np.stack([i, j], axis=1)] + task + own, 0, 1)
    gap = scores[:, 0] - scores[:, 1]
    return Comparisons.build(i, j, (np.sign(gap) + 1) / 2, score_first=scores[:, 0],
                             score_second=scores[:, 1],
                             evaluator=[f'e{k}' for k in rng.integers(0, people, m)])


def test_the_probability_of_a_pair_is_that_of_scipy():
    residuals = np.random.default_rng(0).normal(0, 0.4, (9, 2))
    log = known_pairs(residuals, ENDS, SIGMA, RHO).log
    cov = SIGMA ** 2 * np.array([[1, RHO], [RHO, 1]])
    rest = SIGMA * np.sqrt(1 - RHO ** 2)
    for (a, b), (end, other), value in zip(residuals, ENDS, log, strict=True):
        if end and other:
            side = np.array([-end, -other])
            wanted = multivariate_normal([0, 0], cov * np.outer(side, side)).logcdf(side * [a, b])
        elif not (end or other):
            wanted = multivariate_normal([0, 0], cov).logpdf([a, b])
        else:
            at, open_, side = (a, b, -other) if other else (b, a, -end)
            wanted = norm.logpdf(at, scale=SIGMA) + norm.logcdf(side * (open_ - RHO * at) / rest)
        assert value - np.log(2 * np.pi) == pytest.approx(wanted, abs=2e-5)


def test_means_and_variances_are_the_slopes_of_the_log_probability():
    # by what is expected, that is minus the residual
    residuals = np.random.default_rng(1).normal(0, 0.5, (9, 2))
    pairs, spread = known_pairs(residuals, ENDS, SIGMA, RHO), SIGMA ** 2 * np.array(
        [1 - RHO, 1 + RHO])
    directions = np.sqrt(0.5) * np.array([[1, -1], [1, 1]])
    for k, direction in enumerate(directions):
        less, more = (known_pairs(residuals - step * direction, ENDS, SIGMA, RHO)
                      for step in (-1e-4, 1e-4))
        np.testing.assert_allclose((more.log - less.log) / 2e-4,
                                   (pairs.apart, pairs.joint)[k] / spread[k], atol=1e-6)
        for other, name in enumerate(('apart', 'joint')):
            bend = (getattr(less, name) - getattr(more, name)) / 2e-4 / spread[other]
            unsure = pairs.unsure[k] if k == other else pairs.unsure[2]
            wanted = (k == other) / spread[k] - unsure / spread.prod() * (
                1 if k != other else spread[1 - k] / spread[k])
            np.testing.assert_allclose(bend, wanted, atol=1e-5)
    far = known_pairs(np.array([[-9.0, -9.0], [9.0, -9.0]]), np.array([[-1, -1], [1, 1]]), 0.3, 0)
    assert np.isfinite(far.log).all()
    assert far.unsure[:2].min() >= -1e-12


def test_differences_are_those_of_what_was_cut(monkeypatch):
    def fitted():
        fits = [posterior(cut_votes(seed)) for seed in range(4)]
        return (np.mean([np.diff(fit.x[:5]) for fit in fits], axis=0),
                np.mean([fit.deviations.noise['score'] for fit in fits], axis=0))

    apart, noise = fitted()
    np.testing.assert_allclose(apart, np.full(4, 0.3), atol=0.05)
    np.testing.assert_allclose(noise, (0.39, 0.41), atol=0.05)
    monkeypatch.setattr(terms, 'at_ends', lambda a, b: np.zeros((len(a), 2), int))
    assert fitted()[0][[0, 3]].max() < 0.24


def test_the_expected_progress_is_that_of_endless_sessions():
    levels, inside = np.array([-0.3, 0.0, 0.3, 0.6, 0.9]), []
    truth = cut(levels, np.hypot(0.25, 0.3))
    drawn = np.random.default_rng(0).normal(levels[:, None], np.hypot(0.25, 0.3), (5, 200_000))
    np.testing.assert_allclose(truth, np.clip(drawn, 0, 1).mean(axis=1), atol=3e-3)
    for seed in range(12):
        expected = Hierarchical()(cut_votes(seed, 250)).diagnostics.details['expected_progress']
        assert list(expected) == [f'item_{k}' for k in range(5)]
        middle, low, high = np.array(list(expected.values())).T
        assert np.abs(middle - truth).max() < 0.13
        inside.append((low <= truth) & (truth <= high))
    assert 0.85 < np.mean(inside) < 1.0


def test_expected_progress_ends_where_progress_does():
    few = cut_votes(6, 14, (-1.2, 0.5, 2.2))
    expected = np.array(list(posterior_progress(few).values()))
    assert expected.min() >= 0.0
    assert expected.max() <= 1.0
    assert (expected[:, 1] < expected[:, 0]).all()
    assert (expected[:, 0] < expected[:, 2]).all()


def posterior_progress(votes):
    return Hierarchical()(votes).diagnostics.details['expected_progress']


def test_progress_of_the_mix_weighs_categories_as_the_sessions_do():
    votes = cut_votes(3, 600)
    kind = np.arange(600) % 4 == 0                     # a quarter of the sessions is of 'rare'
    helped = np.where(votes.first == 0, 0.5 * kind, 0.0)
    votes = replace(votes, score_first=np.clip(votes.score_first + helped, 0, 1),
                    category=kind.astype(np.int64), categories=('usual', 'rare'))

    def first(category):
        return Hierarchical(category)(votes).diagnostics.details['expected_progress']['item_0'][0]

    assert first('rare') > first('usual') + 0.1
    share = (first('') - first('usual')) / (first('rare') - first('usual'))
    assert share == pytest.approx(0.25, abs=0.08)


def test_scores_that_are_only_success_or_failure_have_no_ends():
    votes = cut_votes(6, 100)
    whole = replace(votes, score_first=np.round(votes.score_first),
                    score_second=np.round(votes.score_second))
    assert not make_terms(whole).ends.any()
    assert make_terms(votes).ends.any()
    np.testing.assert_array_equal(at_ends(np.array([0.0, np.nan, 0.5]), np.array([1.0, 0.0, 0.4])),
                                  [[-1, 1], [0, -1], [0, 0]])


@needs_whole
def test_verdicts_that_follow_the_scores_do_not_keep_the_fit_from_converging():
    data = read_tables(WHOLE / 'sessions.csv', WHOLE / 'episodes.csv')
    votes = arena_tables(data.comparisons(), data.scored(), POLICIES).comparisons
    assert posterior(votes.take(np.arange(0, len(votes), 3))).settled
    # Here a deviation of 0.1 swung by 1 % for ever while each round left the place rough.
    more = arena_tables(data.comparisons(), data.scored(), (*POLICIES, 'pi0')).comparisons
    assert len(more) == len(votes) + 1
    assert posterior(more).settled


def averaged(terms, deviations, x, rounds):
    """The posterior for given deviations whose verdicts are averaged over its own gaps."""
    fit = laplace(terms, deviations, x, 1e-9)
    for _ in range(rounds):
        fit = laplace(terms, deviations, fit.x, 1e-9, gap_variances(fit))
    return fit


@pytest.mark.parametrize('rounds', [0, 30])
@pytest.mark.parametrize('scores', [False, True])
def test_the_posterior_is_wider_by_what_another_variance_would_change(scores, rounds):
    votes, _, _ = simulated(1, 120, by_evaluator=0.5, scores=scores)
    terms = make_terms(votes)
    at = dict.fromkeys(PRIOR, 0.1 if scores else 0.4)
    here = averaged(terms, BlockDeviations(at), np.zeros(terms.size), rounds)
    slopes = []
    for name in varied_blocks(terms):
        ends = [averaged(terms, BlockDeviations({**at, name: at[name] * np.exp(0.5 * off)}),
                         here.x, rounds).x for off in (-STEP, STEP)]
        slopes.append((ends[1] - ends[0]) / (2 * STEP))
    expected = np.transpose(slopes) @ np.linalg.inv(information_of_deviations(here)) @ slopes
    # Of the abilities: the covariance is that of the expected information, and κ's is not that.
    added, wanted = np.diag(of_deviations(here))[:votes.n], np.diag(expected)[:votes.n]
    np.testing.assert_allclose(added, wanted, rtol=0.1 if rounds == 0 else 0.25,
                               atol=0.02 * wanted.max())


def test_the_information_of_a_variance_counts_what_is_known_of_its_values():
    votes, _, _ = simulated(1, 120)
    fit = posterior(votes)
    cells, theta = (varied_blocks(fit.terms).index(name) for name in ('evaluator', 'theta'))
    block, variance = fit.terms.block('evaluator'), fit.deviations.of['evaluator'] ** 2
    count, weight = block.stop - block.start, PRIOR['evaluator'][1]
    for noise in (1e-9, variance, 1e9):
        # values that are measured with a noise of that variance
        known = replace(fit, covariance=np.eye(fit.terms.size) / (1 / variance + 1 / noise))
        table = information_of_deviations(known)
        share = variance / (variance + noise)
        assert table[cells, cells] == pytest.approx((count * share ** 2 + weight) / 2)
        assert table[cells, theta] == 0.0
    table = information_of_deviations(fit)
    assert table[cells, theta] == table[theta, cells] > 0.0


def test_the_mean_is_that_of_an_integral_where_evaluators_differ_much():
    # Each evaluator gives two verdicts of two policies, by offsets whose variance is known.
    rng, people, apart = np.random.default_rng(4), 60, 2.0
    own = rng.normal(0, np.sqrt(2) * 1.2, people)
    win, tie, _ = outcome_probabilities(np.repeat(apart + own, 2), 0.6)
    u = rng.random(2 * people)
    y = np.where(u < win, 1.0, np.where(u < win + tie, 0.5, 0.0))
    votes = Comparisons.build(np.zeros(2 * people, int), np.ones(2 * people, int), y,
                              evaluator=[f'e{k}' for k in np.arange(2 * people) // 2])
    terms = make_terms(votes)
    known = {**dict.fromkeys(PRIOR, 1e-3), 'theta': 1.0, 'evaluator': 1.2}
    fit = averaged(terms, BlockDeviations(known), np.zeros(terms.size), 30)
    gaps, (nodes, shares) = np.linspace(-3, 7, 401), hermegauss(41)
    d = gaps[:, None] + np.sqrt(2) * 1.2 * nodes
    chance = np.stack(outcome_probabilities(d, link(terms, fit.x).kappa))
    pairs = chance[(2 - 2 * y).astype(int).reshape(people, 2)].prod(axis=1)
    density = np.log(pairs @ (shares / shares.sum())).sum(axis=0) - gaps ** 2 / 4
    density = np.exp(density - density.max())
    wanted = density @ gaps / density.sum()
    sd = np.sqrt(density @ (gaps - wanted) ** 2 / density.sum())
    row = np.zeros(terms.size)
    row[:2] = 1.0, -1.0
    assert row @ fit.x == pytest.approx(wanted, abs=0.2 * sd)
    assert np.sqrt(row @ fit.covariance @ row) == pytest.approx(sd, rel=0.1)
    alone = laplace(terms, BlockDeviations(known), np.zeros(terms.size))
    assert row @ alone.x < wanted - 0.5 * sd


def test_the_variance_of_many_evaluators_with_few_verdicts_each_is_not_too_small():
    averages, shrunk = [], []
    for seed in range(6):
        rng = np.random.default_rng([0, 7, 600, seed])
        world = World(rng.normal(0, 1, 7), kappa=0.6, by_evaluator=0.6)
        fit = Hierarchical()(world.comparisons(600, rng, 20))
        averages.append(fit.diagnostics.details['spread']['evaluator'])
        shrunk.append(fit.scores @ fit.scores / (fit.scores @ world.abilities))
    assert 0.48 < np.mean(averages) < 0.66
    assert 0.95 < np.mean(shrunk) < 1.08


def test_it_matters_with_few_policies_and_hardly_with_much_data():
    shares = []
    for sessions in (60, 1500):
        votes, _, _ = simulated(2, sessions)
        fit = posterior(votes)
        alone = laplace(fit.terms, fit.deviations, fit.x, unsure=fit.unsure)
        n = votes.n
        shares.append(np.trace(of_deviations(alone)[:n, :n]) / np.trace(alone.covariance[:n, :n]))
        assert np.all(np.diag(fit.covariance) >= np.diag(alone.covariance))
    assert 0.01 < shares[0] < 0.5
    assert shares[1] < 0.3 * shares[0]
