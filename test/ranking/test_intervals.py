import dataclasses
import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from arena_robot.core.errors import RankingError
from arena_robot.core.parallel import Workers
from arena_robot.core.wilson import wilson
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import PairCounts, count_pairs
from arena_robot.ranking.intervals import sandwich
from arena_robot.ranking.intervals.bootstrap import (
    batched_fit,
    bootstrap,
    resampled_counts,
    session_weights,
)
from arena_robot.ranking.intervals.choice import FAILED, IntervalPlan, difference, with_intervals
from arena_robot.ranking.intervals.shares import effective_count, share_interval
from arena_robot.ranking.methods import rank
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.davidson import Davidson
from arena_robot.ranking.pairwise.elo import Elo
from arena_robot.ranking.standings import few_words, headline, place_words, standings


def drawn(seed=0, n=5, m=300, ties=0.2, per_session=1, theta=None):
    rng = np.random.default_rng(seed)
    theta = np.linspace(-1, 1, n) if theta is None else theta
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    y = (rng.random(m) < 1 / (1 + np.exp(theta[j] - theta[i]))).astype(float)
    y[rng.random(m) < ties] = 0.5
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)],
                             session=np.arange(m) // per_session)


def test_the_batch_equals_one_fit_at_a_time_and_has_no_number_without_a_maximum():
    votes = drawn()
    counts = count_pairs(votes)
    tables = resampled_counts(votes, counts, 25, np.random.default_rng(1))
    assert np.all(tables.sum(axis=(1, 2)) == len(votes))
    tables[7, :, 1] = 0
    tables[2, counts.low == 0] *= [1, 0, 0]
    scores = batched_fit(counts, tables, np.zeros(5))
    assert np.isnan(scores[2]).all()
    for k in set(range(25)) - {2}:
        replicate = PairCounts(votes.items, counts.low, counts.high, tables[k, :, 2],
                               tables[k, :, 0], tables[k, :, 1])
        np.testing.assert_allclose(scores[k] - scores[k].mean(),
                                   BradleyTerry().fit_counts(replicate).scores, atol=1e-7)


def test_the_batch_and_one_refit_after_another_spread_alike():
    votes = drawn(m=120)
    fast, slow = (bootstrap(method, votes, 2000).scores
                  for method in (BradleyTerry(), BradleyTerry(l2=0.0)))
    np.testing.assert_allclose(np.nanmean(fast, axis=0), np.nanmean(slow, axis=0), atol=0.03)
    np.testing.assert_allclose(np.nanstd(fast, axis=0), np.nanstd(slow, axis=0), rtol=0.08)


def test_sessions_are_drawn_whole():
    votes = drawn(m=90, per_session=3)
    weight = session_weights(votes, np.random.default_rng(0)).reshape(-1, 3)
    assert np.all(weight == weight[:, :1])
    assert weight.sum() == 90
    assert len(np.unique(weight)) > 2
    wide = bootstrap(BradleyTerry(), votes.take(np.repeat(np.arange(30) * 3, 3)), 300)
    narrow = bootstrap(BradleyTerry(), drawn(m=90), 300)
    assert wide.scores.std(axis=0).mean() > 1.3 * narrow.scores.std(axis=0).mean()


def test_the_draws_do_not_depend_on_who_does_the_work():
    votes = drawn(m=80)
    alone = bootstrap(Elo(orders=3), votes, 12, seed=4)
    for jobs in (2, 3):
        other = bootstrap(Elo(orders=3), votes, 12, seed=4, workers=Workers(jobs))
        np.testing.assert_array_equal(alone.scores, other.scores)
    assert not np.array_equal(alone.scores, bootstrap(Elo(orders=3), votes, 12, seed=5).scores)


def with_scores(votes):
    rng = np.random.default_rng(0)
    return Comparisons.build(votes.first, votes.second, votes.outcome, items=votes.items,
                             score_first=rng.random(len(votes)),
                             score_second=rng.random(len(votes)))


class OftenFails:
    """A method that cannot rank resamples without the first session: more than a third."""

    def __call__(self, comparisons):
        if 0 not in comparisons.session:
            raise RankingError('not this one')
        return Elo(orders=1)(comparisons)


def test_many_comparisons_are_not_called_too_few():
    """Why there is no interval is told: replicates that failed, or few clusters, not few votes."""
    votes = drawn(n=3, m=453)
    method = OftenFails()
    fit = method(votes)
    result = with_intervals(standings('x', votes, fit), votes, method, fit, IntervalPlan(40))
    assert min(result.counts) >= 151
    assert {few_words(result, k) for k in range(3)} == {FAILED}
    assert place_words(result, 0) == FAILED
    warnings = ' '.join(result.diagnostics.warnings)
    assert f'no interval and no rank is stated: {FAILED}' in warnings
    assert 'widen' not in warnings
    assert 'too few comparisons' not in warnings
    three = dataclasses.replace(votes, institution=np.arange(453) % 3,
                                institutions=('x', 'y', 'z'))
    result = rank(three, 'bt', intervals=20, cluster='institution')
    assert place_words(result, 1) == 'too few institutions to tell'


def test_why_no_rank_is_stated_is_true():
    # Eleven sessions, more than one and a half for each of seven policies, at most four each.
    i, j = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3], [1, 2, 3, 4, 5, 6, 0, 2, 3, 4, 5]
    for sessions, why in ((11, 'fewer than 5 comparisons, too few to tell a rank'),
                          (9, 'fewer than 10 sessions or 1.5 for each policy, too few comparisons '
                              'to tell a rank')):
        votes = Comparisons.build(i[:sessions], j[:sessions], [1, 0] * 5 + [1] if sessions == 11
                                  else [1, 0, 1] * 3, items=list('abcdefg'))
        result = rank(votes, 'bt', intervals=10, apart=True)
        assert result.too_few.all()
        assert f'all policies: {why}' in result.diagnostics.warnings


def test_replicates_without_a_policy_widen_its_interval_and_are_told():
    rng = np.random.default_rng(3)
    i = rng.integers(0, 3, 60)
    j = (i + rng.integers(1, 3, 60)) % 3
    votes = Comparisons.build([*i, 3, 3, 3, 3, 3], [*j, 0, 1, 2, 0, 1],
                              [*rng.integers(0, 3, 60) / 2, 1, 0, 1, 0, 1], items=list('abcd'))
    result = rank(votes, 'elo', intervals=400)
    warnings = ' '.join(result.diagnostics.warnings)
    assert 'of 400 bootstrap replicates could not place every policy; they widen' in warnings
    assert not result.too_few.any()
    draws = bootstrap(Elo(), votes, 400)
    assert 0 < draws.lost[3] < 0.05
    assert draws.lost[:3].tolist() == [0, 0, 0]
    with pytest.raises(RankingError, match='none of 3 bootstrap replicates'):
        bootstrap(Never(), votes, 3)


@pytest.mark.parametrize('method', ['elo', 'task', 'task_partial', 'progress', 'progress_gls'])
def test_a_newcomer_with_one_comparison_leaves_the_others_their_intervals(method):
    votes = with_scores(drawn(n=4, m=120))
    newcomer = Comparisons.build(
        [*votes.first, 4], [*votes.second, 0], [*votes.outcome, 0], items=list('pqrst'),
        score_first=[*votes.score_first, 0.0], score_second=[*votes.score_second, 0.9])
    before = rank(votes, method, intervals=100)
    after = rank(newcomer, method, intervals=100)
    assert after.too_few.tolist() == [False] * 4 + [True]
    wide = before.high - before.low
    np.testing.assert_allclose(after.high[:4] - after.low[:4], wide, rtol=0.3)
    np.testing.assert_allclose(after.scores[:4], before.scores, atol=0.15 * wide.min())
    assert (after.p_better[4, :4] == 0.5).all()
    assert [x for x in after.diagnostics.warnings if 'a rank' in x] == [
        't: fewer than 5 comparisons, too few to tell a rank']
    assert [place_words(after, k) == 'too few to tell' for k in range(5)] == [False] * 4 + [True]


class Never:
    def __call__(self, comparisons):
        raise RankingError('no')


def many_clusters(people, equal):
    """Verdicts of which each is alone, or of so many evaluators; the weights are equal or not."""
    votes, rng = drawn(n=7, m=600), np.random.default_rng(people)
    return dataclasses.replace(
        votes.reweighted(np.full(600, 0.5) if equal else rng.random(600) * (rng.random(600) < .9)),
        session=rng.integers(0, people, 600) if people else votes.session)


@pytest.mark.parametrize('equal', [True, False])
@pytest.mark.parametrize('people', [0, 30, 400])
def test_the_sandwich_of_many_clusters_is_what_its_formula_says(people, equal, monkeypatch):
    monkeypatch.setattr(sandwich, 'MOST_CELLS', 70)
    monkeypatch.setattr(sandwich, 'SPARSE', 2.0 if people == 400 else 0.1)
    votes = many_clusters(people, equal)
    used, fit = votes.weight > 0, BradleyTerry()(votes)
    apart = np.eye(7)[votes.first] - np.eye(7)[votes.second]
    p, w = expit(apart @ fit.scores), votes.weight
    _, group = np.unique(votes.session[used], return_inverse=True)
    count = group.max() + 1
    slopes = np.zeros((count, 7))
    np.add.at(slopes, group, ((w * (votes.outcome - p))[:, None] * apart)[used])
    bends = w * p * (1 - p)
    bread = np.linalg.pinv(apart.T @ (apart * bends[:, None]))
    robust = np.diag(count / (count - 1) * bread @ slopes.T @ slopes @ bread)
    model = np.diag(bread) * sandwich.with_ties(w[votes.outcome == 0.5].sum(), w.sum(),
                                                bends.sum())
    found = sandwich.sandwich_variances(votes, fit, votes.session, np.ones(7, bool))
    np.testing.assert_allclose(found.variance, np.maximum(robust, (robust + model) / 2), rtol=1e-9)


def test_the_sandwich_of_davidson_does_not_depend_on_how_verdicts_are_summed(monkeypatch):
    monkeypatch.setattr(sandwich, 'MOST_CELLS', 70)
    votes = many_clusters(0, True)
    other = votes.reweighted(votes.weight + 1e-13 * np.arange(600))
    assert np.ptp(other.weight) > 0
    fit = Davidson()(votes)
    summed, each = (sandwich.sandwich_variances(x, fit, x.session, np.ones(7, bool))
                    for x in (votes, other))
    np.testing.assert_allclose(each.gap, summed.gap, rtol=1e-9)


def test_intervals_of_many_verdicts_need_no_number_for_each_verdict_and_policy():
    votes = drawn(n=300, m=100_000)
    rank(votes, 'bt', intervals=1)
    tracemalloc.start()
    rank(votes, 'bt', intervals=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000 * 300 * 8 / 3


def test_ranks_and_probabilities_come_with_the_intervals():
    result = rank(drawn(m=600), 'davidson', intervals=300)
    assert np.all(result.rank_low <= result.ranks)
    assert np.all(result.ranks <= result.rank_high)
    np.testing.assert_allclose(result.p_better + result.p_better.T, 1)
    assert result.p_better[4, 0] == pytest.approx(1, abs=1e-6)
    assert np.all(result.rank_low_joint <= result.rank_low)
    assert np.all(result.rank_high <= result.rank_high_joint)
    same = rank(drawn(m=600), 'davidson', intervals=300)
    np.testing.assert_array_equal(result.low, same.low)


def asked(rng, sessions, people, chances):
    """Return counts by evaluator and what the ranking says of the same sessions."""
    said = rng.choice([1.0, 0.5, 0.0], sessions, p=chances)
    who = [f'e{k}' if people else '' for k in rng.integers(0, max(people, 1), sessions)]
    counts = {}
    for name, verdict in zip(who, said, strict=True):
        row = counts.setdefault(name, [0, 0, 0])
        row[int(2 - 2 * verdict)] += 1
    zeros = np.zeros(sessions, int)
    votes = Comparisons.build(zeros, zeros + 1, said, items=('p', 'q'), evaluator=who)
    interval = difference(votes, 'p', 'q')
    return counts, None if interval is None else [1 / (1 + math.exp(-x)) for x in interval[1:]]


@pytest.mark.parametrize(('sessions', 'people', 'chances'), [
    (4, 0, (0.5, 0.2, 0.3)), (12, 0, (0.5, 0.2, 0.3)), (12, 9, (0.5, 0.2, 0.3)),
    (40, 10, (0.2, 0.1, 0.7)), (300, 60, (0.7, 0.0, 0.3)), (40, 3, (1.0, 0.0, 0.0)),
    (60, 15, (0.0, 0.0, 1.0)), (60, 15, (0.0, 1.0, 0.0)), (9, 9, (0.5, 0.2, 0.3))])
def test_the_interval_is_that_of_the_ranking(sessions, people, chances):
    rng = np.random.default_rng(sessions)
    for _ in range(4):
        counts, wanted = asked(rng, sessions, people, chances)
        interval = share_interval(counts)
        assert (interval is None) == (wanted is None)
        if interval is not None:
            assert interval == pytest.approx(wanted, abs=1e-4)


def test_evaluators_who_differ_make_it_wider():
    alike = {f'e{k}': (5, 0, 5) for k in range(12)}
    apart = {f'e{k}': (10, 0, 0) if k % 2 else (0, 0, 10) for k in range(12)}
    (low, high), (lower, higher) = share_interval(alike), share_interval(apart)
    assert lower < low < 0.5 < high < higher
    assert 10 < effective_count(apart) < 30 < effective_count(alike) <= 120
    assert effective_count({'e': (3, 0, 4)}) == 7


@pytest.mark.parametrize(('good', 'count'), [
    (0, 30), (30, 30), (21, 30), (1, 3), (10, 10), (50, 100), (150, 151)])
def test_the_interval_is_wilsons(good, count):
    truth = binomtest(good, count).proportion_ci(0.95, method='wilson')
    assert wilson(good, count) == pytest.approx((truth.low, truth.high), abs=1e-12)
    assert truth.low < truth.high


def test_half_a_success_lies_between():
    assert wilson(1, 3)[0] < wilson(1.5, 3)[0] < wilson(2, 3)[0]


def test_no_episode_tells_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(('first', 'few', 'words'), [
    ((1, 2, 3), (0, 0, 0), 'a is the best of 3 policies.'),
    ((1, 1, 1), (0, 0, 0), 'The 3 policies cannot be told apart yet.'),
    ((1, 1, 3), (0, 0, 0), '2 of 3 policies may be the best; c is behind.'),
    ((1, 2, 1), (0, 0, 1), 'a is the best of 2 policies.'),
    ((1, 1, 1), (1, 1, 1), 'These sessions are too few to tell 3 policies apart.'),
    (None, (0, 0, 0), 'These sessions are too few to tell 3 policies apart.')])
def test_one_sentence_says_which_policies_may_be_the_best(first, few, words):
    fit = rank(Comparisons.build([0, 1, 0], [1, 2, 2], [1.0, 1.0, 1.0], items=('a', 'b', 'c')),
               'elo', intervals=0)
    assert headline(dataclasses.replace(
        fit, rank_low=None if first is None else np.array(first),
        too_few=np.array(few, bool))) == words
