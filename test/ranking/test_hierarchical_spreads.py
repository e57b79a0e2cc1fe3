"""The hierarchical model's variances: how they are estimated, and what their errors add."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from ranking_worlds import World
from test_hierarchical import simulated

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.hierarchical.fit import (
    PRIOR,
    BlockSpreads,
    gap_variances,
    information_of_spreads,
    laplace,
    of_spreads,
    spread_blocks,
)
from arena_robot.ranking.hierarchical.model import Hierarchical, as_fit, posterior
from arena_robot.ranking.hierarchical.terms import link, make_terms
from arena_robot.ranking.pairwise.davidson import outcome_probabilities

STEP = 1e-3


def averaged(terms, spreads, x, rounds):
    """The posterior for given spreads whose verdicts are averaged over its own gaps."""
    found = laplace(terms, spreads, x, 1e-9)
    for _ in range(rounds):
        found = laplace(terms, spreads, found.x, 1e-9, gap_variances(found))
    return found


@pytest.mark.parametrize('rounds', [0, 30])
@pytest.mark.parametrize('scores', [False, True])
def test_the_posterior_is_wider_by_what_another_variance_would_change(scores, rounds):
    votes, _, _ = simulated(1, 120, by_evaluator=0.5, scores=scores)
    terms = make_terms(votes)
    at = dict.fromkeys(PRIOR, 0.1 if scores else 0.4)
    here = averaged(terms, BlockSpreads(at), np.zeros(terms.size), rounds)
    slopes = []
    for name in spread_blocks(terms):
        ends = [averaged(terms, BlockSpreads({**at, name: at[name] * np.exp(0.5 * off)}), here.x,
                         rounds).x for off in (-STEP, STEP)]
        slopes.append((ends[1] - ends[0]) / (2 * STEP))
    expected = np.transpose(slopes) @ np.linalg.inv(information_of_spreads(here)) @ slopes
    # Of the abilities: the covariance is that of the expected information, and κ's is not that.
    added, wanted = np.diag(of_spreads(here))[:votes.n], np.diag(expected)[:votes.n]
    np.testing.assert_allclose(added, wanted, rtol=0.1 if rounds == 0 else 0.25,
                               atol=0.02 * wanted.max())


def test_the_information_of_a_variance_counts_what_is_known_of_its_values():
    votes, _, _ = simulated(1, 120)
    found = posterior(votes)
    cells, theta = (spread_blocks(found.terms).index(name) for name in ('evaluator', 'theta'))
    block, variance = found.terms.block('evaluator'), found.spreads.of['evaluator'] ** 2
    count, weight = block.stop - block.start, PRIOR['evaluator'][1]
    for noise in (1e-9, variance, 1e9):
        # values that are measured with a noise of that variance
        known = replace(found, covariance=np.eye(found.terms.size) / (1 / variance + 1 / noise))
        table = information_of_spreads(known)
        share = variance / (variance + noise)
        assert table[cells, cells] == pytest.approx((count * share ** 2 + weight) / 2)
        assert table[cells, theta] == 0.0
    table = information_of_spreads(found)
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
    found = averaged(terms, BlockSpreads(known), np.zeros(terms.size), 30)
    gaps, (nodes, shares) = np.linspace(-3, 7, 401), hermegauss(41)
    d = gaps[:, None] + np.sqrt(2) * 1.2 * nodes
    chance = np.stack(outcome_probabilities(d, link(terms, found.x).kappa))
    pairs = chance[(2 - 2 * y).astype(int).reshape(people, 2)].prod(axis=1)
    density = np.log(pairs @ (shares / shares.sum())).sum(axis=0) - gaps ** 2 / 4
    density = np.exp(density - density.max())
    wanted = density @ gaps / density.sum()
    sd = np.sqrt(density @ (gaps - wanted) ** 2 / density.sum())
    row = np.zeros(terms.size)
    row[:2] = 1.0, -1.0
    assert row @ found.x == pytest.approx(wanted, abs=0.2 * sd)
    assert np.sqrt(row @ found.covariance @ row) == pytest.approx(sd, rel=0.1)
    alone = laplace(terms, BlockSpreads(known), np.zeros(terms.size))
    assert row @ alone.x < wanted - 0.5 * sd


def test_the_variance_of_many_evaluators_with_few_verdicts_each_is_not_too_small():
    found, shrunk = [], []
    for seed in range(6):
        rng = np.random.default_rng([0, 7, 600, seed])
        world = World(rng.normal(0, 1, 7), kappa=0.6, by_evaluator=0.6)
        fit = Hierarchical()(world.comparisons(600, rng, 20))
        found.append(fit.diagnostics.details['spread']['evaluator'])
        shrunk.append(fit.scores @ fit.scores / (fit.scores @ world.abilities))
    assert 0.48 < np.mean(found) < 0.66
    assert 0.95 < np.mean(shrunk) < 1.08


def test_it_matters_with_few_policies_and_hardly_with_much_data():
    shares = []
    for sessions in (60, 1500):
        votes, _, _ = simulated(2, sessions)
        found = posterior(votes)
        alone = laplace(found.terms, found.spreads, found.x, unsure=found.unsure)
        n = votes.n
        shares.append(np.trace(of_spreads(alone)[:n, :n]) / np.trace(alone.covariance[:n, :n]))
        assert np.all(np.diag(found.covariance) >= np.diag(alone.covariance))
    assert 0.01 < shares[0] < 0.5
    assert shares[1] < 0.3 * shares[0]


def test_the_standings_have_the_wider_covariance():
    votes, _, _ = simulated(3, 80)
    found = posterior(votes)
    alone = laplace(found.terms, found.spreads, found.x, unsure=found.unsure)
    assert np.trace(Hierarchical()(votes).covariance) > 1.005 * np.trace(as_fit(alone).covariance)
