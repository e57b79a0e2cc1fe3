"""Checkpoints of openpi and LeRobot in one line, by stand-ins and, where it is, by LeRobot."""

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import checkpoint_stand_ins as stand_ins
import numpy as np
import pytest
from policy_samples import observation, pictures

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import ConfigError
from arena_robot.policy.checkpoints import LOADERS
from arena_robot.policy.connect import load_policy

HERE = Path(__file__).parent
REAL = 'ARENA_LEROBOT'
VELOCITY = {'action_space': 'joint_velocity'}


def seen(policy, **kwargs):
    size = policy.spec.image_size or (48, 64)
    return observation(pictures(policy.spec, *size), **kwargs)


@pytest.mark.parametrize(('name', 'says'), [
    ('openpi:pi05_droid@/ckpt', "'openpi:' needs openpi.training.config"),
    ('lerobot:/ckpt', "'lerobot:' needs lerobot.configs.policies"),
    ('openpi:pi05_droid', 'write openpi:CONFIG@CHECKPOINT'),
    ('openpi:my_config@/ckpt', 'a checkpoint does not say its action space')])
def test_what_is_missing_is_said(name, says):
    kwargs = VELOCITY if name.startswith('lerobot') else {}
    with pytest.raises(ConfigError) as caught:
        load_policy(name, kwargs)
    assert says in str(caught.value)
    assert 'cannot be imported' not in says or 'Install' in str(caught.value)


def test_a_lerobot_checkpoint_gets_what_it_was_trained_on(monkeypatch):
    inner = stand_ins.lerobot(monkeypatch, stand_ins.LerobotConfig())
    policy = load_policy('lerobot:/data/tiny', {'action_space': 'joint_position'})
    spec = policy.spec
    assert (spec.image_size, spec.wrist_camera, spec.external_cameras, spec.chunk_length,
            spec.samples, spec.action_space) == (
        (24, 32), True, 1, 4, True, ActionSpace.JOINT_POSITION)
    shown = seen(policy)
    chunk = policy.infer(shown, 'one')
    assert chunk.actions.shape == (4, 8)
    batch, = inner.seen
    assert batch['task'] == shown.prompt
    assert np.allclose(batch['observation.state'][0],
                       np.append(shown.arm.q, shown.gripper.position), atol=1e-6)
    for name, view in (('exterior_1_left', 'left_left'), ('wrist_left', 'wrist_left')):
        assert np.array_equal(batch[f'observation.images.{name}'][0], shown.images[view].pixels)


def test_episodes_of_a_lerobot_checkpoint_do_not_mix_and_repeat_by_their_seed(monkeypatch):
    stand_ins.lerobot(monkeypatch, stand_ins.LerobotConfig())
    policy = load_policy('lerobot:/data/tiny', VELOCITY)
    shown = seen(policy)
    first, second = (policy.infer(shown, 'a').actions for _ in range(2))
    policy.reset('a')
    again = policy.infer(shown, 'a').actions
    policy.infer(shown, 'b')
    assert np.array_equal(again, first)
    assert np.array_equal(policy.infer(shown, 'a').actions, second)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(('config', 'says'), [
    ({'action': 7}, 'its actions have shape (7,), joint_velocity has 8 numbers'),
    ({'state': 14}, 'its state has 14 numbers, expected 7, or 8 with the gripper'),
    ({'pictures': {'top': (3, 24, 32), 'side': (3, 24, 32)}}, 'cannot be told apart'),
    ({'pictures': {'top': (3, 24, 32), 'wrist': (3, 48, 64)}}, 'must have one size')])
def test_a_lerobot_checkpoint_of_another_robot_is_refused(monkeypatch, config, says):
    stand_ins.lerobot(monkeypatch, stand_ins.LerobotConfig(**config))
    with pytest.raises(ConfigError) as caught:
        load_policy('lerobot:/data/tiny', VELOCITY)
    assert says in str(caught.value)


def test_a_lerobot_checkpoint_speaks_degrees_in_a_layout(monkeypatch):
    inner = stand_ins.lerobot(monkeypatch, stand_ins.LerobotConfig(action=6, state=6))
    said = {'action_space': 'joint_position', 'layout': 'so101/degrees'}
    policy = load_policy('lerobot:/data/tiny', said)
    assert (policy.spec.joints, policy.spec.layout) == (5, 'so101/degrees')
    q = np.radians([90.0, -45.0, 0.0, 30.0, 180.0])
    shown = seen(policy)
    shown = dataclasses.replace(
        shown, arm=dataclasses.replace(shown.arm, q=q),
        gripper=dataclasses.replace(shown.gripper, position=0.25))
    actions = policy.infer(shown, 'a').actions
    np.testing.assert_allclose(inner.seen[0]['observation.state'][0],
                               [90.0, -45.0, 0.0, 30.0, 180.0, 75.0], atol=1e-4)
    assert actions.min() > 50.0, 'the mean of the state, not clipped'
    with pytest.raises(ConfigError, match="so101 has no layout 'degree'"):
        load_policy('lerobot:/data/tiny', said | {'layout': 'so101/degree'})
    with pytest.raises(ConfigError, match='is not absolute joints in rad, deg'):
        load_policy('lerobot:/data/tiny', said | {'layout': 'droid/joint_velocity'})


def test_an_author_says_which_picture_is_which_view(monkeypatch):
    config = stand_ins.LerobotConfig('act', pictures={'top': (3, 24, 32), 'side': (3, 24, 32)})
    inner = stand_ins.lerobot(monkeypatch, config)
    policy = load_policy('lerobot:/data/tiny', VELOCITY | {'cameras': {
        'observation.images.top': 'left_left', 'observation.images.side': 'right_left'}})
    assert (policy.spec.external_cameras, policy.spec.wrist_camera, policy.spec.samples) == (
        2, False, False)
    shown = seen(policy)
    policy.infer(shown, 'a')
    assert np.array_equal(inner.seen[0]['observation.images.side'][0],
                          shown.images['right_left'].pixels)
    with pytest.raises(ConfigError, match="'cameras' must name"):
        load_policy('lerobot:/data/tiny', VELOCITY | {'cameras': {'top': 'left_left'}})


def test_an_openpi_checkpoint_draws_by_the_episodes_seed(monkeypatch):
    inner, made = stand_ins.openpi(monkeypatch)
    policy = load_policy('openpi:pi05_droid@gs://bucket/pi05_droid')
    assert made == [('pi05_droid', 'gs://bucket/pi05_droid', None)]
    assert (policy.spec.action_space, policy.spec.samples) == (ActionSpace.JOINT_VELOCITY, True)
    shown = seen(policy)
    first, second = (policy.infer(shown, 'a').actions for _ in range(2))
    policy.reset('a')
    assert np.array_equal(policy.infer(shown, 'a').actions, first)
    assert not np.array_equal(first, second)
    assert (abs(first[:, :7]).max(), first[0, 7]) == (1.0, 1.0), 'clipped'
    assert {'observation/joint_position', 'observation/exterior_image_1_left', 'prompt',
            'observation/wrist_image_left'} <= set(inner.asked[0])


def test_one_of_openpi_that_decodes_tokens_gets_no_noise_and_does_not_sample(monkeypatch):
    stand_ins.openpi(monkeypatch, 'pi0_fast')
    policy = load_policy('openpi:my_fast@/data/9000', {'action_space': 'joint_position'})
    assert (policy.spec.action_space, policy.spec.samples) == (ActionSpace.JOINT_POSITION, False)
    assert policy.infer(seen(policy), 'a').actions[0, 0] == 1.5


def test_another_package_adds_a_loader(monkeypatch):
    monkeypatch.setitem(LOADERS._added, 'mine', lambda place, gain=1: pytest.fail(place))
    monkeypatch.setattr(type(LOADERS), 'names', lambda self: ['mine'])
    with pytest.raises(pytest.fail.Exception, match=r'^/data/x$'):
        load_policy('mine:/data/x')


@pytest.mark.skipif(not os.environ.get(REAL),
                    reason=f'{REAL} does not name a Python that has LeRobot')
@pytest.mark.timeout(1200)
@pytest.mark.parametrize('kind', ['act', 'diffusion'])
def test_a_checkpoint_that_lerobot_saved_passes_the_check(kind, tmp_path):
    python, place = os.environ[REAL], str(tmp_path / 'tiny')
    variables = {**os.environ, 'PYTHONPATH': str(HERE.parents[1]), 'HF_HUB_OFFLINE': '1'}
    subprocess.run([python, HERE / 'tiny_lerobot.py', kind, place], check=True, timeout=550,
                   env=variables)
    done = subprocess.run(
        [python, '-m', 'arena_robot.cli.main', 'policy', 'check', f'lerobot:{place}', '--json',
         '--calls', '5', '--latency-limit', '30', '--timeout', '60', '--kwargs',
         'action_space=joint_velocity'], check=False, timeout=550,
        capture_output=True, text=True, env=variables)
    report = json.loads(done.stdout[done.stdout.index('{'):])    # LeRobot prints a line before
    failed = [result for result in report['results'] if result['outcome'] == 'fail']
    assert not failed, failed
    assert done.returncode == 0
