"""Labelled episodes of the simulated station, and what the shipped judge says of its pictures."""

import dataclasses

import numpy as np
import pytest

from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.opd import measure
from arena_robot.core.clip import Clip
from arena_robot.core.observation import ROLES
from arena_robot.drivers.sim import scene
from arena_robot.drivers.sim.station import SimStation
from arena_robot.records.labelled_clip import SUFFIX, read_clip
from arena_robot.trials.faulty_expert import KINDS
from arena_robot.trials.labelled import (
    SIZE,
    LabelledEpisode,
    all_tasks,
    labelled_episodes,
    record_to,
)

SEED = 2003     # held out: training takes seeds from 0


def looks(monkeypatch, moved_m=0.0, noise=0.0):
    """Return a clip of three frames at reset, with the right camera moved, or with noise."""
    rng, look_for = np.random.default_rng(0), scene.look_for

    def moved(*given):
        look = look_for(*given)
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
    made = labelled_episodes(all_tasks(), range(8))
    assert len({e.name for e in made}) == 14 * 8
    for task in all_tasks():
        assert {e.kind for e in made if e.task == task} == set(KINDS)


@pytest.mark.parametrize(('change', 'calibrated', 'word'), [
    ({}, True, ''), ({'moved_m': 0.25}, False, 'camera moved'), ({'noise': 0.1}, False, 'unlike')])
def test_the_local_judge_knows_its_pictures(monkeypatch, change, calibrated, word):
    trace = LocalJudge().progress(looks(monkeypatch, **change))
    assert trace.valid
    assert trace.calibrated is calibrated, trace.detail
    assert word in trace.detail
