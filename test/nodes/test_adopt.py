"""A station file is proposed from a running graph; what is missing is said with what to do."""

import dataclasses
import uuid

import pytest
import yaml
from fake_lab import MAKERS, ZED_DEFAULTS, Lab, description
from rclpy.parameter import Parameter

from arena_robot.cli.station import station
from arena_robot.core.errors import ConfigError, NotConnected
from arena_robot.nodes.adopt.graph import JOINTS, FoundGraph, FoundTopic, look
from arena_robot.nodes.adopt.proposal import TRAJECTORY, propose
from arena_robot.nodes.lib.images import COMPRESSED
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.camera import RemoteCamera
from arena_robot.nodes.station.files import nodes_in
from arena_robot.recording.episode.views import IMAGE, JPEG
from arena_robot.safety.limits import robot_of

# A busy machine finds nodes late, and their services later; each look begins anew.
PATIENCE_S = (1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 12.0)
ARM = tuple(f'left_fr3_joint{i}' for i in range(1, 8))
KNUCKLE = 'left_robotiq_85_left_knuckle_joint'


def graph(*topics, actions=None, services=None, **more):
    return FoundGraph({t.name: t for t in topics}, actions or {}, services or {}, **more)


def joints(name='/joint_states', names=(*ARM, KNUCKLE), rate_hz=500.0):
    return FoundTopic(name, JOINTS, ('/joint_state_broadcaster',), (), False, rate_hz, names)


CRISP = FoundTopic('/target_joint', JOINTS, (), ('/joint_impedance_controller',))
JTC = FoundTopic('/joint_trajectory_controller/joint_trajectory', TRAJECTORY, (),
                 ('/joint_trajectory_controller',))
FORWARD = FoundTopic('/forward_position_controller/commands', 'std_msgs/msg/Float64MultiArray', (),
                     ('/forward_position_controller',))


def eyes(camera, kinds=(JPEG, IMAGE), which=('left', 'right'), rate_hz=15.0):
    return [FoundTopic(f"/{camera}/zed_node/{eye}/color/rect/image"
                       f"{'/compressed' if kind == JPEG else ''}", kind,
                       (f'/{camera}/zed_node',), (), False, rate_hz)
            for eye in which for kind in kinds]


def jtc(**values):
    names = list(ARM)
    return graph(joints(), JTC, controllers={'/joint_trajectory_controller': {
        'command_interfaces': ['position'], 'interpolation_method': 'splines', 'joints': names,
        'update_rate': 0, 'interpolate_from_desired_state': False, **values}})


def whole(*more, **options):
    return graph(joints(), CRISP, *eyes('zed_wrist'), *eyes('zed_left'), *eyes('zed_right'), *more,
                 actions={'/robotiq_gripper_controller/gripper_cmd':
                          'control_msgs/action/GripperCommand'}, **options)


def test_everything_is_found_and_named():
    made = propose(whole())
    arm, session = made.sections['arm_node'], made.sections['session_node']
    assert (arm['robot_type'], arm['arm_prefix']) == ('fr3', 'left')
    assert arm['ros_control'] == {'joint_states': 'joint_states', 'controller': 'crisp',
                                  'command_topic': 'target_joint'}
    assert made.sections['gripper_node']['arm_prefix'] == 'left'
    assert made.sections['gripper_node']['ros_control']['command'] == 'GripperCommand'
    assert dict(zip(session['cameras'], session['roles'], strict=True)) == {
        'zed_left/zed_node': 'left', 'zed_right/zed_node': 'right', 'zed_wrist/zed_node': 'wrist'}
    assert (session['image_transport'], session['eyes']) == ('compressed', ['left', 'right'])
    assert not [sentence for sentence in made.missing if 'control_msgs' not in sentence]


def test_of_two_stations_each_gets_what_is_in_its_namespace():
    def parts(side):
        commands = CRISP if side == 'left' else JTC    # the other's would be taken before it
        found = graph(joints('/joint_states'), commands, *eyes('zed_wrist'), *eyes('zed_left'),
                      *eyes('zed_right')).topics.values()
        return [dataclasses.replace(topic, name=f'/{side}{topic.name}') for topic in found]

    def names(side):
        made = propose(graph(*parts('left'), *parts('right'), namespace=side, actions={
            f'/{one}/gripper_cmd': 'control_msgs/action/GripperCommand'
            for one in ('left', 'right')}))
        arm = made.sections['arm_node']['ros_control']
        return (arm['joint_states'], arm['command_topic'],
                made.sections['gripper_node']['ros_control']['name'],
                *made.sections['session_node']['cameras']), made.remarks
    cameras = tuple(f'zed_{role}/zed_node' for role in ('left', 'right', 'wrist'))
    assert names('left')[0] == ('joint_states', 'target_joint', 'gripper_cmd', *cameras)
    right, remarks = names('right')
    assert right == ('joint_states', 'joint_trajectory_controller/joint_trajectory',
                     'gripper_cmd', *cameras)
    assert not any('not in /right' in one for one in remarks)
    others, remarks = names('third')
    assert others[:2] == ('/left/joint_states', '/left/target_joint')
    assert any('/left/target_joint is not in /third: make sure' in one for one in remarks)


def test_cameras_of_several_kinds_are_found_with_a_style_each():
    def image(name):
        return FoundTopic(name, IMAGE, (name,))

    def found(*names):
        session = propose(graph(joints(), *eyes('zed_left'), *map(image, names))).sections[
            'session_node']
        return (dict(zip(session['cameras'], session.get('topic_styles', ()), strict=False)),
                session['eyes'])
    depth = ('/hand/camera/color/image_raw', '/hand/camera/depth/image_rect_raw',
             '/hand/camera/infra1/image_rect_raw')
    aligned = '/hand/camera/aligned_depth_to_color/image_raw'
    both = ['left', 'right']
    assert found(*depth, aligned) == (
        {'zed_left/zed_node': 'zed5', 'hand/camera': 'realsense'}, both)
    assert found(*depth) == ({'zed_left/zed_node': 'zed5', 'hand/camera/color': 'mono'}, both)
    assert found('/webcam/image_raw') == ({'zed_left/zed_node': 'zed5', 'webcam': 'mono'}, both)


@pytest.mark.parametrize(('graph', 'words'), [
    (graph(), 'no JointState topic has the joints fr3_joint1'),
    (graph(), 'on the NUC has no topics: config/stations/droid_nuc.yaml'),
    (graph(), 'no images under the names of a ZED wrapper'),
    (graph(joints()), 'no controller listens to target_joint'),
    (jtc(interpolation_method='none'), 'interpolation_method is none, so each point is a step'),
    (jtc(joints=ARM[:6]), 'its joints are left_fr3_joint1'),
    (graph(joints(), FORWARD), 'without interpolation: steps at 15 Hz'),
    (graph(joints(names=ARM)), 'no JointState topic has robotiq_85_left_knuckle_joint'),
    (graph(joints(names=(*ARM, 'left_fr3_finger_joint1'))), 'is a Franka Hand'),
    (graph(*eyes('zed_left', which=('left',))), 'video.publish_left_right: true'),
    (graph(*eyes('zed_left', rate_hz=0.0)), 'depth.depth_stabilization is 0 (zed-ros2-wrapper'),
    (graph(FoundTopic('/zed/zed_node/rgb/color/rect/image', IMAGE, ('/zed/zed_node',))),
     'and no left or right image'),
    (graph(joints(), FoundTopic('/target_joint', JOINTS, ('/crisp_py',), ('/controller',))),
     'is published by /crisp_py; end that before a session')])
def test_what_is_missing_is_said(graph, words):
    assert any(words in sentence for sentence in propose(graph).missing), propose(graph).missing


@pytest.mark.parametrize(('graph', 'words'), [
    (whole(JTC), 'must be the one of the active controller'),
    (graph(joints(), JTC), '/joint_trajectory_controller does not tell its parameters'),
    (graph(joints(rate_hz=30.0)), 'a reading is up to 33 ms old'),
    (graph(*eyes('zed_left', rate_hz=60.0)), 'comes at 60 Hz: a session runs at 15 Hz'),
    (graph(*eyes('zed_a')), 'is /zed_a/zed_node the left camera? Its name does not say'),
    (graph(*eyes('zed_left', kinds=(IMAGE,))), 'image_transport_plugins')])
def test_what_has_to_be_checked_is_said(graph, words):
    assert any(words in sentence for sentence in propose(graph).remarks), propose(graph).remarks


# On a busy machine Fast DDS can leave nodes unknown to each other until they are made anew.
@pytest.mark.flaky(reruns=2, reruns_delay=1.0)
def test_a_running_lab_is_read_and_its_file_is_a_station_file(tmp_path, capsys, monkeypatch):
    namespace, path = f'lab_{uuid.uuid4().hex[:6]}', tmp_path / 'my_lab.yaml'
    with Spin() as spin, Lab(spin, namespace, 'joint_trajectory_controller', images='both',
                             size=(64, 36), task='do_not_move'):
        for wait_s in PATIENCE_S:
            graph = look(namespace, wait_s, wait_s)
            made = propose(graph)
            if not made.missing and any('commands position; by' in one for one in made.found):
                break
        monkeypatch.setattr('arena_robot.nodes.adopt.graph.look', lambda _: graph)
        assert station.adopt(path, namespace) == 0
    said = capsys.readouterr().out
    assert f'next: arena station --config {path} --namespace {namespace}' in said
    assert 'franka_msgs is not installed here' in path.read_text()
    assert [name for _, name in nodes_in(path, namespace=namespace)] == ['arm_node',
                                                                         'gripper_node']
    values = {key.rsplit('/', 1)[-1]: part['ros__parameters']
              for key, part in yaml.safe_load(path.read_text()).items()}
    assert values['arm_node']['ros_control']['broadcaster'] == 'franka_robot_state_broadcaster'
    assert values['gripper_node']['ros_control'] == {
        'joint_states': 'joint_states', 'command': 'topic',
        'name': 'gripper_position_controller/commands',
        'reactivate': 'robotiq_activation_controller/reactivate_gripper'}
    assert 'joint_trajectory_controller commands position; by itself it would' in said, said
    assert graph.topics[f'/{namespace}/joint_states'].rate_hz > 20.0
    assert graph.topics[f'/{namespace}/franka_robot_state_broadcaster/external_joint_torques'
                        ].best_effort


JTC_OF_UR, ROWS, *LINKS = MAKERS['ur_robot_driver']
UR5E = [row.split()[0] for row in ROWS]
URDF = description(ROWS, *LINKS)


def ur5e(text=URDF, names=UR5E):
    topic = FoundTopic(f'/{JTC_OF_UR}/joint_trajectory', TRAJECTORY, (), (f'/{JTC_OF_UR}',))
    return graph(joints(names=(KNUCKLE, *sorted(UR5E))), topic, descriptions=(text,), controllers={
        f'/{JTC_OF_UR}': {'command_interfaces': ['position'], 'joints': names,
                          'interpolate_from_desired_state': False}})


def test_an_arm_that_no_row_is_of_gets_an_embodiment_from_its_urdf(tmp_path):
    made = propose(ur5e(), folder=tmp_path)
    for name, text in made.files.items():
        (tmp_path / name).write_text(text, encoding='utf-8')
    assert set(made.files) == {'arm.urdf', 'arm.yaml'}
    arm = made.sections['arm_node']
    assert arm['ros_control'] == {
        'joint_states': 'joint_states', 'controller': 'joint_trajectory_controller',
        'command_topic': f'{JTC_OF_UR}/joint_trajectory'}
    robot = robot_of(arm['robot_type'])
    assert (robot.joint_names(), robot.flange_frame()) == (UR5E, 'tool0')
    assert any('Assumed are the accelerations' in sentence for sentence in made.remarks)
    assert not [sentence for sentence in made.missing if 'JointState' in sentence]


@pytest.mark.parametrize(('graph', 'words'), [
    (ur5e(names=UR5E[1:]), 'its chain to tool0 has the joints shoulder_pan_joint'),
    (ur5e(text=URDF[:-9]), 'no embodiment can be made of the URDF'),
    (ur5e(text=''), 'no JointState topic has the joints')])
def test_why_no_embodiment_is_proposed_is_said(graph, words):
    made = propose(graph)
    assert made.files == {}
    assert any(words in sentence for sentence in made.missing), made.missing


def test_an_embodiment_of_a_running_lab_is_written_beside_its_station_file(tmp_path, monkeypatch):
    namespace, path = f'lab_{uuid.uuid4().hex[:6]}', tmp_path / 'my_lab.yaml'
    for name, text in propose(ur5e()).files.items():
        (tmp_path / f'the_{name}').write_text(text.replace('arm.urdf', 'the_arm.urdf'))
    with Spin() as spin, Lab(spin, namespace, 'joint_trajectory_controller', '', '',
                             robot=str(tmp_path / 'the_arm.yaml'), task='do_not_move',
                             description=URDF, jtc=JTC_OF_UR):
        for wait_s in PATIENCE_S:
            graph = look(namespace, wait_s, wait_s)
            if propose(graph).files:
                break
        monkeypatch.setattr('arena_robot.nodes.adopt.graph.look', lambda _: graph)
        assert station.adopt(path, namespace) == 1    # there are no cameras
    values = yaml.safe_load(path.read_text())['/**/arm_node']['ros__parameters']
    assert values['robot_type'] == str(tmp_path / 'arm.yaml')
    assert robot_of(values['robot_type']).joint_names() == UR5E


def test_a_wrapper_that_is_set_to_send_neither_eye_is_named():
    namespace = f'lab_{uuid.uuid4().hex[:6]}'
    with Spin() as spin, Lab(spin, namespace, '', '', images='jpeg', size=(64, 36),
                             task='do_not_move') as lab:
        client = Listening('client', namespace=namespace, context=spin.context)
        spin.add(client, threads=2)
        camera = RemoteCamera(client, 'zed_left/zed_node', 20.0, transport=COMPRESSED)
        with camera:
            assert camera.wait_frame(10.0).left.pixels.shape == (36, 64, 3)
        lab.zed_nodes['left'].set_parameters([
            Parameter(name, value=type(value)()) for name, value in ZED_DEFAULTS.items()])
        silent = RemoteCamera(client, 'zed_left/zed_node', 5.0, transport=COMPRESSED)
        with pytest.raises(NotConnected, match=r'zed_node sends nothing: a ZED wrapper publishes'):
            silent.open()
        with pytest.raises(NotConnected, match=r'set depth.depth_stabilization to 1'):
            silent.wait_frame(0.1)    # what the station check says of it


def test_where_a_trajectory_controller_begins_by_itself_is_said():
    assert any('by itself it would begin at the measured state' in s for s in propose(jtc()).found)
    assert any('would begin at the last command' in s for s in propose(
        jtc(interpolate_from_desired_state=True)).found)
    assert not [s for s in propose(jtc()).missing if 'trajectory_controller' in s]


def test_a_file_is_not_replaced_without_a_yes(tmp_path, monkeypatch):
    path = tmp_path / 'my_lab.yaml'
    path.write_text('mine')
    with pytest.raises(ConfigError, match='exists and is not replaced'):
        station.refuse_or_ask(path)
    monkeypatch.setattr('sys.stdin.isatty', lambda: True)
    monkeypatch.setattr('builtins.input', lambda _: '')
    with pytest.raises(ConfigError, match='not replaced'):
        station.refuse_or_ask(path)
    monkeypatch.setattr('builtins.input', lambda _: 'y')
    station.refuse_or_ask(path)
    assert path.read_text() == 'mine'


def test_a_droid_station_has_cameras_and_no_arm_in_its_graph():
    made = propose(graph(*eyes('zed_left'), *eyes('zed_right'), *eyes('zed_wrist')))
    assert set(made.sections) == {'session_node', 'recorder_node'}
    assert made.sections['session_node']['roles'] == ['left', 'right', 'wrist']
    assert [sentence.partition(' has')[0] for sentence in made.missing] == [
        'no JointState topic'] * 2
