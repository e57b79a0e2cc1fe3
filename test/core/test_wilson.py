"""Wilson's interval: that of scipy, never a point, and everything where nothing was counted."""

import pytest
from scipy.stats import binomtest

from arena_robot.core.wilson import wilson


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
