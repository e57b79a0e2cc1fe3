"""The hierarchical model: its derivatives, its posterior beside MCMC, what it pools."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Conditions
from arena_robot.ranking.frames import from_frame
from arena_robot.ranking.hierarchical.fit import BlockDeviations, laplace, prior_precision
from arena_robot.ranking.hierarchical.likelihood import derivatives, local
from arena_robot.ranking.hierarchical.model import Hierarchical, posterior
from arena_robot.ranking.hierarchical.terms import make_terms
from arena_robot.ranking.methods import rank
from arena_robot.ranking.rollouts import AuditTable
from arena_robot.records.roboarena_files import read_tables


def simulated(seed, m=300, n=4, people=6, by_category=0.0, by_evaluator=0.0, scores=False,
              theta=None, side=0.0):
    """Sessions of two categories whose abilities differ, at one lab for two evaluators each."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1, n) if theta is None else np.array(theta)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    who, kind = rng.integers(0, people, m), rng.integers(0, 2, m)
    of_kind, own = rng.normal(0, by_category, (2, n)), rng.normal(0, by_evaluator, (people, n))
    a, b = (theta[k] + of_kind[kind, k] + own[who, k] for k in (i, j))
    bias = np.where(who == 0, side, 0.0)
    y = np.where(rng.random(m) < 0.15, 0.5, (rng.random(m) < expit(a - b + bias)).astype(float))
    s, u = (np.clip(np.round(4 * (0.5 + 0.2 * x + rng.normal(0, 0.2, m))) / 4, 0, 1)
            for x in (a, b))
    votes = Comparisons.build(
        i, j, y, items=[f'p{k}' for k in range(n)], evaluator=[f'e{k}' for k in who],
        institution=[f'h{k // 2}' for k in who], category=[f'c{k}' for k in kind],
        score_first=s if scores else None, score_second=u if scores else None)
    return votes, theta + of_kind.mean(axis=0), theta + of_kind


def in_conditions(votes, seed, hear=1.0, stand=0.0, unknown=0):
    """The votes with light, audits of the true abilities 0, 1 … and waits; some not known."""
    rng, m = np.random.default_rng([seed, 1]), len(votes)
    waits = rng.random((m, 2))
    audits = 0.1 * hear * np.stack([votes.first, votes.second], axis=1) + rng.normal(
        0, 0.1, (m, 2)) + rng.normal(0, 0.1, (m, 1))
    audits[:unknown], waits[:unknown // 2] = np.nan, np.nan
    dark = rng.integers(0, 2, m)
    flips = rng.random(m) < stand * np.nan_to_num(waits[:, 0] - waits[:, 1])
    return replace(votes, outcome=np.where(flips, 0.0, votes.outcome), conditions=Conditions.build(
        {'lighting': [('', 'dim', 'bright')[k] for k in np.where(np.arange(m) < 5, 0, 1 + dark)]},
        {'audit': audits.T, 'waited': waits.T}))


@pytest.mark.parametrize('unsure', [False, True])
@pytest.mark.parametrize('conditions', [False, True])
@pytest.mark.parametrize('scores', [False, True])
def test_slopes_are_those_of_finite_differences(scores, conditions, unsure):
    votes, _, _ = simulated(0, 60, scores=scores)
    more = in_conditions(votes, 0, unknown=20).conditions if conditions else None
    missing = np.where(np.arange(60) % 7 == 0, np.nan, votes.score_first)
    terms = make_terms(Comparisons.build(
        votes.first, votes.second, votes.outcome, items=votes.items, score_first=missing,
        score_second=votes.score_second, evaluator=[votes.evaluators[k] for k in votes.evaluator],
        category=[votes.categories[k] for k in votes.category], conditions=more))
    noise = {'score': (0.3, 0.4), 'audit': (0.2, 0.1)}
    x = np.random.default_rng(1).normal(0, 0.3, terms.size)
    gaps = np.random.default_rng(2).random(60) if unsure else None
    slope, _ = derivatives(terms, x, local(terms, x, noise, gaps))
    for k in range(terms.size):
        step = np.zeros(terms.size)
        step[k] = 1e-6
        difference = (local(terms, x + step, noise, gaps).value
                      - local(terms, x - step, noise, gaps).value)
        assert slope[k] == pytest.approx(difference / 2e-6, abs=1e-6)


def logarithm(votes, deviations, draws):
    """Return (K,) the log posterior of draws, written out verdict by verdict."""
    n, people = votes.n, len(votes.evaluators)
    theta = draws[:, :n]
    own = draws[:, n:n + people * n].reshape(-1, people, n)
    side, reliable = draws[:, -2 * people - 1:-1].reshape(-1, 2, people).transpose(1, 0, 2)
    total = -0.5 * (theta ** 2).sum(axis=1) / deviations.of['theta'] ** 2
    for part, name in ((own, 'evaluator'), (side, 'side'), (reliable, 'reliability')):
        total -= 0.5 * (part.reshape(len(draws), -1) ** 2).sum(axis=1) / deviations.of[name] ** 2
    total -= 0.5 * draws[:, -1] ** 2 / 4 + 0.5 * (reliable.mean(axis=1) / 0.02) ** 2
    for i, j, e, y in zip(votes.first, votes.second, votes.evaluator, votes.outcome, strict=True):
        d = np.exp(reliable[:, e]) * (theta[:, i] - theta[:, j] + own[:, e, i] - own[:, e, j]) \
            + side[:, e]
        logits = np.stack([d / 2, draws[:, -1], -d / 2])
        total += logits[int(2 - 2 * y)] - np.logaddexp.reduce(logits, axis=0)
    return total


def test_laplaces_posterior_is_that_of_mcmc():
    votes, _, _ = simulated(2, 80, n=3, people=3)
    votes = Comparisons.build(votes.first, votes.second, votes.outcome, items=votes.items,
                              evaluator=[votes.evaluators[k] for k in votes.evaluator])
    terms = make_terms(votes)
    deviations = BlockDeviations({
        'theta': 1.0, 'category': 1.0, 'institution': 1.0, 'evaluator': 0.3, 'lighting': 1.0,
        'clutter': 1.0, 'robot': 1.0, 'side': 0.3, 'reliability': 0.3})
    fit = laplace(terms, deviations, np.zeros(terms.size))
    rng = np.random.default_rng(0)
    half = np.linalg.cholesky(fit.covariance)
    # Independence Metropolis from a wider Student's t, 400 chains at once.
    x = np.tile(fit.x, (400, 1))
    now, kept, freedom, taken = None, [], 8.0, []
    for step in range(120):
        z = rng.normal(size=x.shape) * 1.05 / np.sqrt(rng.chisquare(freedom, (400, 1)) / freedom)
        new = fit.x + z @ half.T
        q = -(freedom + terms.size) / 2 * np.log1p((z / 1.05) ** 2 @ np.ones(terms.size) / freedom)
        there = logarithm(votes, deviations, new) - q
        go = np.ones(400, bool) if now is None else np.log(rng.random(400)) < there - now
        x = np.where(go[:, None], new, x)
        now = there if now is None else np.where(go, there, now)
        taken.append(go.mean())
        if step >= 20:
            kept.append(x[:, :3] - x[:, :3].mean(axis=1, keepdims=True))
    assert np.mean(taken) > 0.3
    drawn = np.concatenate(kept)
    centre = np.eye(3) - 1 / 3
    sd = np.sqrt(np.diag(centre @ fit.covariance[:3, :3] @ centre))
    np.testing.assert_allclose(fit.x[:3] - fit.x[:3].mean(), drawn.mean(axis=0),
                               atol=0.2 * sd.min())
    np.testing.assert_allclose(sd, drawn.std(axis=0), rtol=0.12)
    assert prior_precision(terms, deviations)[0, 0] == 1.0


def test_boards_of_categories_are_shrunk_as_much_as_categories_are_alike():
    def moved(by_category):
        votes, _, _ = simulated(5, 300, by_category=by_category)
        whole = posterior(votes)
        plain = Hierarchical()(votes).scores
        board = Hierarchical('c1')(votes).scores
        return whole.deviations.of['category'], np.abs(board - plain).max()

    alike, different = moved(0.0), moved(0.8)
    assert alike[0] < 0.3 < different[0]
    assert alike[1] < 0.2
    assert different[1] > 2 * alike[1]
    with pytest.raises(RankingError, match="no comparison is of the category 'x'; known: c0, c1"):
        Hierarchical('x')(simulated(5, 60)[0])


@pytest.mark.parametrize('scores', [False, True])
def test_intervals_hold_where_evaluators_differ(scores):
    inside = []
    for seed in range(6):
        votes, _, _ = simulated(seed, 160, people=8, by_evaluator=0.4, scores=scores)
        rng = np.random.default_rng(seed)
        truth = rng.normal(0, 1, 4)
        standings = rank(votes, 'hierarchical', intervals=1)
        centred = truth - truth.mean()
        inside.append((standings.low <= centred) & (centred <= standings.high))
        assert standings.diagnostics.details['intervals']['way'] == 'posterior'
    assert np.mean(inside) >= 0.88


def test_an_evaluator_who_prefers_the_side_shown_first_is_found_and_does_not_matter():
    votes, _, _ = simulated(3, 600, side=2.5, theta=[1.0, 0.3, -0.3, -1.0])
    fit = posterior(votes)
    side = fit.x[fit.terms.block('side')]
    assert np.argmax(side) == votes.evaluators.index('e0') == np.argmax(np.abs(side))
    assert side.max() > 0.8
    scores = Hierarchical()(votes).scores
    assert np.abs(scores - [1.0, 0.3, -0.3, -1.0]).max() < 0.35


def planted(seed, m=500, stand=0.0, dim=0.0):
    """Votes of 4 policies that lose by standing still; the first loses in dim light too."""
    rng = np.random.default_rng(seed)
    theta = np.array([0.8, 0.3, -0.3, -0.8])
    i = rng.integers(0, 4, m)
    j = (i + rng.integers(1, 4, m)) % 4
    # the best policy also stands still most
    waits = 0.4 * (np.stack([i, j], axis=1) == 0) + 0.6 * rng.random((m, 2))
    dark = rng.integers(0, 2, m) == 1
    d = (theta[i] - theta[j] - stand * (waits[:, 0] - waits[:, 1])
         - dim * dark * ((i == 0) * 1.0 - (j == 0)))
    y = (rng.random(m) < expit(d)).astype(float)
    return Comparisons.build(i, j, y, items=list('abcd'), conditions=Conditions.build(
        {'lighting': np.where(dark, 'dim', 'bright').tolist(), 'clutter': ['low'] * m},
        {'waited': waits.T})), theta


def test_the_loss_by_standing_still_is_found_and_taken_out_of_the_abilities():
    votes, theta = planted(0, 900, stand=2.0)
    fit = Hierarchical()(votes)
    middle, low, high = fit.diagnostics.details['log_odds_of_standing_still']
    assert low < -2.0 < high < -1.0
    assert middle == pytest.approx((low + high) / 2)
    assert np.abs(fit.scores - theta).max() < 0.45
    plain = Hierarchical()(replace(votes, conditions=Conditions()))
    assert plain.scores[0] < theta[0] - 0.3
    none = Hierarchical()(planted(0, 900)[0]).diagnostics.details['log_odds_of_standing_still']
    assert none[1] < 0.0 < none[2]


def test_what_light_changes_is_an_offset_that_is_pooled():
    def moved(dim):
        fit = posterior(planted(1, 900, dim=dim)[0])
        cells, at = fit.terms.cells['lighting'], fit.terms.start['lighting']
        names = fit.terms.votes.conditions.factors['lighting'][0]
        offset = {(names[g], p): fit.x[at + k] for k, (g, p) in enumerate(cells.tolist())}
        return fit, offset['bright', 0] - offset['dim', 0]

    (dark, much), (_, little) = moved(2.0), moved(0.0)
    assert much > 1.0
    assert abs(little) < 0.35
    assert not len(dark.terms.cells['clutter']), 'a single level has no offsets'


@pytest.mark.parametrize('scores', [False, True])
def test_an_audit_in_the_likelihood_narrows_what_is_not_known(scores):
    votes, _, _ = simulated(4, 150, scores=scores, theta=[-0.9, -0.3, 0.3, 0.9])
    table = AuditTable(votes.items, np.full((150, 4), np.nan))
    heard = in_conditions(votes, 4).conditions.measures['audit']
    table.values[np.arange(150), votes.first] = heard[:, 0]
    table.values[np.arange(150), votes.second] = heard[:, 1]
    plain, more = (rank(votes, 'hierarchical', intervals=1, **options)
                   for options in ({}, {'audits': table}))
    assert (more.high - more.low).mean() < 0.93 * (plain.high - plain.low).mean()
    assert np.argsort(more.scores).tolist() == [0, 1, 2, 3]
    # where there are no scores the audits take their place
    assert ('log_odds_of_audit' in more.diagnostics.details) == scores


def test_conditions_are_checked_and_taken_with_their_comparisons():
    votes, _ = planted(2, 20)
    part = votes.take(np.arange(5))
    assert part.conditions.lengths() == {5}
    np.testing.assert_array_equal(part.conditions.measures['waited'],
                                  votes.conditions.measures['waited'][:5])
    with pytest.raises(RankingError, match="unknown condition 'wind'"):
        Conditions.build({'wind': ['']})
    with pytest.raises(RankingError, match='differ in length'):
        Comparisons.build([0], [1], [1.0], conditions=Conditions.build({'clutter': ['low'] * 2}))
    assert Conditions.build({'clutter': ['', '']}, {'waited': ([np.nan], [1.0])}) == Conditions()


def test_tables_and_data_frames_carry_the_conditions(tmp_path):
    table = tmp_path / 'sessions.csv'
    table.write_text('session_uuid,valid,preference,policy_a,policy_b,waited_a,waited_b\n'
                     's1,1,A,a,b,0.25,0.5\ns2,1,B,a,b,,\n')
    known = Comparisons.from_words(read_tables(table).comparisons()).conditions
    np.testing.assert_array_equal(known.measures['waited'], [[0.25, 0.5], [np.nan, np.nan]])
    again = from_frame({'policy_a': ['a', 'a'], 'policy_b': ['b', 'b'], 'preference': ['A', 'B'],
                        'light': ['dim', None], 'wa': [0.25, np.nan], 'wb': [0.5, np.nan]},
                       conditions={'lighting': 'light', 'waited': ('wa', 'wb')}).conditions
    assert again.factors['lighting'][0] == ('dim', '')
    np.testing.assert_array_equal(again.measures['waited'], known.measures['waited'])
