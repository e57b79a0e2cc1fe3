"""The URDF is a connected tree, and its forward kinematics is the package's own."""

import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.robots.arms import ROBOTS
from arena_robot.safety.kinematics import frames
from arena_robot.safety.urdf import urdf


@pytest.mark.parametrize('prefix', ['', 'left'])
@pytest.mark.parametrize('robot_type', list(ROBOTS))
def test_forward_kinematics_is_equal_to_the_nanometre(robot_type, prefix):
    text = urdf(robot_type, prefix).replace('<visual>', '<collision>').replace(
        '</visual>', '</collision>').replace(
        '<robot name', '<robot xmlns:m="m" name').replace(
        '</robot>', '<mujoco><compiler fusestatic="false" balanceinertia="true" '
        'boundmass="0.1" boundinertia="0.01"/></mujoco></robot>')
    model = mujoco.MjModel.from_xml_string(text)
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    robot = ROBOTS[robot_type]
    limits = robot.limits
    places = [model.joint(name).qposadr[0] for name in robot.joint_names(prefix)]
    for _ in range(50):
        q = rng.uniform(limits.hardware_lower, limits.hardware_upper)
        data.qpos[:] = 0.0
        data.qpos[places] = q
        mujoco.mj_kinematics(model, data)
        mine = frames(q)
        for i in range(1, 9):
            body = data.body(f'{robot.arm_name(prefix)}_link{i}')
            np.testing.assert_allclose(body.xpos, mine[i - 1][:3, 3], atol=1e-9)
            np.testing.assert_allclose(body.xmat.reshape(3, 3), mine[i - 1][:3, :3], atol=1e-9)


def test_the_links_are_one_tree():
    root = ET.fromstring(urdf('fr3', 'left'))
    links = {one.get('name') for one in root.iter('link')}
    parents = {one.find('child').get('link'): one.find('parent').get('link')
               for one in root.iter('joint')}
    assert links - set(parents) == {'left_fr3_link0'}
    assert set(parents.values()) < links
    assert {one.get('name') for one in root.iter('joint')} >= {
        'left_robotiq_85_left_knuckle_joint', *ROBOTS['fr3'].joint_names('left')}
    with pytest.raises(ConfigError, match='unknown robot_type'):
        urdf('ur5')
