"""That the variances of the hierarchical model are estimates widens its posterior."""

from dataclasses import replace

import numpy as np
import pytest
from test_hierarchical import simulated

from arena_robot.ranking.hierarchical import Hierarchical, as_fit, posterior
from arena_robot.ranking.hierarchical_fit import PRIOR, BlockSpreads, laplace, of_spreads
from arena_robot.ranking.hierarchical_terms import make_terms

STEP = 1e-3


@pytest.mark.parametrize('scores', [False, True])
def test_the_posterior_is_wider_by_what_another_variance_would_change(scores):
    votes, _, _ = simulated(1, 120, by_evaluator=0.5, scores=scores)
    terms = make_terms(votes)
    at = dict.fromkeys(PRIOR, 0.1 if scores else 0.4)
    here = laplace(terms, BlockSpreads(at), np.zeros(terms.size), 1e-9)
    expected = np.zeros_like(here.covariance)
    for name, (_, weight) in PRIOR.items():
        ends = [laplace(terms, BlockSpreads({**at, name: at[name] * np.exp(0.5 * off)}), here.x,
                        1e-9).x for off in (-STEP, STEP)]
        slope = (ends[1] - ends[0]) / (2 * STEP)
        block = terms.block(name)
        determined = np.maximum(1 - np.diag(here.covariance)[block] / at[name] ** 2, 0).sum()
        expected += 2 / (determined + weight) * np.outer(slope, slope)
    # Of the abilities: the covariance is that of the expected information, and κ's is not that.
    added, wanted = np.diag(of_spreads(here))[:votes.n], np.diag(expected)[:votes.n]
    np.testing.assert_allclose(added, wanted, rtol=0.1, atol=0.02 * wanted.max())


def test_it_matters_with_few_policies_and_hardly_with_much_data():
    shares = []
    for sessions in (60, 3000):
        votes, _, _ = simulated(2, sessions)
        found = posterior(votes)
        alone = laplace(found.terms, found.spreads, found.x)
        n = votes.n
        shares.append(np.trace(of_spreads(alone)[:n, :n]) / np.trace(alone.covariance[:n, :n]))
        assert np.all(np.diag(found.covariance) >= np.diag(alone.covariance))
    assert 0.01 < shares[0] < 0.5
    assert shares[1] < 0.3 * shares[0]


def test_the_standings_have_the_wider_covariance():
    votes, _, _ = simulated(3, 80)
    found = posterior(votes)
    alone = replace(found, covariance=laplace(found.terms, found.spreads, found.x).covariance)
    assert np.trace(Hierarchical()(votes).covariance) > 1.005 * np.trace(as_fit(alone).covariance)
