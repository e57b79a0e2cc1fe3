"""The table of robots: one home for what depends on the arm."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_space_table import run

from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import ConfigError
from arena_robot.robots.arms import FR3, PANDA, RESET_JOINTS, ROBOTS
from arena_robot.safety.bounds import outside
from arena_robot.safety.describe import TABLES, updated
from arena_robot.safety.limits import limits_for, move_duration_s, robot_of

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder, kinds in (('arena_robot', ('py', 'js', 'html')), ('config', ('yaml',)),
                                      ('launch', ('py',)))
           for kind in kinds for path in sorted((ROOT / folder).rglob(f'*.{kind}'))]
ROBOT_TABLE = {'arena_robot/robots/arms.py'}
# What a number of the table looks like, and where it may stand.
HOMES = {
    'the reset pose': (r'4 \* (math|np|numpy)\.pi / 5|2\.513|0\.628|1\.88[45]', ROBOT_TABLE),
    'joint limits of a Panda': (r'2\.8973|1\.7628|3\.7525', ROBOT_TABLE),
    'joint limits of an FR3': (r'2\.7437|1\.7837|4\.5169', ROBOT_TABLE),
    'joint velocities': (r'\b(2\.175|2\.61|5\.26|4\.18)\b', ROBOT_TABLE),
    "DROID's joint velocities": (r'2\.075|2\.51\b', {'arena_robot/robots/arms.py'}),
    'geometry': (r'0\.333\b|0\.316\b|0\.384\b', ROBOT_TABLE),
    "DROID's stiffness": (r'\b40(\.0)?, 30(\.0)?, 50(\.0)?, 25', {'arena_robot/robots/arms.py'}),
    'joint names': (r'_joint\{|panda_joint|fr3_joint', ROBOT_TABLE),
    'frame names': (r'_link0\b', {
        *ROBOT_TABLE, 'arena_robot/nodes/arm/params.py'}),
    'the longest rollout': (r'(?i)steps?\b[^,\n]{0,24}\b400\b|\b400 steps',
                            {'arena_robot/core/episode.py', 'config/session.yaml'}),
}


@pytest.mark.parametrize('what', HOMES)
def test_each_number_stands_in_one_place(what):
    pattern, homes = HOMES[what]
    found = {path.relative_to(ROOT).as_posix() for path in SOURCES
             if re.search(pattern, path.read_text(encoding='utf-8'))}
    assert found == homes


def said(path, pattern):
    """Return the numbers that ``pattern`` finds in a file, all of them."""
    return [int(n) for n in re.findall(pattern, (ROOT / path).read_text(encoding='utf-8'))]


def test_settings_and_documents_say_the_same_number_of_steps():
    assert said('config/session.yaml', r'max_steps: (\d+)') == [MAX_STEPS]
    assert said('docs/evaluators.md', r'(?i)after (\d+)\s+steps') == [MAX_STEPS]
    action = said('arena_msgs/action/RunEpisode.action', r"the node's [a-z]+ \((\d+)\)")
    assert action == [MAX_STEPS]


@pytest.mark.parametrize('page', ['policies.md', 'safety.md'])
def test_the_tables_of_the_documents_are_those_of_the_code(page):
    text = (ROOT / 'docs' / page).read_text(encoding='utf-8')
    assert sum(f'<!-- {name} -->' in text for name in TABLES) == 1
    assert updated(text) == text, f'run: python -m arena_robot.safety.describe docs/{page}'


@pytest.mark.parametrize('robot', ROBOTS.values(), ids=ROBOTS)
def test_a_row_is_whole_and_its_reset_pose_is_allowed(robot):
    limits = robot.limits
    for values in (robot.reset_joints, robot.joint_velocity, robot.joint_torque, robot.dh):
        assert len(values) == 7
    assert np.all(np.array(robot.joint_velocity) > limits.dq_max)
    assert np.all(np.array(robot.joint_torque) > limits.tau_max)
    reset = np.array(robot.reset_joints)
    assert np.all((reset > limits.q_min + 0.1) & (reset < limits.q_max - 0.1))
    assert outside(reset, limits) == 0.0
    assert robot.joint_names('left')[6] == f'left_{robot.name}_joint7'
    assert robot.base_frame() == f'{robot.name}_link0'


def test_an_unknown_robot_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'pandas'\. Did you mean 'panda'"):
        limits_for('pandas')
    assert robot_of('fr3').title == 'Franka Research 3'


@pytest.mark.parametrize(('name', 'joint', 'value', 'most'), [
    ('velocity', 1, 2.2, 2.175), ('velocity', 7, 2.62, 2.61), ('torque', 6, 12.5, 12)])
def test_no_station_allows_more_than_the_robot_itself(name, joint, value, most):
    values = list(getattr(PANDA.limits, name))
    values[joint - 1] = value
    says = f'limits.{name} of joint {joint} is {value:g}, a .* allows {most:g} at most'
    with pytest.raises(ConfigError, match=says):
        limits_for('panda', {name: values})
    values[joint - 1] = most
    assert getattr(limits_for('panda', {name: values}), name)[joint - 1] == most


def test_the_reset_pose_is_droids():
    np.testing.assert_allclose(RESET_JOINTS, [0, -0.62832, 0, -2.51327, 0, 1.88496, 0], atol=1e-5)
    assert {robot.reset_joints for robot in ROBOTS.values()} == {RESET_JOINTS}


def test_a_motion_takes_droids_time():
    start = np.array(RESET_JOINTS)
    assert move_duration_s(start, start, PANDA) == 1.0
    for robot, joint, speed in ((PANDA, 0, 2.175), (PANDA, 6, 2.61), (FR3, 0, 2.62)):
        takes_s = move_duration_s(start, start + 0.5 * np.eye(7)[joint], robot)
        assert takes_s == pytest.approx(max(1.0, 0.5 * 8 / speed))
    assert move_duration_s(start, start + 3.0, PANDA) == 4.0


def test_a_robot_of_another_geometry_cannot_be_imported():
    status, text = run("""
patch('arena_robot.robots.arms', ("ROBOTS = {robot.name: robot for",
      "CRX = dataclasses.replace(PANDA, name='crx', flange_m=0.2)\\n"), ("FR3)}\\n", "CRX, "))
import arena_robot.safety.kinematics""")
    assert status != 0
    assert ('NotImplementedError: safety.kinematics computes one geometry, crx has another'
            in text.splitlines()[-1])
