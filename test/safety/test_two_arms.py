"""Two arms that are moved as one: trees of joints drawn by a seed, and two gantries with hands."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_episodes import random_arm
from test_any_arm import assert_within
from test_filter import NOW_NS, arm_state
from two_gantries import NAMES, REST, two_arms

from arena_robot.core.action import Action, ActionSpace, ArmCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, NotConverged
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.sim.expert import run_expert
from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.arm.transforms import link_transforms
from arena_robot.recording.formats.rerun_file import along
from arena_robot.robots.arms import MOST_JOINTS, Chain
from arena_robot.safety import bounds, kinematics
from arena_robot.safety.action_spaces import cartesian_target
from arena_robot.safety.embodiments import agreed_drive, arm_of, checked, layout_state
from arena_robot.safety.filter import Safety
from arena_robot.safety.models import read_chain
from arena_robot.safety.urdf import urdf

SEEDS, JOINTS = st.integers(0, 10 ** 6), st.integers(2, MOST_JOINTS)


def random_tree(joints, seed):
    """Return a robot whose joints hang on earlier ones or the base, within its workspace."""
    robot, rng = random_arm(joints, seed), np.random.default_rng([joints, seed, 1])
    before = tuple(int(rng.integers(-1, i)) for i in range(joints))
    chain = dataclasses.replace(robot.limits.chain, before=before)
    poses = kinematics.frames(np.array(robot.reset_joints), chain)[:, :3, 3]
    seen = poses[[kinematics.END, *chain.others]]
    limits = dataclasses.replace(
        robot.limits, chain=chain, **{f'{what}_{end}': tuple((worst + way).tolist())
                                      for what, places in (('workspace', seen),
                                                           ('elbow', poses[[chain.elbow]]))
                                      for end, worst, way in (
                                          ('lower', places.min(axis=0), -rng.uniform(0.05, 1)),
                                          ('upper', places.max(axis=0), rng.uniform(0.05, 1)))})
    return dataclasses.replace(robot, limits=limits)


@settings(max_examples=60, deadline=None)
@given(JOINTS, SEEDS)
def test_each_link_of_a_tree_is_where_the_joints_before_it_put_it(joints, seed):
    robot = random_tree(joints, seed)
    chain, step = robot.limits.chain, 1e-6
    q = np.random.default_rng(seed).uniform(robot.limits.q_min, robot.limits.q_max)
    poses = kinematics.frames(q, chain)
    for link in range(joints):
        way = np.flatnonzero(chain.moves[link])
        alone = Chain(*(tuple(np.array(values)[way].tolist()) for values in (
            chain.places, chain.axes, chain.slides)), chain.end, 0)
        np.testing.assert_allclose(kinematics.frames(q[way], alone)[-2], poses[link], atol=1e-12)
        moved = [(kinematics.frames(q + step * way, chain)[link] - poses[link])[:3, 3] / step
                 for way in np.eye(joints)]
        J = kinematics.jacobian(poses, link, chain)
        np.testing.assert_allclose(J[:3].T, moved, atol=1e-5)
        assert not J[:, ~chain.moves[link]].any()


@settings(max_examples=150, deadline=None)
@given(JOINTS, SEEDS, st.sampled_from(ActionSpace), st.floats(0.01, 3.0))
def test_no_command_to_a_tree_leaves_its_limits(joints, seed, space, size):
    robot = random_tree(joints, seed)
    limits, rng = robot.limits, np.random.default_rng(seed)
    safety, q = Safety(limits, ManualClock(NOW_NS)), np.array(robot.reset_joints)
    dq = size * rng.normal(size=joints)
    asked = np.append(size * rng.normal(size=space.size(joints) - 1), 0.0)
    safe = safety.check(Action(asked, space), arm_state(q, dq))
    assert_within(safe.q, q, dq, limits, limits.max_joint_delta)
    safe = safety.guard_target(q + size * rng.normal(size=joints), arm_state(q, dq))
    assert_within(safe.q, q, dq, limits, limits.max_lead)
    places = kinematics.frames(safe.q, limits.chain)[list(limits.chain.others), :3, 3]
    assert np.all((places >= limits.workspace_lower) & (places <= limits.workspace_upper))


@settings(max_examples=60, deadline=None)
@given(JOINTS, SEEDS)
def test_a_motion_of_the_flange_leaves_the_other_arms_where_they_are(joints, seed):
    robot = random_tree(joints, seed)
    chain, rng = robot.limits.chain, np.random.default_rng(seed)
    q, others = np.array(robot.reset_joints), list(robot.limits.chain.others)
    target, *_ = cartesian_target(rng.uniform(-0.5, 0.5, 6), q, robot.limits)
    np.testing.assert_allclose(target[others], q[others], atol=1e-12)
    goal = kinematics.frames(rng.uniform(robot.limits.q_min, robot.limits.q_max), chain)[-1]
    try:
        found = kinematics.solve(goal, q, robot.limits)
    except NotConverged:
        return
    np.testing.assert_allclose(found[others], q[others], atol=1e-12)
    np.testing.assert_allclose(kinematics.frames(found, chain)[-1], goal, atol=1e-8)


def test_a_model_of_two_arms_is_one_tree(tmp_path):
    robot = arm_of(two_arms(tmp_path))
    chain = robot.limits.chain
    assert chain.before == (-1, 0, 1, 2, 3, -1, 5, 6, 7)
    assert chain.others == (0, 1, 2, 3, 4)
    assert robot.fingers == (4,)
    assert {robot.own_joints[i] for i in chain.elbows} == {'l_z', 'r_y'}
    q = np.array([0.1, -0.2, 0.3, 0.5, 0.02, -0.1, 0.25, 0.35, -0.7])
    places = kinematics.frames(q, chain)[:, :3, 3]
    np.testing.assert_allclose(places[3], [0.1, 0.1, 0.3], atol=1e-12)
    np.testing.assert_allclose(places[-1], [-0.1, -0.05, 0.35], atol=1e-12)
    # No plane, no lamp; of a hand the palm and the fingers that are no joints, open.
    shapes = [(shape.link, round(shape.pose[7], 9)) for shape in chain.body().shapes]
    assert shapes == [(4, 0.0), (5, 0.01), (4, 0.05), (9, 0.0), (9, -0.05), (9, 0.05)]


def test_arms_on_a_common_torso_each_have_an_elbow(tmp_path):
    chain = arm_of(two_arms(tmp_path)).limits.chain
    torso = dataclasses.replace(chain, before=(-1, 0, 1, 2, 3, 0, 5, 6, 7))
    assert torso.others == (1, 2, 3, 4)
    assert torso.elbows == (chain.elbow, 2)


def test_frames_and_description_of_two_arms_hang_where_the_joints_do(tmp_path):
    robot = arm_of(path := two_arms(tmp_path))
    links = robot.frames()
    q = np.array(REST) + 0.01 * np.arange(9)
    parents = {each.child_frame_id: each.header.frame_id
               for each in link_transforms(0, links, robot.limits.chain, q)}
    assert (parents['l_a'], parents['r_a'], parents['l_near']) == ('world', 'world', 'l_d')
    (tmp_path / 'told.urdf').write_text(urdf(path, gripper=None))
    again = read_chain(tmp_path / 'told.urdf', NAMES, 'world', links[-1]).chain
    np.testing.assert_allclose(kinematics.frames(q, again),
                               kinematics.frames(q, robot.limits.chain), atol=1e-12)
    assert along(robot.limits.chain) == [
        -1, 0, 1, 2, 3, 4, 4, 3, 2, 1, 0, -1, -1, 5, 6, 7, 8, 9]


def test_two_hands_are_kept_apart(tmp_path):
    limits = arm_of(two_arms(tmp_path)).limits
    safety, links = Safety(limits, ManualClock(NOW_NS)), bounds.Links(limits)
    q, seen = np.array(REST), []
    for _ in range(60):
        towards = np.array([0, -1, 0, 0, 0, 0, 1, 0, 0]) * 0.9    # both hands to the middle
        safe = safety.check(Action(np.append(towards, 0.0), ActionSpace.JOINT_VELOCITY),
                            arm_state(q, np.zeros(9)))
        q = safe.q
        seen.append(float(links.gaps(q, 1.0).min()))
        assert seen[-1] >= limits.self_distance - 1e-6
    assert seen[-1] < limits.self_distance + 0.005
    assert safe.clamps[-1].reason.value == 'self_collision'
    assert 'links 4 and 9' in safe.clamps[-1].detail or 'links 5 and 9' in safe.clamps[-1].detail


def test_a_hand_is_one_number_of_a_layout(tmp_path):
    path = two_arms(tmp_path)
    arm = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    asked = np.array([*arm[:4], 30.0, *arm[4:], 75.0])    # right hand 70 % closed, left a quarter
    drive = agreed_drive(path, 'two/targets', 15.0)
    given = drive.action(asked, np.full(9, 9.0))
    np.testing.assert_allclose(given, [*arm[:4], 0.03, *arm[4:], 0.7], atol=1e-12)
    steps = agreed_drive(path, 'two/steps', 15.0)
    base = np.array(REST)
    given = steps.action(asked, base)
    np.testing.assert_allclose(given[:9], [*(base[:4] + arm[:4]), 0.03, *(base[5:] + arm[4:])],
                               atol=1e-12)


def test_the_state_of_two_arms_is_told_in_numbers_of_their_layout():
    q = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.039, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2])
    np.testing.assert_allclose(layout_state('aloha/aloha', q, 0.75),
                               [*q[:6], 0.5, *q[7:], 0.25], atol=1e-12)


@pytest.mark.parametrize(('changes', 'says'), [
    ({'tool': 'l_hand'}, "to 'l_hand' two.xml the last joint is not r_turn"),
    ({'base': 'l_stand', 'tool': 'l_hand'}, "joint r_x does not hang on 'l_stand'"),
    ({'joints': [*NAMES[5:], *NAMES[:5]]}, 'has the joints l_x, l_y, l_z, l_turn, l_near, r_x'),
    ({'joints': [*NAMES[:5], 'l_far', *NAMES[5:]], **{name: [1.0] * 10 for name in (
        'velocity', 'acceleration', 'torque')}, 'reset': [*REST[:5], -0.04, *REST[5:]]},
     'grippers.l_hand: l_far follows l_near: leave it out of arms.both')])
def test_a_file_of_two_arms_says_what_is_wrong(tmp_path, changes, says):
    path = two_arms(tmp_path, **changes)
    wrong = checked(tmp_path / 'two.yaml')[2]
    assert says in '\n'.join(wrong)
    with pytest.raises(ConfigError):
        arm_of(path)


def test_one_hand_holds_a_cube_while_the_other_lifts_another(tmp_path):
    with SimStation.make('lift_cube', 3, two_arms(tmp_path), cameras=()) as station:
        truth, arm = station.truth, station.arm

        def move(**joints):
            goal = arm.state().q_desired.copy()
            for name, value in joints.items():
                goal[NAMES.index(name)] = value
            for _ in range(30):
                q = arm.state().q
                lead = np.where(np.array(NAMES) == 'l_near', np.inf, 0.1)
                arm.command(ArmCommand(np.clip(goal, q - lead, q + lead), station.clock.now_ns()))
                station.step(1 / 15)

        x, y, _ = truth.position('orange_cube')
        move(l_x=x, l_y=y - 0.3, l_turn=truth.yaw('orange_cube'))
        move(l_z=0.11)
        move(l_near=0.0)
        assert truth.joint('arm_l_near') == pytest.approx(-truth.joint('arm_l_far'), abs=2e-3)
        move(l_z=0.25)
        station.step(2.0)    # no command comes: the arm brakes and holds
        assert arm.state().q_desired[NAMES.index('l_near')] == 0.0
        assert truth.position('orange_cube')[2] > 0.1
        assert run_expert(station).succeeded
        assert truth.position('orange_cube')[2] > 0.1
        assert arm.state().mode is not RobotMode.REFLEX
        move(l_near=0.04)
        assert truth.position('orange_cube')[2] < 0.05
