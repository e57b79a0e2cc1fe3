"""What is stated as 95 % holds in about 95 %, and nothing is stated where it must not be."""

import numpy as np
import pytest
from arena_worlds import ArenaWorld, trial
from ranking_worlds import Tally, World, tally

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import count_pairs
from arena_robot.ranking.intervals.bootstrap import Draws, with_quantiles
from arena_robot.ranking.intervals.choice import Differences
from arena_robot.ranking.intervals.shrunk import ShrunkBradleyTerry
from arena_robot.ranking.methods import rank, rank_comparable
from arena_robot.ranking.pairwise.prior import established
from arena_robot.ranking.standings import as_json, few_words


def several(cells, method='bt', **more):
    """One tally of several (kind, policies, sessions, repeats, evaluators)."""
    total = Tally()
    for k, (kind, n, sessions, repeats, people) in enumerate(cells):
        part = tally(kind, n, sessions, repeats, method, seed=k, evaluators=people, **more)
        for name, value in vars(part).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def test_from_2_to_50_sessions_what_is_stated_holds_and_nobody_is_missing():
    total = several([('bt', n, sessions, 12, 1) for n in (3, 7) for sessions in
                     (2, 5, 9, 12, 20, 35, 50)])
    assert total.best_missing == 0
    assert total.held >= 0.93 * total.stated
    assert 0.3 * total.policies < total.stated < 0.7 * total.policies
    assert total.ranks_held >= 0.95 * total.ranks
    assert total.joint_held >= 0.95 * total.sets


def test_intervals_without_an_end_hold_too():
    total = several([('bt', 7, 20, 60, 1), ('evaluators', 7, 20, 60, 20)])
    assert total.one_sided > 60
    assert total.one_sided_held >= 0.95 * total.one_sided


def test_intervals_of_three_policies_from_20_sessions_are_not_too_wide():
    total = several([('davidson', 3, 20, 150, 1)], 'davidson')
    assert 0.93 <= total.held / total.stated <= 0.975


@pytest.mark.parametrize(('method', 'kind'), [
    ('bt', 'bt'), ('davidson', 'davidson'), ('bt', 'tasks'), ('davidson', 'evaluators')])
def test_intervals_cover_with_many_sessions_too(method, kind):
    people = 15 if kind == 'evaluators' else 1
    total = several([(kind, 3, 200, 30, people), (kind, 7, 200, 25, people),
                     (kind, 20, 600, 6, people)], method)
    assert total.stated > 0.98 * total.policies
    assert 0.925 <= total.held / total.stated <= 0.985
    assert total.joint_held >= 0.93 * total.sets


@pytest.mark.parametrize('world', [
    ArenaWorld(15, 300, 'order', verdicts='bt'),
    ArenaWorld(7, 400, evaluators=6, by_evaluator=0.6, interleaved=True)])
def test_of_chosen_pairs_and_few_evaluators_the_shrunk_intervals_hold(world):
    method = 'bt' if world.goal else 'davidson'
    shrunk, plain = (np.array([trial(world, name, False, [4, k]) for k in range(60)], float)
                     for name in ('bt_shrunk', method))
    held, stated, policies, excluded, width, _ = shrunk.sum(axis=0)
    assert stated == policies
    assert 0.925 <= held / stated <= 0.985
    assert excluded <= 2
    assert width < plain.sum(axis=0)[4]
    if world.goal:
        assert plain.sum(axis=0)[0] / plain.sum(axis=0)[1] < held / stated - 0.05


def test_the_differences_of_the_posterior_hold_for_chosen_pairs():
    held = []
    for k in range(40):
        votes, truth = ArenaWorld(15, 300, 'order', verdicts='bt').draw(
            np.random.default_rng([5, k]))
        for shrunk in (False, True):
            differences = Differences.of(votes, shrunk=shrunk)
            ends = [differences.between('p00', f'p{other:02}') for other in range(1, 15)]
            held.append([low <= truth[0] - truth[other] <= high
                         for other, (_, low, high) in enumerate(ends, 1)])
    plain, posterior = np.array(held[::2]).mean(), np.array(held[1::2]).mean()
    assert plain < posterior - 0.03
    assert posterior > 0.91


def test_of_two_to_four_evaluators_no_interval_is_stated():
    votes, _ = ArenaWorld(5, 200, evaluators=4).draw(np.random.default_rng(0))
    for method in ('bt', 'bt_shrunk', 'elo'):
        standings, _ = rank_comparable(votes, method, intervals=20)
        assert standings.too_few.all()
        assert few_words(standings, 0) == 'too few evaluators to tell'
    standings, _ = rank_comparable(votes, 'bt_shrunk', intervals=1, cluster='session')
    assert np.isfinite(standings.low).all()


def test_a_posterior_with_more_evaluators_than_are_fitted_has_their_design_effect(monkeypatch):
    votes, _ = ArenaWorld(6, 900, evaluators=60, by_evaluator=1.0).draw(np.random.default_rng(1))
    fitted = ShrunkBradleyTerry()(votes)
    monkeypatch.setattr('arena_robot.ranking.intervals.shrunk.MOST_CELLS', 100)
    merged, alone = ShrunkBradleyTerry()(votes), ShrunkBradleyTerry('session')(votes)
    sizes = [np.sqrt(fit.variances.variance).mean() for fit in (fitted, merged, alone)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.15)
    assert sizes[2] < 0.85 * min(sizes[:2])
    np.testing.assert_allclose(merged.scores, fitted.scores, atol=0.15)


def test_intervals_by_session_are_too_narrow_where_evaluators_differ():
    cells = [('evaluators', 7, 600, 30, 12)]
    by_session = several(cells, cluster='session')
    by_evaluator = several(cells)
    assert by_evaluator.held / by_evaluator.stated > by_session.held / by_session.stated + 0.05


def test_p_better_of_90_to_95_percent_is_right_about_that_often():
    total = several([('bt', 7, 50, 60, 1), ('bt', 20, 200, 8, 1)])
    assert total.confident > 250
    assert 0.88 <= total.confident_right / total.confident <= 0.985


@pytest.mark.parametrize('sessions', [1, 2, 4, 9])
@pytest.mark.parametrize('method', ['bt', 'davidson', 'bt_robust', 'elo', 'task'])
def test_below_ten_sessions_no_interval_is_stated(sessions, method):
    votes = Comparisons.build([0] * sessions, [1] * sessions, [1, 0, 1] * 3 if sessions == 9 else
                              [1] * sessions, items=['a', 'b'])
    standings, others = rank_comparable(votes, method, intervals=20)
    assert others == []
    assert standings.too_few.all()
    assert np.isnan(standings.low).all()
    assert np.isnan(standings.high).all()
    assert (standings.rank_low.tolist(), standings.rank_high.tolist()) == ([1, 1], [2, 2])
    row = as_json(standings)['standings'][0]
    assert (row['too_few'], row['low'], row['high']) == (True, None, None)


def test_one_comparison_is_too_few_for_a_policy_among_many():
    rng = np.random.default_rng(0)
    i = rng.integers(0, 3, 60)
    votes = Comparisons.build([*i, 3], [*(i + rng.integers(1, 3, 60)) % 3, 0],
                              [*rng.integers(0, 3, 60) / 2, 0.5], items=list('abcd'))
    standings = rank(votes, 'bt', intervals=20)
    assert standings.too_few.tolist() == [False, False, False, True]
    assert (standings.rank_low[3], standings.rank_high[3]) == (1, 4)
    assert (standings.high[:3] > standings.low[:3] + 0.3).all()
    # Where the others stand against it is not known either.
    assert (standings.rank_high[:3] - standings.rank_low[:3] >= 1).all()


def test_replicates_that_could_not_be_ranked_widen_the_interval():
    votes = Comparisons.build([0, 0, 0, 0] * 60, [1] * 240, [1, 0, 1, 0.5] * 60)
    plain = rank(votes, 'bt', intervals=10)
    draws = np.random.default_rng(0).normal(0, 0.1, (400, 2))
    whole = with_quantiles(plain, Draws(draws))
    nothing = np.full((40, 2), np.nan)
    lost = with_quantiles(plain, Draws(np.vstack([draws, nothing[:8]])))
    assert (lost.low < whole.low).all()
    assert (lost.high > whole.high).all()
    beyond = with_quantiles(plain, Draws(np.vstack([draws, nothing])))
    assert np.isinf(beyond.low).all()
    assert np.isinf(beyond.high).all()


def test_ties_narrow_the_intervals_of_a_method_that_counts_them_half():
    held = stated = 0
    for k in range(150):
        rng = np.random.default_rng([5, k])
        place = World(rng.normal(0, 1, 4), kappa=2.5)
        votes = place.comparisons(60, rng)
        standings, _ = rank_comparable(votes, 'bt', intervals=200)
        truth = place.truth('bt') - place.truth('bt')[established(count_pairs(votes))].mean()
        inside = (standings.low <= truth) & (truth <= standings.high)
        held += int(inside[~standings.too_few].sum())
        stated += int((~standings.too_few).sum())
    assert stated > 400
    assert 0.92 <= held / stated <= 0.972
