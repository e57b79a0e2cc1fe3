"""The safety layer holds for any arm: 1 to 16 joints that turn or slide, drawn by a seed."""

import dataclasses
import json
import re

import mujoco
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_episodes import random_arm
from scipy.linalg import expm
from test_filter import NOW_NS, arm_state

from arena_robot.cli.main import main
from arena_robot.core.action import Action, ActionSpace, ArmCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.conformance import FAIL, PASS
from arena_robot.core.errors import ConfigError, NotConverged, SafetyError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.suite import SUITES, driver_rig, run_moving, run_still
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.action_spaces import SliceMeaning
from arena_robot.robots.arms import MOST_JOINTS, PANDA
from arena_robot.safety import bounds, kinematics
from arena_robot.safety.action_spaces import cartesian_target
from arena_robot.safety.embodiments import (
    EMBODIMENTS,
    arm_of,
    checked,
    drive_of,
)
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import JointCourse, min_jerk, move_duration_s, robot_of
from arena_robot.safety.models import read_chain
from arena_robot.safety.reflexes import CollisionThresholds
from arena_robot.safety.same_robot import require_description, require_pose
from arena_robot.safety.watchdog import CommandWatchdog

SEEDS = st.integers(0, 10 ** 6)
JOINTS = st.integers(1, MOST_JOINTS)
OVER = 0.02     # rad or m that a simulated joint swings beyond its target


def product_of_exponentials(q, chain):
    """Return the flange (4, 4) by twists in the base frame, as Murray, Li and Sastry have it."""
    here, out = np.eye(4), np.eye(4)
    for place, axis, slide, angle in zip(chain.places, chain.axes, chain.slides, q, strict=True):
        here = here @ np.vstack([np.reshape(place, (3, 4)), [0, 0, 0, 1]])
        w = here[:3, :3] @ axis
        twist = np.zeros((4, 4))
        twist[:3, 3] = w if slide else -np.cross(w, here[:3, 3])
        if not slide:
            twist[:3, :3] = np.cross(np.eye(3), w)
        out = out @ expm(twist * angle)
    return out @ here @ np.vstack([np.reshape(chain.end, (3, 4)), [0, 0, 0, 1]])


@settings(max_examples=60, deadline=None)
@given(JOINTS, SEEDS)
def test_forward_kinematics_are_the_product_of_exponentials(joints, seed):
    robot = random_arm(joints, seed)
    q = np.random.default_rng(seed).uniform(robot.limits.q_min, robot.limits.q_max)
    found = kinematics.frames(q, robot.limits.chain)[kinematics.END]
    assert np.max(np.abs(found - product_of_exponentials(q, robot.limits.chain))) < 1e-9


@settings(max_examples=60, deadline=None)
@given(JOINTS, SEEDS)
def test_the_jacobian_is_the_derivative_of_every_frame(joints, seed):
    robot = random_arm(joints, seed)
    chain, q, step = robot.limits.chain, np.array(robot.reset_joints), 1e-6
    poses = kinematics.frames(q, chain)
    for link in {*range(joints), kinematics.END}:
        J = kinematics.jacobian(poses, link, chain)
        for i in range(joints):
            ahead, behind = (kinematics.frames(q + way * step * np.eye(joints)[i], chain)[link]
                             for way in (1, -1))
            turn = (ahead[:3, :3] - behind[:3, :3]) / (2 * step) @ poses[link, :3, :3].T
            moved = (ahead[:3, 3] - behind[:3, 3]) / (2 * step)
            assert np.max(np.abs(J[:3, i] - moved)) < 1e-6
            assert np.max(np.abs(J[3:, i] - [turn[2, 1], turn[0, 2], turn[1, 0]])) < 1e-6


def assert_within(target, q, dq, limits, most):
    assert np.all((target >= limits.q_min) & (target <= limits.q_max))
    assert np.max(np.abs(target - q) / limits.scale) <= most * (1 + 1e-6)
    assert bounds.outside(target, limits) == 0.0
    torque = np.abs(bounds.spring_torque(target - q, q, limits))
    assert np.all(torque <= limits.tau_max * (1 + 1e-6))
    too_fast = np.abs(dq) >= limits.dq_max
    assert np.all(((target - q) * dq)[too_fast] <= 1e-9)


@settings(max_examples=250, deadline=None)
@given(JOINTS, SEEDS, st.sampled_from(ActionSpace), st.floats(0.01, 3.0))
def test_no_command_to_any_arm_leaves_its_limits(joints, seed, space, size):
    robot = random_arm(joints, seed)
    limits, rng = robot.limits, np.random.default_rng(seed)
    safety = Safety(limits, ManualClock(NOW_NS))
    q, dq = np.array(robot.reset_joints), size * rng.normal(size=joints)
    state = arm_state(q, dq)
    wanted = np.append(size * rng.normal(size=space.size(joints) - 1), 0.0)
    safe = safety.check(Action(wanted, space), state)
    assert_within(safe.q, q, dq, limits, limits.max_joint_delta)
    safe = safety.guard_target(q + size * rng.normal(size=joints), state)
    assert_within(safe.q, q, dq, limits, limits.max_lead)
    with pytest.raises(SafetyError, match='must have'):
        safety.check(Action(np.append(wanted, 0.0), space), state)
    try:
        goal = safety.check_goal(q + size * rng.normal(size=joints), state)
    except SafetyError:
        return
    assert np.all((goal >= limits.q_min) & (goal <= limits.q_max))
    assert bounds.outside(goal, limits) == 0.0


@settings(max_examples=60, deadline=None)
@given(JOINTS, SEEDS)
def test_the_flange_goes_where_it_is_asked_or_less_far(joints, seed):
    robot = random_arm(joints, seed)
    q = np.array(robot.reset_joints)
    target, asked, reached = cartesian_target(
        np.random.default_rng(seed).uniform(-0.5, 0.5, 6), q, robot.limits)
    low, high = kinematics.step_bounds(q, robot.limits, 0.2)
    assert np.all((target - q >= low - 1e-9) & (target - q <= high + 1e-9))
    assert np.linalg.norm(asked - reached) <= np.linalg.norm(asked) + 1e-3


class Arm:
    """Is at once where it is sent."""

    def __init__(self, clock, q):
        self.clock, self.q, self.calls = clock, q, []

    def state(self, max_age_s=0.1):
        return dataclasses.replace(arm_state(self.q, 0 * self.q), stamp_ns=self.clock.now_ns())

    def command(self, command):
        self.q = command.q
        return command

    def stop(self):
        self.calls.append('stop')


@settings(max_examples=40, deadline=None)
@given(JOINTS, SEEDS)
def test_stop_holds_any_arm_until_it_is_released(joints, seed):
    robot, clock = random_arm(joints, seed), ManualClock(NOW_NS)
    arm = Arm(clock, np.array(robot.reset_joints))
    guard = GuardedArm(arm, Safety(robot.limits, clock), CommandWatchdog(clock, 0.5), robot)
    rest = np.array(robot.reset_joints)
    near = rest + 0.01 * (robot.limits.q_max - rest)
    guard.halt('pressed')
    for send in (lambda: guard.command(ArmCommand(near, clock.now_ns())),
                 lambda: guard.move_to(near)):
        with pytest.raises(SafetyError, match='halted'):
            send()
    assert np.array_equal(arm.q, rest)
    assert arm.calls == ['stop']
    guard.resume()
    sent = guard.command(ArmCommand(near, clock.now_ns()))
    assert np.array_equal(sent.q, arm.q)
    assert not np.array_equal(arm.q, rest)
    assert guard.description().reset_joints == robot.reset_joints


@pytest.mark.parametrize('joints', range(1, 15))    # a longer chain swings about by itself
def test_a_simulated_arm_follows_random_actions_within_its_limits_and_stops(tmp_path, joints):
    path = str(written(tmp_path, random_arm(joints, 4), base_pose=[0.1, 0.2, 3.0, 0.3, 0.2, 0.1]))
    robot, rng = robot_of(path), np.random.default_rng(joints)
    limits, spaces = robot.limits, list(ActionSpace)
    with SimStation.make('do_not_move', 1, path, cameras=()) as station:
        clock, start = station.clock, station.arm.state()
        require_pose(start, robot)
        guard = GuardedArm(station.arm, Safety(limits, clock), CommandWatchdog(clock, 0.5), robot)
        for step in range(15):
            space = spaces[step % 4]
            wanted = np.append(rng.uniform(-1, 1, space.size(joints) - 1), 0.0)
            guard.act(Action(wanted, space), clock.now_ns())
            station.step(1 / 15)
            state = guard.state()
            assert np.all(np.isfinite(state.dq))
            assert np.all((state.q > limits.q_min - OVER) & (state.q < limits.q_max + OVER))
            require_pose(state, robot)
        assert np.max(np.abs(state.q - start.q)) > OVER
        guard.halt('pressed')
        station.step(0.5)
        stopped = guard.state()
        with pytest.raises(SafetyError, match='halted'):
            guard.command(ArmCommand(start.q, clock.now_ns()))
        station.step(0.5)
        assert stopped.mode is not RobotMode.REFLEX
        assert np.max(np.abs(guard.state().q - stopped.q)) < 1e-3


def test_the_driver_of_an_arm_of_three_joints_passes_the_checks(tmp_path):
    path = str(written(tmp_path, random_arm(3, 4), base_pose=[0, 0, 0.5, 0, 0, 0]))
    with driver_rig('arm', 'sim', {'robot': path}) as rig:
        assert rig.robot.joints == len(rig.joints) == 3
        rig.withheld = {'far_target_is_clipped': 'its reference takes time to a far target'}
        results = [*run_still(SUITES['arm'], rig, print), *run_moving(SUITES['arm'], rig, print)]
    assert [(r.check, r.received) for r in results if r.outcome == FAIL] == []
    assert sum(r.outcome == PASS for r in results) > 8


@settings(max_examples=40, deadline=None)
@given(JOINTS, SEEDS)
def test_any_arm_comes_to_rest_within_the_makers_acceleration_and_stays(joints, seed):
    robot, rng = random_arm(joints, seed), np.random.default_rng(seed)
    q, dq = np.array(robot.reset_joints), rng.uniform(-1, 1, joints) * robot.joint_velocity
    course = JointCourse(robot, q, dq, NOW_NS)
    end = course.end
    assert np.all(end.dq == 0.0)
    assert np.all(course.at(end.stamp_ns + 10 ** 9).q == end.q)
    times = np.linspace(NOW_NS, end.stamp_ns, 50).astype(np.int64)
    assert np.all(np.abs([course.at(int(t)).ddq for t in times])
                  <= 1.01 * np.array(robot.joint_acceleration))
    assert 1.0 <= move_duration_s(q, end.q, robot) <= 4.0
    np.testing.assert_allclose(min_jerk(q, end.q, 1.0), end.q, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(JOINTS, SEEDS)
def test_any_arm_is_known_by_its_pose_and_its_own_description(joints, seed):
    from arena_robot.robots import arms
    from arena_robot.safety.urdf import urdf
    robot = random_arm(joints, seed)
    q = np.array(robot.reset_joints)
    state = dataclasses.replace(arm_state(q, 0 * q),
                                pose=kinematics.flange_pose(q, robot.limits.chain))
    require_pose(state, robot)
    with pytest.raises(ConfigError, match=f'has {joints}|from where that of'):
        require_pose(arm_state() if joints != 7 else dataclasses.replace(
            state, pose=state.pose + 0.1), robot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(arms.ROBOTS, robot.name, robot)
        text = urdf(robot.name, 'left')
    require_description(text, robot, 'left')
    with pytest.raises(ConfigError, match='has no joint'):
        require_description(text, PANDA)
    other = random_arm(joints, seed + 1)
    with pytest.raises(ConfigError, match='is not of a drawn arm'):
        require_description(text, other, 'left')


def test_thresholds_of_torque_are_counted_by_the_joints():
    thresholds = CollisionThresholds(lower_torque=(10.0,) * 6, upper_torque=(20.0,) * 6)
    assert thresholds.checked(6) is thresholds
    with pytest.raises(SafetyError, match='needs 7 numbers, found 6'):
        thresholds.checked()


@pytest.mark.parametrize(('changes', 'says'), [
    ({'places': ()}, '1 to 16 joints'), ({'axes': ((0.0, 0.0, 1.0),)}, '1 axes'),
    ({'elbow': 7}, 'from 0 to 6')])
def test_a_chain_that_is_none_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(PANDA.limits.chain, **changes)


def written(folder, made, **changes):
    """Write the URDF of an arm and its embodiment; return the latter's path."""
    from arena_robot.robots import arms
    from arena_robot.safety.urdf import urdf
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(arms.ROBOTS, made.name, made)
        (folder / 'made.urdf').write_text(urdf(made.name, gripper=None), encoding='utf-8')
    links = made.frames()
    arm = {'model': 'made.urdf', 'joints': made.joint_names(), 'base': links[0],
           'tool': links[-1], 'velocity': list(made.joint_velocity),
           'acceleration': list(made.joint_acceleration), 'reset': list(made.reset_joints),
           'workspace_lower': [-9, -9, -9], 'workspace_upper': [9, 9, 9]} | changes
    path = folder / 'made.yaml'
    path.write_text(yaml.safe_dump({
        'name': 'made', 'title': 'drawn arm', 'arms': {'arm': arm},
        'grippers': {}, 'cameras': {}, 'layouts': {}}), encoding='utf-8')
    return path


@pytest.mark.parametrize('joints', [1, 3, 6, 7, 16])
def test_a_model_read_by_mujoco_is_the_arm_that_wrote_it(tmp_path, joints):
    robot = random_arm(joints, 4)
    read = arm_of(str(written(tmp_path, robot)))
    assert read.joint_names('left') == robot.joint_names('left')
    assert read.frames() == robot.frames()
    assert read.limits.chain.slides == robot.limits.chain.slides
    np.testing.assert_allclose(read.joint_torque, robot.joint_torque)
    np.testing.assert_allclose(read.limits.hardware_upper, robot.limits.hardware_upper)
    for share in (0.0, 0.3, 1.0):
        q = robot.limits.q_min + share * (robot.limits.q_max - robot.limits.q_min)
        np.testing.assert_allclose(kinematics.frames(q, read.limits.chain),
                                   kinematics.frames(q, robot.limits.chain), atol=1e-9)


MJCF = """<mujoco><worldbody><body name="base" pos="1 2 3" euler="0 0 90">
<body name="a" pos="0 0 .3">
<joint name="turn" axis="0 1 1" pos=".05 0 .1" range="-90 90" actuatorfrcrange="-5 5"/>
<joint name="push" type="slide" axis="1 0 0" range="-.2 .3" actuatorfrcrange="-50 50"/>
<geom type="mesh" mesh="nowhere"/><body name="b" pos=".2 .1 0" euler="20 0 40">
<joint name="last" axis="0 0 1" ref="30" range="-60 120" actuatorfrcrange="-3 3"/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<site name="tool" pos="0 .1 .2" euler="10 20 30"/></body></body></body></worldbody>
<asset><mesh name="nowhere" file="nowhere.stl"/></asset></mujoco>"""


def test_anchors_references_and_sites_of_mjcf_are_where_mujoco_has_them(tmp_path):
    (tmp_path / 'made.xml').write_text(MJCF, encoding='utf-8')
    names = ('turn', 'push', 'last')
    read = read_chain(tmp_path / 'made.xml', names, 'base', 'tool')
    assert (read.chain.slides, read.torque) == ((False, True, False), (5.0, 50.0, 3.0))
    assert read.frames == ('base', 'a', 'a', 'b', 'tool')
    model = mujoco.MjModel.from_xml_string(re.sub('<asset>.*</asset>', '', re.sub(
        '<geom.*?/>', '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>', MJCF)))
    data = mujoco.MjData(model)
    base = model.body('base').id
    for q in ([0.0, 0.0, 0.0], [0.4, 0.1, 1.2], list(read.upper)):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        turn = data.xmat[base].reshape(3, 3)
        found = kinematics.frames(np.array(q), read.chain)[kinematics.END]
        np.testing.assert_allclose(found[:3, 3], turn.T @ (data.site('tool').xpos
                                                           - data.xpos[base]), atol=1e-9)
        np.testing.assert_allclose(found[:3, :3], turn.T @ data.site('tool').xmat.reshape(3, 3),
                                   atol=1e-9)


@pytest.mark.parametrize('joints', [1, 6, 16])
def test_a_model_alone_gives_a_file_to_begin_with(tmp_path, capsys, joints):
    robot = random_arm(joints, 5)
    written(tmp_path, robot)
    assert main(['embodiment', 'propose', str(tmp_path / 'made.urdf')]) == 0
    (tmp_path / 'begun.yaml').write_text(capsys.readouterr().out, encoding='utf-8')
    arm = yaml.safe_load((tmp_path / 'begun.yaml').read_text())['arms']['arm']
    assert arm['joints'] == robot.joint_names()
    assert (arm['base'], arm['tool']) == (robot.frames()[0], robot.frames()[-1])
    np.testing.assert_allclose(arm['velocity'], robot.joint_velocity)
    np.testing.assert_allclose(arm['torque'], robot.joint_torque)
    arm |= {'workspace_lower': [-9] * 3, 'workspace_upper': [9] * 3}
    (tmp_path / 'begun.yaml').write_text(yaml.safe_dump({
        **yaml.safe_load((tmp_path / 'begun.yaml').read_text()), 'arms': {'arm': arm}}))
    assert checked(tmp_path / 'begun.yaml')[2] == []
    assert main(['embodiment', 'propose', str(tmp_path / 'made.urdf'), '--tool', 'x']) == 2
    assert "no body or site 'x' (tool)" in capsys.readouterr().err


@pytest.mark.parametrize('joints', range(1, MOST_JOINTS + 1))
def test_forward_kinematics_are_pinocchios(tmp_path, joints):
    pinocchio = pytest.importorskip('pinocchio', reason='Pinocchio is missing: pip install pin')
    robot = random_arm(joints, 8)
    written(tmp_path, robot)
    model = pinocchio.buildModelFromUrdf(str(tmp_path / 'made.urdf'))
    data = model.createData()
    for seed in range(5):
        q = np.random.default_rng(seed).uniform(robot.limits.q_min, robot.limits.q_max)
        pinocchio.framesForwardKinematics(model, data, q)
        flange = data.oMf[model.getFrameId(robot.flange_frame())].homogeneous
        found = kinematics.frames(q, robot.limits.chain)[kinematics.END]
        assert np.max(np.abs(found - flange)) < 1e-9


def test_the_inverse_finds_the_pose_or_says_what_remains():
    found = 0
    for joints in range(1, MOST_JOINTS + 1):
        robot = random_arm(joints, 2)
        limits, rng = robot.limits, np.random.default_rng(joints)
        for _ in range(4):
            goal = kinematics.frames(rng.uniform(limits.q_min, limits.q_max), limits.chain)[-1]
            try:
                q = kinematics.solve(goal, np.array(robot.reset_joints), limits)
            except NotConverged:
                continue
            assert np.max(np.abs(kinematics.frames(q, limits.chain)[-1] - goal)) < 1e-8
            assert np.all((q >= limits.q_min) & (q <= limits.q_max))
            found += 1
    assert found >= 50    # of 56
    goal = kinematics.frames(np.array(PANDA.reset_joints))[-1]
    goal[0, 3] += 3.0
    with pytest.raises(NotConverged, match=r'no nearer than \d+\.\d mm .* joint'):
        kinematics.solve(goal, np.array(PANDA.reset_joints), PANDA.limits)


@pytest.mark.parametrize('name', EMBODIMENTS.names())
def test_a_shipped_embodiment_has_no_mistake(name):
    made, arms, wrong = checked(EMBODIMENTS.find(name))
    if wrong and 'is not installed: pip install ' in wrong[0]:
        pytest.skip(wrong[0])
    assert wrong == []
    assert set(arms) == set(made.arms)


def test_droids_action_spaces_are_four_layouts():
    made, arms, _ = checked(EMBODIMENTS.find('droid'))
    assert arms == {'arm': PANDA}
    assert list(made.layouts) == [space.value for space in ActionSpace]
    for name, layout in made.layouts.items():
        row = ActionSpace(name).row
        drive = drive_of(made, 'arm', PANDA, name)
        assert (drive.space, drive.plain) == (ActionSpace(name), True)
        assert sum(part.size for part in layout.slices) == ActionSpace(name).size(7)
        meanings = {part.meaning for part in layout.slices[:-1]}
        assert meanings == {SliceMeaning.DELTA_STATE if row.is_velocity else SliceMeaning.ABSOLUTE}
        if not row.is_velocity:
            units = [part.unit for part in layout.slices[:-1] for _ in range(part.size)]
            assert tuple(units) == row.units


def test_every_mistake_of_a_file_is_told_at_once(tmp_path, capsys):
    path = written(tmp_path, random_arm(3, 1), joints=['axis_0', 'axis_9', 'axis_2'], tool='hand')
    data = yaml.safe_load(path.read_text())
    data |= {'titel': 'x', 'grippers': {'gripper': {'type': 'robotic'}, 'claw': {}},
             'cameras': {'top': {'kind': 'stero'}}}
    data['arms']['second'] = {'robot': 'pandas'}
    path.write_text(yaml.safe_dump(data))
    assert main(['embodiment', 'check', str(path), '--json']) == 1
    told = '\n'.join(json.loads(capsys.readouterr().out)['mistakes'])
    for words in ("unknown key 'titel'. Did you mean 'title'", "unknown type 'robotic'",
                  "'stero'. Did you mean 'stereo'", 'claw: a gripper has a type, or a stroke_m',
                  "no joint 'axis_9'. Did you mean 'axis_", "no body or site 'hand' (tool)",
                  "unknown robot 'pandas'. Did you mean 'panda'"):
        assert words in told, words


@pytest.mark.parametrize(('changes', 'says'), [
    ({'velocity': [1.0]}, 'velocity needs 3 finite numbers, one for each joint; found 1'),
    ({'torque': [1.0, 0.0, 1.0]}, 'torque of axis_1 must be above 0'),
    ({'reset': [0.0, 99.0, 0.0]}, 'reset of axis_1 is 99, allowed are'),
    ({'workspace_lower': [5.0, 5.0, 5.0]}, 'outside the workspace'),
    ({'joints': ['axis_1', 'axis_0', 'axis_2']}, 'name these, in this order'),
    ({'model': 'none.urdf'}, 'there is no file'),
    ({'model': 'package:no-such-thing/a.urdf'}, 'pip install no-such-thing'),
    ({'base': 'made_link3', 'tool': 'made_link0'}, "does not hang on 'made_link3'"),
    ({'robot': 'panda'}, 'either robot, a row of this package, or model')])
def test_a_mistake_of_an_arm_says_what_is_expected(tmp_path, changes, says):
    path = written(tmp_path, random_arm(3, 1), **changes)
    assert any(says in line for line in checked(path)[2]), checked(path)[2]
    with pytest.raises(ConfigError, match=re.escape(says)):
        robot_of(str(path))


@pytest.mark.parametrize(('changes', 'says'), [
    ({'joints': ['axis_7']}, "has no joint 'axis_7'. Did you mean 'axis_"),
    ({'arm': 'left'}, "say in arm whose model has its joints, found 'left'"),
    ({'closed_at': [0.1, 0.2]}, 'a number for each in closed_at'),
    ({'open_at': [0.0]}, 'another in open_at'),
    ({'effort': 0.0}, 'an effort above 0'),
    ({'grasp': [0.0] * 5}, 'in grasp 6 numbers')])
def test_a_mistake_of_a_models_own_fingers_says_what_is_expected(tmp_path, changes, says):
    path = written(tmp_path, random_arm(3, 1))
    data = yaml.safe_load(path.read_text())
    own = {'stroke_m': 0.1, 'joints': ['axis_2'], 'closed_at': [0.0], 'open_at': [1.0],
           'effort': 2.0}
    for gripper, expected in ((own, 0), (own | changes, 1)):
        path.write_text(yaml.safe_dump(data | {'grippers': {'jaw': gripper}}))
        assert len(wrong := checked(path)[2]) == expected, wrong
    assert says in wrong[0]


def test_layouts_and_roles_are_compared_with_the_parts(tmp_path):
    path = written(tmp_path, random_arm(3, 1))
    data = yaml.safe_load(path.read_text())
    data['layouts'] = {'mine': {'rate': 20, 'slices': [
        {'name': 'arm.joint_position', 'size': 4, 'unit': 'rad'}, {'name': 'hand', 'size': 1},
        {'name': 'base.velocity', 'size': 3}]}}
    data['cameras'] = {'a': {'role': 'wrist'}, 'b': {'role': 'wrist'}, 'c': {}, 'd': {}}
    path.write_text(yaml.safe_dump(data))
    assert checked(path)[2].pop(0).endswith("cameras: 2 have the role 'wrist'; a role has one "
                                            'camera')
    assert [line.partition('layouts.mine: ')[2] for line in checked(path)[2][1:]] == [
        "slice 'arm.joint_position' has size 4, expected 3", "slice 'hand' is of no part. Known: "
        'arm.', "slice 'base.velocity' moves a base, and no driver of this package has one"]


def test_a_sound_file_is_described_and_the_list_names_every_embodiment(tmp_path, capsys):
    path = written(tmp_path, random_arm(6, 3))
    assert main(['embodiment', 'check', str(path)]) == 0
    said = capsys.readouterr().out
    assert 'arm arm: 6 joints from made_link0 to made_link7; at reset' in said
    assert re.search(r'inverse kinematics finds \d+ of 50 poses', said)
    assert 'links are kept 0.02 m apart; not those that touch at reset: 3 and 5' in said
    model = (tmp_path / 'made.urdf').read_text()
    end = model.index('<link name="made_link1"')
    for bare, says in ((slice(end), 'not links 0, which have no shape'),
                       (slice(None), 'no link has a shape')):
        (tmp_path / 'made.urdf').write_text(model.replace(model[bare], re.sub(
            r'<(collision|visual)>.*?</\1>', '', model[bare])))
        assert main(['embodiment', 'check', str(path)]) == 0
        assert says in capsys.readouterr().out
    assert main(['embodiment', 'check', 'droid']) == 0
    assert "layout joint_velocity: 8 numbers at 15 Hz, driven as DROID's joint_velocity" \
        in capsys.readouterr().out
    assert main(['embodiment', 'list', '--json']) == 0
    assert [row['name'] for row in json.loads(capsys.readouterr().out)] == EMBODIMENTS.names()
    assert main(['embodiment', 'list']) == 0
    assert 'droid            DROID: ' in capsys.readouterr().out
