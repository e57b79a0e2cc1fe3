"""The simulated arm and 2F-85: kinematics, impedance, limits, stopping; speed, grip, force."""

import re
from math import cos, sin

import mujoco
import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import ConfigError, DriverError, StaleData
from arena_robot.core.observation import ObjectStatus, RobotMode
from arena_robot.drivers.sim.arm_control import DROID
from arena_robot.drivers.sim.expert import ExpertMotions, run_expert
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import FRANKA_DH, FRANKA_FLANGE_M, RESET_JOINTS, ROBOTS
from arena_robot.robots.cameras import CameraKind
from arena_robot.safety.embodiments import cameras_of
from arena_robot.safety.limits import robot_of

MAKERS = """<mujoco><compiler meshdir="meshes"/><asset><mesh name="wedge"
vertex="0 0 0 .2 0 0 0 .1 0 0 0 .3" face="0 2 1 0 1 3 0 3 2 1 2 3"/><mesh file="gone.obj"/>
<texture name="t" type="2d" builtin="flat" width="8" height="8"/>
<material name="red" texture="t" rgba="1 0 0 1"/></asset><worldbody>
<geom type="plane" size="9 9 1"/>
<body name="stand" pos="5 5 5"><geom type="box" size=".1 .1 .05" pos="0 0 .05"/>
<body name="a" pos="0 0 .2" euler="0 0 30"><joint name="turn" axis="0 0 1" range="-90 90"/>
<geom type="mesh" mesh="wedge" material="red" contype="0" conaffinity="0"/>
<geom type="mesh" mesh="gone"/><geom type="capsule" fromto="0 0 0 0 0 .3" size=".03"/>
<body name="lamp" pos="0 .3 0"><joint name="flap" axis="1 0 0"/><geom size=".02" rgba="0 1 0 1"/>
</body><body name="b" pos="0 0 .3"><joint name="tilt" axis="0 1 0" range="-90 90"/>
<geom type="cylinder" fromto="0 0 0 .3 0 0" size=".02"/><body name="hand" pos=".3 0 0"
euler="0 90 0"><body name="own_finger"><joint name="own"/><geom size=".01"/></body></body></body>
</body></body></worldbody><actuator><motor joint="turn"/></actuator></mujoco>"""
URDF = """<robot name="r"><link name="stand"/><joint name="turn" type="revolute">
<parent link="stand"/><child link="a"/><origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="9" velocity="1"/></joint><link name="a"><visual><geometry>
<mesh filename="package://makers/meshes/ball.obj"/></geometry></visual><visual><geometry>
<mesh filename="package://makers/meshes/ball.dae"/></geometry></visual></link>
<joint name="end" type="fixed"><parent link="a"/><child link="hand"/>
<origin xyz="0 0 0.2"/></joint>
<link name="hand"/></robot>"""
SWING = np.array([0.6, -0.3, 0.4, 0.3, 0.5, 0.4, 0.6])
STILL = 0.01


@pytest.fixture(params=sorted(ROBOTS))
def station(request):
    with SimStation.make('do_not_move', 0, request.param, cameras=()) as station:
        yield station


@pytest.fixture
def panda():
    with SimStation.make('do_not_move', 0, cameras=()) as station:
        yield station


def dh_flange(q):
    pose = np.eye(4)
    for theta, (a, d, alpha) in zip([*q, 0.0], [*FRANKA_DH, (0.0, FRANKA_FLANGE_M, 0.0)],
                                    strict=True):
        c, s, ca, sa = cos(theta), sin(theta), cos(alpha), sin(alpha)
        pose = pose @ np.array([[c, -s, 0, a], [s * ca, c * ca, -sa, -sa * d],
                                [s * sa, c * sa, ca, ca * d], [0, 0, 0, 1]])
    return pose


def test_flange_pose_is_that_of_the_published_dh_parameters(station):
    rng = np.random.default_rng(4)
    limits = station.robot.limits
    low, high = np.array(limits.hardware_lower), np.array(limits.hardware_upper)
    for _ in range(20):
        q = rng.uniform(low, high)
        station.world.data.qpos[station.world.arm.impedance.qpos] = q
        pose, wanted = station.arm.state().pose, dh_flange(q)
        np.testing.assert_allclose(pose[:3], wanted[:3, 3], atol=1e-9)
        turn = Rotation.from_euler('xyz', pose[3:]).as_matrix()
        np.testing.assert_allclose(turn, wanted[:3, :3], atol=1e-8)


def test_reset_pose_points_the_gripper_down(panda):
    state = panda.arm.state()
    np.testing.assert_allclose(state.q, RESET_JOINTS, atol=2e-3)
    assert abs(abs(state.pose[3]) - np.pi) < 0.02


def test_torque_is_droids_hybrid_impedance(panda):
    world, model, data = panda.world, panda.world.model, panda.world.data
    imp = world.arm.impedance
    q_des = np.array(RESET_JOINTS) + 0.05 * np.array([1, -1, 1, 1, -1, 1, 1])
    data.qvel[imp.dofs] = [0.1, -0.2, 0.1, 0.2, -0.1, 0.3, -0.2]
    world.arm.track(q_des, world.elapsed_ns, 0.5)
    mujoco.mj_forward(model, data)
    imp.refresh(data, world.arm.q_des)
    mujoco.mj_forward(model, data)
    jac = np.zeros((6, model.nv))
    mujoco.mj_jacSite(model, data, jac[:3], jac[3:], imp.flange)
    j = jac[:, imp.dofs]
    kq, kqd, kx, kxd = (np.diag(g) for g in (DROID.kq, DROID.kqd, DROID.kx, DROID.kxd))
    error, dq = q_des - data.qpos[imp.qpos], data.qvel[imp.dofs]
    wanted = (kq + j.T @ kx @ j) @ error - (kqd + j.T @ kxd @ j) @ dq
    np.testing.assert_allclose(data.qfrc_actuator[imp.dofs], wanted, atol=1e-9)
    coriolis = data.qfrc_bias[imp.dofs] - data.qfrc_gravcomp[imp.dofs]
    np.testing.assert_allclose(data.qfrc_applied[imp.dofs], coriolis, atol=1e-9)


def test_gravity_is_compensated(panda):
    q = panda.arm.state().q
    for _ in range(30):
        panda.arm.command(ArmCommand(q, 0))
        panda.step(1 / 15)
    np.testing.assert_allclose(panda.arm.state().q, q, atol=1e-3)


def test_torque_never_exceeds_the_limits(station):
    seen = []
    imp = station.world.arm.impedance
    station.world.on_tick.append(
        lambda: seen.append(station.world.data.qfrc_actuator[imp.dofs].copy()))
    rng, limits = np.random.default_rng(1), station.robot.limits
    for _ in range(20):
        goal = rng.uniform(limits.hardware_lower, limits.hardware_upper)
        if not station.arm.state().recovery_required:
            station.arm.command(ArmCommand(goal, 0))
        station.step(0.2)
    assert np.all(np.abs(seen) <= np.array(station.robot.joint_torque) + 1e-9)
    assert np.max(np.abs(seen)) > 12.0


def swing(station, goal):
    for _ in range(3):
        station.arm.command(ArmCommand(goal, 0))
        station.step(1 / 15)
    assert np.max(np.abs(station.arm.state().dq)) > 0.5


def test_stop_comes_to_rest_within_150_ms(station):
    for direction in (1.0, -1.0):
        swing(station, np.array(RESET_JOINTS) + direction * SWING)
        station.arm.stop()
        station.step(0.15)
        q = station.arm.state().q
        assert np.max(np.abs(station.arm.state().dq)) < STILL
        station.step(1.0)
        np.testing.assert_allclose(station.arm.state().q, q, atol=2e-3)
        assert station.arm.state().mode is RobotMode.IDLE


def test_a_stream_that_ceases_stops_the_arm_in_time(station):
    swing(station, np.array(RESET_JOINTS) + 2 * SWING)
    timeout_s = station.arm.command_timeout_s
    last_s = station.world.now_s - 1 / 15
    while station.world.now_s < last_s + timeout_s + 0.1 - 1e-9:
        station.step(0.004)
    assert np.max(np.abs(station.arm.state().dq)) < STILL
    assert station.arm.state().mode is RobotMode.IDLE


def test_stops_in_real_time_too(panda):
    panda.world.start()
    panda.arm.move_to(np.array(RESET_JOINTS) + SWING, 1.0)
    panda.clock.sleep_until_ns(panda.clock.now_ns() + 500_000_000)
    panda.arm.stop()
    stopped_ns = panda.clock.now_ns()
    panda.clock.sleep_until_ns(stopped_ns + 150_000_000)
    assert np.max(np.abs(panda.arm.state().dq)) < STILL


def test_pushing_into_the_table_trips_a_reflex(panda):
    down = np.array(RESET_JOINTS) + np.array([0, 1.2, 0, 0.2, 0, 0, 0])
    panda.arm.move_to(down, 1.5)
    panda.step(3.0)
    state = panda.arm.state()
    assert state.mode is RobotMode.REFLEX
    assert 'collision' in state.errors[0]
    panda.arm.recover()
    panda.arm.move_to(np.array(RESET_JOINTS), 2.0)
    panda.step(2.5)
    np.testing.assert_allclose(panda.arm.state().q, RESET_JOINTS, atol=0.01)


def test_unknown_robot_names_the_known_ones():
    with pytest.raises(ConfigError, match="Did you mean 'panda'"):
        robot_of('pandas')


@pytest.fixture
def lifting():
    with SimStation.make('lift_cube', 2, cameras=()) as lifting:
        yield lifting


@pytest.mark.parametrize(('speed', 'metres_per_s'), [(0.0, 0.02), (0.5, 0.085), (1.0, 0.15)])
def test_closes_at_the_asked_speed(lifting, speed, metres_per_s):
    lifting.gripper.command(GripperCommand(1.0, 0, speed=speed))
    lifting.step(0.15)
    begin = lifting.gripper.state().width_m
    lifting.step(0.2)
    rate = (begin - lifting.gripper.state().width_m) / 0.2
    assert rate == pytest.approx(metres_per_s, rel=0.1)


def test_detects_a_cube_and_holds_it(lifting):
    hands = ExpertMotions(lifting)
    for _ in hands.pick(lifting.task.target, lift=0.1):
        lifting.step(1 / 15)
    state = lifting.gripper.state()
    assert state.object_status is ObjectStatus.GRIPPED_CLOSING
    assert state.width_m == pytest.approx(0.044, abs=0.003)
    assert state.requested_position == pytest.approx(1.0)
    assert lifting.truth.grasped(lifting.task.target)
    lifting.step(5.0)
    assert lifting.truth.position(lifting.task.target)[2] > 0.1
    assert lifting.gripper.state().object_status is ObjectStatus.GRIPPED_CLOSING


def test_more_force_takes_more_current(lifting):
    hands = ExpertMotions(lifting)
    for _ in hands.pick(lifting.task.target, lift=0.0):
        lifting.step(1 / 15)
    currents = []
    for force in (0.0, 0.4):
        lifting.gripper.command(GripperCommand(1.0, 0, force=force))
        lifting.step(0.5)
        currents.append(lifting.gripper.state().current_a)
    assert currents[1] > 1.3 * currents[0]


def test_fingers_stay_symmetric(lifting):
    lifting.gripper.command(GripperCommand(0.6, 0, speed=1.0))
    lifting.step(0.15)
    left, right = (lifting.truth.joint(f'finger_{side}') for side in ('left', 'right'))
    assert left == pytest.approx(right, abs=2e-4)


def test_a_dead_gripper_answers_nothing(lifting):
    lifting.world.faults.dead.add('gripper')
    lifting.step(0.5)
    with pytest.raises(StaleData, match='powered'):
        lifting.gripper.state()
    with pytest.raises(DriverError, match='answer'):
        lifting.gripper.command(GripperCommand(1.0, 0))
    with pytest.raises(DriverError, match='answer'):
        lifting.gripper.activate()
    lifting.arm.state()
    lifting.world.faults.dead.clear()
    assert np.isfinite(lifting.gripper.state().position)


def embodiment(folder, model, joints, grippers=None, **arm):
    """Write a model and the embodiment of its arm; return the latter's path."""
    name = f'arm.{"urdf" if model.startswith("<robot") else "xml"}'
    (folder / name).write_text(model, encoding='utf-8')
    count = len(joints)
    path = folder / 'arm.yaml'
    path.write_text(yaml.safe_dump({
        'name': 'arm', 'title': 'an arm', 'grippers': grippers or {}, 'cameras': {},
        'layouts': {},
        'arms': {'arm': {'model': name, 'joints': joints, 'base': 'stand', 'tool': 'hand',
                         'velocity': [2.0] * count, 'acceleration': [9.0] * count,
                         'torque': [50.0] * count, 'reset': [0.4] * count,
                         'workspace_lower': [-3.0] * 3, 'workspace_upper': [3.0] * 3, **arm}}}))
    return str(path)


def outline(model, data, body):
    """Return the corners of a body's drawn shapes, sorted."""
    out = []
    for geom in np.flatnonzero(model.geom_bodyid == model.body(body).id):
        turn = data.geom_xmat[geom].reshape(3, 3)
        middle = data.geom_xpos[geom] + turn @ model.geom_aabb[geom, :3]
        half = np.abs(turn) @ model.geom_aabb[geom, 3:]
        corners = np.array([middle - half, middle + half])
        if (mesh := model.geom_dataid[geom]) >= 0:
            first = model.mesh_vertadr[mesh]
            points = model.mesh_vert[first:first + model.mesh_vertnum[mesh]]
            corners = data.geom_xpos[geom] + points @ turn.T
        if model.geom_group[geom] < 3:
            out.append((*corners.min(axis=0), *corners.max(axis=0)))
    return np.array(sorted(out))


def test_a_models_shapes_and_masses_are_where_its_maker_has_them(tmp_path):
    path = embodiment(tmp_path, MAKERS, ['turn', 'tilt'], base_pose=[0, 0, 1, 0, 0, 0])
    text = MAKERS.replace('<mesh file="gone.obj"/>', '').replace(
        '<geom type="mesh" mesh="gone"/>', '').replace('pos="5 5 5"', 'pos="0 0 1"')
    own = mujoco.MjModel.from_xml_string(text)
    there = mujoco.MjData(own)
    there.joint('turn').qpos[0] = there.joint('tilt').qpos[0] = 0.4
    mujoco.mj_kinematics(own, there)
    with SimStation.make('do_not_move', 0, path, cameras=()) as station:
        model, data = station.world.model, station.world.data
        data.qpos[:2] = 0.4
        mujoco.mj_kinematics(model, data)
        for body in ('stand', 'a', 'lamp', 'b'):
            seen, wanted = outline(model, data, f'arm_{body}'), outline(own, there, body)
            # A shape that only collides is not drawn beside one that is only drawn.
            np.testing.assert_allclose(seen, wanted[:len(seen)] if body == 'a' else wanted,
                                       atol=1e-6)
            if body != 'stand':
                assert model.body(f'arm_{body}').mass[0] == pytest.approx(own.body(body).mass[0])
        names = {model.body(i).name for i in range(model.nbody)}
        assert 'hand' in names
        assert 'arm_own_finger' not in names
        assert {'turn', 'tilt'} == {model.joint(i).name.removeprefix('arm_') for i in range(2)}
        assert model.joint(2).name == 'finger_left'    # the lamp's is locked
        reds = model.geom_rgba[model.geom_bodyid == model.body('arm_a').id]
        assert (1, 0, 0, 1) in [tuple(colour) for colour in reds]


def test_meshes_of_a_urdf_are_found_by_their_package_and_large_ones_are_coarser(tmp_path):
    folder = tmp_path / 'makers' / 'urdf'
    folder.mkdir(parents=True)
    (tmp_path / 'makers' / 'meshes').mkdir()
    angles = np.linspace(0.0, 2 * np.pi, 80, endpoint=False)
    rings = np.array([[np.sin(b) * np.cos(a), np.sin(b) * np.sin(a), np.cos(b)]
                      for b in np.linspace(0.1, 3.0, 40) for a in angles]) * 0.03
    faces = [(i * 80 + j, i * 80 + (j + 1) % 80, i * 80 + j + 80) for i in range(39)
             for j in range(80)]
    (tmp_path / 'makers' / 'meshes' / 'ball.obj').write_text(
        ''.join('v {} {} {}\n'.format(*point) for point in rings)
        + ''.join('f {} {} {}\n'.format(*(i + 1 for i in face)) for face in faces))
    path = embodiment(folder, URDF, ['turn'])
    with SimStation.make('do_not_move', 0, path, cameras=()) as station:
        model, data = station.world.model, station.world.data
        assert model.nmesh == 1
        assert 200 < model.mesh_facenum[0] < len(faces) / 2
        mujoco.mj_kinematics(model, data)
        low, high = np.split(outline(model, data, 'arm_a')[0], 2)
        np.testing.assert_allclose((low + high) / 2, [0, 0, 0.3], atol=0.004)
        np.testing.assert_allclose(high - low, [0.06] * 3, atol=0.008)
        assert model.body('arm_a').mass[0] == 0.3    # the URDF says none


def test_an_arm_without_shapes_is_drawn_as_rods(tmp_path):
    bare = re.sub('<visual>.*</visual>', '', URDF, flags=re.DOTALL)
    with SimStation.make('do_not_move', 0, embodiment(tmp_path, bare, ['turn']),
                         cameras=()) as station:
        model = station.world.model
        for body, length in (('stand', 0.3), ('a', 0.2)):
            rod, = np.flatnonzero(model.geom_bodyid == model.body(f'arm_{body}').id)
            assert model.geom_type[rod] == mujoco.mjtGeom.mjGEOM_CAPSULE
            assert model.geom_size[rod, 1] == pytest.approx(length / 2)


GANTRY = """<mujoco><worldbody><body name="stand"><body name="a"><joint name="x" type="slide"
axis="1 0 0" range="-.5 .9"/><body name="b"><joint name="y" type="slide" axis="0 1 0"
range="-.5 .5"/><body name="c"><joint name="z" type="slide" axis="0 0 1" range="0 .9"/>
<body name="d"><joint name="turn" axis="0 0 1" range="-180 180"/>
<body name="hand" euler="180 0 0">{}</body></body></body></body></body></body>
</worldbody></mujoco>"""
BAR = '<geom type="box" size=".01 .01 .05" pos="0 {} .06"/>'
FINGER = """<body name="{0}"><joint name="{0}" type="slide" axis="0 1 0" range="-.1 .1"/>
<geom type="box" size=".01 .01 .05" pos="0 {1} .06"/></body>"""


@pytest.mark.parametrize(('hand', 'own'), [
    (BAR.format(-0.04) + FINGER.format('jaw', -0.02),
     {'joints': ['jaw'], 'closed_at': [0.0], 'open_at': [0.08]}),
    (FINGER.format('near', 0.01) + FINGER.format('far', -0.01),
     {'joints': ['near', 'far'], 'closed_at': [0.0, 0.0], 'open_at': [0.04, -0.04]})])
def test_fingers_of_the_model_itself_grip_a_cube(tmp_path, hand, own):
    path = embodiment(tmp_path, GANTRY.format(hand), ['x', 'y', 'z', 'turn'],
                      reset=[0.3, 0.0, 0.4, 0.0], grippers={'hand': {
                          'stroke_m': 0.08, 'effort': 20.0, **own,
                          'grasp': [0.0, 0.0, 0.09, 0.0, 0.0, 0.0]}})
    with SimStation.make('lift_cube', 0, path, cameras=()) as station:
        fingers, truth = station.world.gripper.fingers, station.truth
        for position in (0.0, 1.0, 0.0):
            station.gripper.command(GripperCommand(position, 0, speed=1.0))
            station.step(1.5)
            assert station.gripper.state().position == pytest.approx(position, abs=0.01)
            ends = own['closed_at'] if position else own['open_at']
            np.testing.assert_allclose([truth.joint(name) for name in fingers.joints], ends,
                                       atol=1e-3)
        run = run_expert(station)
        assert run.succeeded
        state = station.gripper.state()
        assert state.object_status is ObjectStatus.GRIPPED_CLOSING
        assert state.width_m == pytest.approx(0.04, abs=0.006)


def test_each_arm_of_a_file_has_its_own_place_and_fingers(tmp_path):
    hand = FINGER.format('near', 0.01) + FINGER.format('far', -0.01)
    embodiment(tmp_path, GANTRY.format(hand), ['x', 'y', 'z', 'turn'], reset=[0.3, 0.0, 0.4, 0.0])
    path = tmp_path / 'arm.yaml'
    data = yaml.safe_load(path.read_text())
    arm, stroke = data['arms'].pop('arm'), {'left': 0.08, 'right': 0.06}
    for part, y in (('left', 0.2), ('right', -0.2)):
        data['arms'][part] = {**arm, 'base_pose': [0.0, y, 0.0, 0.0, 0.0, 0.0]}
        data['grippers'][f'{part}_hand'] = {
            'arm': part, 'stroke_m': stroke[part], 'joints': ['near', 'far'], 'effort': 20.0,
            'closed_at': [0.0, 0.0], 'open_at': [0.04, -0.04],
            'grasp': [0.0, 0.0, 0.09, 0.0, 0.0, 0.0]}
    path.write_text(yaml.safe_dump(data))
    for part, y in (('left', 0.2), ('right', -0.2)):
        with SimStation.make('do_not_move', 0, f'{path}#{part}', cameras=()) as station:
            assert station.truth.tcp()[1] == pytest.approx(y, abs=0.01)
            assert station.gripper.state().width_m == pytest.approx(stroke[part], abs=1e-3)
    with pytest.raises(ConfigError, match=r'say which arm, as .*#ARM'):
        SimStation.make('do_not_move', 0, str(path))


def test_a_model_that_mujoco_cannot_build_says_why(tmp_path):
    path = embodiment(tmp_path, MAKERS.replace('face="0 2 1 0 1 3 0 3 2 1 2 3"', 'face="0 2 9"'),
                      ['turn', 'tilt'])
    with pytest.raises(ConfigError, match=r'MuJoCo cannot simulate .*arm.xml: '):
        SimStation.make('do_not_move', 0, path)


def test_an_arm_that_rests_below_the_table_is_refused(tmp_path):
    path = embodiment(tmp_path, MAKERS, ['turn', 'tilt'], base_pose=[0, 0, -1, 0, 0, 0])
    with pytest.raises(ConfigError, match=r'the fingers of arm are 0\.\d\d m below the table'):
        SimStation.make('do_not_move', 0, path)


def test_an_embodiments_arm_goes_no_faster_than_its_maker_says_and_settles(tmp_path):
    path = embodiment(tmp_path, MAKERS, ['turn', 'tilt'], velocity=[0.5, 1.0])
    with SimStation.make('do_not_move', 0, path, cameras=()) as station:
        goal, fastest = np.array([-0.4, 1.0]), np.zeros(2)
        for _ in range(60):
            station.arm.command(ArmCommand(goal, station.clock.now_ns()))
            station.step(1 / 30)
            fastest = np.maximum(fastest, np.abs(station.arm.state().dq))
        assert np.all(fastest < [0.55, 1.1])
        assert np.all(fastest > [0.45, 0.5])
        np.testing.assert_allclose(station.arm.state().q, goal, atol=2e-3)
        station.world.arm.trip(RobotMode.REFLEX, 'tilt_collision')
        station.step(0.5)
        station.arm.recover()
        station.step(0.5)
        np.testing.assert_allclose(station.arm.state().q, goal, atol=5e-3)


def test_the_cameras_of_a_file_are_known_without_its_model(tmp_path):
    path = embodiment(tmp_path, MAKERS, ['turn', 'tilt'])
    (tmp_path / 'arm.xml').unlink()
    data = yaml.safe_load((tmp_path / 'arm.yaml').read_text())
    data['cameras'] = {'top': {'kind': 'mono', 'role': 'left'}, 'own': {'kind': 'depth'}}
    (tmp_path / 'arm.yaml').write_text(yaml.safe_dump(data))
    assert cameras_of(path) == {'left': CameraKind.MONO}
