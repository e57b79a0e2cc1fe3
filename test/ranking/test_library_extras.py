"""What the ranking library offers besides methods, and that it needs numpy and scipy alone."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking import (
    Comparisons,
    adjusted,
    agreement_alpha,
    decayed,
    intransitivity,
    plackett_luce,
    rank,
    win_rates,
)


def drawn(seed=0, m=800, theta=(1.0, 0.0, -1.0), extra=0.0, people=4):
    rng = np.random.default_rng(seed)
    n, theta = len(theta), np.array(theta)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    x = rng.normal(size=m)
    y = (rng.random(m) < expit(theta[i] - theta[j] + extra * x)).astype(float)
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)],
                             evaluator=[f'e{k % people}' for k in range(m)]), x


def test_covariates_are_estimated_and_leave_the_abilities():
    votes, x = drawn(extra=1.5)
    found = adjusted(votes, np.stack([x, np.ones(len(x))], axis=1), ['duration', 'side'])
    assert found.low[0] < 1.5 < found.high[0]
    assert found.low[1] < 0 < found.high[1]
    np.testing.assert_allclose(found.fit.scores, [1, 0, -1], atol=0.3)
    assert rank(votes).scores[0] < found.fit.scores[0] - 0.1
    none = adjusted(votes, np.zeros(len(x)))
    np.testing.assert_allclose(none.fit.scores, rank(votes).scores, atol=1e-6)
    with pytest.raises(RankingError, match=r'800 rows of numbers.*found \(3, 1\)'):
        adjusted(votes, [1, 2, 3])


def test_plackett_luce_is_at_the_maximum_and_is_bradley_terry_for_two():
    rng = np.random.default_rng(1)
    names = list('abcd')
    rows = [[names[k] for k in np.argsort(-(np.arange(4) / 2 + rng.gumbel(size=4)))[:r]]
            for r in rng.integers(2, 5, 150)]
    fit = plackett_luce(rows)

    def loss(theta):
        places = [[names.index(one) for one in row] for row in rows]
        return -sum(theta[o[k]] - np.log(np.exp(theta[o[k:]]).sum())
                    for o in places for k in range(len(o) - 1))

    best = minimize(loss, np.zeros(4), options={'gtol': 1e-6}).x
    np.testing.assert_allclose(fit.scores, best - best.mean(), atol=1e-4)
    assert fit.diagnostics.log_likelihood == pytest.approx(-loss(best), abs=1e-6)
    votes, _ = drawn(m=60)
    pairs = [[votes.items[a], votes.items[b]] if y else [votes.items[b], votes.items[a]]
             for a, b, y in zip(votes.first, votes.second, votes.outcome, strict=True)]
    np.testing.assert_allclose(plackett_luce(pairs).scores, rank(votes).scores, atol=1e-8)
    held = plackett_luce([['a', 'b', 'c'], ['a', 'c', 'b']])
    assert np.isfinite(held.scores).all()
    assert 'held by a prior' in held.diagnostics.warnings[0]
    with pytest.raises(RankingError, match="ranking 1 is \\['a'\\]"):
        plackett_luce([['a', 'b'], ['a']])


def test_alpha_is_one_for_agreement_and_about_zero_for_chance():
    votes, _ = drawn(m=240, theta=(9.0, 0.0, -9.0))
    sure = Comparisons.build(votes.first, votes.second, votes.first < votes.second,
                             evaluator=[f'e{k}' for k in votes.evaluator])
    assert agreement_alpha(sure) == pytest.approx(1)
    chance, _ = drawn(m=4000, theta=(0.0,) * 6, people=40)
    assert abs(agreement_alpha(chance)) < 0.15
    # Two evaluators on one pair, 1 and 0: units {1, 0} and its mirror, by hand.
    two = Comparisons.build([0, 0], [1, 1], [1, 0], evaluator=['a', 'b'])
    assert agreement_alpha(two) == pytest.approx(1 - 1 / (2 / 3))
    assert np.isnan(agreement_alpha(two.take(np.array([0]))))


def test_cycles_are_found_and_one_order_is_not_refuted():
    ring = Comparisons.build([0, 1, 2] * 20, [1, 2, 0] * 20, [1, 1, 1, 1, 1, 0] * 10,
                             items=['a', 'b', 'c'])
    found = intransitivity(ring)
    assert found.cycles == () or set(found.cycles[0]) == {'a', 'b', 'c'}
    whole = intransitivity(Comparisons.build([0, 1, 2] * 20, [1, 2, 0] * 20, [1] * 60,
                                             items=['a', 'b', 'c']))
    assert whole.cycles == (('a', 'b', 'c'),)
    assert (whole.triples, whole.freedom) == (1, 1)
    assert whole.p_value < 1e-6
    values = [intransitivity(drawn(k, 300, (1, .5, 0, -1))[0]).p_value for k in range(30)]
    assert 0.3 < np.mean(values) < 0.7


def test_old_verdicts_count_less():
    votes, _ = drawn(m=10)
    old = decayed(votes, [0, 30] * 5, 30)
    np.testing.assert_allclose(old.weight, [1, 0.5] * 5)
    with pytest.raises(RankingError, match='half-life above 0'):
        decayed(votes, [0] * 10, 0)


def test_win_rates_have_a_row_for_each_pair_and_direction():
    table = win_rates(Comparisons.build([0, 0, 1], [1, 1, 2], [1, 0.5, 0], items=list('abc')))
    assert table == {
        'policy': ['a', 'b', 'b', 'c'], 'against': ['b', 'a', 'c', 'b'],
        'wins': [1, 0, 0, 1], 'ties': [1, 1, 0, 0], 'losses': [0, 1, 1, 0], 'n': [2, 2, 1, 1],
        'share': [0.75, 0.25, 0, 1]}


def test_the_library_needs_neither_ros_nor_simulator_nor_server():
    code = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        words = name.split('.')
        if words[0] not in ('numpy', 'scipy', 'arena_robot') and words[0] in OUTSIDE:
            raise ImportError(name)
        if words[0] == 'arena_robot' and words[1:2] not in ([], ['core'], ['ranking']):
            raise ImportError(name)
OUTSIDE = {'rclpy', 'arena_msgs', 'mujoco', 'grpc', 'google', 'fastapi', 'sqlalchemy', 'alembic',
           'matplotlib', 'PIL', 'cv2', 'yaml', 'websockets', 'mcap', 'joblib', 'cryptography'}
sys.meta_path.insert(0, Refused())
import arena_robot.ranking as r
for name in r.__all__:
    getattr(r, name)
table = {'policy_a': ['x', 'y', 'z'] * 8, 'policy_b': ['y', 'z', 'x'] * 8,
         'preference': ['A', 'B', 'tie', 'A'] * 6}
votes = r.from_frame(table)
for name in ('bt', 'davidson', 'hierarchical', 'task', 'elo', 'bt_robust'):
    r.rank(votes, name, intervals=20)
print(r.sessions_needed(votes).sessions, len(OUTSIDE & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.split() == ['24', '0'], done.stderr
