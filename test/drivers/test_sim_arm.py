"""The simulated arm and 2F-85: kinematics, impedance, limits, stopping; speed, grip, force."""

from math import cos, sin

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import ConfigError, DriverError, StaleData
from arena_robot.core.observation import ObjectStatus, RobotMode
from arena_robot.drivers.sim.arm_control import DROID
from arena_robot.drivers.sim.expert import ExpertMotions
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import FRANKA_DH, FRANKA_FLANGE_M, RESET_JOINTS, ROBOTS
from arena_robot.safety.limits import robot_of

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
