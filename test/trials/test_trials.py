"""Trials: one is repeatable, many are the same wherever they are run."""

import ctypes
import importlib.util
import os
import sys

import pytest

if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)

from arena_robot.core.errors import ConfigError
from arena_robot.core.parallel import Workers
from arena_robot.trials.run import printing_elsewhere, run_all, run_here
from arena_robot.trials.trial import Course, Trial


@pytest.mark.parametrize('policy', ['random_walk', 'vision'])
def test_two_processes_find_what_one_finds(policy):
    trials = [Trial(policy, 'lift_cube', seed, 16) for seed in range(3)]
    told = []
    both = run_all(trials, Workers(2), lambda done, one: told.append(done))
    assert both == run_all(trials, Workers())
    assert told == [1, 2, 3]
    assert [one.trial for one in both] == trials


@pytest.mark.parametrize('jobs', [1, 2])
def test_a_policy_that_cannot_be_loaded_is_an_error(jobs):
    with pytest.raises(ConfigError, match='nobody'):
        run_all([Trial('nobody:Here', 'lift_cube', seed, 5) for seed in range(2)], Workers(jobs))


def test_what_a_policy_prints_is_no_result(capsys, monkeypatch, tmp_path):
    (tmp_path / 'loud_policy.py').write_text(
        'from arena_robot.policy.examples.simple import Frozen\n'
        'class Loud(Frozen):\n'
        '    def infer(self, observation, episode=""):\n'
        '        print("hello")\n'
        '        return super().infer(observation, episode)\n', encoding='utf-8')
    monkeypatch.syspath_prepend(str(tmp_path))
    run_here(Trial('loud_policy:Loud', 'lift_cube', 0, 5))
    said = capsys.readouterr()
    assert not said.out
    assert 'hello' in said.err


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


def test_a_cluster_finds_what_one_process_finds(dask):
    trials = [Trial('vision', 'lift_cube', seed, 16) for seed in range(3)]
    assert run_all(trials, Workers(cluster=dask)) == run_all(trials, Workers())


def test_what_policies_and_c_libraries_print_is_no_result(capfd):
    libc = ctypes.CDLL(None)
    with printing_elsewhere():
        sys.stdout.write('from Python\n')
        os.write(1, b'from a system call\n')
        libc.puts(b'from C')
    sys.stdout.write('{"a": 1}\n')
    out, err = capfd.readouterr()
    assert out == '{"a": 1}\n'
    assert sorted(err.splitlines()) == ['from C', 'from Python', 'from a system call']
