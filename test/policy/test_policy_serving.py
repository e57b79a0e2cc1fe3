"""Both protocols over real sockets: the same calls, the same answers, the same errors."""

import threading
import time

import numpy as np
import pytest
from policy_samples import Noted, all_three, both, fitting, observation

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, ConfigError, PolicyRefused
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.examples.simple import Echo, RandomWalk
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.resizing import Resizing


class Looking(Noted):
    """Answers with numbers that depend on everything it is shown."""

    def __init__(self, **spec):
        super().__init__(PolicySpec(image_size=(24, 32), session_id=True, **spec))

    def infer(self, observation, episode=''):
        size = self.spec.action_space.size(7)
        seen = [image.pixels.astype(np.float64).mean() / 255.0
                for _, image in sorted(observation.images.items())]
        state = np.concatenate([observation.arm.q, observation.arm.pose, seen,
                                [observation.gripper.position, len(observation.prompt) * 0.01]])
        actions = np.cos(np.outer(np.arange(1, 6), np.arange(1, size + 1) * state.sum()))
        return Chunk(actions.astype(np.float32), self.spec.action_space)


@all_three
def test_a_call_arrives_whole_and_its_answer_too(protocol, options):
    inner = Noted(PolicySpec(image_size=(24, 32), session_id=True, chunk_length=4))
    sent = fitting(inner.spec)
    with SERVERS[protocol](inner) as server, connect(server.address, options) as policy:
        chunk = policy.infer(sent, 'token-1')
        policy.reset('token-1')
    received, episode = inner.asked[0]
    assert chunk.actions.tolist() == [[100.0 + i] * 8 for i in range(4)]
    assert chunk.actions.dtype == np.float32
    assert chunk.inference_s > 0.0
    assert (episode, inner.resets) == ('token-1', ['token-1'])
    assert received.prompt == sent.prompt
    assert np.array_equal(received.arm.q, sent.arm.q)
    assert np.array_equal(received.arm.pose, sent.arm.pose)
    assert received.gripper.position == sent.gripper.position
    for name, image in sent.images.items():
        assert np.array_equal(received.images[name].pixels, image.pixels)


@pytest.mark.parametrize('space', list(ActionSpace))
@pytest.mark.parametrize('cameras', [
    {'external_cameras': 2, 'stereo': True}, {'external_cameras': 0, 'stereo': True},
    {'external_cameras': 1, 'wrist_camera': False},
    {'external_cameras': 0, 'wrist_camera': False}])
def test_both_protocols_give_identical_actions(space, cameras, frames):
    chunks = []
    for protocol in SERVERS:
        with SERVERS[protocol](Looking(action_space=space, **cameras)) as server, \
                connect(server.address) as policy:
            chunks.append(Resizing(policy).infer(observation(frames), 'e').actions)
    assert chunks[0].shape == (5, space.size(7))
    assert np.array_equal(chunks[0], chunks[1])


def test_both_protocols_give_identical_episodes():
    episodes = []
    for protocol in SERVERS:
        with SERVERS[protocol](RandomWalk()) as server, connect(server.address) as policy:
            sent = fitting(policy.spec)
            episodes.append(np.stack([policy.infer(sent, 'e').actions for _ in range(5)]))
    assert np.array_equal(*episodes)


@both
def test_a_native_spec_sends_whole_frames(protocol, frames):
    inner = Noted(PolicySpec(image_size=None))
    with SERVERS[protocol](inner) as server, connect(server.address) as policy:
        Resizing(policy).infer(observation(frames))
    wanted = (720, 1280, 3) if protocol == 'grpc' else (288, 512, 3)
    assert inner.asked[0][0].images['left_left'].pixels.shape == wanted


def test_a_jpeg_spec_is_obeyed(frames):
    inner = Noted(PolicySpec(jpeg_quality=90))
    with SERVERS['grpc'](inner) as server, connect(server.address) as policy:
        shrunk = Resizing(policy).infer(observation(frames))
    assert len(shrunk) == 4
    assert inner.asked[0][0].images['left_left'].pixels.shape == (224, 224, 3)


@both
def test_tls_works_with_the_right_authority(protocol, tls):
    cert, key, authority = tls
    options = CallOptions(tls_ca=authority)
    with SERVERS[protocol](Echo(), ServeOptions(tls_cert=cert, tls_key=key)) as server:
        assert server.address.startswith(f'{protocol}s://')
        with connect(server.address, options) as policy:
            assert len(policy.infer(fitting(policy.spec))) == 8


def test_plain_openpi_addresses_find_tls_too(tls):
    cert, key, authority = tls
    with SERVERS['openpi'](Echo(), ServeOptions(tls_cert=cert, tls_key=key)) as server, \
            connect(f'openpi://127.0.0.1:{server.port}', CallOptions(tls_ca=authority)) as policy:
        assert len(policy.infer(fitting(policy.spec))) == 8


@both
def test_a_token_is_demanded(protocol):
    with SERVERS[protocol](Echo(), ServeOptions(token='s3cret')) as server:
        for options in (CallOptions(), CallOptions(token='wrong')):
            with pytest.raises(PolicyRefused):
                connect(server.address, options)
        with connect(server.address, CallOptions(token='s3cret')) as policy:
            assert len(policy.infer(fitting(policy.spec))) == 8


def test_tokens_are_never_printed():
    for options in (CallOptions(token='s3cret'), ServeOptions(token='s3cret')):
        assert 's3cret' not in repr(options)


@both
def test_calls_go_to_the_policy_one_at_a_time_unless_allowed(protocol):
    class Counting(Noted):
        inside = most = 0

        def infer(self, observation, episode=''):
            Counting.inside += 1
            Counting.most = max(Counting.most, Counting.inside)
            time.sleep(0.05)
            Counting.inside -= 1
            return super().infer(observation, episode)

    for parallel, most in ((False, 1), (True, 4)):
        inner = Counting()
        Counting.most = 0
        with SERVERS[protocol](inner, ServeOptions(parallel=parallel)) as server:
            def call(address=server.address, spec=inner.spec):
                with connect(address) as policy:
                    for _ in range(3):
                        policy.infer(fitting(spec))

            threads = [threading.Thread(target=call) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
        assert len(inner.asked) == 12
        assert Counting.most == 1 if most == 1 else Counting.most > 1


@both
def test_a_taken_port_is_said_so(protocol):
    with SERVERS[protocol](Echo()) as server, pytest.raises(ConfigError, match='cannot serve at'):
        SERVERS[protocol](Echo(), ServeOptions(port=server.port)).open()


@both
def test_half_of_tls_is_refused(protocol, tls):
    with pytest.raises(ConfigError, match='both a certificate and a key'):
        SERVERS[protocol](Echo(), ServeOptions(tls_cert=tls[0])).open()


@both
def test_a_policy_with_a_senseless_spec_is_not_served(protocol):
    with pytest.raises(BadReply, match='external_cameras must be 0, 1 or 2, found 7'):
        SERVERS[protocol](Noted(PolicySpec(external_cameras=7))).open()


@pytest.mark.parametrize(('address', 'says'), [
    ('127.0.0.1:8000', 'is not an address'),
    ('http://127.0.0.1:8000', "unknown protocol 'http'"),
    ('grpc://127.0.0.1', 'needs a host and a port'),
    ('grpc://127.0.0.1:0', 'needs a host and a port'),
    ('openpi://:8000', 'needs a host and a port'),
    ('openpi://h:1?action_space=joint_velocty', "Did you mean 'joint_velocity'"),
    ('openpi://h:1?token=x', "unknown option 'token'"),
])
def test_a_bad_address_is_explained(address, says):
    with pytest.raises(ConfigError) as caught:
        connect(address)
    assert says in str(caught.value)
