"""msgpack with arrays: what passes, and what never does."""

import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_robot.core.errors import DataError
from arena_robot.policy.openpi import wire as openpi_codec

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
