"""LeRobot's async inference server as a policy, by answers that LeRobot 0.4.4 has given."""

import base64
import io
import json
import os
import pickle
import types
from concurrent import futures
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from policy_samples import Noted, fitting

from arena_robot.blind.router import ArmPool
from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import BadReply, ConfigError, PolicyError, PolicyRefused
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PolicySpec, resting_arm
from arena_robot.policy.connect import SERVERS, connect, load_policy
from arena_robot.policy.lerobot_client import CLASSES, actions_of, instance
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.options import CallOptions

RECORDED = json.loads((Path(__file__).parents[1] / 'data' / 'lerobot_answers.json').read_text())
ANSWERS = [base64.b64decode(answer) for answer in RECORDED['answers']]
PICKLES = [BytesValue.FromString(answer).value for answer in ANSWERS]
QUERY = '?checkpoint=/data/act&policy_type=act&action_space=joint_position&image_size=24x32'


class Stub(types.SimpleNamespace):
    """Stands for each class of LeRobot in what a client sends."""


class AnyClass(pickle.Unpickler):
    """Reads what a client sends, and nothing but numpy and LeRobot's two classes in it."""

    def find_class(self, module, name):
        if module == CLASSES.decode() and name in ('RemotePolicyConfig', 'TimedObservation'):
            return type(name, (Stub,), {})
        assert module.partition('.')[0] == 'numpy', module
        return super().find_class(module, name)


class Lerobot(grpc.GenericRpcHandler):
    """A server of LeRobot's four calls: keeps what it got, gives the recorded answers in turn."""

    def __init__(self):
        self.got, self.answers = [], [*ANSWERS]

    def __enter__(self):
        self._server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(self,))
        self.port = self._server.add_insecure_port('127.0.0.1:0')
        self.address = f'lerobot://127.0.0.1:{self.port}{QUERY}'
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0.0).wait(10.0)

    def service(self, call):
        _, service, method = call.method.split('/')
        assert service == 'transport.AsyncInference'
        if method == 'SendObservations':
            return grpc.stream_unary_rpc_method_handler(self._observe)
        return grpc.unary_unary_rpc_method_handler(getattr(self, method))

    def _note(self, data):
        self.got.append(AnyClass(io.BytesIO(data)).load())

    def Ready(self, request, _):    # noqa: N802
        assert request == b''
        self.got.append('ready')
        return b''

    def SendPolicyInstructions(self, request, context):    # noqa: N802
        self._note(BytesValue.FromString(request).value)
        if self.got[-1].policy_type == 'unknown':
            context.abort(grpc.StatusCode.UNKNOWN, 'Policy type unknown not supported')
        return b''

    def _observe(self, parts, _):
        parts = list(parts)
        states = [part[1] for part in parts]
        assert states == [1, *[2] * (len(parts) - 2), 3][-len(parts):]
        assert all(len(part) < 4 << 20 for part in parts), "LeRobot's limit of a message"
        self.parts = len(parts)
        self._note(b''.join(BytesValue.FromString(b'\n' + part[3:]).value for part in parts))
        return b''

    def GetActions(self, request, _):    # noqa: N802
        assert request == b''
        return self.answers.pop(0) if self.answers else b''


@pytest.fixture
def server():
    with Lerobot() as made:
        yield made


@pytest.mark.parametrize('number', [1, 2])
def test_an_answer_is_read_as_torch_reads_it(number):
    rows = actions_of(PICKLES[number - 1], number, 'it')
    assert rows.dtype == np.float32
    assert rows.tolist() == RECORDED['actions'][number - 1]


def test_a_query_and_its_answer(server):
    with connect(server.address) as policy:
        assert policy.spec == PolicySpec(ActionSpace.JOINT_POSITION, (24, 32))
        seen = fitting(policy.spec)
        chunks = [policy.infer(seen, 'e') for _ in ANSWERS]
    for chunk, actions in zip(chunks, RECORDED['actions'], strict=True):
        assert np.array_equal(chunk.actions[:, :7], np.float32(actions)[:, :7])
        assert np.array_equal(chunk.actions[:, 7], np.clip(np.float32(actions)[:, 7], 0, 1))
    ready, setup, *queries = server.got
    assert (ready, setup.policy_type, setup.pretrained_name_or_path, setup.device,
            setup.rename_map) == ('ready', 'act', '/data/act', 'cpu', {})
    assert [query.timestep for query in queries] == [1, 2]
    assert all(query.must_go for query in queries), 'or it may skip what looks like the one before'
    # As LeRobot's build_dataset_frame takes an observation apart.
    features, values = setup.lerobot_features, queries[0].observation
    state = features.pop('observation.state')
    assert (state['dtype'], state['shape']) == ('float32', (8,))
    assert [values[name] for name in state['names']] == np.float32(
        [*seen.arm.q, seen.gripper.position]).tolist()
    assert {name: features[name]['shape'] for name in features} == dict.fromkeys(
        ('observation.images.left', 'observation.images.wrist'), (24, 32, 3))
    for name, view in (('left', 'left_left'), ('wrist', 'wrist_left')):
        assert np.array_equal(values[name], seen.images[view].pixels)
    assert values['task'] == seen.prompt


def test_whole_frames_and_other_names_and_a_state_without_the_gripper(server):
    address = server.address.replace('&image_size=24x32', '&state_gripper=no&cameras='
                                     'top:right_left,side:left_right,front:left_left')
    with connect(address) as policy:
        assert (policy.spec.image_size, policy.spec.wrist_camera, policy.spec.external_cameras,
                policy.spec.stereo) == (None, False, 2, True)
        seen = fitting(PolicySpec(image_size=(720, 1280), external_cameras=2, stereo=True))
        policy.infer(seen, 'e')
    assert server.parts == 4
    _, setup, query = server.got
    assert len(setup.lerobot_features['observation.state']['names']) == 7
    assert np.array_equal(query.observation['side'], seen.images['left_right'].pixels)


def test_the_state_and_the_answer_are_in_the_layout_of_the_address(server):
    with connect(f'{server.address}&layout=so101/degrees&joints=5') as policy:
        assert policy.spec.layout == 'so101/degrees'
        seen = replace(fitting(policy.spec), arm=resting_arm(
            policy.spec, 1, np.random.default_rng(0)))
        with pytest.raises(BadReply, match=r'must be \(N, 6\)'):    # the recorded ones have 8
            policy.infer(seen, 'e')
    sent = server.got[-1].observation
    assert [sent[f'state_{k}'] for k in range(6)] == pytest.approx(
        [*np.degrees(seen.arm.q), 100.0 * (1.0 - seen.gripper.position)], abs=1e-4)


def test_an_answer_of_nothing_says_where_to_look_and_loads_the_checkpoint_again(server):
    server.answers.clear()
    with connect(server.address) as policy:
        with pytest.raises(BadReply, match=r'its policy failed .* log says why'):
            policy.infer(fitting(policy.spec), 'e')
        policy.reset('e')
    assert [getattr(item, 'policy_type', item) for item in server.got if not hasattr(
        item, 'timestep')] == ['ready', 'act', 'ready', 'act']


def test_a_reset_loads_nothing_while_the_policy_answers(server):
    with connect(server.address) as policy:
        policy.infer(fitting(policy.spec), 'e')
        policy.reset('e')
    assert server.got[-1] == 'ready'


def test_no_pings_are_sent_for_which_such_a_server_hangs_up(server, monkeypatch):
    given, make = [], grpc.insecure_channel
    monkeypatch.setattr(grpc, 'insecure_channel', lambda *args: given.append(args) or make(*args))
    connect(server.address).close()
    (_, settings), = given
    assert 'grpc.enable_retries' in dict(settings)
    assert [name for name, _ in settings if 'keepalive' in name] == []


def test_what_the_server_refuses_is_said(server):
    with pytest.raises(PolicyError, match='Policy type unknown not supported'):
        connect(server.address.replace('policy_type=act', 'policy_type=unknown'))


class Runs:
    def __init__(self, call, *args):
        self.reduced = call, args

    def __reduce__(self):
        return self.reduced


TENSOR = PICKLES[0]


@pytest.mark.parametrize(('data', 'says'), [
    (pickle.dumps(Runs(os.system, 'touch /tmp/never')), 'names posix.system'),
    (pickle.dumps(Runs(eval, '1')), 'names builtins.eval'),
    (TENSOR.replace(b'FloatStorage', b'LoadsStorage'), 'torch.LoadsStorage is not read'),
    (TENSOR.replace(b'_load_from_bytes', b'_load_from_Bytes'), 'torch.storage._load_from_Bytes'),
    (TENSOR.replace(b'\x8a\nl\xfc', b'\x8a\nl\xfd'), 'not in the format'),
    (TENSOR[:-200], 'cannot be used'), (TENSOR[:40], 'cannot be used'), (b'x', 'cannot be used'),
    (pickle.dumps([]), 'no list of 1 to 1024 actions'),
    (pickle.dumps([1.0]), 'no list of 1 to 1024 actions'),
    (pickle.dumps({}), 'no list of 1 to 1024 actions'),
    (b'\x80\x03]' + instance('TimedAction', {'timestep': 1, 'action': 'x' * 9})[2:-1] + b'a.',
     'no arrays of at most 64'),
    (bytes(5 << 20), 'has 5242880 bytes'), (PICKLES[1], 'answers query 2, asked was 1')])
def test_an_answer_that_could_run_code_or_is_no_chunk_is_refused(data, says):
    with pytest.raises(BadReply) as caught:
        actions_of(data, 1, 'lerobot://h:1')
    assert says in str(caught.value)
    assert 'lerobot://h:1' in str(caught.value)


def test_an_answer_changes_nothing_for_the_next():
    """A pickle may set attributes of what it names: here of the class of an action itself."""
    name = b'c' + CLASSES + b'\nTimedAction\n'
    with pytest.raises(BadReply):
        actions_of(b'\x80\x03' + name + b'N}X\x08\x00\x00\x00timestepK\x05s\x86b.', 1, 'it')
    with pytest.raises(BadReply, match='timestep'):
        actions_of(b'\x80\x03]' + name + b')\x81a.', 1, 'it')
    assert actions_of(PICKLES[0], 1, 'it').shape == (8, 8)


@pytest.mark.parametrize(('query', 'says'), [
    ('', 'does not say its checkpoint, policy_type, action_space; add checkpoint=…&policy_type'),
    (QUERY.replace('joint_position', 'sideways'), "unknown action space 'sideways'"),
    (QUERY.replace('24x32', '24'), 'image_size is HEIGHTxWIDTH'),
    (QUERY + '&cameras=top', 'cameras is PICTURE:VIEW'),
    (QUERY + '&cameras=a:left_left,b:left_left', 'each VIEW another one'),
    (QUERY + '&auth=bearer', "unknown option 'auth'"),
    ('/data/act' + QUERY, "an address of lerobot:// has no path, found '/data/act'")])
def test_what_an_address_lacks_is_said(query, says):
    with pytest.raises(ConfigError) as caught:
        parse_address(f'lerobot://gpu:8080{query}')
    assert says in str(caught.value)


def test_it_is_served_on_to_who_speaks_grpc(server):
    with SERVERS['grpc'](load_policy(server.address)) as served, connect(served.address) as policy:
        chunk = policy.infer(fitting(policy.spec), 'e')
    assert np.array_equal(chunk.actions[:, :7], np.float32(RECORDED['actions'][0])[:, :7])
    with pytest.raises(ConfigError, match='options stand in the address'):
        load_policy(server.address, {'device': 'cuda'})


def test_the_check_says_how_it_can_be_checked(server, capsys):
    assert main(['policy', 'check', server.address]) == 2
    assert f"arena policy serve '{server.address}'" in capsys.readouterr().err


def test_a_study_takes_it_beside_a_policy_of_another_protocol(server):
    spec = PolicySpec(ActionSpace.JOINT_POSITION, (24, 32), chunk_length=4)
    with SERVERS['grpc'](Noted(spec)) as other:
        pool = ArmPool({'ours': other.address, 'theirs': server.address}, CallOptions())
        pool.open()
        try:
            assert pool.spec == PolicySpec(ActionSpace.JOINT_POSITION, (24, 32))
            pool.prepare('theirs')
            query = openpi_wire.pack(openpi_wire.request_of(fitting(spec), 'e', spec))
            reply = pool.run(pool.policies['theirs'].frame(query, 10.0), 20.0)
        finally:
            pool.close()
    actions = openpi_wire.unpack(reply)
    actions = actions['actions'] if isinstance(actions, dict) else actions
    assert np.array_equal(actions[:, :7], np.float32(RECORDED['actions'][0])[:, :7])
    assert [item for item in server.got if getattr(item, 'policy_type', '')] == [server.got[1]]


def test_pictures_that_are_missing_are_named(server):
    with connect(server.address) as policy, pytest.raises(PolicyRefused, match='wrist_left'):
        policy.infer(fitting(PolicySpec(image_size=(24, 32), wrist_camera=False)), 'e')
