import argparse

import numpy as np
import pytest
from roboarena_tables import POLICIES, SAMPLE, WHOLE, needs_whole

from arena_robot.cli.study.methods import _server_choice
from arena_robot.core.config import load
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError
from arena_robot.records.roboarena_files import read_tables
from arena_robot.server.config import AssignmentGoal, ServerConfig
from arena_robot.server.sessions import simulate
from arena_robot.server.sessions.assignment import (
    Aim,
    Candidate,
    Posterior,
    pair_weights,
    weight_table,
)
from arena_robot.server.sessions.simulate import Curve, play, resampled, synthetic


def verdicts_of(rows):
    return [Comparison(str(k), a, b, Preference(said)) for k, (a, b, said) in enumerate(rows)]


def test_a_curve_knows_when_a_level_is_reached():
    curve = Curve(np.array([10, 20, 30]), np.array([0.5, 0.85, 0.9]), *np.zeros((4, 3)))
    assert curve.needed(0.8) == 20
    assert curve.needed(0.95) is None


def test_verdict_probabilities_are_consistent():
    truth = synthetic(5, np.random.default_rng(0))
    assert np.allclose(truth.verdicts.sum(axis=-1), 1.0)
    assert np.allclose(truth.verdicts[1, 3, 0], truth.verdicts[3, 1, 2])
    rows = [('a', 'b', 'A')] * 3 + [('b', 'a', 'A')] + [('a', 'b', 'TIE')] * 4
    real = resampled(verdicts_of(rows))
    assert np.allclose(real.verdicts[0, 1], [3 / 8, 1 / 2, 1 / 8], atol=1e-6)
    assert np.allclose(real.verdicts[1, 0], [1 / 8, 1 / 2, 3 / 8], atol=1e-6)
    with pytest.raises(DataError, match='no order to resample'):
        resampled(verdicts_of([('a', 'b', 'A')]))


def test_the_informative_choice_needs_fewer_comparisons_on_synthetic_pools():
    rng = np.random.default_rng(3)
    truths = [synthetic(7, rng) for _ in range(200)]
    uniform, informed = (play(truths, way, 300, seed=1) for way in ('uniform', 'informative'))
    level = float(uniform.correlation[-1])
    needed = informed.needed(level)
    assert needed is not None
    assert needed <= 0.75 * 300, 'at least a quarter of the comparisons is saved'
    assert play(truths[:2], 'uniform', 50, 1).correlation.tolist() == \
        play(truths[:2], 'uniform', 50, 1).correlation.tolist()


def test_the_goal_top1_finds_the_first_sooner():
    rng = np.random.default_rng(5)
    truths = [synthetic(15, rng) for _ in range(50)]
    order, first = (play(truths, 'informative', 200, seed=1, aim=Aim(goal))
                    for goal in (AssignmentGoal.ORDER, AssignmentGoal.TOP1))
    assert first.first[-5:].mean() >= 0.72
    assert first.first[-5:].mean() >= order.first[-5:].mean() + 0.08


def pool(tables):
    """Return the verdicts between the paper's seven policies."""
    return [r for r in read_tables(tables / 'sessions.csv').comparisons()
            if {r.a, r.b} <= set(POLICIES)]


def test_the_standing_of_a_pool_drawn_from_the_sample_approaches_its_truth():
    truths = [resampled(pool(SAMPLE))] * 20
    for way, least in (('uniform', 0.8), ('informative', 0.7)):
        correlation = play(truths, way, 300, seed=0).correlation
        assert correlation[-1] >= least
        assert correlation[-1] > correlation[0] + 0.2


@needs_whole
def test_the_informative_choice_needs_fewer_comparisons_on_the_real_pool():
    truths = [resampled(pool(WHOLE))] * 40
    uniform, informed = (play(truths, way, 500, seed=0) for way in ('uniform', 'informative'))
    needed = informed.needed(float(uniform.correlation[-1]))
    assert needed is not None
    assert needed <= 400


def test_the_simulation_draws_pairs_by_the_servers_own_weights(monkeypatch, tmp_path):
    config = tmp_path / 'server.yaml'
    config.write_text('weights: {evenness: 2.5, exploration: 0.3}\ngoal: top1\n')
    weights, aim = _server_choice(argparse.Namespace(config=config, goal=None, top_k=None))
    asked = load(ServerConfig, config)
    assert (weights, aim) == (asked.weights, Aim(asked.goal, asked.top_k))
    drawn = []

    def spied(requested, permitted, weights, posterior, aim):
        table = weight_table(requested, permitted, weights, posterior, aim)
        pool = [Candidate(k, k, int(n)) for k, n in enumerate(requested[0])]
        known = None if posterior is None else Posterior(
            posterior.mean[0], posterior.covariance[0])
        drawn.append((table[0], pair_weights(pool, asked.weights, known, aim)))
        return table
    monkeypatch.setattr(simulate, 'weight_table', spied)
    play([synthetic(4, np.random.default_rng(0))], 'informative', 60, 1, weights, aim=aim)
    assert len(drawn) > 5
    for table, servers in drawn:
        np.testing.assert_allclose(np.triu(table, 1), np.triu(servers, 1), atol=1e-12)
