"""``arena policy rates``: order, intervals, JSON, exit codes, several processes."""

import importlib.util
import json
import re
import subprocess
import sys

import pytest
from scipy.stats import binomtest

from arena_robot.cli.main import main

if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)

from arena_robot.cli import policy_rates
from arena_robot.core.errors import ArenaError
from arena_robot.trials.trial import Course, Trial, TrialOutcome, wilson
from arena_robot.trials.workers import run_all


def outcome(policy, succeeded, progress, task='lift_cube', seed=0, end='done'):
    return TrialOutcome(Trial(policy, task, seed), succeeded, progress, 100, 1, end, 'why')


@pytest.mark.parametrize(('good', 'count'), [(0, 30), (30, 30), (21, 30), (1, 3), (150, 151)])
def test_the_interval_is_wilsons(good, count):
    truth = binomtest(good, count).proportion_ci(0.95, method='wilson')
    assert wilson(good, count) == pytest.approx((truth.low, truth.high), abs=1e-12)


def test_no_episode_tells_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_strongest_comes_first_and_progress_breaks_ties():
    runs = [outcome('c', False, 0.1), outcome('a', True, 1.0), outcome('b', False, 0.6)]
    assert list(policy_rates.in_order(runs)) == ['a', 'b', 'c']
    assert policy_rates.summary(runs)['rate'] == pytest.approx(1 / 3)


def test_the_table_names_what_broke_down():
    text = policy_rates.table([outcome('a', True, 1.0), outcome(
        'b', False, 0.0, seed=4, end='policy_error')], 60.0)
    assert 'b on lift_cube, seed 4: policy_error, why' in text
    assert text.index('\na ') < text.index('\nb ')
    assert max(map(len, text.splitlines())) <= 99


def test_a_safety_stop_is_a_failure_but_no_breakdown():
    ends = ('done', 'timeout', 'safety_stop', 'policy_error', 'driver_error')
    runs = [outcome('a', False, 0.1, end=end) for end in ends]
    assert policy_rates.summary(runs)['broken'] == 2
    assert 'and 2 more that ended early' in policy_rates.table(runs[2:] + runs[1:] + runs[4:], 1.0)


def test_the_command_prints_json(capsys):
    assert main(['policy', 'rates', '--policies', 'frozen,random_walk', '--tasks', 'lift_cube',
                 '--seeds', '2', '--max-steps', '20', '--jobs', '1', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {'frozen', 'random_walk'}
    own = found['frozen']
    assert own['episodes'] == 2
    assert own['successes'] == 0
    assert own['steps'] == 20
    assert [run['seed'] for run in own['runs']] == [0, 1]
    assert own['tasks']['lift_cube']['high'] == pytest.approx(wilson(0, 2)[1])


def test_a_policy_that_breaks_down_is_reported(capsys, monkeypatch):
    monkeypatch.syspath_prepend('test/policy')
    assert main(['policy', 'rates', '--policies', 'broken_policies:NotANumber', '--tasks',
                 'lift_cube', '--seeds', '1', '--max-steps', '20', '--jobs', '1']) == 1
    assert 'policy_error' in capsys.readouterr().out


@pytest.mark.parametrize(('arguments', 'says'), [
    (['--tasks', 'lift_cub'], 'lift_cube'), (['--policies', 'visio'], 'vision'),
    (['--seeds', '0'], 'at least 1')])
def test_wrong_words_are_answered_with_the_right_ones(arguments, says, capsys):
    arguments = ['--jobs', '1', '--seeds', '1', '--max-steps', '5', '--tasks', 'lift_cube',
                 '--policies', 'frozen', *arguments]
    assert main(['policy', 'rates', *arguments]) == 2
    assert says in capsys.readouterr().err


def test_two_processes_find_what_one_finds():
    trials = [Trial('random_walk', 'lift_cube', seed, 16) for seed in range(3)]
    told = []
    both = run_all(trials, 2, lambda done, one: told.append(done))
    assert both == run_all(trials, 1)
    assert told == [1, 2, 3]


def test_the_command_runs_in_two_processes():
    text = subprocess.run(
        [sys.executable, '-m', 'arena_robot.cli.main', 'policy', 'rates', '--policies', 'frozen',
         '--tasks', 'lift_cube', '--seeds', '2', '--max-steps', '5', '--jobs', '2'],
        capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r'^frozen +0/2 ', text, re.MULTILINE), text


def test_a_dead_process_is_an_error():
    with pytest.raises(ArenaError, match=r'nobody:Here on lift_cube, seed ., has died'):
        run_all([Trial('nobody:Here', 'lift_cube', seed, 5) for seed in range(2)], 2)


def test_a_served_policy_can_be_rated():
    from arena_robot.policy.connect import SERVERS
    from arena_robot.policy.examples.vision import Vision

    trial = Trial('vision', 'press_button', 2)
    with SERVERS['grpc'](Vision()) as server:
        course = Course()
        try:
            near = course.run(trial)
            far = course.run(Trial(server.address, 'press_button', 2))
        finally:
            course.close()
    assert near.succeeded
    assert far.succeeded
    assert near.steps == far.steps
