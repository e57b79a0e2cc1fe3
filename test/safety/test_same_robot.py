"""An arm that is not the robot of ``robot_type`` is refused, by its URDF and by its own pose."""

import dataclasses

import numpy as np
import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ArmState
from arena_robot.robots.arms import FR3, PANDA, RESET_JOINTS
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.same_robot import require_description, require_pose
from arena_robot.safety.urdf import urdf

Q = np.array(RESET_JOINTS)
# Kinova's Gen3 with seven joints, as kortex_description has it: xyz and rpy of each joint.
GEN3 = (('0 0 0.15643', '3.1416 0 0'), ('0 0.005375 -0.12838', '1.5708 0 0'),
        ('0 -0.21038 -0.006375', '-1.5708 0 0'), ('0 0.006375 -0.21038', '1.5708 0 0'),
        ('0 -0.20843 -0.006375', '-1.5708 0 0'), ('0 0.00017505 -0.10593', '1.5708 0 0'),
        ('0 -0.10593 -0.00017505', '-1.5708 0 0'))


def state(q=Q, pose=None):
    zeros = np.zeros(7)
    return ArmState(0, q, zeros, zeros, zeros, flange_pose(q) if pose is None else pose, q)


def gen3(names):
    joints = [f'<joint name="{name}" type="continuous"><parent link="l{i}"/>'
              f'<child link="l{i + 1}"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="0 0 1"/>'
              '</joint>'
              for i, (name, (xyz, rpy)) in enumerate(zip(names, GEN3, strict=True))]
    links = [f'<link name="l{i}"/>' for i in range(8)]
    return f'<robot name="gen3">{"".join(links + joints)}</robot>'


@pytest.mark.parametrize(('robot', 'prefix'), [(PANDA, ''), (FR3, 'left')])
def test_the_robots_own_description_is_taken_wherever_it_stands(robot, prefix):
    text = urdf(robot.name, prefix)
    require_description(text, robot, prefix)
    stand = ('<joint name="stand" type="fixed"><parent link="world"/><child link="'
             f'{robot.base_frame(prefix)}"/><origin xyz="1 2 3" rpy="0 0 1"/></joint>')
    moved = text.replace('</robot>', f'{stand}</robot>')
    assert moved != text
    require_description(moved, robot, prefix)


def test_another_makers_arm_with_a_pandas_joint_names_is_refused():
    with pytest.raises(ConfigError, match=r'not of a Franka Panda .*joint7 is \d+ mm and \d+ deg'):
        require_description(gen3(PANDA.joint_names()), PANDA)


def test_joints_of_other_names_are_named():
    with pytest.raises(ConfigError, match=r'no joint panda_joint1.*moving joints are joint_1, jo'):
        require_description(gen3([f'joint_{i}' for i in range(1, 8)]), PANDA)
    with pytest.raises(ConfigError, match=r'no joint panda_joint1.*fr3_joint7'):
        require_description(urdf('fr3'), PANDA)


@pytest.mark.parametrize(('old', 'new'), [
    ('xyz="0.0825 ', 'xyz="0.1 '), ('<axis xyz="0 0 1"/>', '<axis xyz="0 0 -1"/>')])
def test_a_longer_link_or_a_joint_that_turns_the_other_way_is_refused(old, new):
    changed = urdf('panda').replace(old, new, 1)
    assert changed != urdf('panda')
    with pytest.raises(ConfigError, match='not of a Franka Panda'):
        require_description(changed, PANDA)


@pytest.mark.parametrize('text', ['', '<robot', '<robot><joint name="panda_joint1"><parent '
                                  'link="a"/><origin xyz="x y z"/></joint></robot>'])
def test_what_is_no_description_is_refused(text):
    with pytest.raises(ConfigError, match='no URDF'):
        require_description(text, PANDA)


def test_the_drivers_own_pose_must_be_the_robots():
    require_pose(state(), PANDA)
    with pytest.raises(ConfigError, match=r'100 mm and 0 degrees from where that of a Franka Res'):
        require_pose(state(pose=flange_pose(Q) + np.array([0, 0, 0.1, 0, 0, 0])), FR3)
    with pytest.raises(ConfigError, match=r'6 joints, robot_type panda .* has 7'):
        require_pose(dataclasses.replace(state(), q=np.zeros(6)), PANDA)
