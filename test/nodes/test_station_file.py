"""Station files, launch arguments, and the names in RViz's and Foxglove's files fit a station."""

import json
import re

import pytest
import yaml
from station_programs import ROOT, SIM

from arena_robot.cli.main import main
from arena_robot.core.config import read_yaml, shipped
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.lib.images import eyes_of
from arena_robot.nodes.lib.part_params import (
    ArmParams,
    CameraParams,
    GripperParams,
    RosControlArmParams,
    RosControlGripperParams,
    reset_joints_within,
)
from arena_robot.nodes.session.params import SessionParams, session_config
from arena_robot.nodes.station.files import (
    ViewNames,
    foxglove_file,
    names_in,
    nodes_in,
    refuse_unknown_arguments,
    rviz_file,
)
from arena_robot.robots.arms import PANDA, RESET_JOINTS


@pytest.mark.parametrize(('key', 'namespace', 'fits'), [
    ('/**/arm_node', '', True), ('/**/arm_node', 'left', True), ('/**/arm_node', 'a/b', True),
    ('/**', 'left', True), ('/left/arm_node', '/left/', True), ('/*/arm_node', 'left', True),
    ('arm_node', '', True), ('/arm_node', '', True),
    ('/right/arm_node', 'left', False), ('arm_node', 'left', False), ('/*/arm_node', '', False),
    ('/*/arm_node', 'a/b', False), ('/left/arm_node', '', False)])
def test_a_section_for_another_namespace_is_an_error(tmp_path, key, namespace, fits):
    path = tmp_path / 'lab.yaml'
    empty = '{ros__parameters: {}}'
    path.write_text(f'{key}: {empty}\n/**/gripper_node: {empty}')
    if fits:
        assert ('gripper_node', 'gripper_node') in nodes_in(path, namespace=namespace)
    else:
        with pytest.raises(ConfigError, match=r"is for no node in .*'/\*\*/arm_node'"):
            nodes_in(path, namespace=namespace)


@pytest.mark.parametrize('name', ['crisp', 'franka_ros2_zed', 'ur_robot_driver', 'xarm_ros2'])
def test_every_key_of_a_file_for_other_controllers_is_a_parameter(name):
    path = ROOT / 'config' / 'stations' / f'{name}.yaml'
    parts = {key.rsplit('/', 1)[-1]: part['ros__parameters']
             for key, part in read_yaml(path).items()}
    assert [node for node, _ in nodes_in(path)] == ['arm_node', 'gripper_node']
    for node, own, behind in (('arm_node', ArmParams, RosControlArmParams),
                              ('gripper_node', GripperParams, RosControlGripperParams)):
        values = parts[node]
        assert values.pop('backend') == 'ros_control'
        behind(**values.pop('ros_control'))
        own(**{key: value for key, value in values.items()
               if not key.startswith('limits.') and not str(value).endswith('.yaml')})
    session_config(SessionParams(**{
        key: tuple(value) if isinstance(value, list) else value
        for key, value in parts['session_node'].items()}))


def test_an_unknown_launch_argument_is_refused_where_the_file_is_launched():
    known, words = ('namespace', 'params_file'), ['ros2', 'launch', 'a/station.launch.py']
    refuse_unknown_arguments('station.launch.py', [*words, 'namespace:=left', '-s'], known)
    with pytest.raises(ConfigError, match=r"unknown launch argument 'namspace'.*'namespace'"):
        refuse_unknown_arguments('station.launch.py', [*words, 'namspace:=left'], known)
    refuse_unknown_arguments('session.launch.py', [*words, 'namspace:=left'], known)


def test_what_is_shipped_is_found_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shipped('config/policies.yaml').is_file()
    assert str(shipped('config/other.yaml')) == 'config/other.yaml'
    (tmp_path / 'config').mkdir()
    (tmp_path / 'config' / 'policies.yaml').write_text('policies: []')
    assert shipped('config/policies.yaml').resolve().parent.parent == tmp_path.resolve()


def test_the_reset_pose_has_seven_angles_within_the_limits():
    reset_joints_within(RESET_JOINTS, PANDA.limits)
    with pytest.raises(ConfigError, match='needs 7 numbers, found 2'):
        reset_joints_within((0.0, 0.1), PANDA.limits)
    with pytest.raises(ConfigError, match=r'joint 4 is 0\.3 rad'):
        reset_joints_within((0.0, 0.0, 0.0, 0.3, 0.0, 1.0, 0.0), PANDA.limits)


LAB = {'/**/arm_node': {'ros__parameters': {'robot_type': 'fr3', 'arm_prefix': 'left'}},
       '/**/wrist_camera': {'ros__parameters': {'topic_style': 'zed4'}}}


def test_every_name_follows_the_station():
    names = names_in(LAB, '/lab')
    assert names == ViewNames('/lab', 'fr3', 'left', 'zed4')
    view = yaml.safe_load(rviz_file(names))['Visualization Manager']
    assert view['Global Options']['Fixed Frame'] == 'left_fr3_link0'
    said = json.dumps(view) + foxglove_file(names)
    topics = set(re.findall(r'"(/[a-z][\w./\[\]]+)"', said))
    assert {topic for topic in topics if not re.match('(/requery)?/lab/', topic)} == {
        '/diagnostics'}
    assert {'/lab/robot_description', '/lab/wrist_camera/left/image_rect_color',
            '/lab/left_camera/left/image_rect_color/compressed',
            '/lab/left_camera/left/camera_info',
            '/requery/lab/session_node/step.requested[0]'} <= topics
    assert 'panda' not in said


def test_the_verb_prints_both(capsys):
    assert main(['station', '--rviz', '--config', str(SIM), '--namespace', 'left']) == 0
    assert '/left/robot_description' in capsys.readouterr().out
    assert main(['station', '--foxglove']) == 0
    assert json.loads(capsys.readouterr().out)['configById']['3D!robot']['followTf'] == \
        'panda_link0'


def test_the_latched_description_is_asked_for_as_it_is_offered():
    displays = yaml.safe_load(rviz_file(names_in(read_yaml(SIM), '')))[
        'Visualization Manager']['Displays']
    robot = next(display for display in displays if display['Name'] == 'Robot')
    assert robot['Description Topic']['Durability Policy'] == 'Transient Local'


def test_two_cameras_of_one_role_are_refused():
    with pytest.raises(ConfigError, match='two cameras have one role'):
        session_config(SessionParams(roles=('left', 'wrist', 'left')))


def test_a_camera_with_one_eye_has_no_right_one():
    assert eyes_of('mono') == ('left',)
    with pytest.raises(ConfigError, match=r"eyes: \['right'\]"):
        session_config(SessionParams(topic_style='mono', eyes=('right',)))
    assert not session_config(SessionParams(topic_style='mono')).station.stereo
    mixed = SessionParams(topic_styles=('zed5', 'generic', 'mono'))
    assert [eyes for *_, eyes in mixed.used()] == [('left', 'right'), ('left', 'right'), ('left',)]
    assert not session_config(mixed).station.stereo
    deep = SessionParams(topic_styles=('zed5', 'mono', 'realsense'), eyes=('left', 'depth'))
    assert session_config(deep).station.depths == ('wrist',)
    with pytest.raises(ConfigError, match=r"eyes: \['depth'\]; use one with colours"):
        session_config(SessionParams(topic_style='realsense', eyes=('depth',)))
    with pytest.raises(ConfigError, match='topic_styles has 1 entries for 3 cameras'):
        session_config(SessionParams(topic_styles=('mono',)))


@pytest.mark.parametrize(('given', 'text'), [
    ({'extrinsics': (0.1, 0.2)}, 'needs 6 finite numbers'),
    ({'extrinsics': (float('nan'),) * 6}, 'needs 6 finite numbers'),
    ({'extrinsics': (0.0,) * 6}, 'needs extrinsics_frame'),
])
def test_extrinsics_without_meaning_are_refused(given, text):
    with pytest.raises(ConfigError, match=text):
        _ = CameraParams(**given).mount
