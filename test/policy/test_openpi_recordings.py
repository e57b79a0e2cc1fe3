"""
openpi's frames: msgpack with arrays, and what unmodified clients and servers sent, replayed.

`bench/peers_recording.py` recorded the frames of openpi and RoboArena.
"""

import base64
import contextlib
import json
import struct
import threading
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_samples import Noted, observation, pictures
from test_openpi import plain_hook
from websockets.sync.client import connect as websocket
from websockets.sync.server import serve

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError, PolicyError, PolicyRefused
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.openpi import wire as openpi_codec
from arena_robot.policy.openpi.wire import observation_of

FRAMES = json.loads((Path(__file__).parents[1] / 'data' / 'openpi_frames.json').read_text())
KINDS = sorted(FRAMES)
ARRAYS = st.tuples(
    st.sampled_from(['?', '|u1', '<i2', '<i8', '<f2', '<f4', '<f8', '>f4']),
    st.lists(st.integers(0, 4), max_size=3)).map(
        lambda made: np.arange(np.prod(made[1], dtype=int)).reshape(made[1]).astype(made[0]))


def frame(kept):
    """Return a recorded frame as it was sent."""
    return kept['text'] if 'text' in kept else base64.b64decode(kept['bytes'])


def unpacked(kept):
    return msgpack.unpackb(frame(kept), object_hook=plain_hook)


@contextlib.contextmanager
def replayed(kind):
    """Serve the recorded metadata and replies in their order; yield the address."""
    def talk(connection):
        connection.send(frame(FRAMES[kind]['metadata']))
        for exchange, _ in zip(FRAMES[kind]['exchanges'], connection, strict=False):
            connection.send(frame(exchange['reply']))

    with serve(talk, '127.0.0.1', 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        query = '?action_space=joint_velocity' if kind == 'openpi' else ''
        try:
            yield f'openpi://127.0.0.1:{server.socket.getsockname()[1]}{query}'
        finally:
            server.shutdown()
            thread.join(5.0)


@pytest.mark.parametrize('kind', KINDS)
def test_a_client_understands_their_servers(kind):
    first, second, *_ = FRAMES[kind]['exchanges']
    with replayed(kind) as address, connect(address) as policy:
        spec = policy.spec
        assert spec.action_space is ActionSpace.JOINT_VELOCITY
        assert (spec.image_size, spec.session_id) == (
            ((24, 32), True) if kind == 'roboarena' else ((288, 512), False))
        seen = observation(pictures(spec, *spec.image_size))
        assert np.allclose(policy.infer(seen, 'a').actions, unpacked(first['reply'])['actions'])
        if kind == 'roboarena':
            assert frame(second['reply']) == 'reset successful'
            policy.reset('a')
        else:
            policy.reset('a')    # nothing is sent: its metadata says that it knows no reset
            with pytest.raises(PolicyError, match=r"TypeError: 'int' object is not iterable$"):
                policy.infer(seen, 'a')


@pytest.mark.parametrize('kind', KINDS)
def test_a_server_understands_their_clients(kind):
    inner = Noted(PolicySpec(image_size=(24, 32), session_id=True, chunk_length=4))
    replies = []
    with SERVERS['openpi'](inner) as server, websocket(
            f'ws://127.0.0.1:{server.port}', compression=None, legacy=True) as client:
        assert msgpack.unpackb(client.recv()).keys() == \
            unpacked(FRAMES['roboarena']['metadata']).keys()
        for exchange in FRAMES[kind]['exchanges']:
            client.send(frame(exchange['request']))
            replies.append(client.recv())
    seen, episode = inner.asked[0]
    sent = unpacked(FRAMES[kind]['exchanges'][0]['request'])
    assert np.array_equal(seen.images['left_left'].pixels,
                          sent['observation/exterior_image_1_left'])
    assert np.array_equal(seen.images['wrist_left'].pixels, sent['observation/wrist_image_left'])
    assert (seen.prompt, seen.gripper.position) == ('lift the cube', 0.25)
    assert np.array_equal(seen.arm.q, sent['observation/joint_position'])
    answers = [reply if isinstance(reply, str) else
               msgpack.unpackb(reply, object_hook=plain_hook)['actions'].shape
               for reply in replies]
    if kind == 'openpi':
        assert answers[0] == (4, 8)
        assert "'prompt' must be a string" in answers[1]
    else:
        assert (episode, answers) == ('abc', [(4, 8), 'reset successful', (4, 8)])
        assert inner.resets[0] == 'abc'


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
