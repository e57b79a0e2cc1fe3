"""Trials of policies without ROS, and labelled episodes of an expert that makes mistakes."""

import ctypes
import dataclasses
import importlib.util
import os
import sys

import numpy as np
import pytest

from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.opd import measure
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ROLES
from arena_robot.core.parallel import Workers
from arena_robot.drivers.sim import scene
from arena_robot.drivers.sim.station import SimStation
from arena_robot.records.clip import SUFFIX, Clip, read_clip
from arena_robot.trials.labelled import (
    PAST,
    POSED,
    SCRIPTS,
    SIZE,
    STILLS,
    LabelledEpisode,
    all_tasks,
    labelled_episodes,
    record,
    record_to,
)
from arena_robot.trials.trial import Course, Trial, printing_elsewhere, run_all, run_here

SEED = 2003     # held out: training takes seeds from 0
if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)


def looks(monkeypatch, moved_m=0.0, noise=0.0):
    """Return a clip of three frames at reset, with the right camera moved, or with noise."""
    rng, look_for = np.random.default_rng(0), scene.look_for

    def moved(*arguments):
        look = look_for(*arguments)
        position, target = look.right
        return dataclasses.replace(look, right=(position + np.array([0, moved_m, 0]), target))

    monkeypatch.setattr(scene, 'look_for', moved)
    with SimStation.make('cube_in_bowl', SEED, size=SIZE, rate_hz=5.0, eyes=('left',)) as station:
        frames = {role: [] for role in ROLES}
        for _ in range(3):
            station.step(0.2)
            for role in ROLES:
                pixels = station.cameras[role].frame(5.0).left.pixels
                frames[role].append(np.clip((1 - noise) * pixels + 255 * noise * rng.normal(
                    size=pixels.shape), 0, 255).astype(np.uint8))
        return Clip(station.instruction, np.arange(3) * 0.2, frames)


def test_an_episode_is_recorded_once_with_its_progress(tmp_path):
    episode = LabelledEpisode('lift_cube', SEED, 'expert')
    path = record_to(tmp_path, episode)
    assert path.name == f'lift_cube-{SEED}-expert{SUFFIX}'
    clip = read_clip(path)
    written = path.stat().st_mtime_ns
    assert record_to(tmp_path, episode).stat().st_mtime_ns == written
    assert clip.source.success is True
    assert measure([clip.phi]).ppl[0] > 0.95
    assert set(clip.pictures) == set(ROLES)
    seen = clip.clip()
    assert len(seen) == len(clip.phi) == len(seen.frames['wrist'])
    trace = LocalJudge().progress(seen)
    assert trace.calibrated, trace.detail
    assert trace.phi[-1] > trace.phi[0] + 0.4


def test_kinds_are_spread_over_tasks_and_seeds():
    made = labelled_episodes(all_tasks(), range(len(SCRIPTS)))
    assert len({e.name for e in made}) == len(made) == (14 + 12) * len(SCRIPTS)
    for task in all_tasks():
        assert {e.kind for e in made if e.task == task} == {
            *SCRIPTS, *(() if task in PAST else (POSED,))}


def test_stills_show_objects_and_arm_of_different_instants():
    clip = record(LabelledEpisode('cube_in_bowl', SEED, POSED))
    assert len(clip.phi) == STILLS
    assert clip.phi[0] == 0.0
    assert (clip.phi == 1.0).sum() > STILLS / 10
    assert (clip.phi < 0.2).sum() > STILLS / 10
    wrist = [picture.astype(float).mean() for picture in clip.clip(['wrist']).frames['wrist']]
    for end in (clip.phi == 1.0, clip.phi < 0.2):
        assert np.std(np.array(wrist)[end]) > 1.0, 'the arm says nothing of the objects'


@pytest.mark.parametrize(('change', 'calibrated', 'word'), [
    ({}, True, ''), ({'moved_m': 0.25}, False, 'camera moved'), ({'noise': 0.1}, False, 'unlike')])
def test_the_local_judge_knows_its_pictures(monkeypatch, change, calibrated, word):
    trace = LocalJudge().progress(looks(monkeypatch, **change))
    assert trace.valid
    assert trace.calibrated is calibrated, trace.detail
    assert word in trace.detail


def test_processes_and_a_cluster_find_what_one_process_finds(dask):
    trials = [Trial(policy, 'lift_cube', seed, 16)
              for policy in ('random_walk', 'vision') for seed in range(2)]
    counts = []
    outcomes = run_all(trials, Workers(), lambda done, outcome: counts.append(done))
    assert counts == [1, 2, 3, 4]
    assert [outcome.trial for outcome in outcomes] == trials
    assert run_all(trials, Workers(2)) == outcomes
    assert run_all(trials, Workers(cluster=dask)) == outcomes


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
    printed = capsys.readouterr()
    assert not printed.out
    assert 'hello' in printed.err


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
