"""GR00T's server as a policy, by a server that follows the format which GR00T publishes."""

import contextlib
import io
import socket
import threading

import msgpack
import numpy as np
import pytest
import zmq
from policy_samples import fitting
from scipy.spatial.transform import Rotation
from waiting import until

from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import (
    BadReply,
    ConfigError,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect, load_policy
from arena_robot.policy.options import CallOptions

# What the model that NVIDIA publishes for DROID says it wants.
DROID = {'video': (['exterior_image_1_left', 'wrist_image_left'], [-15, 0]),
         'state': (['eef_9d', 'gripper_position', 'joint_position'], [0]),
         'action': (['eef_9d', 'gripper_position', 'joint_position'], list(range(40))),
         'language': (['annotation.language.language_instruction'], [0])}


def npy(value):
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=False)
    return {'__ndarray_class__': True, 'as_npy': stream.getvalue()}


def plain(value):
    if '__ndarray_class__' in value:
        return np.load(io.BytesIO(value['as_npy']), allow_pickle=False)
    return value


class Gr00t:
    """A ZeroMQ server with GR00T's endpoints; its actions count up from the query's number."""

    def __init__(self):
        self.wants, self.token, self.config_key = dict(DROID), '', 'as_json'
        self.queries, self.resets, self.replies = [], 0, []
        self.answers = threading.Event()
        self.answers.set()

    def __enter__(self):
        self._socket = zmq.Context.instance().socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self.address = 'gr00t://127.0.0.1:{}'.format(
            self._socket.bind_to_random_port('tcp://127.0.0.1'))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.answers.set()
        self._thread.join(10.0)
        self._socket.close()

    def _run(self):
        while not self._over.is_set():
            if self._socket.poll(20):
                request = msgpack.unpackb(self._socket.recv(), object_hook=plain)
                reply = self._reply(request)
                assert self.answers.wait(20.0)
                with contextlib.suppress(zmq.ZMQError):
                    self._socket.send(reply)

    def _reply(self, request):
        if self.token and request.get('api_token') != self.token:
            return msgpack.packb({'error': 'Unauthorized: Invalid API token'})
        if self.replies:
            return self.replies.pop(0)
        return msgpack.packb(getattr(self, request['endpoint'])(**request.get('data', {})))

    def get_modality_config(self):
        return {name: {'__ModalityConfig_class__': True, self.config_key: {
            'modality_keys': keys, 'delta_indices': times, 'action_configs': None}}
            for name, (keys, times) in self.wants.items()}

    def get_action(self, observation, options):
        assert options is None
        self.queries.append(observation)
        count = np.arange(4, dtype=np.float32)[None, :, None] + 100 * len(self.queries)
        sizes = {'eef_9d': 9, 'gripper_position': 1, 'joint_position': 7}
        return [{name: npy(np.tile(count, (1, 1, size))) for name, size in sizes.items()}, {}]

    def reset(self, options):
        assert options is None
        self.resets += 1
        return {}


@pytest.fixture
def server():
    with Gr00t() as made:
        yield made


@pytest.mark.parametrize('key', ['as_json', 'as_dict'])
def test_a_query_of_droid_and_its_answer(server, key):
    server.config_key = key
    with connect(server.address) as policy:
        assert policy.spec == PolicySpec(ActionSpace.JOINT_POSITION, (180, 320))
        seen = fitting(policy.spec)
        chunk = policy.infer(seen, 'e')
    assert np.array_equal(chunk.actions[:, :7], np.tile(
        100.0 + np.arange(4)[:, None], (1, 7)))
    assert np.array_equal(chunk.actions[:, 7], np.ones(4))
    query, = server.queries
    for name, view in (('exterior_image_1_left', 'left_left'), ('wrist_image_left', 'wrist_left')):
        frames = query['video'][name]
        assert (frames.shape, frames.dtype) == ((1, 2, 180, 320, 3), np.uint8)
        assert all(np.array_equal(frame, seen.images[view].pixels) for frame in frames[0])
    state = query['state']
    assert {name: (value.shape, value.dtype.name) for name, value in state.items()} == {
        'eef_9d': ((1, 1, 9), 'float32'), 'gripper_position': ((1, 1, 1), 'float32'),
        'joint_position': ((1, 1, 7), 'float32')}
    assert np.array_equal(state['joint_position'][0, 0], np.float32(seen.arm.q))
    assert state['gripper_position'].item() == seen.gripper.position
    # GR00T's client for DROID turns a pose so.
    turned = Rotation.from_euler('xyz', seen.arm.pose[3:]).as_matrix() @ [
        [0, 0, -1], [-1, 0, 0], [0, 1, 0]]
    assert np.allclose(state['eef_9d'][0, 0], [*seen.arm.pose[:3], *turned[:2].ravel()])
    assert query['language'] == {'annotation.language.language_instruction': [[seen.prompt]]}


@pytest.mark.parametrize('counts', [True, False])
def test_of_an_earlier_time_it_gets_the_query_before(server, counts):
    with connect(server.address + '?open_loop_horizon=10') as policy:
        seen = [fitting(policy.spec, step=step) for step in (0, 10, 20)]
        for number, item in enumerate(seen):
            item.images['wrist_left'].pixels[:] = number
            if not counts:
                item = fitting(policy.spec, step=0)
                item.images['wrist_left'].pixels[:] = number
            policy.infer(item, 'e')
        policy.reset('e')
        policy.infer(seen[2], 'e')
    shown = [query['video']['wrist_image_left'][0, :, 0, 0, 0].tolist()
             for query in server.queries]
    assert shown == [[0, 0], [0, 1], [0, 2], [2, 2]]
    assert server.resets == 1


def test_a_policy_of_one_time_and_other_names(server):
    server.wants |= {'video': (['ego'], [0]), 'action': (['joint_position', 'gripper_position'],
                                                         [0])}
    with connect(server.address + '?cameras=ego:right_left&image_size=24x32') as policy:
        assert policy.spec == PolicySpec(ActionSpace.JOINT_POSITION, (24, 32), wrist_camera=False,
                                         external_cameras=2)
        policy.infer(fitting(policy.spec), 'e')
    assert server.queries[0]['video']['ego'].shape == (1, 1, 24, 32, 3)


@pytest.mark.parametrize(('part', 'value', 'query', 'says'), [
    ('state', (['waist'], [0]), '', 'wants the state waist; known are joint_position'),
    ('action', (['left_arm'], [0]), '', 'answers left_arm; of one action space'),
    ('action', DROID['action'], '?action_space=joint_velocity', 'see action_space'),
    ('video', (['video.ego_view'], [0]), '', 'as GR00T N1.6 and later say them'),
    ('video', (['ego'], [0]), '?cameras=top:left_left', 'add cameras=ego:VIEW')])
def test_a_policy_of_another_robot_is_refused(server, part, value, query, says):
    server.wants[part] = value
    with pytest.raises(BadReply) as caught:
        connect(server.address + query)
    assert says in str(caught.value)


def test_a_token_is_sent_and_asked_for(server):
    server.token = 'k'
    with pytest.raises(PolicyRefused, match='Invalid API token'):
        connect(server.address)
    connect(server.address, CallOptions(token='k')).close()


HUGE = npy(np.zeros(4, np.float32))
HUGE['as_npy'] = HUGE['as_npy'].replace(b'(4,), }  ', b'(4000000000,), }')[:140]


@pytest.mark.parametrize(('reply', 'kind', 'says'), [
    (msgpack.packb({'error': 'CUDA out of memory'}), PolicyError, 'CUDA out of memory'),
    (b'\xc1', BadReply, 'cannot be read'),
    (msgpack.packb([{'joint_position': {'__ndarray_class__': True}}]), BadReply,
     'cannot be read'),
    (msgpack.packb([{}, {}]), BadReply, 'has no joint_position and gripper_position'),
    (msgpack.packb([{'joint_position': HUGE, 'gripper_position': HUGE}, {}]), BadReply,
     'cannot be read'),
    (msgpack.packb([{'joint_position': npy(np.zeros(2)) | {'as_npy': npy(np.zeros(2))[
        'as_npy'].replace(b"'<f8'", b"'|O' ")}}]), BadReply, 'cannot be read'),
    (msgpack.packb([{'joint_position': {'__ndarray_class__': True, 'as_npy': b'x'}}]), BadReply,
     'cannot be read'),
    (msgpack.packb([{'joint_position': npy(np.full((1, 2, 7), np.nan)),
                     'gripper_position': npy(np.zeros((1, 2, 1)))}]), BadReply, 'must be finite'),
    (msgpack.packb([{'joint_position': npy(np.zeros((1, 2, 6))),
                     'gripper_position': npy(np.zeros((1, 2, 1)))}]), BadReply, 'must be (N, 8)')])
def test_an_answer_that_is_no_chunk_is_refused(server, reply, kind, says):
    with connect(server.address) as policy:
        server.replies.append(reply)
        with pytest.raises(kind) as caught:
            policy.infer(fitting(policy.spec), 'e')
        assert says in str(caught.value)
        assert len(policy.infer(fitting(policy.spec), 'e').actions) == 4


def test_a_late_answer_is_not_taken_for_the_next(server):
    with connect(server.address, CallOptions(infer_timeout_s=0.3)) as policy:
        server.answers.clear()
        with pytest.raises(PolicyTimeout, match=r'no answer in 0\.3 s'):
            policy.infer(fitting(policy.spec), 'e')
        server.answers.set()
        policy._options = CallOptions()    # the server is still busy with the first query
        assert policy.infer(fitting(policy.spec), 'e').actions[0, 0] == 200.0


def is_refused(address):
    try:
        socket.create_connection(('127.0.0.1', int(address.rpartition(':')[2])), 1.0).close()
    except OSError:
        return True
    return False


def test_nobody_listens(server):
    with connect(server.address) as policy:
        server.__exit__()
        until(lambda: is_refused(server.address), 'ZeroMQ closes the port later')
        policy._drop()
        with pytest.raises(PolicyUnavailable, match='does not answer'):
            policy.infer(fitting(policy.spec), 'e')
    with pytest.raises(PolicyUnavailable, match='not open'):
        policy.reset('e')
    with pytest.raises(ConfigError, match="unknown option 'checkpoint'"):
        parse_address('gr00t://h:1?checkpoint=x')
    server.__enter__()


def test_it_is_served_on_to_who_speaks_openpi(server):
    with SERVERS['openpi'](load_policy(server.address)) as served, \
            connect(served.address) as policy:
        assert policy.infer(fitting(policy.spec), 'e').actions[0, 0] == 100.0
