import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.spatial.transform import Rotation

from arena_robot.core.action import ActionSpace
from arena_robot.robots.arms import FR3, PANDA, RESET_JOINTS
from arena_robot.safety import action_spaces as spaces
from arena_robot.safety import kinematics

Q = np.array(RESET_JOINTS)
POSE = kinematics.flange_pose(Q)
LIMITS = PANDA.limits
JOINTS = st.tuples(*(st.floats(lo, hi) for lo, hi in
                     zip(LIMITS.joint_lower, LIMITS.joint_upper, strict=True))).map(np.array)


def vector(size, largest=3.0):
    return st.lists(st.floats(-largest, largest), min_size=size, max_size=size).map(np.array)


@given(vector(7))
def test_joint_velocity_is_scaled_as_a_whole(v):
    n = max(abs(x) / 1.0 for x in v)
    expected = Q + 0.2 * (v / n if n > 1 else v)
    assert np.max(np.abs(spaces.joint_velocity_target(v, Q) - expected)) < 1e-9


@given(vector(6))
def test_cartesian_velocity_is_droids_pose(v):
    lin, rot = v[:3], v[3:]
    lin = lin / np.linalg.norm(lin) if np.linalg.norm(lin) > 1 else lin
    rot = rot / np.linalg.norm(rot) if np.linalg.norm(rot) > 1 else rot
    turned = Rotation.from_euler('xyz', 0.15 * rot) * Rotation.from_euler('xyz', POSE[3:])
    pose = kinematics.add_poses(spaces.cartesian_motion(v), POSE)
    assert np.max(np.abs(pose[:3] - (POSE[:3] + 0.075 * lin))) < 1e-9
    assert np.max(np.abs(kinematics.rotation_of(pose[3:]) - turned.as_matrix())) < 1e-9


@given(vector(3, 0.8), st.tuples(st.floats(-3, 3), st.floats(-1.4, 1.4), st.floats(-3, 3)))
def test_cartesian_position_is_droids_velocity(p, angles):
    target = np.concatenate([p, angles])
    turn = Rotation.from_euler('xyz', angles) * Rotation.from_euler('xyz', POSE[3:]).inv()
    v = spaces.cartesian_position_velocity(target, POSE)
    assert np.max(np.abs(v[:3] - (p - POSE[:3]) / 0.075)) < 1e-9
    assert np.max(np.abs(Rotation.from_euler('xyz', 0.15 * v[3:]).as_matrix()
                         - turn.as_matrix())) < 1e-9


def test_the_gripper_closes_only_above_one_half():
    assert [spaces.binarised(g) for g in (0.0, 0.5, 0.5000001, 1.0)] == [0.0, 0.0, 1.0, 1.0]


@given(vector(6, 0.25))
def test_cartesian_targets_follow_the_asked_motion_away_from_limits(v):
    q_des, asked, found = spaces.cartesian_target(v, Q, PANDA.limits)
    assert np.linalg.norm(found - asked) < 0.03 * np.linalg.norm(asked) + 1e-3
    moved = kinematics.pose_difference(kinematics.flange_pose(q_des), POSE)
    assert np.linalg.norm(moved[:3] - asked[:3]) < 0.004


@given(vector(6, 1.0), JOINTS)
def test_cartesian_targets_keep_the_distance_to_joint_limits(v, q):
    for limits in (PANDA.limits, FR3.limits):
        q_des = spaces.cartesian_target(v, q, limits)[0]
        low, high = kinematics.step_bounds(q, limits, 0.2)
        assert np.all(q_des - q >= low - 1e-9)
        assert np.all(q_des - q <= high + 1e-9)


@settings(max_examples=300)
@given(vector(6, 1.0), JOINTS)
def test_the_bounded_solver_finds_the_minimum(v, q):
    J = kinematics.jacobian(kinematics.frames(q))
    low, high = kinematics.step_bounds(q, PANDA.limits, 0.2)
    motion = spaces.cartesian_motion(v)
    x = kinematics.joint_step(motion, q, J, PANDA.limits, 0.2)
    A = np.vstack([J, kinematics.REGULARISATION * np.eye(7)])
    b = np.concatenate([motion, -kinematics.REGULARISATION * kinematics.NULLSPACE_GAIN * q])
    best = lsq_linear(A, b, (low - 1e-9, high + 1e-9), method='bvls')
    assert np.sum((A @ x - b) ** 2) <= 2.0 * best.cost * (1 + 1e-6) + 1e-10


def test_a_pose_is_reached_in_a_few_steps_and_held():
    target = POSE + np.array([0.1, -0.08, -0.12, 0.1, 0.0, 0.3])
    q = Q
    for _ in range(40):
        q = spaces.target_function(ActionSpace.CARTESIAN_POSITION)(target, q, PANDA.limits)[0]
    left = kinematics.pose_difference(target, kinematics.flange_pose(q))
    assert np.linalg.norm(left[:3]) < 1e-3
    assert np.linalg.norm(left[3:]) < 5e-3
