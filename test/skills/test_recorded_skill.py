"""A recorded skill as a policy: the choice by picture, chunks, refusals, and its file."""

import json

import numpy as np
import pytest

from arena_robot.core.errors import ConfigError, DataError, PolicyRefused
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.policy.connect import load_policy
from arena_robot.policy.recorded_skill import (
    LENGTH,
    SkillMotion,
    SkillRecording,
    outlines,
    read_recording,
    write_recording,
)

Q = np.linspace(-1.0, 1.0, 7)


def scene(x, colour):
    """Return a picture of a block at ``x`` on a table."""
    pixels = np.full((120, 160, 3), 200, np.uint8)
    pixels[40:80, x:x + 30] = colour
    return pixels


def motion(number, x, steps):
    actions = np.full((steps, 8), float(number))
    return SkillMotion(number, Q, actions, outlines(scene(x, (200, 30, 30))))


def seen(pixels, q=Q):
    images = {} if pixels is None else {'left_left': Image(pixels, 0)}
    arm = ArmState(0, q, np.zeros(7), np.zeros(7), np.zeros(7), np.zeros(6), q)
    return Observation(0, arm, GripperState(0, 0.0, 0.085, 0.0), 'close the lid', images=images)


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / 'lid.json'
    write_recording(path, SkillRecording('Close Box Lid', (motion(1, 20, 11), motion(2, 90, 5)),
                                         {'by': 'a test'}))
    return load_policy(f'skill:{path}')


def test_the_motion_with_the_most_similar_start_is_played_and_then_held(policy):
    first = policy.infer(seen(scene(24, (30, 30, 200))), 'a')     # another colour
    other = policy.infer(seen(scene(88, (30, 160, 30))), 'b')
    assert (first.actions.shape, first.actions[0, 0], other.actions[0, 0]) == ((LENGTH, 8), 1, 2)
    rest = [policy.infer(seen(scene(88, (0, 0, 0))), 'a') for _ in range(2)]
    assert all((chunk.actions == 1.0).all() for chunk in rest)   # what is seen later is not used
    policy.reset('a')
    assert policy.infer(seen(scene(88, (0, 0, 0))), 'a').actions[0, 0] == 2


def test_it_does_not_begin_from_elsewhere_or_blindly(policy):
    with pytest.raises(PolicyRefused, match=r'0\.30 rad'):
        policy.infer(seen(scene(24, (9, 9, 9)), Q + 0.3))
    with pytest.raises(PolicyRefused, match='found none'):
        policy.infer(seen(None))


def test_actions_come_in_order(tmp_path):
    actions = np.arange(12 * 8.0).reshape(12, 8)
    write_recording(tmp_path / 'm.json', SkillRecording('T', (SkillMotion(
        0, Q, actions, outlines(scene(3, (0, 0, 0)))),), {}))
    policy = load_policy(f'skill:{tmp_path / "m.json"}')
    played = np.concatenate([policy.infer(seen(scene(3, (0, 0, 0)))).actions for _ in range(3)])
    assert (played[:12] == actions).all()
    assert (played[12:] == actions[-1]).all()


def test_a_file_that_is_none_is_refused(tmp_path):
    good = tmp_path / 'good.json'
    write_recording(good, SkillRecording('T', (motion(1, 20, 2),), {}))
    assert read_recording(good).motions[0].actions.shape == (2, 8)
    data = json.loads(good.read_text())
    path = tmp_path / 'bad.json'
    for change in ({'motions': []}, {'version': 2}, {'motions': [data['motions'][0] | {
            'actions': [[0.0] * 7]}]}, {'motions': [data['motions'][0] | {
                'actions': [[float('nan')] * 8]}]}):
        path.write_text(json.dumps(data | change))
        with pytest.raises(DataError):
            load_policy(f'skill:{path}')
    with pytest.raises(ConfigError, match='arena skill export'):
        load_policy(f'skill:{tmp_path}/none.json')
    with pytest.raises(ConfigError, match='no motion'):
        write_recording(path, SkillRecording('T', (), {}))
