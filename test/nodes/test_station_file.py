"""Station files are for the namespace that they are launched in; launch arguments are known."""

import pytest

from arena_robot.core.config import shipped
from arena_robot.core.errors import ConfigError
from arena_robot.nodes.lib.part_params import reset_joints_within
from arena_robot.nodes.station.files import nodes_in, refuse_unknown_arguments
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
