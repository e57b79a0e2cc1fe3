"""Limits, names and URDF of each robot, and the refusal of an arm that is another."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pytest

from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ArmState
from arena_robot.robots.arms import FR3, PANDA, RESET_JOINTS, ROBOTS, are_of_an_arm
from arena_robot.safety.bounds import outside
from arena_robot.safety.kinematics import flange_pose, frames
from arena_robot.safety.limits import limits_for, move_duration_s, robot_of
from arena_robot.safety.same_robot import require_description, require_pose
from arena_robot.safety.urdf import CAPSULES, urdf

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder, kinds in (('arena_robot', ('py', 'js', 'html')), ('config', ('yaml',)),
                                      ('launch', ('py',)))
           for kind in kinds for path in sorted((ROOT / folder).rglob(f'*.{kind}'))]
ROBOT_TABLE = {'arena_robot/robots/arms.py'}
DROID_ARMS = re.compile(
    r'\b(DOF|PANDA|FR3|RESET_JOINTS|FRANKA\w*|[Pp]anda|[Ff]ranka\w*|fr3)\b')
# Where they may stand, as a file or the begin of its name, and why.
PLACES = {
    'cli/': 'names of arms in help and examples; emulators and checks of a Franka',
    'core/observation.py': 'the modes have its numbers', 'demo/arena.py': "DROID's scene",
    'demo/plan.py': 'default arm',
    'drivers/conformance/': 'the arm that is checked unless another is said',
    'drivers/droid_nuc/': "DROID's own", 'drivers/emulators/': 'of a Franka and of a NUC',
    'drivers/franka/': 'its drivers', 'drivers/sim/': "DROID's scenes",
    'drivers/table.py': 'names of drivers', 'drivers/lerobot_parts.py': 'default arm',
    'nodes/adopt/proposal.py': 'what its nodes publish',
    'nodes/arm/node.py': 'its topics', 'nodes/arm/transforms.py': 'its meshes',
    'nodes/lib/part_params.py': 'default arm', 'nodes/simulation/node.py': "DROID's scenes",
    'nodes/station/files.py': 'default arm', 'nodes/vendor/': 'its messages and its answers',
    'policy/base.py': "the wire's default", 'policy/conformance/answers.py': 'its ranges',
    'policy/examples/vision_hands.py': 'an example for it',
    'policy/recorded_skill.py': 'motions of it',
    'recording/episode/tracks.py': 'an empty bag', 'recording/formats/': 'exports of DROID',
    'robots/': 'the rows', 'safety/action_spaces.py': 'default limits',
    'safety/bounds.py': 'default limits', 'safety/kinematics.py': 'default geometry',
    'safety/limits.py': 'where numbers were measured', 'safety/reflexes.py': 'its errors',
    'safety/urdf.py': 'its shapes', 'server/store/evaluations.py': 'imported tables',
    'session/arena/contract.py': 'the observation of the checks',
    'trials/trial.py': "DROID's scenes",
}
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
        *ROBOT_TABLE, 'arena_robot/nodes/lib/part_params.py'}),
    'the longest rollout': (r'(?i)steps?\b[^,\n]{0,24}\b400\b|\b400 steps',
                            {'arena_robot/core/episode.py', 'config/session.yaml'}),
}
Q = np.array(RESET_JOINTS)
# Kinova's Gen3 with seven joints, as kortex_description has it: xyz and rpy of each joint.
GEN3 = (('0 0 0.15643', '3.1416 0 0'), ('0 0.005375 -0.12838', '1.5708 0 0'),
        ('0 -0.21038 -0.006375', '-1.5708 0 0'), ('0 0.006375 -0.21038', '1.5708 0 0'),
        ('0 -0.20843 -0.006375', '-1.5708 0 0'), ('0 0.00017505 -0.10593', '1.5708 0 0'),
        ('0 -0.10593 -0.00017505', '-1.5708 0 0'))

# Lowest and highest x, y, z (mm) of Franka's collision meshes of links 1 to 7, FER and FR3.
MESH_BOUNDS = (((-55, -130, -192), (55, 55, 55)), ((-55, -194, -55), (56, 56, 129)),
               ((-56, -55, -123), (138, 112, 55)), ((-138, -55, -55), (55, 124, 111)),
               ((-55, -55, -265), (55, 132, 52)), ((-48, -51, -46), (132, 82, 56)),
               ((-44, -44, 50), (81, 81, 107)))


def test_the_words_of_droids_arms_stand_in_a_list_of_places():
    home = ROOT / 'arena_robot'
    found = {str(path.relative_to(home)) for path in home.rglob('*.py')
             if DROID_ARMS.search(path.read_text(encoding='utf-8'))}
    of_place = {place: {name for name in found if name.startswith(place)} for place in PLACES}
    assert found - set().union(*of_place.values()) == set()
    assert [place for place, names in of_place.items() if not names] == [], 'strike these'


@pytest.mark.parametrize('what', HOMES)
def test_each_number_stands_in_one_place(what):
    pattern, homes = HOMES[what]
    files = {path.relative_to(ROOT).as_posix() for path in SOURCES
             if re.search(pattern, path.read_text(encoding='utf-8'))}
    assert files == homes


def said(path, pattern):
    """Return the numbers that ``pattern`` finds in a file, all of them."""
    return [int(n) for n in re.findall(pattern, (ROOT / path).read_text(encoding='utf-8'))]


def test_settings_and_documents_say_the_same_number_of_steps():
    assert said('config/session.yaml', r'max_steps: (\d+)') == [MAX_STEPS]
    assert said('docs/evaluators.md', r'(?i)after (\d+)\s+steps') == [MAX_STEPS]
    action = said('arena_msgs/action/RunEpisode.action', r"the node's [a-z]+ \((\d+)\)")
    assert action == [MAX_STEPS]


@pytest.mark.parametrize('robot', ROBOTS.values(), ids=ROBOTS)
def test_a_row_is_whole_and_its_reset_pose_is_allowed(robot):
    limits = robot.limits
    for values in (robot.reset_joints, robot.joint_velocity, robot.joint_torque,
                   robot.frames()[2:]):
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


def test_joints_are_a_whole_frankas_or_those_of_an_arm_that_is_none():
    own = PANDA.joint_names()
    both = [*PANDA.joint_names('left'), *FR3.joint_names('right')]
    for names in (own, PANDA.joint_names('left'), both, ['lift'], ['a', 'b', 'c']):
        assert are_of_an_arm(tuple(names))
    for names in ([], own[:6], own[::-1], [*own, 'panda_joint8'], [*own, *own], ['lift', own[0]],
                  ['a', 'a'], ['a', ''], [f'axis_{i}' for i in range(17)]):
        assert not are_of_an_arm(tuple(names))


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


def loaded(text):
    """Return a description in MuJoCo; Franka's inertia of a Panda's link 4 is no body's."""
    return mujoco.MjModel.from_xml_string(text.replace(
        '</robot>', '<mujoco><compiler fusestatic="false" balanceinertia="true"/></mujoco>'
        '</robot>'))


@pytest.mark.parametrize('prefix', ['', 'left'])
@pytest.mark.parametrize('robot_type', list(ROBOTS))
def test_forward_kinematics_is_equal_to_the_nanometre(robot_type, prefix):
    model = loaded(urdf(robot_type, prefix))
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


@pytest.mark.parametrize(('robot', 'moving_kg'), [(PANDA, 13.786), (FR3, 15.495)])
def test_every_moving_link_has_its_mass_and_inertia_and_the_root_has_none(robot, moving_kg):
    text = urdf(robot.name)
    links = {link.get('name'): link for link in ET.fromstring(text).iter('link')}
    assert links[robot.base_frame()].find('inertial') is None
    model, masses = loaded(text), {}
    for name, link in links.items():
        if (inertial := link.find('inertial')) is not None:
            i = {key: float(v) for key, v in inertial.find('inertia').items()}
            matrix = np.array([[i['ixx'], i['ixy'], i['ixz']], [i['ixy'], i['iyy'], i['iyz']],
                               [i['ixz'], i['iyz'], i['izz']]])
            assert np.all(np.linalg.eigvalsh(matrix) > 0.0), name
            masses[name] = float(inertial.find('mass').get('value'))
            assert model.body(name).mass[0] == masses[name]
            assert link.find('collision') is not None
    assert sum(m for name, m in masses.items() if robot.name in name) == pytest.approx(
        moving_kg, abs=1e-3)
    assert sum(m for name, m in masses.items() if 'robotiq' in name) == pytest.approx(0.9)


@pytest.mark.parametrize('i', range(7))
def test_a_links_capsule_is_around_frankas_mesh_and_little_larger(i):
    radius, *ends = CAPSULES[i]
    low, high = np.array(MESH_BOUNDS[i]) / 1000
    below, above = np.min(ends, axis=0) - radius, np.max(ends, axis=0) + radius
    assert np.all((below <= low) & (below > low - 0.045))
    assert np.all((above >= high) & (above < high + 0.045))


@pytest.mark.parametrize('robot', ROBOTS.values(), ids=ROBOTS)
def test_an_arm_at_its_reset_pose_touches_itself_only_at_its_base(robot):
    model = loaded(urdf(robot.name))
    data = mujoco.MjData(model)

    def touching(q):
        data.qpos[[model.joint(name).qposadr[0] for name in robot.joint_names()]] = q
        mujoco.mj_forward(model, data)
        return {tuple(sorted(model.body(model.geom_bodyid[g]).name for g in contact.geom))
                for contact in data.contact}
    base = tuple(f'{robot.name}_link{i}' for i in (0, 1))
    assert touching(robot.reset_joints) == {base}
    folded = np.array([0.0, 1.7, 0.0, -3.0, 0.0, 0.6, 0.0])
    assert touching(folded) > {base}


def test_the_shapes_are_frankas_meshes_where_they_are_installed():
    root = ET.fromstring(urdf('panda', meshes=True))
    files = [mesh.get('filename') for mesh in root.iter('mesh')]
    folder = 'package://franka_description/meshes/robot_arms/fer'
    assert files == [f'{folder}/{kind}' for i in range(8)
                     for kind in (f'visual/link{i}.dae', f'collision/link{i}.stl')]
    assert not list(ET.fromstring(urdf('panda')).iter('mesh'))


def test_the_links_are_one_tree():
    root = ET.fromstring(urdf('fr3', 'left'))
    links = {element.get('name') for element in root.iter('link')}
    parents = {element.find('child').get('link'): element.find('parent').get('link')
               for element in root.iter('joint')}
    assert links - set(parents) == {'left_fr3_link0'}
    assert set(parents.values()) < links
    assert {element.get('name') for element in root.iter('joint')} >= {
        'left_robotiq_85_left_knuckle_joint', *ROBOTS['fr3'].joint_names('left')}
    with pytest.raises(ConfigError, match='unknown robot_type'):
        urdf('gen9')
