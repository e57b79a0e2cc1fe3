"""
Core types to ``arena.policy.v1`` messages and back.

Nothing larger than the limit is ever decoded.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np
import PIL.Image
from google.protobuf.message import DecodeError, Message

from arena_robot.core.action import ActionSpace, Chunk, handled
from arena_robot.core.errors import BadReply, DataError, PolicyRefused
from arena_robot.core.jpeg import (
    from_jpeg,
    from_png,
    thumbnail,
    thumbnail_of_jpeg,
    to_jpeg,
    to_png,
)
from arena_robot.core.observation import (
    ArmState,
    DepthImage,
    GripperState,
    Image,
    LeftOver,
    Observation,
    Pixels,
)
from arena_robot.policy.base import (
    GRIPPER,
    MAX_CHUNK,
    MAX_SIDE,
    PROTOCOL_VERSION,
    PolicySpec,
    check_actions,
    check_spec,
)
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.robots.arms import MOST_JOINTS

M = TypeVar('M', bound=Message)
# The numbers of arena_policy.proto's enum, which must be those of the table.
SPACES = handled({
    space: pb.ActionSpace.Value(f'ACTION_SPACE_{space.name}') for space in ActionSpace
    if (f'ACTION_SPACE_{space.name}', space.row.wire) in pb.ActionSpace.items()
}, 'policy/proto/arena_policy.proto')
SPACE_OF = {number: space for space, number in SPACES.items()}
RESIZES = {'fast': pb.RESIZE_FAST, 'exact': pb.RESIZE_EXACT}
RESIZE_OF = {number: name for name, number in RESIZES.items()}
MAX_IMAGES = 9    # both eyes of three cameras, and depth
# Of a policy that takes the cameras' own pictures; and what an observation has beside pictures.
LARGEST, OTHER_BYTES = (1080, 1920), 64 * 1024
COLUMNS = {space.size(n) for space in ActionSpace for n in range(1, MOST_JOINTS + 1)}


def spec_to_wire(spec: PolicySpec) -> pb.Spec:
    """Return the message of a spec."""
    height, width = spec.image_size or (0, 0)
    return pb.Spec(
        protocol_version=spec.protocol_version, action_space=SPACES[spec.action_space],
        gripper=pb.GRIPPER_CONVENTION_CLOSED_IS_ONE, image_height=height, image_width=width,
        wrist_camera=spec.wrist_camera, external_cameras=spec.external_cameras,
        stereo=spec.stereo, session_id=spec.session_id, chunk_length=spec.chunk_length,
        control_rate_hz=spec.control_rate_hz, resize=RESIZES[spec.resize],
        jpeg_quality=spec.jpeg_quality, pipelined=spec.pipelined, samples=spec.samples,
        open_loop_horizon=spec.open_loop_horizon, real_time_chunking=spec.real_time_chunking,
        blend_steps=spec.blend_steps, warm_up=spec.warm_up,
        joints=None if spec.joints == PolicySpec.joints else spec.joints, layout=spec.layout,
        depth=spec.depth)


def spec_from_wire(message: pb.Spec, source: str) -> PolicySpec:
    """Return the spec ``source`` sent; raises BadReply when it is invalid."""
    if message.action_space not in SPACE_OF:
        raise BadReply(f'the spec of {source} names action space {message.action_space}; known: '
                       f"{', '.join(space.value for space in SPACES)}")
    known = message.gripper == pb.GRIPPER_CONVENTION_CLOSED_IS_ONE
    height, width = message.image_height, message.image_width
    return check_spec(PolicySpec(
        action_space=SPACE_OF[message.action_space],
        image_size=(height, width) if height or width else None,
        wrist_camera=message.wrist_camera, external_cameras=message.external_cameras,
        stereo=message.stereo, session_id=message.session_id,
        chunk_length=message.chunk_length, control_rate_hz=message.control_rate_hz,
        resize=RESIZE_OF.get(message.resize, str(message.resize)),
        jpeg_quality=message.jpeg_quality, pipelined=message.pipelined,
        samples=message.samples, open_loop_horizon=message.open_loop_horizon,
        real_time_chunking=message.real_time_chunking, blend_steps=message.blend_steps,
        warm_up=message.warm_up, protocol_version=message.protocol_version,
        gripper=GRIPPER if known else str(message.gripper),
        joints=message.joints if message.HasField('joints') else PolicySpec.joints,
        layout=message.layout, depth=message.depth), source)


def observation_to_bytes(observation: Observation, jpeg_quality: int = 0) -> bytes:
    """Return a serialized Observation with all of its images, raw when quality is 0."""
    arm, gripper = observation.arm, observation.gripper
    message = pb.Observation(
        stamp_ns=observation.stamp_ns, step=observation.step, prompt=observation.prompt,
        arm_stamp_ns=arm.stamp_ns, joint_position=arm.q.tolist(),
        cartesian_position=arm.pose.tolist(), gripper_stamp_ns=gripper.stamp_ns,
        gripper_position=gripper.position, third_person=observation.third_person,
        joint_names=arm.joint_names,
        images=[image_to_wire(name, image, jpeg_quality)
                for name, image in observation.images.items()] + [
                    depth_to_wire(name, depth) for name, depth in observation.depths.items()])
    return bytes(message.SerializeToString())


def image_to_wire(name: str, image: Image, jpeg_quality: int = 0) -> pb.Image:
    """Return the message of an image, raw when quality is 0."""
    height, width = image.pixels.shape[:2]
    return pb.Image(
        view=name, height=height, width=width, stamp_ns=image.stamp_ns,
        encoding=pb.ENCODING_JPEG if jpeg_quality else pb.ENCODING_RGB8,
        data=to_jpeg(image.pixels, jpeg_quality) if jpeg_quality else image.pixels.tobytes())


def depth_to_wire(name: str, depth: DepthImage) -> pb.Image:
    """Return the message of a depth image."""
    height, width = depth.millimetres.shape
    return pb.Image(view=name, height=height, width=width, stamp_ns=depth.stamp_ns,
                    encoding=pb.ENCODING_DEPTH16_PNG, data=to_png(depth.millimetres))


def check_size(observation: bytes, spec: PolicySpec) -> None:
    """
    Raise PolicyRefused for an observation that is larger than its pictures can be.

    Parsed, many small images take forty times the memory of their bytes.
    """
    height, width = spec.image_size or LARGEST
    most = OTHER_BYTES + MAX_IMAGES * height * width * 3
    if len(observation) > most:
        raise PolicyRefused(f'the observation has {len(observation)} bytes; with pictures of '
                            f'{height}x{width} (height x width) it has at most {most}')


def parsed(kind: type[M], data: bytes, what: str) -> M:
    """Return the message in ``data``, ``what`` in words; PolicyRefused when it cannot be read."""
    try:
        message: M = kind.FromString(data)
    except DecodeError as error:
        raise PolicyRefused(f'the {what} is no {kind.DESCRIPTOR.full_name}: {error}') from error
    return message


def observation_of_request(request: pb.InferRequest) -> Observation:
    """Return the observation of a request; raises PolicyRefused when it cannot be read."""
    seen = observation_from_bytes(request.observation, request.episode_seed)
    if seen.step != request.step:
        raise PolicyRefused(f'the request is of step {request.step} and its observation of step '
                            f'{seen.step}; send the same')
    if not request.HasField('left_over'):
        return seen
    left = request.left_over
    if not 1 <= left.rows <= MAX_CHUNK or left.columns not in COLUMNS \
            or left.rows * left.columns != len(left.actions) or left.inference_delay > left.rows:
        raise PolicyRefused(f'left_over says {left.rows}x{left.columns} actions and a delay of '
                            f'{left.inference_delay}, and has {len(left.actions)} numbers')
    actions = np.array(left.actions, np.float64).reshape(left.rows, left.columns)
    if not np.all(np.isfinite(actions)):
        raise PolicyRefused('left_over has numbers that are not finite')
    return replace(seen, left_over=LeftOver(actions, left.inference_delay))


def left_over_to_wire(left: LeftOver) -> pb.LeftOver:
    """Return the message of what is left of a chunk."""
    rows, columns = left.actions.shape
    return pb.LeftOver(actions=left.actions.ravel().tolist(), rows=rows, columns=columns,
                       inference_delay=left.inference_delay)


def observation_message(data: bytes) -> pb.Observation:
    """Return the message in ``data``; raises PolicyRefused when it cannot be read."""
    message = parsed(pb.Observation, data, 'observation')
    if len(message.images) > MAX_IMAGES:
        raise PolicyRefused(f'at most {MAX_IMAGES} images are accepted, found '
                            f'{len(message.images)}')
    return message


def observation_from_bytes(data: bytes, episode_seed: int = 0) -> Observation:
    """
    Return the observation in ``data``; raises PolicyRefused when it cannot be read.

    Velocities, torques and widths are not sent: they are NaN.
    """
    message = observation_message(data)
    return partial_observation(
        message.stamp_ns, np.array(message.joint_position), np.array(message.cartesian_position),
        message.gripper_position, message.prompt, message.step,
        {image.view: image_from_wire(image) for image in message.images
         if image.encoding != pb.ENCODING_DEPTH16_PNG},
        message.arm_stamp_ns, message.gripper_stamp_ns, episode_seed,
        message.third_person or 'left', tuple(message.joint_names),
        {image.view: depth_from_wire(image) for image in message.images
         if image.encoding == pb.ENCODING_DEPTH16_PNG})


def image_from_wire(message: pb.Image) -> Image:
    """Return the image of a message; raises PolicyRefused when it cannot be read."""
    decode = DECODERS.get(message.encoding)
    if decode is None:
        raise PolicyRefused(f"image '{message.view}' has unknown encoding {message.encoding}; "
                            'send ENCODING_RGB8 or ENCODING_JPEG')
    return Image(decode(message.data, message.height, message.width), message.stamp_ns)


def depth_from_wire(message: pb.Image) -> DepthImage:
    """Return the depth of a message; raises PolicyRefused when it cannot be read."""
    _check_sides(message.height, message.width)
    try:
        depth = from_png(message.data, message.height * message.width)
    except DataError as error:
        raise PolicyRefused(f"depth '{message.view}' cannot be read: {error}") from error
    if depth.shape != (message.height, message.width):
        raise PolicyRefused(f"depth '{message.view}' was announced as {message.height}x"
                            f'{message.width} (height x width) and is {depth.shape}')
    return DepthImage(depth, message.stamp_ns)


def thumbnail_from_wire(message: pb.Image) -> Pixels:
    """Return the thumbnail of an image; raises PolicyRefused when it cannot be read."""
    if message.encoding != pb.ENCODING_JPEG:
        return thumbnail(image_from_wire(message).pixels)
    _check_jpeg(message.data, message.height, message.width)
    with _readable():
        return thumbnail_of_jpeg(message.data)


def from_announced_jpeg(data: bytes, height: int, width: int) -> Pixels:
    """Return (height, width, 3) RGB; raises PolicyRefused when the bytes say otherwise."""
    _check_jpeg(data, height, width)
    with _readable():
        return from_jpeg(data)


def _check_jpeg(data: bytes, height: int, width: int) -> None:
    """Raise PolicyRefused unless the header says what was announced."""
    _check_sides(height, width)
    try:
        with PIL.Image.open(io.BytesIO(data), formats=('JPEG',)) as header:
            size = header.size
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise PolicyRefused(f'an image is not a JPEG that can be read: {error}') from error
    if size != (width, height):
        raise PolicyRefused(f'a JPEG was announced as {height}x{width} (height x width) and is '
                            f'{size[1]}x{size[0]}')


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise PolicyRefused('an image is not a JPEG that can be read') from error


def from_rgb8(data: bytes, height: int, width: int) -> Pixels:
    """Return (height, width, 3) RGB; raises PolicyRefused when the length does not fit."""
    _check_sides(height, width)
    if len(data) != height * width * 3:
        raise PolicyRefused(f'a raw image of {height}x{width} (height x width) needs '
                            f'{height * width * 3} bytes, found {len(data)}')
    out: Pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3).copy()
    return out


def _check_sides(height: int, width: int) -> None:
    """Raise PolicyRefused unless both sides are 1 to MAX_SIDE pixels."""
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise PolicyRefused(f'image sides must be 1 to {MAX_SIDE} pixels, found {height}x{width}')


DECODERS: dict[int, Callable[[bytes, int, int], Pixels]] = {
    pb.ENCODING_RGB8: from_rgb8, pb.ENCODING_JPEG: from_announced_jpeg}


def partial_observation(stamp_ns: int, q: np.ndarray, pose: np.ndarray, gripper: float,
                        prompt: str, step: int, images: dict[str, Image],
                        arm_stamp_ns: int, gripper_stamp_ns: int,
                        episode_seed: int = 0, third_person: str = 'left',
                        joint_names: tuple[str, ...] = (),
                        depths: Mapping[str, DepthImage] | None = None) -> Observation:
    """Return an observation of what is sent: q (n,), pose (6,), gripper; NaN for the rest."""
    unknown = np.full(len(q), np.nan)
    arm = ArmState(arm_stamp_ns, q, unknown, unknown, unknown, pose, unknown,
                   joint_names=joint_names)
    return Observation(
        stamp_ns, arm, GripperState(gripper_stamp_ns, gripper, float('nan'), float('nan')),
        prompt, step, images, episode_seed, third_person=third_person, depths=depths or {})


def chunk_to_wire(chunk: Chunk, queue_s: float, infer_s: float) -> pb.InferReply:
    """Return the message of a chunk with the server's timings."""
    rows, columns = chunk.actions.shape
    return pb.InferReply(
        actions=chunk.actions.ravel().tolist(), rows=rows, columns=columns,
        action_space=SPACES[chunk.space],
        timings=pb.Timings(queue_s=queue_s, infer_s=infer_s))


def chunk_from_wire(message: pb.InferReply, spec: PolicySpec) -> Chunk:
    """Return the chunk; raises BadReply when it is not what ``spec`` promises."""
    if message.rows * message.columns != len(message.actions):
        raise BadReply(f'the reply says {message.rows}x{message.columns} actions and holds '
                       f'{len(message.actions)} numbers')
    space = SPACE_OF.get(message.action_space)
    if space is not spec.action_space:
        raise BadReply(f'the reply is in {space.value if space else message.action_space}, the '
                       f'spec promises {spec.action_space.value}')
    actions = np.array(message.actions, np.float32).reshape(message.rows, message.columns)
    return Chunk(check_actions(actions, spec), space, message.timings.infer_s,
                 message.open_loop_horizon, message.blend_steps, message.pipelined,
                 message.real_time_chunking)


def check_version(version: int) -> None:
    """Raise PolicyRefused unless a request speaks this protocol version."""
    if version != PROTOCOL_VERSION:
        raise PolicyRefused(f'protocol version {version} was asked for, this server speaks '
                            f'{PROTOCOL_VERSION}; use matching releases at both ends')
