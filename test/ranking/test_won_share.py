"""Share won: its closed form is the interval that the ranking gives for two policies."""

import math

import numpy as np
import pytest

from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.intervals.choice import difference
from arena_robot.ranking.intervals.shares import effective_count, share_interval


def asked(rng, sessions, people, chances):
    """Return counts by evaluator and what the ranking says of the same sessions."""
    said = rng.choice([1.0, 0.5, 0.0], sessions, p=chances)
    who = [f'e{k}' if people else '' for k in rng.integers(0, max(people, 1), sessions)]
    counts = {}
    for name, one in zip(who, said, strict=True):
        row = counts.setdefault(name, [0, 0, 0])
        row[int(2 - 2 * one)] += 1
    zeros = np.zeros(sessions, int)
    found = difference(Comparisons.build(zeros, zeros + 1, said, items=('p', 'q'), evaluator=who),
                       'p', 'q')
    return counts, None if found is None else [1 / (1 + math.exp(-x)) for x in found[1:]]


@pytest.mark.parametrize(('sessions', 'people', 'chances'), [
    (4, 0, (0.5, 0.2, 0.3)), (12, 0, (0.5, 0.2, 0.3)), (12, 9, (0.5, 0.2, 0.3)),
    (40, 10, (0.2, 0.1, 0.7)), (300, 60, (0.7, 0.0, 0.3)), (40, 3, (1.0, 0.0, 0.0)),
    (60, 15, (0.0, 0.0, 1.0)), (60, 15, (0.0, 1.0, 0.0)), (9, 9, (0.5, 0.2, 0.3))])
def test_the_interval_is_that_of_the_ranking(sessions, people, chances):
    rng = np.random.default_rng(sessions)
    for _ in range(4):
        counts, wanted = asked(rng, sessions, people, chances)
        found = share_interval(counts)
        assert (found is None) == (wanted is None)
        if found is not None:
            assert found == pytest.approx(wanted, abs=1e-4)


def test_evaluators_who_differ_make_it_wider():
    alike = {f'e{k}': (5, 0, 5) for k in range(12)}
    apart = {f'e{k}': (10, 0, 0) if k % 2 else (0, 0, 10) for k in range(12)}
    (low, high), (lower, higher) = share_interval(alike), share_interval(apart)
    assert lower < low < 0.5 < high < higher
    assert 10 < effective_count(apart) < 30 < effective_count(alike) <= 120
    assert effective_count({'e': (3, 0, 4)}) == 7
