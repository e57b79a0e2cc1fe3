"""The openpi protocol as others speak it: plain clients, reference servers."""

import http
import threading
import traceback
import urllib.request
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from broken_servers import METADATA, array, raw_openpi
from policy_samples import Noted, observation, pictures
from waiting import until
from websockets.sync.client import connect as websocket
from websockets.sync.server import serve

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import BadReply, PolicyError, PolicyRefused, PolicyUnavailable
from arena_robot.core.observation import ArmState
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.options import ServeOptions


def plain_array(value):
    if isinstance(value, np.ndarray):
        return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
                b'shape': value.shape}
    raise TypeError(type(value))


def plain_hook(value):
    if b'__ndarray__' in value:
        return np.ndarray(buffer=value[b'data'], dtype=np.dtype(value[b'dtype']),
                          shape=value[b'shape'])
    return value


class PlainClient:
    """A client that knows the protocol's description and nothing of this project."""

    def __init__(self, port):
        self.socket = websocket(f'ws://127.0.0.1:{port}', compression=None, max_size=None,
                                legacy=True)
        self.metadata = msgpack.unpackb(self.socket.recv(), object_hook=plain_hook)

    def call(self, request):
        self.socket.send(msgpack.packb(request, default=plain_array))
        reply = self.socket.recv()
        if isinstance(reply, str):
            raise RuntimeError(reply)
        return msgpack.unpackb(reply, object_hook=plain_hook)

    def reset(self, session):
        self.socket.send(msgpack.packb({'session_id': session, 'endpoint': 'reset'}))
        return self.socket.recv()


@pytest.fixture
def plain():
    inner = Noted(PolicySpec(image_size=(24, 32), session_id=True, external_cameras=2,
                             stereo=True, chunk_length=4))
    with SERVERS['openpi'](inner) as server:
        client = PlainClient(server.port)
        client.inner, client.port = inner, server.port
        yield client
        client.socket.close()


def plain_request(**changes):
    keys = [f'observation/{name}_{eye}' for name in (
        'exterior_image_1', 'exterior_image_2', 'wrist_image') for eye in ('left', 'right')]
    request = {key: np.full((24, 32, 3), index, np.uint8) for index, key in enumerate(keys)}
    request |= {
        'observation/joint_position': np.linspace(-1, 1, 7),
        'observation/cartesian_position': np.linspace(0, 1, 6),
        'observation/gripper_position': np.array([0.25]),
        'prompt': 'fold the towel', 'session_id': 'abc-A', 'endpoint': 'infer'} | changes
    return {key: value for key, value in request.items() if value is not None}


def test_a_plain_client_can_call_a_policy(plain):
    assert plain.metadata == {
        'image_resolution': [24, 32], 'needs_wrist_camera': True, 'n_external_cameras': 2,
        'needs_stereo_camera': True, 'needs_session_id': True, 'action_space': 'joint_position'}
    actions = plain.call(plain_request())['actions']
    assert actions.tolist() == [[100.0 + i] * 8 for i in range(4)]
    assert isinstance(plain.reset('abc-A'), str)
    received, episode = plain.inner.asked[0]
    assert episode == 'abc-A'
    assert plain.inner.resets == ['abc-A']
    order = ['left_left', 'left_right', 'right_left', 'right_right', 'wrist_left', 'wrist_right']
    assert [int(received.images[name].pixels[0, 0, 0]) for name in order] == list(range(6))
    assert np.allclose(received.arm.q, np.linspace(-1, 1, 7))
    assert np.allclose(received.arm.pose, np.linspace(0, 1, 6))
    assert (received.gripper.position, received.prompt) == (0.25, 'fold the towel')


def test_a_plain_client_gets_what_a_grpc_client_gets(plain):
    by_hand = plain.call(plain_request())['actions']
    with SERVERS['grpc'](Noted(plain.inner.spec)) as server, connect(server.address) as policy:
        sent = observation(pictures(plain.inner.spec, 24, 32))
        assert np.array_equal(policy.infer(sent, 'abc-A').actions, by_hand)


@pytest.mark.parametrize(('changes', 'says'), [
    ({'observation/wrist_image_left': None}, "'wrist_left' is missing"),
    ({'observation/joint_position': None}, "'observation/joint_position' is missing"),
    ({'observation/joint_position': np.zeros(6)}, 'must be 7 numbers'),
    ({'observation/joint_position': np.full(7, np.nan)}, 'must be 7 finite numbers'),
    ({'observation/joint_position': 'home'}, 'must be 7 numbers'),
    ({'observation/wrist_image_left': np.full((24, 32, 3), 2.0)}, 'floats from 0 to 1'),
    ({'observation/wrist_image_left': np.zeros((24, 32), np.uint8)}, 'uint8'),
    ({'observation/wrist_image_left': np.zeros((24, 32, 4), np.uint8)}, 'uint8'),
    ({'prompt': None}, "'prompt' must be a string"),
    ({'endpoint': 'shutdown'}, "'endpoint' must be"),
])
def test_a_bad_request_is_answered_with_a_sentence(plain, changes, says):
    with pytest.raises(RuntimeError) as caught:
        plain.call(plain_request(**changes))
    assert str(caught.value).startswith('[policy_refused] ')
    assert says in str(caught.value)
    assert len(plain.call(plain_request())['actions']) == 4


def test_a_request_without_an_observation_is_a_test_of_the_connection(plain):
    plain.call(plain_request(session_id=None))
    reply = plain.call({'endpoint': 'infer'})    # the client of RoboArena's README
    assert (reply['actions'].shape, reply['connection_test']) == ((4, 8), True)
    (_, mine), (shown, other) = plain.inner.asked
    assert mine != other
    assert plain.inner.resets == [other]
    assert not any(image.pixels.any() for image in shown.images.values())
    assert plain.reset('') == 'reset successful'


@pytest.mark.parametrize('frame', [
    b'', b'\xc1', b'\x93\x01\x02', 'text', msgpack.packb([1, 2]),
    msgpack.packb({'x': {b'__ndarray__': True}})])
def test_a_frame_that_is_no_request_is_refused(plain, frame):
    plain.socket.send(frame)
    assert plain.socket.recv().startswith('[policy_refused] ')
    assert len(plain.call(plain_request())['actions']) == 4


def test_the_pose_may_be_left_out(plain):
    plain.call(plain_request(**{'observation/cartesian_position': None}))
    assert np.all(np.isnan(plain.inner.asked[0][0].arm.pose))


def test_requests_without_a_session_belong_to_their_connection(plain):
    other = PlainClient(plain.port)
    for client in (plain, other, plain):
        client.call(plain_request(session_id=None, endpoint=None))
    episodes = [episode for _, episode in plain.inner.asked]
    assert episodes[0] == episodes[2] != episodes[1]
    assert plain.reset('') == 'reset successful'
    assert plain.inner.resets == [episodes[0]]
    other.socket.close()
    # The server hears of it when it next looks at that socket.
    until(lambda: len(plain.inner.resets) >= 2, 'the reset')
    assert plain.inner.resets == [episodes[0], episodes[1]]


def test_health_is_served_beside_the_policy(plain):
    with urllib.request.urlopen(f'http://127.0.0.1:{plain.port}/healthz', timeout=5) as reply:
        assert (reply.status, reply.read()) == (200, b'OK\n')


def test_an_api_key_in_the_manner_of_openpi_is_accepted():
    with SERVERS['openpi'](Noted(), ServeOptions(token='k3y')) as server:
        for scheme in ('Api-Key', 'Bearer'):
            with websocket(f'ws://127.0.0.1:{server.port}',
                           additional_headers={'Authorization': f'{scheme} k3y'}) as client:
                assert msgpack.unpackb(client.recv())['action_space'] == 'joint_position'


def served(answer):
    """Return a reply function that decodes the request for ``answer`` and keeps it."""
    requests = []

    def reply(frame):
        requests.append(msgpack.unpackb(frame, object_hook=plain_hook))
        given = answer(requests[-1])
        return given if isinstance(given, str | None) else msgpack.packb(given)

    return reply, requests


def test_the_client_sends_what_the_reference_client_sends():
    reply, requests = served(lambda request: {'actions': array(np.zeros((3, 8)))})
    with raw_openpi(reply, needs_session_id=True) as address, connect(address) as policy:
        policy.infer(observation(pictures(policy.spec)), 'token-A')
    request = requests[0]
    assert {key: (value.shape, value.dtype.str) for key, value in request.items()
            if isinstance(value, np.ndarray)} == {
        'observation/joint_position': ((7,), '<f8'),
        'observation/cartesian_position': ((6,), '<f8'),
        'observation/gripper_position': ((1,), '<f8'),
        'observation/exterior_image_1_left': ((224, 224, 3), '|u1'),
        'observation/wrist_image_left': ((224, 224, 3), '|u1')}
    assert (request['prompt'], request['session_id'], request['endpoint']) == (
        'put the cup away', 'token-A', 'infer')


def test_the_session_id_is_sent_only_when_wanted():
    reply, requests = served(lambda request: {'actions': array(np.zeros((3, 8)))})
    with raw_openpi(reply) as address, connect(address) as policy:
        policy.infer(observation(pictures(policy.spec)), 'token-A')
    assert 'session_id' not in requests[0]


@pytest.mark.parametrize(('reply', 'length'), [
    ({'actions': array(np.zeros((5, 8), np.float64))}, 5),
    ({'actions': array(np.zeros(8))}, 1),
    (array(np.zeros((5, 8), np.float32)), 5),
    ({'actions': [[0.0] * 8] * 2}, 2),
    ({'actions': array(np.zeros((5, 8))), 'server_timing': {'infer_ms': 12.5}}, 5),
])
def test_every_known_form_of_reply_is_read(reply, length):
    answer, _ = served(lambda request: reply)
    with raw_openpi(answer) as address, connect(address) as policy:
        chunk = policy.infer(observation(pictures(policy.spec)))
    assert chunk.actions.shape == (length, 8)
    assert chunk.inference_s in (0.0, 0.0125)


@pytest.mark.parametrize('reply', [
    {'action': 1}, {}, 7, {'actions': 'left'},
    {'actions': {b'__ndarray__': True, b'data': b'x' * 64, b'dtype': '|O', b'shape': (1, 8)}},
    {'actions': {b'__ndarray__': True, b'data': b'x' * 8, b'dtype': '<f4', b'shape': (1, 8)}},
])
def test_other_replies_are_bad_ones(reply):
    answer, _ = served(lambda request: reply)
    with raw_openpi(answer) as address, connect(address) as policy, pytest.raises(BadReply):
        policy.infer(observation(pictures(policy.spec)))


def test_a_traceback_is_shortened_to_its_last_line_and_the_connection_made_anew():
    calls = []

    def fail_once(frame):
        calls.append(frame)
        if len(calls) > 1:
            return msgpack.packb({'actions': array(np.zeros((3, 8)))})
        try:
            raise KeyError('observation/wrist')
        except KeyError:
            return traceback.format_exc()

    with raw_openpi(fail_once) as address, connect(address) as policy:
        with pytest.raises(PolicyError, match=r"KeyError: 'observation/wrist'$") as caught:
            policy.infer(observation(pictures(policy.spec)))
        assert 'Traceback' not in str(caught.value)
        assert len(policy.infer(observation(pictures(policy.spec)))) == 3


def test_servers_of_openpi_itself_need_their_action_space_said():
    declared = [key for key in METADATA if key != 'image_resolution']
    absent = dict.fromkeys(declared, 'absent')
    reply, requests = served(lambda request: {'actions': array(np.zeros((10, 8)))})
    with raw_openpi(reply, image_resolution='absent', **absent) as address:
        with pytest.raises(BadReply, match=r'\?action_space=joint_velocity'):
            connect(address)
        with connect(f'{address}?action_space=joint_velocity') as policy:
            assert policy.spec.action_space is ActionSpace.JOINT_VELOCITY
            assert policy.spec.image_size == (288, 512)
            policy.infer(observation(pictures(policy.spec, 288, 512)), 'e')
            policy.reset('e')
    assert [request['endpoint'] for request in requests] == ['infer']


def test_an_arm_of_six_joints_is_driven_by_what_the_server_or_the_address_says():
    still = np.zeros(6)
    spec = PolicySpec(image_size=(24, 32), joints=6, wrist_camera=False, external_cameras=0)
    seen = replace(observation(), arm=ArmState(0, still, still, still, still, still, still))
    with SERVERS['openpi'](Noted(spec)) as server, connect(server.address) as policy:
        assert policy.spec.joints == 6
        assert policy.infer(seen).actions.shape == (4, 7)
        with pytest.raises(PolicyError, match=r'joint_position.* must be 6 numbers'):
            policy.infer(observation())
    with SERVERS['openpi'](Noted(replace(spec, layout='so101/degrees'))) as server, \
            connect(server.address) as policy:
        assert policy.spec.layout == 'so101/degrees'
    with SERVERS['openpi'](Noted(replace(spec, joints=0))) as server:
        plain = PlainClient(server.port)
        plain.socket.close()
        assert not {'joints', 'layout'} & plain.metadata.keys()
        with connect(f'{server.address}?joints=6') as policy:
            assert policy.infer(seen).actions.shape == (4, 7)
        with connect(f'{server.address}?layout=so101/degrees') as policy:
            assert policy.spec.layout == 'so101/degrees'
        with connect(f'{server.address}?joints=0') as policy:
            assert policy.infer(observation()).actions.shape == (4, 8)


def test_a_server_that_names_another_one_is_not_followed(plain):
    def elsewhere(connection, request):
        reply = connection.respond(http.HTTPStatus.FOUND, '')
        reply.headers['Location'] = f'ws://localhost:{plain.port}'
        return reply

    with serve(lambda line: None, '127.0.0.1', 0, process_request=elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        with pytest.raises(PolicyUnavailable, match='HTTP 302'):
            connect(f'openpi://127.0.0.1:{port}')


def test_a_reset_is_sent_and_any_string_is_its_answer():
    reply, requests = served(lambda request: 'reset successful')
    with raw_openpi(reply) as address, connect(address) as policy:
        policy.reset('token-B')
    assert requests == [{'session_id': 'token-B', 'endpoint': 'reset'}]


def test_a_reset_that_failed_is_an_error():
    reply, _ = served(lambda request: '[policy_refused] not now')
    with raw_openpi(reply) as address, connect(address) as policy, \
            pytest.raises(PolicyRefused, match='not now'):
        policy.reset('token-B')


@pytest.mark.parametrize('first', ['hello', b'\xc1', msgpack.packb([1])])
def test_a_first_frame_that_is_no_metadata(first):
    with raw_openpi(lambda frame: None, first=first) as address, pytest.raises(PolicyError):
        connect(address)


@pytest.mark.parametrize(('first', 'says'), [
    (msgpack.packb({**METADATA, 'more': [0] * (30 << 20)}), 'were sent, at most 65536'),
    (msgpack.packb({**METADATA, 'more': [[]] * 300}), '300 exceeds'),
    (b'\x81\xa1a' + b'\x91' * 2000 + b'\x00', 'metadata')], ids=['bytes', 'items', 'depth'])
def test_metadata_of_many_small_objects_is_not_parsed(first, says):
    """31 MB of them took 2.3 GB and 27 s."""
    with raw_openpi(lambda frame: None, first=first) as address, \
            pytest.raises(BadReply, match=says):
        connect(address)


def test_metadata_has_no_key_that_a_reference_client_could_not_take():
    with SERVERS['openpi'](Noted()) as server, \
            websocket(f'ws://127.0.0.1:{server.port}') as client:
        assert set(msgpack.unpackb(client.recv())) == set(METADATA)


def test_an_image_without_a_key_is_refused():
    with SERVERS['openpi'](Noted()) as server, connect(server.address) as policy, \
            pytest.raises(PolicyRefused, match="image 'roof_left' has no key"):
        policy.infer(observation({'roof_left': np.zeros((4, 4, 3), np.uint8)}))
