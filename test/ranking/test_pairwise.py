import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import PairCounts
from arena_robot.ranking.pairwise import bradley_terry, davidson
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.davidson import Davidson, has_finite_maximum
from arena_robot.ranking.pairwise.prior import PRIOR_L2

STEPS = np.arange(-4, 5) / 2.0
PAIRS = {2: [(0, 1)], 3: [(0, 1), (0, 2), (1, 2)]}


def drawn(seed, n=6, m=200, ties=0.2):
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1, n)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    y = (rng.random(m) < 1 / (1 + np.exp(theta[j] - theta[i]))).astype(float)
    y[rng.random(m) < ties] = 0.5
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)])


def independent_optimum(votes, with_ties):
    """Newton-CG on the per-comparison likelihood, written apart from the code under test."""
    i, j, y, n = votes.first, votes.second, votes.outcome, votes.n
    basis = np.linalg.qr(np.eye(n) - 1 / n)[0][:, :n - 1]

    def terms(x):
        theta, kappa = basis @ x[:n - 1], np.exp(x[-1]) if with_ties else 0.0
        d = theta[i] - theta[j]
        logits = np.stack([d / 2, -d / 2] + ([np.full_like(d, x[-1])] if with_ties else []))
        p = np.exp(logits - np.logaddexp.reduce(logits, axis=0))
        return d, p, logits, kappa

    def value(x):
        d, _, logits, _ = terms(x)
        total = np.logaddexp.reduce(logits, axis=0)
        tie = y == 0.5
        top = (y - 0.5) * d + (tie * x[-1] if with_ties else 0.0)
        return -(top - total).sum()

    def slope(x):
        _, p, _, _ = terms(x)
        g = y - p[0] - (p[2] / 2 if with_ties else 0)
        full = np.bincount(i, g, minlength=n) - np.bincount(j, g, minlength=n)
        last = [((y == 0.5) - p[2]).sum()] if with_ties else []
        return -np.append(basis.T @ full, last)

    x = np.zeros(n - 1 + with_ties)
    for _ in range(3):
        x = minimize(value, x, jac=slope, method='BFGS', options={'gtol': 1e-12}).x
    for _ in range(20):
        bend = np.array([(slope(x + e) - slope(x - e)) / 2e-5 for e in np.eye(len(x)) * 1e-5])
        x = x - np.linalg.solve(bend, slope(x))
    return basis @ x[:n - 1], x[-1], -value(x)


@pytest.mark.filterwarnings('ignore:.*precision loss.*')
@pytest.mark.parametrize('seed', range(4))
def test_both_are_at_the_maximum_an_independent_optimiser_finds(seed):
    votes = drawn(seed)
    theta, _, value = independent_optimum(votes, False)
    fit = BradleyTerry()(votes)
    np.testing.assert_allclose(fit.scores, theta, atol=1e-8)
    assert fit.diagnostics.log_likelihood == pytest.approx(value, abs=1e-8)
    theta, log_kappa, value = independent_optimum(votes, True)
    fit = Davidson()(votes)
    np.testing.assert_allclose(fit.scores, theta, atol=1e-8)
    assert np.log(fit.diagnostics.details['kappa']) == pytest.approx(log_kappa, abs=1e-8)
    assert fit.diagnostics.log_likelihood == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize('make', [BradleyTerry, Davidson])
def test_the_sparse_path_finds_the_same_maximum(make, monkeypatch):
    votes = drawn(2, n=30, m=2000)
    dense = make(l2=0.1)(votes).scores, make()(votes).scores
    monkeypatch.setattr('arena_robot.ranking.counts.DENSE_POLICIES', 5)
    sparse = make(l2=0.1)(votes).scores, make()(votes).scores
    np.testing.assert_allclose(sparse, dense, atol=1e-8)


@settings(max_examples=40)
@given(st.integers(0, 10 ** 6), st.permutations(range(6)))
def test_neither_names_nor_sides_matter(seed, order):
    votes = drawn(seed, m=150)
    order = np.array(order)
    rng = np.random.default_rng(seed)
    turned = rng.random(len(votes)) < 0.5
    i, j = order[votes.first], order[votes.second]
    other = Comparisons.build(np.where(turned, j, i), np.where(turned, i, j),
                              np.where(turned, 1 - votes.outcome, votes.outcome),
                              items=[f'q{k}' for k in range(6)])
    for make in (BradleyTerry(0.05), Davidson(0.05)):
        here, there = make(votes), make(other)
        np.testing.assert_allclose(there.scores[order], here.scores, atol=1e-8)
        np.testing.assert_allclose(there.solve[order], here.solve, atol=1e-8)


def test_two_policies_have_the_closed_form():
    votes = Comparisons.build([0] * 10, [1] * 10, [1] * 5 + [0] * 2 + [0.5] * 3, items=['a', 'b'])
    fit = BradleyTerry()(votes)
    assert fit.scores[0] - fit.scores[1] == pytest.approx(np.log(6.5 / 3.5), abs=1e-10)
    assert fit.solve.tolist() == pytest.approx([0.65, 0.35])
    fit = Davidson()(votes)
    assert fit.scores[0] - fit.scores[1] == pytest.approx(np.log(5 / 2), abs=1e-10)
    assert fit.diagnostics.details['kappa'] == pytest.approx(3 / np.sqrt(10), abs=1e-10)
    assert fit.diagnostics.details['saturated_log_likelihood'] == \
        pytest.approx(fit.diagnostics.log_likelihood, abs=1e-10)


def test_weights_count_like_repetitions():
    votes = drawn(4)
    twice = votes.reweighted(np.where(np.arange(len(votes)) % 3 == 0, 2.0, 1.0))
    repeated = votes.take(np.r_[np.arange(len(votes)), np.arange(0, len(votes), 3)])
    for make in (BradleyTerry(), Davidson()):
        np.testing.assert_allclose(make(twice).scores, make(repeated).scores, atol=1e-9)


def test_what_has_no_finite_maximum_is_held_by_the_prior_or_refused_if_asked():
    votes = Comparisons.build([0, 1, 2, 0], [1, 2, 1, 1], [1, 1, 1, 0.5], items=['a', 'b', 'c'])
    beaten = votes.take(np.array([0, 1, 2]))
    for make in (BradleyTerry, Davidson):
        with pytest.raises(RankingError, match=r'every verdict went one way.*\{b, c\}; \{a\}'):
            make(l2=0)(beaten)
        fit = make(l2=0.1)(beaten)
        assert any('limited by the prior (the ridge)' in x for x in fit.diagnostics.warnings)
        prior_fit = make()(beaten)
        np.testing.assert_allclose(prior_fit.scores, make(l2=PRIOR_L2)(beaten).scores, atol=1e-9)
        assert prior_fit.ridge.tolist() == [PRIOR_L2] * 3
        assert 'a: won every comparison so far' in ' '.join(prior_fit.diagnostics.warnings)
        exact = make()(votes)
        np.testing.assert_allclose(exact.scores, make(l2=0)(votes).scores, atol=1e-9)
        assert not exact.ridge.any()


@pytest.mark.parametrize('make', [BradleyTerry, Davidson])
@pytest.mark.parametrize('outcome', [1, 0.5, 0])
def test_a_newcomer_with_one_verdict_moves_nobody(make, outcome):
    votes = drawn(3)
    joined = Comparisons.build([*votes.first, 6], [*votes.second, 2], [*votes.outcome, outcome],
                               items=[*votes.items, 'new'])
    before, after = make()(votes).scores, make()(joined).scores
    # A tie tells Davidson a little about how often ties are, which scales all differences.
    atol = 3e-2 if (make is Davidson and outcome == 0.5) else 1e-8
    np.testing.assert_allclose(after[:6], before, atol=atol)
    assert np.sign(round(after[6] - after[2], 6)) == np.sign(outcome - 0.5)


def test_a_champion_of_many_established_policies_keeps_them_at_their_exact_maximum():
    votes = drawn(5)
    joined = Comparisons.build([*votes.first, *[6] * 9], [*votes.second, *[0, 1, 2] * 3],
                               [*votes.outcome, *[1] * 9], items=[*votes.items, 'new'])
    fit = BradleyTerry()(joined)
    np.testing.assert_allclose(fit.scores[:6], BradleyTerry()(votes).scores, atol=1e-8)
    assert fit.ridge.tolist() == [0] * 6 + [PRIOR_L2]
    d, gain = fit.scores[6] - fit.scores[:3], -PRIOR_L2 * fit.scores[6]
    assert 3 * (1 - 1 / (1 + np.exp(-d))).sum() + gain == pytest.approx(0, abs=1e-8)


def test_davidson_without_ties_is_bradley_terry_and_with_nothing_else_is_refused():
    votes = drawn(6, ties=0.0)
    fit = Davidson()(votes)
    np.testing.assert_allclose(fit.scores, BradleyTerry()(votes).scores, atol=1e-12)
    assert 'no ties: kappa is 0' in fit.diagnostics.warnings
    ties = Comparisons.build([0, 1], [1, 2], [0.5, 0.5], items=['a', 'b', 'c'])
    with pytest.raises(RankingError, match='all 2 verdicts are ties'):
        Davidson(l2=0)(ties)
    np.testing.assert_allclose(Davidson()(ties).scores, 0, atol=1e-12)
    np.testing.assert_allclose(BradleyTerry()(ties).scores, 0, atol=1e-12)


def test_probabilities_do_not_overflow():
    win, tie, loss = davidson.outcome_probabilities(np.array([-2000.0, 0.0, 2000.0]), 0.5)
    np.testing.assert_allclose(win + tie + loss, 1)
    assert (win[2], loss[0]) == (1, 1)
    assert bradley_terry.expected_share(np.array([0.0, 800.0, -800.0])).tolist() == \
        pytest.approx([0.5, 1, 0])


def table(n, cells):
    """Counts of n policies from (wins, ties, losses) per pair; pairs without verdicts left out."""
    kept = [(pair, cell) for pair, cell in zip(PAIRS[n], cells, strict=True) if any(cell)]
    low, high = (np.array([pair[k] for pair, _ in kept]) for k in (0, 1))
    wins, ties, losses = np.array([cell for _, cell in kept], float).T
    return PairCounts(tuple('abc'[:n]), low, high, wins, losses, ties)


def grows(counts):
    """
    Tell whether some direction never loses and somewhere gains, by trying many directions.

    For up to three policies the extreme directions have D and k among a few small ratios: those
    of the lines where two predictors of some pair change equally.
    """
    axes = [np.zeros(1), *[STEPS] * counts.n]
    *delta, k = (axis.ravel() for axis in np.meshgrid(*axes, indexing='ij'))
    d = np.array(delta)[counts.low] - np.array(delta)[counts.high]
    change = np.stack([d / 2, np.broadcast_to(k, d.shape), -d / 2])
    seen = np.stack([counts.wins, counts.ties, counts.losses]) > 0
    behind = change < change.max(axis=0)
    never_loses = ~np.any(behind & seen[:, :, None], axis=(0, 1))
    return bool(np.any(never_loses & np.any(behind, axis=(0, 1))))


def connected(counts):
    return len({*counts.low.tolist(), *counts.high.tolist()}) == counts.n and (
        counts.n == 2 or len(counts.low) >= 2)


@pytest.mark.parametrize('n', [2, 3])
def test_existence_is_what_brute_force_finds_on_every_small_table(n):
    shapes = list(itertools.product((0, 1), repeat=3))
    tried = 0
    for cells in itertools.product(shapes, repeat=len(PAIRS[n])):
        if not any(cell[1] for cell in cells):
            continue
        counts = table(n, cells)
        if not connected(counts):
            continue
        tried += 1
        assert has_finite_maximum(counts) is not grows(counts), cells
    assert tried == {2: 4, 3: 436}[n]


def test_every_small_table_is_fitted_or_refused_in_words():
    fitted = refused = 0
    for cells in itertools.product(itertools.product((0, 1), repeat=3), repeat=3):
        if not any(map(any, cells)):
            continue
        counts = table(3, cells)
        try:
            fit = Davidson().fit_counts(counts)
        except RankingError:
            refused += 1
            continue
        fitted += 1
        assert np.ptp(fit.scores) < 20.0
    assert fitted > 100
    assert refused > 100
