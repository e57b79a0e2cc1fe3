"""Whether abilities change over time."""

import numpy as np
import pytest
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking import Comparisons, over_time


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
