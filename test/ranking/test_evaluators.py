import functools

import numpy as np
import pytest
from arena_worlds import ArenaWorld
from ranking_worlds import (
    LABS,
    PEOPLE,
    POLICIES,
    STRANGERS,
    VOTES,
    attacked,
    cloned,
    strangers,
)
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.evaluators.fragility import fragility, fragility_words
from arena_robot.ranking.evaluators.reports import evaluators, influence, institutions
from arena_robot.ranking.evaluators.robust import (
    RobustBradleyTerry,
    fit_robust,
    held_newcomers,
    newcomers,
    verdict_weights,
)
from arena_robot.ranking.intervals.choice import rank_sets, shrunk, shrunk_by_owner
from arena_robot.ranking.intervals.shrunk import ShrunkBradleyTerry
from arena_robot.ranking.methods import rank
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.quality import mmrv


class Planted:
    """40 evaluators: 20 % vote at random, 10 % inverted, the lab h0 favours one policy."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        theta = rng.normal(0, 1, POLICIES)
        lab = np.arange(PEOPLE) % LABS
        kind = np.full(PEOPLE, 'honest', dtype=object)
        others = rng.permutation(np.flatnonzero(lab != 0))
        kind[others[:PEOPLE // 5]] = 'random'
        kind[others[PEOPLE // 5:3 * PEOPLE // 10]] = 'inverted'
        kind[lab == 0] = 'partial'
        m = PEOPLE * VOTES
        e = np.repeat(np.arange(PEOPLE), VOTES)
        i = rng.integers(0, POLICIES, m)
        j = (i + rng.integers(1, POLICIES, m)) % POLICIES
        d = theta[i] - theta[j]
        self.pet = int(np.argsort(theta)[POLICIES // 4])
        pull = 2.0 * ((i == self.pet).astype(float) - (j == self.pet))
        who = kind[e]
        logits = np.select([who == 'random', who == 'inverted', who == 'partial'],
                           [0 * d, -d, d + pull], d)
        self.kind = kind
        honest = (rng.random(m) < expit(d)).astype(float)
        honest[rng.random(m) < 0.1] = 0.5
        y = np.where(who == 'honest', honest, (rng.random(m) < expit(logits)).astype(float))
        self.votes = Comparisons.build(
            i, j, y, items=[f'p{k}' for k in range(POLICIES)], evaluator=[f'e{k}' for k in e],
            institution=[f'h{k}' for k in lab[e]])


@pytest.fixture(scope='module')
def planted():
    return [Planted(seed) for seed in range(5)]


def auc(score, bad):
    good, ill = score[~bad], score[bad]
    return float(np.mean((ill[:, None] > good) + 0.5 * (ill[:, None] == good)))


def test_planted_adversaries_are_found(planted):
    areas = []
    for case in planted:
        reports = {report.name: report for report in evaluators(case.votes)}
        suspicion = np.array([reports[f'e{k}'].suspicion for k in range(PEOPLE)])
        areas.append(auc(suspicion, case.kind != 'honest'))
        likely = [reports[f'e{k}'].kind for k in range(PEOPLE)]
        assert np.mean(np.array(likely)[case.kind == 'inverted'] == 'inverted') >= 0.5
    assert np.mean(areas) >= 0.95
    assert min(areas) >= 0.9


def test_the_biased_lab_and_its_favourite_are_found(planted):
    for case in planted:
        first, second = institutions(case.votes)[:2]
        assert (first.name, first.kind, first.favours) == ('h0', 'partial', f'p{case.pet}')
        assert first.suspicion > 5 + second.suspicion


def test_a_one_sided_voter_is_told_from_a_random_one():
    case = Planted(3)
    votes = case.votes
    always = votes.outcome.copy()
    mine = votes.evaluator == 7
    always[mine] = 1.0
    changed = Comparisons.build(votes.first, votes.second, always, items=votes.items,
                                evaluator=[votes.evaluators[k] for k in votes.evaluator])
    report = {row.name: row for row in evaluators(changed)}['e7']
    assert report.kind == 'one-sided'
    assert report.first_share == 1
    assert report.side_z > 5
    assert report.suspicion > 20


@functools.cache
def lost_by(method, attack, own):
    """Return the mean violation of the true order by a method, over six sets of votes."""
    return np.mean([mmrv(method()(votes).scores, goal) for votes, _, goal in (
        attacked(seed, attack, own) for seed in range(6))])


@pytest.mark.parametrize('own', [0.0, 0.4])
@pytest.mark.parametrize('attack', ['push', 'bury', 'close', 'sybils'])
def test_five_colluding_evaluators_move_the_robust_standing_little(attack, own):
    clean, robust = lost_by(BradleyTerry, None, own), lost_by(RobustBradleyTerry, attack, own)
    assert robust <= max(1.5 * clean, 0.02)
    assert robust < lost_by(BradleyTerry, attack, own)
    assert lost_by(RobustBradleyTerry, None, own) <= max(1.2 * clean, 0.005)


@pytest.mark.parametrize('own', [0.0, 0.4])
def test_no_more_honest_evaluators_are_flagged_than_is_stated(own):
    flags = [report.flagged for seed in range(3)
             for report in evaluators(attacked(seed, None, own)[0])]
    assert np.mean(flags) <= 0.05
    votes, crook, _ = attacked(7, 'push', own)
    reports = {report.name: report for report in evaluators(votes)}
    flagged = np.array([reports[f'e{k}'].flagged for k in range(PEOPLE)])
    assert flagged[crook].all()
    assert flagged[~crook].mean() <= 0.05
    assert {reports[f'e{k}'].kind for k in np.flatnonzero(crook)} <= {'partial', 'inverted'}


@pytest.mark.parametrize('places', STRANGERS)
def test_sixty_accounts_with_three_votes_count_no_more_than_a_lab(places):
    def lost(method, accounts):
        found = [(method(votes).scores, pet, goal) for votes, _, pet, goal in (
            strangers(seed, places, accounts) for seed in range(12))]
        wrong = [np.argmax(scores) == pet != np.argmax(goal) for scores, pet, goal in found]
        return np.mean([mmrv(scores, goal) for scores, _, goal in found]), np.mean(wrong)

    moved, wrong = lost(RobustBradleyTerry(), 60)
    assert moved <= 1.5 * lost(BradleyTerry(), 0)[0]
    assert wrong == 0
    assert lost(BradleyTerry(), 60)[1] > 0.5
    honest = [report.flagged for seed in range(3)
              for report in evaluators(strangers(seed, places)[0])
              if int(report.name[1:]) < PEOPLE]
    assert np.mean(honest) <= 0.05


@pytest.mark.parametrize('places', STRANGERS)
def test_the_default_holds_accounts_that_push_a_policy_together_and_says_so(places):
    def lost(accounts):
        found = [(ShrunkBradleyTerry()(votes), pet, goal) for votes, _, pet, goal in (
            strangers(seed, places, accounts) for seed in range(12))]
        wrong = [np.argmax(fit.scores) == pet != np.argmax(goal) for fit, pet, goal in found]
        assert all(any(f'60 accounts with fewer than 10 verdicts agree with each other against '
                       f'all others, most for p{pet}: their 180 verdicts count as' in words
                       for words in fit.diagnostics.warnings) for fit, pet, _ in found
                   ) == bool(accounts)
        return np.mean([mmrv(fit.scores, goal) for fit, _, goal in found]), np.mean(wrong)

    moved, wrong = lost(60)
    assert moved <= 1.5 * lost(0)[0]
    assert wrong == 0


def test_honest_new_accounts_count_in_full():
    for seed in range(6):
        votes, _ = ArenaWorld(7, 300, evaluators=30, by_evaluator=0.6).draw(
            np.random.default_rng(seed))
        assert newcomers(votes).sum() > 60
        assert held_newcomers(votes) == (votes, ())


def test_where_all_accounts_are_new_they_count_as_they_did():
    votes, *_ = strangers(0, 'spread')
    few = np.concatenate([np.flatnonzero(votes.evaluator == k)[:3] for k in range(PEOPLE + 60)])
    assert not newcomers(votes.take(few)).any()
    assert newcomers(votes).sum() == 180


def test_twenty_clones_of_one_owner_are_not_first_by_luck_and_a_warning_says_why():
    wrong = {'clean': [], 'by score': [], 'by rank': []}
    for seed in range(10):
        for clones in (0, 20):
            votes, owners, pet, goal = cloned(seed, 'second', clones)
            result = rank(votes, 'bt_shrunk', intervals=1, owners=owners)
            top, first = (result.items[k] for k in (np.argmax(result.scores),
                                                    np.argmin(result.ranks)))
            by_score, by_rank = (pet != np.argmax(goal) and owners[policy] == f'o{pet}'
                                 for policy in (top, first))
            wrong['by rank' if clones else 'clean'].append(by_rank)
            said = any(f'{top} has the highest score as one of 21 policies' in words
                       for words in result.diagnostics.warnings)
            assert said == (clones > 0 and result[top].rank > 1)
        wrong['by score'].append(by_score)
        assert result.rank_low[np.argmax(goal)] == 1
    assert np.mean(wrong['by score']) >= 0.5
    assert np.mean(wrong['by rank']) <= np.mean(wrong['clean']) + 0.1


def test_policies_of_one_owner_that_differ_keep_their_scores():
    few, apart = np.zeros(4, bool), np.full((4, 4), 0.02)
    scores, owners = np.array([2.0, -2.0, 0.05, 0.0]), ('o', 'o', 'p', 'p')
    np.testing.assert_allclose(shrunk_by_owner(scores, apart, few, owners),
                               [2, -2, 0.025, 0.025], atol=0.01)
    assert shrunk_by_owner(scores, apart, few, ('o', 'o', '', '')) is scores
    np.testing.assert_allclose(shrunk_by_owner(scores, apart, np.arange(4) == 3, owners)[2:],
                               scores[2:])
    np.testing.assert_allclose(shrunk(np.array([0.1, -0.1, 0.05]), np.full(3, 0.1)),
                               np.full(3, 0.05 / 3))


def test_policies_of_one_owner_that_are_not_told_apart_count_once():
    few, apart = np.zeros(5, bool), np.full((5, 5), 0.04)
    scores, owners = np.array([3.0, 2.0, 1.9, 1.8, 0.0]), ['o', 'p', 'p', 'p', 'q']
    for known, last in ((owners, 3), (['', 'p', 'p', 'p', ''], 5), ([], 5)):
        best, worst, _ = rank_sets(scores, apart, few, 1.96, known)
        assert (best.tolist(), worst[0]) == ([1, 2, 2, 2, last], 1)
        assert worst[1:].tolist() == ([2, 2, 2, 3] if last == 3 else [4, 4, 4, 5])
    scores[2:4] = 1.9, 1.2    # the last is told apart from the first of its owner
    best, _, place = rank_sets(scores, apart, few, 1.96, owners)
    assert (best.tolist(), place.tolist()) == ([1, 2, 2, 3, 4], [0, 1, 1, 3, 4])


def test_twenty_clones_leave_the_others_where_they_were():
    for seed in range(4):
        votes, owners, pet, _ = cloned(seed, 'second')
        alone = rank(votes.only(votes.items[:POLICIES]), 'bt_shrunk', intervals=1)
        many = rank(votes, 'bt_shrunk', intervals=1, owners=owners)
        others = np.arange(POLICIES) != pet
        assert np.abs(many.ranks[:POLICIES] - alone.ranks)[others].max() <= 2
        assert many.rank_high.max() <= POLICIES + 2
        assert rank(votes, 'bt_shrunk', intervals=1).rank_high.max() > 20


def test_votes_are_held_against_the_voters_own_scores():
    rng = np.random.default_rng(0)
    i = rng.integers(0, 3, 60)
    j = (i + rng.integers(1, 3, 60)) % 3
    a, b = rng.random(60), rng.random(60)
    a[:5] = b[:5]
    y = (a > b).astype(float)
    names = ['keen'] * 30 + ['cross'] * 30
    y[30:] = 1 - y[30:]
    votes = Comparisons.build(i, j, y, items=['a', 'b', 'c'], evaluator=names, score_first=a,
                              score_second=b)
    own_scores = {report.name: report.own_scores for report in evaluators(votes)}
    assert own_scores == {'keen': 1.0, 'cross': 0.0}


def test_weights_and_abilities_agree_and_no_part_exceeds_the_limit():
    votes, crook, _ = attacked(1, 'push')
    fit, weight, rounds = fit_robust(votes)
    assert rounds < 60
    np.testing.assert_allclose(weight, verdict_weights(votes, fit.scores, 1.5), atol=1e-5)
    diagnostics = fit_robust(votes)[0].diagnostics
    assert diagnostics.converged
    shares = RobustBradleyTerry()(votes).diagnostics.details['weight']
    kept = np.array([shares[f'e{k}'] for k in range(PEOPLE)])
    assert kept[crook].mean() < kept[~crook].mean() - 0.1
    assert np.median(kept[~crook]) > 0.9


@pytest.mark.parametrize('seed', range(6))
def test_the_robust_fit_always_ends(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 60))
    i = rng.integers(0, 4, m)
    votes = Comparisons.build(i, (i + rng.integers(1, 4, m)) % 4, rng.integers(0, 3, m) / 2,
                              items=list('abcd'), evaluator=[f'e{k % 3}' for k in range(m)],
                              institution=[f'h{k % 4}' for k in range(m)])
    assert np.isfinite(RobustBradleyTerry()(votes).scores).all()


def test_without_a_reached_limit_it_is_bradley_terry():
    case = Planted(2)
    np.testing.assert_allclose(RobustBradleyTerry(limit=1e6)(case.votes).scores,
                               BradleyTerry()(case.votes).scores, atol=1e-9)
    with pytest.raises(RankingError, match='limit > 0'):
        RobustBradleyTerry(limit=0)(case.votes)


@pytest.mark.parametrize('lead', [0.1, 1.0, 4.0])
def test_on_how_few_the_first_place_hangs(lead):
    """What is left out is enough, and one evaluator or lab fewer is never enough."""
    rng = np.random.default_rng(4)
    i = rng.integers(0, 4, 300)
    j = (i + rng.integers(1, 4, 300)) % 4
    ability = np.array([lead, 0, 0, -1.0])
    who = rng.integers(0, 12, 300)
    votes = Comparisons.build(
        [*i, 4], [*j, 0], [*(rng.random(300) < expit(ability[i] - ability[j])).astype(float), 1],
        items=['best', 'b', 'c', 'd', 'new'], evaluator=[f'e{k}' for k in [*who, 0]],
        institution=[f'h{k % 4}' for k in [*who, 0]])
    rest = votes.only(['best', 'b', 'c', 'd'])

    def first(kept):
        return rest.items[int(np.argmax(BradleyTerry()(rest.take(kept)).scores))]

    by_kind = {row.kind: row for row in fragility(votes)}
    assert [row.of for row in by_kind.values()] == [300, 12, 4]
    for kind, names, code in (('evaluator', rest.evaluators, rest.evaluator),
                              ('institution', rest.institutions, rest.institution)):
        case = by_kind[kind]
        alone = {first(code != k) for k in range(len(names))} - {'best'}
        assert (case.left_out == 1) == bool(alone)
        if case.left_out:
            gone = [names.index(name) for name in case.names]
            assert len(gone) == case.left_out
            assert first(~np.isin(code, gone)) == case.then != 'best'
    assert (by_kind['verdict'].left_out is None) == (lead == 4.0)
    words = fragility_words(list(by_kind.values()))
    assert ('best stays first without any one of 4 institutions' in words) == (lead > 0.5)
    assert 'e1' not in words
    assert fragility(votes.take(np.arange(4))) == []


def test_influence_says_how_the_standing_moves_without_each():
    i = [0, 1, 0, 1, 1, 2, 2, 1] * 3
    j = [1, 0, 1, 0, 2, 1, 0, 2] * 3
    y = [1, 0, 1, 1, 1, 0, 0.5, 1] * 3
    who = ['ann'] * 20 + ['eve'] * 4
    votes = Comparisons.build(i, j, y, items=['a', 'b', 'c'], evaluator=who)
    influences = {entry.name: entry for entry in influence(votes, BradleyTerry())}
    rest = votes.take(votes.evaluator == 0)
    after, before = BradleyTerry()(rest).scores, BradleyTerry()(votes).scores
    change = after - after.mean() - before + before.mean()
    assert influences['eve'].largest == pytest.approx(np.abs(change).max(), abs=1e-9)
    assert influences['eve'].policy == votes.items[int(np.argmax(np.abs(change)))]
    assert influences['ann'].failed is None
    with pytest.raises(RankingError):
        evaluators(Comparisons.build([0], [1], [0.5], items=['a', 'b']))
