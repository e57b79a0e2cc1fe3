import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from arena_robot.robots.arms import FRANKA_DH, FRANKA_FLANGE_M, PANDA, RESET_JOINTS
from arena_robot.safety import kinematics

LIMITS = PANDA.limits
JOINTS = st.tuples(*(st.floats(lo, hi) for lo, hi in
                     zip(LIMITS.joint_lower, LIMITS.joint_upper, strict=True))).map(np.array)
ANGLES = st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1)).map(np.array)


def dh_chain(q):
    """Compute the flange by the textbook product of single rotations and translations."""
    T = np.eye(4)
    for (a, d, alpha), angle in zip(FRANKA_DH, q, strict=True):
        step = np.eye(4)
        step[:3, :3] = (Rotation.from_euler('x', alpha) * Rotation.from_euler('z', angle)
                        ).as_matrix()
        step[:3, 3] = Rotation.from_euler('x', alpha).apply([0, 0, d])
        step[0, 3] += a
        T = T @ step
    T[:3, 3] += FRANKA_FLANGE_M * T[:3, 2]
    return T


@given(JOINTS)
def test_flange_is_the_product_of_the_dh_steps(q):
    assert np.allclose(kinematics.frames(q)[kinematics.FLANGE], dh_chain(q), atol=1e-12)


def test_a_stretched_arm_has_the_published_reach():
    pose = kinematics.flange_pose(np.zeros(7))
    assert pose[:3] == pytest.approx([0.088, 0.0, 0.333 + 0.316 + 0.384 - 0.107], abs=1e-12)
    assert abs(pose[3]) == pytest.approx(np.pi)


def test_the_reset_pose_looks_straight_down_in_front_of_the_base():
    pose = kinematics.flange_pose(np.array(RESET_JOINTS))
    assert 0.3 < pose[0] < 0.6
    assert pose[1] == pytest.approx(0.0, abs=1e-12)
    assert kinematics.rotation_of(pose[3:])[:, 2] == pytest.approx([0, 0, -1], abs=1e-9)


@given(JOINTS, st.sampled_from([kinematics.ELBOW, kinematics.FLANGE]))
def test_the_jacobian_is_the_derivative(q, link):
    J = kinematics.jacobian(kinematics.frames(q), link)
    h = 1e-6
    for i in range(7):
        up, down = (kinematics.frames(q + s * h * np.eye(7)[i])[link] for s in (1, -1))
        assert np.allclose((up[:3, 3] - down[:3, 3]) / (2 * h), J[:3, i], atol=1e-8)
        if link == kinematics.FLANGE:
            spin = Rotation.from_matrix(up[:3, :3] @ down[:3, :3].T).as_rotvec() / (2 * h)
            assert np.allclose(spin, J[3:, i], atol=1e-7)


@given(ANGLES)
def test_angles_are_scipys_fixed_axis_xyz(rpy):
    assert np.allclose(kinematics.rotation_of(rpy), Rotation.from_euler('xyz', rpy).as_matrix(),
                       atol=1e-12)
    assert np.allclose(kinematics.rpy_of(kinematics.rotation_of(rpy)), rpy, atol=1e-9)


@pytest.mark.parametrize('pitch', [np.pi / 2, -np.pi / 2])
def test_looking_straight_up_keeps_the_rotation(pitch):
    rotation = kinematics.rotation_of(np.array([0.3, pitch, 0.8]))
    back = kinematics.rpy_of(rotation)
    assert back[2] == 0.0
    assert np.allclose(kinematics.rotation_of(back), rotation, atol=1e-9)


@given(JOINTS, JOINTS)
def test_pose_difference_undoes_add_poses(q, p):
    source, target = kinematics.flange_pose(q), kinematics.flange_pose(p)
    back = kinematics.add_poses(kinematics.pose_difference(target, source), source)
    assert np.allclose(back[:3], target[:3], atol=1e-12)
    assert np.allclose(kinematics.rotation_of(back[3:]), kinematics.rotation_of(target[3:]),
                       atol=1e-9)
