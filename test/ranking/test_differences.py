"""Whether abilities change over time, and whether they differ between robots."""

import numpy as np
import pytest
from ranking_worlds import on_robots
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking import Comparisons, across_robots, over_time
from arena_robot.ranking.base import Conditions
from arena_robot.ranking.hierarchical.model import posterior


def drawn(rng, step=0.0, n=7, m=300, people=12, spread=0.0):
    """Return verdicts in their order; the first policy gets better by ``step`` half-way."""
    theta, taste = rng.normal(0, 1, n), rng.normal(0, spread, (people, n))
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    e = rng.integers(0, people, m)
    late = np.arange(m) >= m // 2
    gap = theta[i] - theta[j] + taste[e, i] - taste[e, j] + step * late * (
        (i == 0).astype(float) - (j == 0))
    return Comparisons.build(i, j, (rng.random(m) < expit(gap)).astype(float),
                             items=[f'p{k}' for k in range(n)],
                             evaluator=[f'e{k}' for k in e] if spread else None)


@pytest.mark.parametrize('spread', [0.0, 0.6])
def test_intervals_of_policies_that_do_not_change_hold(spread):
    rng = np.random.default_rng(0)
    held = [low <= 0 <= high for _ in range(60)
            for _, low, high in over_time(drawn(rng, spread=spread), range(300),
                                          method='bt').changes.values()]
    assert 0.93 <= np.mean(held) <= 0.99


def test_a_policy_that_is_retrained_is_found_and_the_others_are_not():
    votes = drawn(np.random.default_rng(1), step=2.0, m=900)
    days = np.datetime64('2026-01-01') + np.arange(900) // 10 * np.timedelta64(1, 'D')
    found = over_time(votes, days, 2)
    assert next(iter(found.changes)) == 'p0'
    change, low, high = found.changes['p0']
    assert 0 < low < 2.0 * 6 / 7 < high
    assert change == pytest.approx((low + high) / 2)
    assert sum(change for change, _, _ in found.changes.values()) == pytest.approx(0, abs=1e-9)
    assert found.spans == ((20454.0, 20498.0), (20499.0, 20543.0))
    assert [int(standings.counts.sum()) for standings in found.standings] == [900, 900]


def test_who_is_not_in_every_window_is_left_out():
    votes = Comparisons.build([0] * 40 + [1] * 4, [1] * 40 + [2] * 4, [1, 0] * 22,
                              items=['a', 'b', 'new'])
    found = over_time(votes, range(44), 2, 'bt')
    assert found.left_out == ('new',)
    assert set(found.changes) == {'a', 'b'}


@pytest.mark.parametrize(('when', 'windows', 'said'), [
    (range(40), 1, 'two windows or more'), (range(39), 2, '40 known times; got 2 windows and 39'),
    ([np.datetime64('NaT')] * 40, 2, 'and 0 times'), (range(40), 20, 'ask for fewer windows')])
def test_what_cannot_be_told_over_time_is_refused(when, windows, said):
    votes = Comparisons.build([0] * 40, [1] * 40, [1, 0] * 20)
    with pytest.raises(RankingError, match=said):
        over_time(votes, when, windows)


def compared(votes, **options):
    return across_robots(votes, 'bt', intervals=0, **options)


@pytest.mark.parametrize('people', [0, 16])
def test_robots_without_a_difference_are_kept_apart_in_one_of_twenty_worlds(people):
    rng = np.random.default_rng(0)
    wrong = [compared(on_robots(rng, people=people)).p_value < 0.05 for _ in range(150)]
    assert 0.01 <= np.mean(wrong) <= 0.1    # 5 % with three standard errors


def test_tastes_of_the_people_at_one_robot_pass_for_a_difference_by_session_only():
    rng = np.random.default_rng(1)
    worlds = [on_robots(rng, people=16, m=480) for _ in range(60)]
    by_session, by_evaluator = ([compared(votes, cluster=by).p_value < 0.05 for votes in worlds]
                                for by in ('session', 'evaluator'))
    assert np.mean(by_session) > 0.25 > 0.15 >= np.mean(by_evaluator)


def test_a_difference_is_found_as_often_as_is_said_and_names_the_policy():
    rng, found = np.random.default_rng(2), []
    seen = compared(on_robots(rng, m=600)).would_see
    assert 1.0 < seen < 2.0
    for sign in np.tile([-1, 1], 25):
        found.append(compared(on_robots(rng, sign * seen, m=600)))
    assert 0.65 <= np.mean([result.pooled is False for result in found]) <= 0.97
    named = [result.differs[0] for result in found if result.differs]
    assert np.mean([policy == 'p0' for policy, _, _ in named]) > 0.85
    strong = compared(on_robots(np.random.default_rng(4), 3.0, m=900))
    assert strong.pooled is False
    assert strong.differs[0] == ('p0', 'panda', 'ur5e')
    assert strong.words.startswith('not pooled: p0 is better on panda and worse on ur5e')


def test_three_robots_and_what_is_known_of_none():
    votes = on_robots(np.random.default_rng(5), 4.0, m=900, kinds=('so101', '', 'panda', 'ur5e'))
    found = compared(votes)
    assert set(found.standings) == {'so101', 'panda', 'ur5e'}
    assert found.unknown == 900 - sum(
        int(standings.counts.sum()) // 2 for standings in found.standings.values())
    assert found.differs[0][:2] == ('p0', 'so101')


def test_what_cannot_be_told_of_robots_says_why():
    rng = np.random.default_rng(6)
    few = compared(on_robots(rng, m=60))
    assert few.pooled is None
    assert few.words.startswith('cannot be told: no difference was seen (p 0.')
    assert compared(on_robots(rng, people=4), cluster='evaluator').words == (
        'cannot be told: 4 evaluators; 6 or more are needed')
    apart = Comparisons.build([0] * 20 + [1] * 20, [1] * 20 + [2] * 20, [1, 0] * 20,
                              conditions=Conditions.build({'robot': ['a'] * 20 + ['b'] * 20}))
    assert compared(apart).words.startswith('cannot be told: one policy with 5 comparisons on')
    assert compared(apart).shared == ('item_1',)
    with pytest.raises(RankingError, match='no comparison names its robot'):
        compared(drawn(rng))


def test_one_hierarchical_model_has_an_offset_per_policy_and_robot():
    votes = on_robots(np.random.default_rng(7), 3.0, m=900)
    fit = posterior(votes)
    cells, offsets = fit.terms.cells['robot'], fit.x[fit.terms.block('robot')]
    assert len(cells) == 12
    (first,), (second,) = (offsets[(cells == [robot, 0]).all(axis=1)] for robot in (
        votes.conditions.factors['robot'][0].index(kind) for kind in ('panda', 'ur5e')))
    assert first - second > 1.0
