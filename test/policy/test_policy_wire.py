"""Core words to messages and back, and everything that must not pass."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_samples import observation, photograph, pictures

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, PolicyRefused
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import DepthImage
from arena_robot.policy.base import (
    PolicySpec,
    check_actions,
    check_chunk,
    check_observation,
    check_spec,
)
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import query_request
from arena_robot.policy.grpc.wire import from_announced_jpeg
from arena_robot.policy.proto import arena_policy_pb2 as pb

SPECS = st.builds(
    PolicySpec, action_space=st.sampled_from(ActionSpace),
    image_size=st.none() | st.tuples(st.integers(1, 4096), st.integers(1, 4096)),
    wrist_camera=st.booleans(), external_cameras=st.integers(0, 2), stereo=st.booleans(),
    session_id=st.booleans(), chunk_length=st.integers(0, 1024),
    control_rate_hz=st.floats(0.1, 1000.0), resize=st.sampled_from(['fast', 'exact']),
    jpeg_quality=st.integers(0, 100), pipelined=st.booleans(), joints=st.integers(0, 16),
    layout=st.sampled_from(['', 'so101/degrees']), depth=st.booleans())


@given(SPECS)
def test_a_spec_survives_the_wire(spec):
    data = wire.spec_to_wire(spec).SerializeToString()
    assert wire.spec_from_wire(pb.Spec.FromString(data), 'here') == spec


@pytest.mark.parametrize(('change', 'says'), [
    ({'protocol_version': 2}, 'protocol_version must be 1, found 2'),
    ({'external_cameras': 3}, 'external_cameras must be 0, 1 or 2, found 3'),
    ({'image_height': 0}, 'image_size'),
    ({'image_height': 100_000}, 'image_size'),
    ({'action_space': pb.ACTION_SPACE_UNSPECIFIED}, 'action space 0; known: joint_position'),
    ({'gripper': pb.GRIPPER_CONVENTION_UNSPECIFIED}, 'gripper'),
    ({'resize': 17}, "resize must be 'fast' or 'exact', found '17'"),
    ({'control_rate_hz': float('nan')}, 'control_rate_hz'),
    ({'jpeg_quality': 101}, 'jpeg_quality'),
    ({'chunk_length': 5000}, 'chunk_length'),
])
def test_a_senseless_spec_is_refused(change, says):
    message = wire.spec_to_wire(PolicySpec())
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(BadReply, match=says):
        wire.spec_from_wire(message, 'here')


def test_an_observation_survives_the_wire():
    sent = observation(pictures(PolicySpec()))
    seen = wire.observation_from_bytes(wire.observation_to_bytes(sent))
    assert (seen.stamp_ns, seen.arm.stamp_ns, seen.gripper.stamp_ns) == (103, 101, 102)
    assert (seen.prompt, seen.step, seen.gripper.position) == ('put the cup away', 7, 0.25)
    assert np.array_equal(seen.arm.q, sent.arm.q)
    assert np.array_equal(seen.arm.pose, sent.arm.pose)
    for name, image in sent.images.items():
        assert np.array_equal(seen.images[name].pixels, image.pixels)
        assert seen.images[name].stamp_ns == image.stamp_ns
        assert seen.images[name].pixels.flags.writeable


@pytest.mark.parametrize(('change', 'says'), [
    ({'height': 5}, r'announced as 5x6 .* and is \(4, 6\)'), ({'data': b'no'}, 'cannot be read'),
    ({'data': to_jpeg(np.zeros((4, 6, 3), np.uint8))}, 'a PNG of 16 bits'),
    ({'height': 100_000}, 'sides must be')])
def test_senseless_depth_is_refused(change, says):
    sent = pb.Observation(images=[wire.depth_to_wire(
        'wrist_depth', DepthImage(np.zeros((4, 6), np.uint16), 5))])
    for name, value in change.items():
        setattr(sent.images[0], name, value)
    with pytest.raises(PolicyRefused, match=says):
        wire.observation_from_bytes(sent.SerializeToString())


def test_what_does_not_travel_is_not_invented():
    seen = wire.observation_from_bytes(wire.observation_to_bytes(observation()))
    for values in (seen.arm.dq, seen.arm.tau, seen.arm.tau_ext, seen.arm.q_desired):
        assert np.all(np.isnan(values))
    assert np.isnan(seen.gripper.width_m)


@pytest.mark.parametrize('pixels', [
    np.arange(2 * 200 * 3, dtype=np.uint8).reshape(2, 200, 3),
    np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)[::2, ::3],
    np.zeros((0, 5, 3), np.uint8)],
    ids=['whole', 'a part of an array', 'empty'])
def test_images_are_written_as_protobuf_writes_them(pixels):
    seen = observation({'wrist_left': pixels, 'left_left': pixels})
    message = pb.Observation.FromString(wire.observation_to_bytes(seen))
    assert [image.view for image in message.images] == list(seen.images)
    assert all(image.data == pixels.tobytes() for image in message.images)
    assert pb.Observation.FromString(message.SerializeToString()) == message
    assert message.step == seen.step


def test_jpeg_is_close_and_smaller():
    pixels = photograph(224, 224)[..., :1] // (1, 2, 4)
    pixels = pixels.astype(np.uint8)
    sent = observation({'left_left': pixels})
    raw, small = wire.observation_to_bytes(sent), wire.observation_to_bytes(sent, 90)
    decoded = wire.observation_from_bytes(small).images['left_left'].pixels
    assert len(small) < len(raw) / 3
    assert np.abs(decoded.astype(float) - pixels).mean() < 5.0


@pytest.mark.parametrize('damage', [
    lambda image: setattr(image, 'height', 3),
    lambda image: setattr(image, 'height', 1 << 30),
    lambda image: setattr(image, 'width', 0),
    lambda image: setattr(image, 'encoding', 9),
    lambda image: setattr(image, 'encoding', pb.ENCODING_JPEG),
    lambda image: setattr(image, 'data', b''),
])
def test_a_broken_image_is_refused(damage):
    message = pb.Observation.FromString(wire.observation_to_bytes(
        observation({'left_left': np.zeros((8, 8, 3), np.uint8)})))
    damage(message.images[0])
    with pytest.raises(PolicyRefused, match=r'image|JPEG'):
        wire.observation_from_bytes(message.SerializeToString())


def test_a_jpeg_larger_than_it_says_is_never_decoded():
    data = to_jpeg(np.zeros((300, 200, 3), np.uint8), 50)
    with pytest.raises(PolicyRefused, match=r'announced as 8x8 .* is 300x200'):
        from_announced_jpeg(data, 8, 8)
    with pytest.raises(PolicyRefused, match='JPEG'):
        from_announced_jpeg(data[:200], 300, 200)


def test_too_many_images_are_refused():
    message = pb.Observation(images=[pb.Image(view=str(n)) for n in range(10)])
    with pytest.raises(PolicyRefused, match='at most 9'):
        wire.observation_from_bytes(message.SerializeToString())


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(PolicyRefused):
        assert len(wire.observation_from_bytes(data).images) <= 6


@given(st.sampled_from(ActionSpace), st.integers(1, 20), st.integers(1, 14), st.booleans(),
       st.integers(0, 1000))
def test_a_chunk_survives_the_wire(space, length, joints, any_arm, seed):
    size, random = space.size(joints), np.random.default_rng(seed)
    actions = random.normal(size=(length, size)).astype(np.float32)
    message = wire.chunk_to_wire(Chunk(actions, space), 0.1, 0.2)
    spec = PolicySpec(action_space=space, joints=0 if any_arm else joints)
    chunk = wire.chunk_from_wire(message, spec)
    assert np.array_equal(chunk.actions, actions)
    assert chunk.actions.dtype == np.float32
    assert (chunk.space, chunk.inference_s) == (space, 0.2)


@pytest.mark.parametrize(('actions', 'says'), [
    (np.zeros(8), r'must be \(N, 8\) for joint_position, found \(8,\)'),
    (np.zeros((3, 7)), r'found \(3, 7\)'),
    (np.zeros((1, 3, 8)), r'found \(1, 3, 8\)'),
    (np.zeros((0, 8)), 'must hold 1 to 1024 actions, found 0'),
    (np.zeros((2000, 8)), 'found 2000'),
    (np.full((3, 8), np.nan), 'found nan in row 0, column 0'),
    (np.full((3, 8), np.inf), 'found inf'),
    (np.full((3, 8), 1e300), 'found inf'),
    (np.full((3, 8), 'a'), 'must be numbers'),
    (np.full((3, 8), None), 'must be numbers, found dtype object'),
])
def test_a_bad_chunk_is_refused(actions, says):
    with pytest.raises(BadReply, match=says):
        check_actions(actions, PolicySpec())


def test_a_chunk_of_another_length_or_space_is_refused():
    with pytest.raises(BadReply, match='promises chunks of 8 actions, found 4'):
        check_actions(np.zeros((4, 8)), PolicySpec(chunk_length=8))
    with pytest.raises(BadReply, match='in joint_velocity, the spec promises joint_position'):
        check_chunk(Chunk(np.zeros((4, 8)), ActionSpace.JOINT_VELOCITY), PolicySpec())
    with pytest.raises(BadReply, match='must return a Chunk, found a dict'):
        check_chunk({'actions': np.zeros((4, 8))}, PolicySpec())


def test_an_arm_with_other_joints_and_a_chunk_for_it_are_refused():
    seen = observation(pictures(PolicySpec()))
    check_observation(seen, PolicySpec(joints=0))
    with pytest.raises(PolicyRefused, match='joint_position must be 6 finite numbers'):
        check_observation(seen, PolicySpec(joints=6))
    with pytest.raises(BadReply, match=r'must be \(N, 7\) for joint_position, found \(4, 8\)'):
        check_actions(np.zeros((4, 8)), PolicySpec(joints=0), joints=6)
    with pytest.raises(BadReply, match=r'must be \(N, 17\) for joint_position, found \(4, 40\)'):
        check_actions(np.zeros((4, 40)), PolicySpec(joints=0))
    with pytest.raises(BadReply, match='joints must be 0'):
        check_spec(PolicySpec(joints=17), 'here')


def test_numbers_that_do_not_fill_the_chunk_are_refused():
    reply = pb.InferReply(actions=[0.0] * 15, rows=2, columns=8, action_space=1)
    with pytest.raises(BadReply, match='says 2x8 actions and holds 15'):
        wire.chunk_from_wire(reply, PolicySpec())


@pytest.mark.parametrize(('sent', 'says'), [
    (observation(), "'left_left' is missing"),
    (observation(pictures(PolicySpec(), 223)), 'must be 224x224 .* found 223x224'),
    (observation(pictures(PolicySpec()), q=float('nan')), 'joint_position must be 7 finite'),
    (observation(pictures(PolicySpec()), prompt='x' * 20_000), 'the prompt has 20000'),
])
def test_an_observation_that_does_not_fit_is_refused(sent, says):
    with pytest.raises(PolicyRefused, match=says):
        check_observation(sent, PolicySpec())


def test_a_request_whose_step_is_not_that_of_its_observation_is_refused():
    request = query_request(observation(pictures(PolicySpec())), 'e', PolicySpec())
    assert wire.observation_of_request(request).step == request.step == 7
    request.step = 8
    with pytest.raises(PolicyRefused, match='of step 8 and its observation of step 7'):
        wire.observation_of_request(request)


def test_an_observation_larger_than_its_pictures_can_be_is_not_parsed():
    """2 MiB of empty images are a million messages."""
    spec = PolicySpec(image_size=(224, 224))
    wire.check_size(bytes(6 * 224 * 224 * 3), spec)
    with pytest.raises(PolicyRefused, match='2097152 bytes; with pictures of 224x224'):
        wire.check_size(b'\x4a\x00' * (1 << 20), spec)
