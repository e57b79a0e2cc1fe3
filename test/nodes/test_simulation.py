"""
The simulated station as a node: an arm that nobody here wrote for, and the pace of its time.

Simulated time gives way to a busy machine, and comes back.
"""

import asyncio
import importlib.util
import json
import threading
import types

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip('rclpy', reason='ROS 2 is not installed')

from rclpy.action import ActionClient
from sample_episodes import rerun_rows
from session_rig import Rig

from arena_msgs.msg import PolicyAction, StepRecord
from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.jpeg import from_png
from arena_robot.nodes.lib.calls import ThreadedActionClient
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.simulation import governor as sim_governor
from arena_robot.nodes.simulation.governor import LATE_S, LEAST, OLD_S, Governor
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

SIX = """<mujoco><compiler angle="radian"/><default>
<joint actuatorfrcrange="-150 150" range="-6 6"/><geom type="capsule" size=".05"/>
<default class="wrist"><joint actuatorfrcrange="-28 28"/></default></default>
<worldbody><body name="root"><geom fromto="0 0 0 0 0 .1"/>
<body name="l1" pos="0 0 .16"><joint name="pan" axis="0 0 1"/><geom fromto="0 0 0 0 .1 0"/>
<body name="l2" pos="0 .13 0"><joint name="raise" axis="0 1 0"/><geom fromto="0 0 0 0 0 .42"/>
<body name="l3" pos="0 -.12 .42"><joint name="elbow" axis="0 1 0"/><geom fromto="0 0 0 0 0 .35"/>
<body name="l4" pos="0 0 .39"><joint name="wrist1" axis="0 1 0" class="wrist"/>
<geom fromto="0 0 0 0 .1 0"/>
<body name="l5" pos="0 .12 0"><joint name="wrist2" axis="0 0 1" class="wrist"/>
<geom fromto="0 0 0 0 0 .06"/>
<body name="l6" pos="0 0 .1"><joint name="wrist3" axis="0 1 0" class="wrist"/>
<geom fromto="0 0 0 0 .05 0"/><site name="plate" pos="0 .1 0" euler="-1.5708 0 0"/>
</body></body></body></body></body></body></body></worldbody></mujoco>"""
JOINTS = ['pan', 'raise', 'elbow', 'wrist1', 'wrist2', 'wrist3']


@pytest.fixture
def six(tmp_path):
    """Return the file of an arm with six joints, which is not of this package."""
    (tmp_path / 'six.xml').write_text(SIX, encoding='utf-8')
    path = tmp_path / 'six.yaml'
    path.write_text(yaml.safe_dump({
        'name': 'six', 'title': 'six joints', 'layouts': {},
        'cameras': {'front': {'role': 'left'}, 'hand': {'kind': 'depth', 'role': 'wrist'}},
        'grippers': {'gripper': {'type': 'robotiq_2f85'}}, 'arms': {'arm': {
            'model': 'six.xml', 'joints': JOINTS, 'base': 'root', 'tool': 'plate',
            'velocity': [3.0] * 6, 'acceleration': [8.0] * 6,
            'reset': [-0.349, -0.322, 1.914, -0.022, -1.571, -1.92]}}}), encoding='utf-8')
    return path


class Seer:
    """A policy that moves slowly, and keeps what it sees of the depth that it asks for."""

    spec = PolicySpec(ActionSpace.JOINT_VELOCITY, (36, 64), external_cameras=0, depth=True,
                      joints=6)

    def __init__(self):
        self.seen = []

    def infer(self, observation, episode=''):
        self.seen.append(observation.depths['wrist_depth'].millimetres)
        return Chunk(np.tile([0.05] * 6 + [0.0], (8, 1)).astype(np.float32),
                     self.spec.action_space)

    def reset(self, episode=''):
        """Nothing is kept between steps."""


def test_a_blind_session_runs_on_an_arm_of_a_model_file(processes, tmp_path, six, capsys):
    seer = Seer()
    with GrpcPolicyServer(seer, ServeOptions(host='127.0.0.1', port=0)) as server, Rig(
            processes, tmp_path, {'walker': f'grpc://127.0.0.1:{server.port}',
                                  'sleeper': 'example:frozen'}, max_steps=30, sim={
                'image_width': 128, 'image_height': 72, 'robot_type': str(six),
                'task': 'lift_cube'}, session=("eyes:=['left', 'depth']",)
            ) as rig, rig.desk() as desk:
        end = Scripted(desk, Script('ada', 'pick up the cube', lambda: 0.5)).run()
        folder, = (path.parent for path in rig.data.glob('sessions/*/session.json'))
        live, slot = list(seer.seen), 'A' if end.policy_a == 'walker' else 'B'
        assert main(['episode', 'replay', str(folder / slot), '--policy',
                     f'grpc://127.0.0.1:{server.port}']) == 0
        np.testing.assert_array_equal(seer.seen[len(live):], live, 'recorded without loss')
    assert (end.state, end.verified) == (State.DONE, True)
    assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
    travelled = {}
    for slot, policy in (('A', end.policy_a), ('B', end.policy_b)):
        said = json.loads((folder / slot / 'episode.json').read_text(encoding='utf-8'))
        assert (said['robot_type'], said['steps']) == ('six', 30)
        assert set(said['views']) == {'left_left', 'wrist_left'}, 'one eye each'
        assert {path.name for path in (folder / slot).glob('*.mp4')} == {'left.mp4', 'wrist.mp4'}
        assert '/wrist_camera/aligned_depth_to_color/image_raw/compressedDepth' in {
            name.removeprefix(f'/{rig.namespace}') for name in said['topics']}
        main(['episode', 'check', str(folder / slot)])
        # A busy machine publishes the arm late; whether anything is missing is what counts here.
        checked = capsys.readouterr().out
        assert [line for line in checked.splitlines()
                if line.startswith('  FAIL') and '  FAIL  arm rate' not in line] == []
        assert '  ok    losses' in checked
        with np.load(folder / slot / 'steps.npz') as bag:
            assert bag['joint_names'].tolist() == JOINTS
            travelled[policy] = np.max(np.ptp(bag['arm/q'], axis=0))
    assert travelled['walker'] > 0.05 > travelled['sleeper']
    assert {image.shape for image in seer.seen} == {(36, 64)}
    assert 50 < np.median(seer.seen[0]) < 1000
    see_depth(folder, tmp_path)


def see_depth(folder, tmp_path):
    """Find the depth of the wrist's camera at each step of an export, and in the viewer's file."""
    assert main(['episode', 'export', str(folder), '--format', 'lerobot', '--output',
                 str(tmp_path / 'set')]) == 0
    info = json.loads((tmp_path / 'set/meta/info.json').read_text(encoding='utf-8'))
    key, = (name for name in info['features'] if name.endswith('depth'))
    assert key == 'observation.images.wrist_depth'
    assert info['features'][key]['info'] == {'is_depth_map': True, 'depth_unit': 'mm'}
    table = pq.read_table(tmp_path / 'set/data/chunk-000/file-000.parquet')
    depth = [from_png(cell['bytes']) for cell in table[key].to_pylist()]
    assert [image.shape for image in depth] == [(72, 128)] * 60
    assert 50 < np.median(depth[0]) < 1000, 'mm from the wrist to the table'
    if importlib.util.find_spec('rerun'):
        assert main(['view', str(folder), '--out', str(tmp_path / 'a.rrd'), '--no-open']) == 0
        rows = rerun_rows(tmp_path / 'a.rrd')
        for slot in 'AB':
            assert len(rows[f'/{slot}/cameras/wrist_left/depth', 'EncodedDepthImage:blob']) > 25


def test_a_model_file_alone_is_enough_for_the_expert(six, capsys):
    model, begun = str(six.with_suffix('.xml')), six.with_name('begun.yaml')
    assert main(['embodiment', 'propose', model, '--tool', 'plate']) == 0
    begun.write_text(capsys.readouterr().out, encoding='utf-8')
    assert main(['sim', 'expert', '--robot', str(begun), '--tasks', 'lift_cube', '--seeds',
                 '2']) == 0, capsys.readouterr().out


def test_the_expert_grasps_with_an_arm_of_a_model_file(six, capsys):
    assert main(['sim', 'expert', '--robot', str(six), '--tasks', 'lift_cube,open_drawer',
                 '--seeds', '2']) == 0, capsys.readouterr().out


@pytest.fixture
def world():
    return types.SimpleNamespace(real_time_factor=3.0, now_ns=lambda: 0)


@pytest.fixture
def hear(world, monkeypatch):
    """Return what a governor hears with, by message type."""
    heard = {}
    monkeypatch.setattr(sim_governor.qos, 'subscription',
                        lambda node, kind, topic, hear, *_: heard.setdefault(kind, hear))
    Governor(None, world, 3.0)
    return heard


def test_late_commands_slow_the_world_down_but_never_stop_it(hear, world):
    hear[PolicyAction](PolicyAction(header=header(-round(1.5e9 * LATE_S), '')))
    assert LEAST < world.real_time_factor < 3.0
    for _ in range(100):
        hear[PolicyAction](PolicyAction(header=header(-10**9, '')))
    assert world.real_time_factor == LEAST


def test_it_runs_as_fast_as_asked_again_once_steps_see_fresh_pictures(hear, world):
    for _ in range(10):
        hear[StepRecord](StepRecord(observation_age_s=1.0))
    slow = world.real_time_factor
    hear[StepRecord](StepRecord(observation_age_s=0.5 * OLD_S))
    assert slow < world.real_time_factor
    for _ in range(200):
        hear[StepRecord](StepRecord(observation_age_s=0.5 * OLD_S))
    assert world.real_time_factor == 3.0


def test_an_answer_that_is_faster_than_its_note_is_not_thrown_away(monkeypatch):
    taken = []

    async def execute(self, data):
        taken.append((data, dict(self._goal_sequence_number_to_goal_id)))

    monkeypatch.setattr(ActionClient, 'execute', execute)
    client = ThreadedActionClient.__new__(ThreadedActionClient)
    client._goal_sequence_number_to_goal_id = {}
    note = threading.Timer(0.05, client._goal_sequence_number_to_goal_id.update, [{7: 'goal'}])
    note.start()
    asyncio.run(client.execute({'goal': (7, 'accepted')}))
    asyncio.run(client.execute({'result': None}))
    note.join()
    assert taken[0] == ({'goal': (7, 'accepted')}, {7: 'goal'})
    assert len(taken) == 2
