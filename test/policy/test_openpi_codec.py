"""msgpack with arrays: what passes, and what never does."""

import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_robot.core.errors import DataError, PolicyRefused
from arena_robot.policy.openpi import wire as openpi_codec
from arena_robot.policy.openpi.wire import observation_of

ARRAYS = st.tuples(
    st.sampled_from(['?', '|u1', '<i2', '<i8', '<f2', '<f4', '<f8', '>f4']),
    st.lists(st.integers(0, 4), max_size=3)).map(
        lambda made: np.arange(np.prod(made[1], dtype=int)).reshape(made[1]).astype(made[0]))


@given(ARRAYS)
def test_arrays_survive_the_codec(value):
    decoded = openpi_codec.unpack(openpi_codec.pack({'x': value}))['x']
    assert decoded.dtype == value.dtype
    assert np.array_equal(decoded, value)


def test_scalars_survive_the_codec():
    decoded = openpi_codec.unpack(
        openpi_codec.pack([np.float32(0.5), np.int64(7), np.bool_(True)]))
    assert decoded == [0.5, 7, True]
    assert isinstance(decoded[0], np.float32)


@pytest.mark.parametrize('value', [
    np.array([object()]), np.array(['text']), np.array([1j]), np.datetime64('2026-01-01'),
    np.zeros(2, [('a', 'f4')]), object(), {1, 2}, 1 << 70])
def test_the_codec_sends_numbers_only(value):
    with pytest.raises(DataError):
        openpi_codec.pack({'x': value})


@pytest.mark.parametrize('change', [
    {b'dtype': '|O'}, {b'dtype': 'O'}, {b'dtype': '<U1'}, {b'dtype': '<c8'}, {b'dtype': 'f4,f4'},
    {b'dtype': None}, {b'dtype': 'nonsense'}, {b'shape': [3]}, {b'shape': [-1, -2]},
    {b'shape': [1 << 40, 1 << 40]}, {b'shape': 'x'}, {b'data': 'text'}, {b'data': None}])
def test_the_codec_reads_numbers_only(change):
    encoded = {b'__ndarray__': True, b'data': b'\0' * 8, b'dtype': '<f4', b'shape': [2]} | change
    with pytest.raises(DataError):
        openpi_codec.unpack(msgpack.packb({'x': encoded}))


def test_the_codec_never_unpickles(tmp_path):
    flag = tmp_path / 'was-run'
    bomb = b"cposix\nsystem\n(S'touch " + str(flag).encode() + b"'\ntR."
    encoded = {b'__ndarray__': True, b'data': bomb, b'dtype': '|O', b'shape': [1]}
    with pytest.raises(DataError, match='refused'):
        openpi_codec.unpack(msgpack.packb(encoded))
    assert not flag.exists()


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(data):
    try:
        decoded = openpi_codec.unpack(data)
    except DataError:
        return
    assert not isinstance(decoded, np.ndarray) or decoded.dtype.kind in 'biuf'


def test_deep_nesting_is_refused():
    with pytest.raises(DataError):
        openpi_codec.unpack(b'\x91' * 5000 + struct.pack('B', 1))


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
