import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState

from arena_msgs.msg import PolicyAction
from arena_robot.core.action import Action, ActionSpace
from arena_robot.core.errors import DataError, DriverError, SafetyError
from arena_robot.core.observation import (
    ArmState,
    CameraInfo,
    GripperState,
    ObjectStatus,
    RobotMode,
)
from arena_robot.nodes.camera import image_message
from arena_robot.nodes.lib import convert
from arena_robot.nodes.lib.images import ENCODINGS, read_image
from arena_robot.robots.arms import FR3, PANDA

NAMES = PANDA.joint_names()


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_stamps_survive(stamp_ns):
    assert convert.stamp_of(convert.time_of(stamp_ns)) == stamp_ns


@given(st.tuples(st.floats(-3, 3), st.floats(-1.5, 1.5), st.floats(-3, 3)))
def test_poses_survive_and_quaternions_are_scipys(rpy):
    pose = np.array([0.3, -0.2, 0.5, *rpy])
    message = convert.pose_message(pose)
    o = message.orientation
    expected = Rotation.from_euler('xyz', rpy).as_quat(canonical=False)
    quaternion = np.array([o.x, o.y, o.z, o.w])
    assert min(np.abs(quaternion - expected).max(), np.abs(quaternion + expected).max()) < 1e-12
    assert np.allclose(convert.pose_values(message), pose, atol=1e-9)


def test_a_quaternion_that_is_no_rotation_is_refused():
    message = convert.pose_message(np.zeros(6))
    message.orientation.w = 0.0
    with pytest.raises(SafetyError, match='unit quaternion'):
        convert.pose_values(message)


def test_an_arm_state_survives():
    rng = np.random.default_rng(1)
    q, dq, tau, tau_ext, q_desired = rng.normal(size=(5, 7))
    state = ArmState(123, q, dq, tau, tau_ext, np.array([0.4, 0, 0.5, 3.0, 0.1, 0.2]), q_desired,
                     RobotMode.REFLEX, ('joint1_collision',), 0.5)
    message = convert.arm_state_message(state, 456, 'panda_link0', NAMES)
    back = convert.arm_state(message)
    assert (back.stamp_ns, back.joint_names) == (456, tuple(NAMES))
    assert message.recovery_required
    for name in ('q', 'dq', 'tau', 'tau_ext', 'pose', 'q_desired'):
        assert np.array_equal(getattr(back, name), getattr(state, name)), name
    assert (back.mode, back.errors, back.control_success_rate) == (
        RobotMode.REFLEX, ('joint1_collision',), 0.5)
    message.dq = message.dq[:6]
    with pytest.raises(DriverError, match='6 numbers of dq for 7 joints'):
        convert.arm_state(message)
    message.joint_names = NAMES[:6]
    with pytest.raises(DriverError, match='arm_state has the joints'):
        convert.arm_state(message)


def test_a_gripper_state_survives():
    state = GripperState(7, 0.25, 0.06, 1.0, True, ObjectStatus.GRIPPED_CLOSING, 3, 0.5)
    assert convert.gripper_state(convert.gripper_state_message(state, 7, 'g')) == state


def test_a_policy_action_survives():
    action = Action(np.arange(7.0), ActionSpace.CARTESIAN_VELOCITY)
    message = convert.action_message(action, 5, 'base', 9)
    back = convert.action(message)
    assert (back.space, list(back.values), message.command_id) == (action.space, list(range(7)), 9)
    with pytest.raises(SafetyError, match="Did you mean 'joint_position'"):
        convert.action(PolicyAction(action_space='joint_positions'))


@pytest.mark.parametrize('encoding', ENCODINGS)
def test_an_image_survives_in_every_encoding(encoding):
    pixels = np.random.default_rng(2).integers(0, 256, (6, 8, 3), np.uint8)
    message = image_message(pixels, 11, 'eye', encoding)
    assert message.step == len(message.data) // 6
    back = read_image(message)
    assert np.array_equal(back.pixels, pixels)
    assert back.stamp_ns == 11


def test_an_image_with_padded_rows_is_read():
    message = image_message(np.full((2, 2, 3), 7, np.uint8), 0, '', 'rgb8')
    message.step = 8
    message.data = bytes([7] * 6 + [0] * 2) * 2
    assert np.array_equal(read_image(message).pixels, np.full((2, 2, 3), 7))
    message.encoding = 'mono8'
    with pytest.raises(DataError, match='mono8'):
        read_image(message)


def test_camera_geometry_survives():
    k = np.array([[210.0, 0, 255.5], [0, 210.0, 143.5], [0, 0, 1]])
    message = convert.camera_info_message(CameraInfo(512, 288, k, 0.12, 'f'), 3, 'f')
    assert message.p[3] == pytest.approx(-210.0 * 0.12)
    back = convert.camera_info(message)
    assert np.array_equal(back.k, k)
    assert back.baseline_m == pytest.approx(0.12)


def test_joint_targets_are_ordered_by_name():
    message = JointState(name=NAMES[::-1], position=[6.0, 5, 4, 3, 2, 1, 0])
    assert list(convert.in_order(message.position, message.name, NAMES)) == [0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(SafetyError, match='no position for joint'):
        convert.in_order([1.0], ['a'], NAMES)
    with pytest.raises(SafetyError, match='1 names but 2 positions'):
        convert.in_order([1.0, 2.0], ['a'], NAMES)


def test_names_carry_robot_and_prefix():
    assert FR3.joint_names('left')[6] == 'left_fr3_joint7'
    assert (PANDA.arm_name(), PANDA.base_frame('left')) == ('panda', 'left_panda_link0')
