"""
Frames that unmodified clients and servers of openpi and RoboArena sent, replayed.

`bench/peers_recording.py` recorded them.
"""

import base64
import contextlib
import json
import threading
from pathlib import Path

import msgpack
import numpy as np
import pytest
from policy_samples import Noted, observation, pictures
from test_openpi import plain_hook
from websockets.sync.client import connect as websocket
from websockets.sync.server import serve

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import PolicyError
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect

FRAMES = json.loads((Path(__file__).parents[1] / 'data' / 'openpi_frames.json').read_text())
KINDS = sorted(FRAMES)


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
