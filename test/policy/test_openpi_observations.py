"""Observations that openpi's own transforms and RoboArena's test of a server accept."""

import numpy as np
import pytest

from arena_robot.core.errors import PolicyRefused
from arena_robot.policy.openpi.wire import observation_of

WRIST = 'observation/wrist_image_left'
PICTURE = np.tile(np.repeat([255, 0], 16)[None, :, None], (24, 1, 3)).astype(np.uint8)


def seen(size=(24, 32), **changes):
    """Return what a server makes of a request."""
    request = {'observation/joint_position': np.zeros(7), 'prompt': 'fold it',
               'observation/gripper_position': np.zeros(1), **changes}
    return observation_of(request, 0, size)


@pytest.mark.parametrize('sent', [
    PICTURE, PICTURE / 255.0, (PICTURE / 255.0).astype(np.float32), PICTURE.transpose(2, 0, 1)])
def test_floats_and_channels_first_are_the_same_picture(sent):
    assert np.array_equal(seen(**{WRIST: sent}).images['wrist_left'].pixels, PICTURE)


def test_another_size_is_padded_and_not_stretched():
    pixels = seen(**{WRIST: np.full((48, 32, 3), 255, np.uint8)}).images['wrist_left'].pixels
    assert pixels.shape == (24, 32, 3)
    assert (pixels[:, :8].max(), pixels[:, 8:24].min(), pixels[:, 24:].max()) == (0, 255, 0)
    assert seen(None, **{WRIST: PICTURE[:7]}).images['wrist_left'].pixels.shape == (7, 32, 3)


def test_a_prompt_may_be_bytes_and_a_seed_is_read():
    given = seen(prompt='földe it'.encode(), episode_seed=7)
    assert (given.prompt, given.episode_seed, seen().episode_seed) == ('földe it', 7, 0)
    for wrong in (-1, 1 << 32, 'seven'):
        with pytest.raises(PolicyRefused, match='episode_seed'):
            seen(episode_seed=wrong)


@pytest.mark.parametrize('first', [0, 1])
def test_cameras_are_counted_from_0_or_from_1(first):
    sent = {f'observation/exterior_image_{first + k}_left': PICTURE + k for k in (0, 1)}
    images = seen(**sent).images
    assert {name: int(image.pixels[0, 31, 0]) for name, image in images.items()} == {
        'left_left': 0, 'right_left': 1}
