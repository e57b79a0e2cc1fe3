"""Intervals and tests of two shares: published numbers, SciPy's, exact chances."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, boschloo_exact

from arena_robot.blind import shares
from arena_robot.blind.planning import block_chances, decided, more_blocks, plan_of, play
from arena_robot.blind.shares import (
    blocks_needed,
    blocks_power,
    boschloo,
    difference_interval,
    difference_sequence,
    paired_interval,
    sign_test,
    trials_needed,
)
from arena_robot.blind.study import DecisionRule, Measure


@pytest.mark.parametrize(('counts', 'interval'), [
    ((17, 20, 14, 20), (-0.11, 0.39)),       # fieldtrial's own example
    ((74, 80, 91, 120), (0.062, 0.260)),     # and the other one that it prints
    ((56, 70, 48, 80), (0.0524, 0.3339)),    # Newcombe 1998, table II, method 10
    ((9, 10, 3, 10), (0.1705, 0.8090)), ((10, 10, 0, 20), (0.6791, 1.0))])
def test_newcombes_intervals_are_the_published_ones(counts, interval):
    digits = max(len(f'{x}') for x in interval) - 2
    found = difference_interval(*counts)
    assert found == pytest.approx(interval, abs=0.6 * 10 ** -min(digits - 1, 4))


def test_fieldtrials_example_cannot_be_told_apart():
    low, high = difference_interval(17, 20, 14, 20)
    assert (round(100 * low), round(100 * high)) == (-11, 39)
    assert boschloo(17, 20, 14, 20) > 0.2


@pytest.mark.parametrize(('blocks', 'interval'), [
    ((36, 12, 2, 0), (0.0569, 0.3404)),      # Newcombe 1998, paired, method 10
    ((0, 0, 0, 30), (-0.1135, 0.1135))])     # Wilson's upper ends of 0 of 30
def test_paired_intervals_are_the_known_ones(blocks, interval):
    assert paired_interval(*blocks) == pytest.approx(interval, abs=6e-5)


@pytest.mark.parametrize('counts', [(17, 20, 14, 20), (9, 10, 3, 10), (31, 40, 19, 40),
                                    (74, 80, 91, 120), (0, 7, 5, 9)])
def test_boschloos_p_is_scipys(counts):
    k1, n1, k2, n2 = counts
    table = [[k1, k2], [n1 - k1, n2 - k2]]
    one = min(boschloo_exact(table, side, n=200).pvalue for side in ('less', 'greater'))
    assert boschloo(*counts) == pytest.approx(min(1, 2 * one), rel=2e-3)


def test_boschloo_keeps_its_level_and_is_symmetric():
    p_values = np.array([[boschloo(a, 12, b, 9) for b in range(10)] for a in range(13)])
    for share in (0.05, 0.3, 0.5, 0.8):
        chance = binom.pmf(np.arange(13), 12, share)[:, None] * binom.pmf(np.arange(10), 9, share)
        assert chance[p_values <= 0.05].sum() <= 0.05
    assert boschloo(3, 12, 8, 9) == pytest.approx(boschloo(8, 9, 3, 12))


def test_many_trials_use_the_normal_approximation(monkeypatch):
    exact = boschloo(180, 400, 212, 400)
    monkeypatch.setattr(shares, 'MOST_TABLES', 0)
    assert boschloo(180, 400, 212, 400) == pytest.approx(exact, rel=0.1)
    assert boschloo(0, 3000, 0, 3000) == 1


@pytest.mark.parametrize(('wins', 'losses'), [(0, 0), (5, 0), (6, 0), (14, 5), (3, 9)])
def test_the_sign_test_is_the_binomial_test(wins, losses):
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_trials_needed_are_those_of_the_formula():
    assert trials_needed(0.76, 0.90) == 112    # as fieldtrial prints
    assert trials_needed(0.85, 0.70) == trials_needed(0.70, 0.85) == 121
    assert math.isinf(trials_needed(0.5, 0.5))


def test_the_power_of_blocks_is_exact():
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(30, [0.4, 0.15, 0.45], size=20_000)
    found = np.mean([w > d and sign_test(int(w), int(d)) <= 0.05 for w, d, _ in drawn[:4000]])
    assert blocks_power(30, 0.4, 0.15) == pytest.approx(found, abs=0.025)
    needed = int(blocks_needed(0.4, 0.15))
    assert blocks_power(needed, 0.4, 0.15) >= 0.8 > blocks_power(needed - 1, 0.4, 0.15)
    assert math.isinf(blocks_needed(0.3, 0.3))


def test_an_interval_of_every_look_holds_at_all_of_them():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        outcome = rng.choice((1, 0, -1), size=60, p=(0.4, 0.4, 0.2))
        for n in range(4, 61, 4):
            seen = outcome[:n]
            low, high = difference_sequence(*(int((seen == x).sum()) for x in (1, 0, -1)))
            if not low <= 0.2 <= high:
                missed += 1
                break
    assert missed <= 16    # 10 are allowed at 5 %, and their standard deviation is 3
    assert difference_sequence(0, 0, 0) == (-1, 1)


def test_a_sequential_study_says_better_in_few_where_none_is():
    used, who = play(0.25, 0.25, 200, 0.05, np.random.default_rng(2), 4000)
    assert np.mean(who != 0) <= 0.05
    assert used[who == 0].tolist() == [200] * int((who == 0).sum())


def test_a_decision_is_for_who_leads():
    outcome = np.array([[1] * 30, [-1] * 30, [1, -1] * 15])
    used, who = decided(outcome, 0.05)
    assert who.tolist() == [1, -1, 0]
    assert used.tolist() == [8, 8, 30]


def test_a_plan_keeps_its_promise():
    plan = plan_of(DecisionRule(assumed=(0.5, 0.75)))
    assert plan.power >= 0.8 > blocks_power(int(plan.needed) - 1, 0.375, 0.125)
    assert plan.mean < plan.planned
    assert plan_of(DecisionRule(assumed=(0.5, 0.75)), contrasts=3).needed > plan.needed
    assert block_chances(DecisionRule(Measure.PREFERENCE, assumed=(0.2, 0.5))) == (0.5, 0.2)


def test_more_blocks_are_needed_for_a_smaller_difference():
    small, large = (more_blocks(w, 10, 40, 0.05, 0.8, False) for w in (13, 17))
    assert small > large > 40
    assert math.isinf(more_blocks(10, 10, 40, 0.05, 0.8, False))
    assert 0 < more_blocks(17, 8, 40, 0.05, 0.8, True) < 200
