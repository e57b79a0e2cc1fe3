from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from sample_episodes import SampleEpisode, SampleMaker, random_arm
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState

from arena_msgs.msg import PolicyAction
from arena_robot.core.action import Action, ActionSpace, Chunk
from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot, Step
from arena_robot.core.errors import DataError, DriverError, SafetyError
from arena_robot.core.observation import (
    ArmState,
    CameraInfo,
    GripperState,
    ObjectStatus,
    Observation,
    RobotMode,
)
from arena_robot.nodes.camera import image_message
from arena_robot.nodes.lib import convert
from arena_robot.nodes.lib.images import ENCODINGS, read_image
from arena_robot.nodes.lib.session_messages import chunk_message, step_message
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.serving import ServedPolicy
from arena_robot.recording.bag.base import Message
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.tracks import load_tracks
from arena_robot.robots.arms import FR3, MOST_JOINTS, PANDA
from arena_robot.safety.filter import Safety
from arena_robot.safety.kinematics import flange_pose

NAMES = PANDA.joint_names()
ARM_TOPIC, STEP_TOPIC = '/arm_node/arm_state', '/session_node/step'


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


class Drawn:
    """A policy whose actions are drawn, some of them far outside of what is allowed."""

    def __init__(self, spec, rng):
        self.spec, self._rng = spec, rng

    def infer(self, observation, episode=''):
        size = self.spec.action_space.size(len(observation.arm.q))
        return Chunk(self._rng.choice([0.1, 10.0]) * self._rng.normal(size=(2, size)),
                     self.spec.action_space)

    def reset(self, episode=''):
        """Nothing is kept."""


def asked_and_done(served, safety, robot, clock, q):
    """Return a step's messages of arm and step: state, query, answer, action, decision."""
    names, still = robot.joint_names(), np.zeros(len(q))
    state = ArmState(clock.now_ns(), q, still, still, still,
                     flange_pose(q, robot.limits.chain), q)
    message = convert.arm_state_message(state, state.stamp_ns, 'base', names)
    state = convert.arm_state(message)
    seen = wire.observation_from_bytes(wire.observation_to_bytes(Observation(
        state.stamp_ns, state, GripperState(state.stamp_ns, 0.0, 0.085, 0.0), 'go')))
    chunk = wire.chunk_from_wire(wire.chunk_to_wire(
        served.infer(seen, 'episode', 1.0).chunk, 0.0, 0.0), served.spec)
    action = convert.action(convert.action_message(
        Action(chunk.actions[0].astype(float), chunk.space), clock.now_ns(), 'base', 0))
    safe = convert.decision(convert.decision_message(
        safety.check(action, state), message.header.stamp, 'base', names))
    step = Step(0, clock.now_ns(), state.stamp_ns, state.stamp_ns, {}, action.values, safe.q, 0.0,
                0, 0, safe.clamps)
    return message, step_message(step, seen, Slot.A, chunk.space.value, 'base')


@settings(max_examples=30, deadline=None)
@given(st.integers(1, MOST_JOINTS), st.integers(0, 10**6), st.sampled_from(ActionSpace),
       st.booleans())
def test_what_any_arm_is_asked_and_does_is_read_back(
        message_folders, joints, seed, space, any_arm):
    """From the spec by the wire, the messages and the safety layer into a bag, and out of it."""
    robot, rng, clock = random_arm(joints, seed), np.random.default_rng(seed), ManualClock(10**12)
    spec = wire.spec_from_wire(wire.spec_to_wire(PolicySpec(
        space, wrist_camera=False, external_cameras=0, joints=0 if any_arm else joints)), 'here')
    served, safety = ServedPolicy(Drawn(spec, rng)), Safety(robot.limits, clock)
    maker, rows, q = SampleMaker(SampleEpisode(robot=robot), message_folders), [], np.array(
        robot.reset_joints)
    with TemporaryDirectory() as home, BagWriter(Path(home) / 'A', {}) as bag:
        topics = maker.topics()
        for name in (ARM_TOPIC, STEP_TOPIC):
            bag.add_topic(topics[name])
        for index in range(3):
            message, record = asked_and_done(served, safety, robot, clock, q)
            for name, value in ((ARM_TOPIC, message), (STEP_TOPIC, record)):
                bag.write(Message(name, clock.now_ns(), clock.now_ns(), index + 1,
                                  serialize_message(value)))
            rows.append((q, np.array(record.requested), np.array(record.q_sent)))
            q = rows[-1][-1]
            assert np.all((robot.limits.q_min <= q) & (q <= robot.limits.q_max))
            clock.advance_ns(10**8)
        bag.close()
        with BagReader(Path(home) / 'A') as read:
            tracks = load_tracks(read, Codec())
    assert tracks.arm.joint_names == tuple(robot.joint_names())
    for found, sent in zip((tracks.arm.q, tracks.steps.requested, tracks.steps.q_sent),
                           zip(*rows, strict=True), strict=True):
        assert np.array_equal(found, np.stack(sent))


def test_a_chunk_is_recorded_in_the_layout_in_which_it_came():
    chunk = Chunk(np.full((2, 8), 90.0, np.float32), ActionSpace.JOINT_POSITION)
    for layout, space in (('', 'joint_position'), ('so101/degrees', 'so101/degrees')):
        message = chunk_message(0, 0, replace(chunk, layout=layout), Slot.A, 1, 'base')
        assert (message.action_space, list(message.actions)) == (space, [90.0] * 16)
