"""
Core types to openpi/RoboArena dictionaries and back, and these to msgpack with numpy arrays.

An array is the map ``{b'__ndarray__': True, b'data', b'dtype', b'shape'}``, a numpy scalar
``{b'__npgeneric__': True, b'data', b'dtype'}``. Nothing is ever unpickled, and only booleans,
integers and floats are accepted.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, DataError, PolicyRefused
from arena_robot.core.observation import EYES, VIEWS, Image, Observation, Pixels, view
from arena_robot.policy.base import (
    MAX_SIDE,
    PolicySpec,
    check_actions,
    check_spec,
    resting_arm,
)
from arena_robot.policy.grpc.wire import partial_observation
from arena_robot.policy.options import CallOptions
from arena_robot.policy.resizing import MIDDLE, within
from arena_robot.robots.arms import MOST_JOINTS

NAMES = {'left': 'exterior_image_1', 'right': 'exterior_image_2', 'wrist': 'wrist_image'}
IMAGE_KEYS = {view(role, eye): f'observation/{name}_{eye}'
              for role, name in NAMES.items() for eye in EYES}
# The first external camera is number 0 in RoboArena's own test of a server.
FROM_ZERO = {name: key.replace('_1_', '_0_').replace('_2_', '_1_')
             for name, key in IMAGE_KEYS.items()}
ONLY_FROM_ZERO = frozenset(FROM_ZERO.values()) - frozenset(IMAGE_KEYS.values())
JOINT_KEY = 'observation/joint_position'
POSE_KEY = 'observation/cartesian_position'
GRIPPER_KEY = 'observation/gripper_position'
SEED_KEY = 'episode_seed'    # of this package: other servers do not read it
PLAIN_KINDS = 'biuf'
DTYPE_CHARS = 16


def metadata_of(spec: PolicySpec) -> dict[str, Any]:
    """
    Return the first frame a server sends: RoboArena's six keys, no other for seven joints.

    Clients build their configuration from it by keyword and fail on a key they do not know, such
    as ``joints`` and ``layout``, which a policy of other arms or layouts sends too.
    """
    return {
        'image_resolution': spec.image_size,
        'needs_wrist_camera': spec.wrist_camera,
        'n_external_cameras': spec.external_cameras,
        'needs_stereo_camera': spec.stereo,
        'needs_session_id': spec.session_id,
        'action_space': spec.action_space.value,
        **({} if spec.joints in (0, PolicySpec.joints) else {'joints': spec.joints}),
        **({'layout': spec.layout} if spec.layout else {}),
    }


def spec_of(metadata: Any, source: str, action_space: ActionSpace | None = None) -> PolicySpec:
    """
    Return the spec in a server's first frame; raises BadReply when it is invalid.

    Absent keys take RoboArena's defaults, except for the action space: velocities must never be
    taken for positions, so without the key ``action_space`` has to say it. No image size means
    288x512, what the reference client sends then.
    """
    if not isinstance(metadata, Mapping):
        raise BadReply(f'{source} must send a map of metadata first, found a '
                       f'{type(metadata).__name__}')
    size = metadata.get('image_resolution')
    space = metadata.get('action_space', action_space)
    if space is None:
        raise BadReply(f'{source} does not say its action space; say it in the address, such as '
                       f'{source}?action_space=joint_velocity')
    try:
        spec = PolicySpec(
            action_space=ActionSpace(space),
            image_size=MIDDLE if size is None else _pair(size),
            wrist_camera=bool(metadata.get('needs_wrist_camera', True)),
            external_cameras=int(metadata.get('n_external_cameras', 1)),
            stereo=bool(metadata.get('needs_stereo_camera', False)),
            session_id=bool(metadata.get('needs_session_id', False)),
            joints=int(metadata.get('joints', PolicySpec.joints)),
            layout=str(metadata.get('layout', '')))
    except (TypeError, ValueError) as error:
        raise BadReply(f'the metadata of {source} cannot be used: {error}') from error
    return check_spec(spec, source)


def completed(spec: PolicySpec, options: CallOptions, source: str) -> PolicySpec:
    """Return a spec with what an openpi server cannot say of itself; raises BadReply."""
    return check_spec(dataclasses.replace(
        spec, open_loop_horizon=options.open_loop_horizon, pipelined=options.pipelined,
        blend_steps=options.blend_steps, warm_up=options.warm_up,
        joints=spec.joints if options.joints is None else options.joints,
        layout=options.layout or spec.layout), source)


def request_of(observation: Observation, episode: str, spec: PolicySpec) -> dict[str, Any]:
    """Return the infer request; the episode is sent as session id only when requested."""
    request: dict[str, Any] = {
        JOINT_KEY: np.asarray(observation.arm.q, np.float64),
        POSE_KEY: np.asarray(observation.arm.pose, np.float64),
        GRIPPER_KEY: np.array([observation.gripper.position], np.float64),
        'prompt': observation.prompt,
        'endpoint': 'infer',
    }
    for name, image in observation.images.items():
        if name not in IMAGE_KEYS:
            raise PolicyRefused(f"image '{name}' has no key in this protocol; known: "
                                f"{', '.join(IMAGE_KEYS)}")
        request[IMAGE_KEYS[name]] = image.pixels
    if spec.session_id:
        request['session_id'] = episode
    return request


def observation_of(request: Mapping[Any, Any], stamp_ns: int,
                   image_size: tuple[int, int] | None = None, joints: int = PolicySpec.joints,
                   ) -> Observation:
    """
    Return the observation in an infer request, stamped on arrival; ``joints`` 0: of any arm.

    The protocol has no stamps and no step index. A pose that was not sent is NaN. What openpi's
    own transforms accept is converted: prompts as bytes, images of floats from 0 to 1 or with the
    channels first, and, with padding, images that are not of ``image_size``; cameras may be
    counted from 0, as RoboArena's test of a server does. Raises PolicyRefused naming the key that
    is missing or wrong.
    """
    q = _numbers(request, JOINT_KEY, joints)
    pose = _numbers(request, POSE_KEY, 6) if POSE_KEY in request else np.full(6, np.nan)
    gripper = _numbers(request, GRIPPER_KEY, 1)
    keys = IMAGE_KEYS if ONLY_FROM_ZERO.isdisjoint(request) else FROM_ZERO
    images = {name: Image(pixels_of(request[keys[name]], keys[name], image_size), stamp_ns)
              for name in VIEWS if keys[name] in request}
    return partial_observation(stamp_ns, q, pose, float(gripper[0]), _prompt(request), 0, images,
                               stamp_ns, stamp_ns, _seed(request))


def is_connection_test(request: Mapping[Any, Any]) -> bool:
    """Tell whether a request holds nothing but its endpoint, as in RoboArena's README."""
    return request.keys() <= {'endpoint'}


def test_observation(spec: PolicySpec, stamp_ns: int) -> Observation:
    """Return what a connection test shows to the policy: DROID's reset pose, black pictures."""
    height, width = spec.image_size or MIDDLE
    arm = resting_arm(spec, stamp_ns)
    images = {name: Image(np.zeros((height, width, 3), np.uint8), stamp_ns)
              for name in spec.views()}
    return partial_observation(stamp_ns, arm.q, arm.pose, 0.0, '', 0, images, stamp_ns,
                               stamp_ns)


def session_of(request: Mapping[Any, Any]) -> str:
    """Return the request's session id as text, empty when it has none."""
    value = request.get('session_id', '')
    return str(value.tolist()) if isinstance(value, np.ndarray) else str(value)


def chunk_of(reply: Any, spec: PolicySpec) -> Chunk:
    """
    Return the chunk in a reply: a map with ``actions`` (N, D), or a bare array.

    One action (D,) is a chunk of one. Raises BadReply when it breaks ``spec``.
    """
    actions = reply.get('actions') if isinstance(reply, Mapping) else reply
    if actions is None:
        raise BadReply(f"the reply has no 'actions', found {sorted(map(str, reply))}")
    array = np.asarray(actions)
    timing = reply.get('server_timing') if isinstance(reply, Mapping) else None
    infer_ms = timing.get('infer_ms', 0.0) if isinstance(timing, Mapping) else 0.0
    return Chunk(check_actions(array[None] if array.ndim == 1 else array, spec),
                 spec.action_space,
                 float(infer_ms) * 1e-3 if isinstance(infer_ms, int | float) else 0.0)


def _pair(size: Any) -> tuple[int, int]:
    height, width = (int(side) for side in size)
    return height, width


def _numbers(request: Mapping[Any, Any], key: str, size: int) -> np.ndarray:
    if key not in request:
        raise PolicyRefused(f"'{key}' is missing, found {sorted(map(str, request))}")
    value = np.asarray(request[key])
    known = (size,) if size else range(1, MOST_JOINTS + 1)
    if value.dtype.kind not in 'fiu' or value.size not in known:
        raise PolicyRefused(f"'{key}' must be {size or f'1 to {MOST_JOINTS}'} numbers, found "
                            f'shape {value.shape} of {value.dtype}')
    return value.reshape(-1).astype(np.float64)


def _prompt(request: Mapping[Any, Any]) -> str:
    prompt = request.get('prompt')
    if isinstance(prompt, bytes):
        prompt = prompt.decode('utf-8', 'replace')
    if not isinstance(prompt, str):
        raise PolicyRefused(f"'prompt' must be a string, found a {type(prompt).__name__}")
    return prompt


def _seed(request: Mapping[Any, Any]) -> int:
    seed = request.get(SEED_KEY, 0)
    if not isinstance(seed, int) or not 0 <= seed < 1 << 32:
        raise PolicyRefused(f"'{SEED_KEY}' must be a whole number below 2**32, found {seed!r:.40}")
    return seed


def pixels_of(value: Any, key: str, size: tuple[int, int] | None = None) -> Pixels:
    """Return (H, W, 3) bytes of a picture, within ``size`` if given. Raises PolicyRefused."""
    if not isinstance(value, np.ndarray) or value.ndim != 3:
        raise PolicyRefused(f"'{key}' must be a (height, width, 3) uint8 array, found a "
                            f'{type(value).__name__}')
    if value.shape[0] == 3 and value.shape[2] != 3:
        value = value.transpose(1, 2, 0)
    if value.dtype.kind == 'f' and value.size and value.min() >= 0.0 and value.max() <= 1.0:
        value = (255.0 * value).astype(np.uint8)
    if value.shape[2] != 3 or value.dtype != np.uint8:
        raise PolicyRefused(f"'{key}' must be (height, width, 3) uint8, or floats from 0 to 1, "
                            f'found {value.shape} {value.dtype}')
    out: Pixels = np.array(value)
    if size is None or not all(1 <= side <= MAX_SIDE for side in out.shape[:2]):
        return out
    return within(out, *size)


def pack(value: Any) -> bytes:
    """Return ``value`` as msgpack; raises DataError on what the format cannot carry."""
    try:
        packed: bytes = msgpack.packb(value, default=_encode)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f'cannot be sent as msgpack: {error}') from error
    return packed


def unpack(data: bytes | bytearray, most_bytes: int = 0, most_items: int = 0) -> Any:
    """
    Return what ``data`` holds, arrays read-only; raises DataError when it is malformed.

    It may have ``most_bytes``, and ``most_items`` in each list and map; 0: as many as there are.
    Of small objects it takes seventy times the memory of its bytes. Depth is bounded by msgpack.
    """
    if 0 < most_bytes < len(data):
        raise DataError(f'{len(data)} bytes of msgpack were sent, at most {most_bytes} are read')
    items = most_items or -1
    try:
        return msgpack.unpackb(data, object_hook=_decode, strict_map_key=False,
                               max_array_len=items, max_map_len=items)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise DataError(f'{len(data)} bytes are not the msgpack that was expected: {error}'
                        ) from error


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in PLAIN_KINDS:
        raise DataError(f'arrays of dtype {value.dtype} are not sent; use numbers')
    if isinstance(value, np.ndarray):
        return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
                b'shape': value.shape}
    if isinstance(value, np.generic):
        return {b'__npgeneric__': True, b'data': value.item(), b'dtype': value.dtype.str}
    raise TypeError(f'a {type(value).__name__} cannot be sent')


def _decode(value: dict[Any, Any]) -> Any:
    if b'__ndarray__' in value:
        return _array(value)
    if b'__npgeneric__' in value:
        return _dtype(value.get(b'dtype')).type(value.get(b'data'))
    return value


def _array(value: dict[Any, Any]) -> np.ndarray:
    data, shape = value.get(b'data'), value.get(b'shape')
    dtype = _dtype(value.get(b'dtype'))
    if not isinstance(data, bytes) or not isinstance(shape, list) or not all(
            isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError('an array needs its data as bytes and its shape as whole numbers')
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f'an array of shape {shape} and dtype {dtype} needs '
                         f'{math.prod(shape) * dtype.itemsize} bytes, found {len(data)}')
    return np.frombuffer(data, dtype).reshape(shape)


def _dtype(name: Any) -> np.dtype:
    text = name.decode('ascii', 'replace') if isinstance(name, bytes) else str(name)
    if len(text) > DTYPE_CHARS:
        raise ValueError(f'a dtype of {len(text)} characters is refused')
    dtype = np.dtype(text)
    if dtype.kind not in PLAIN_KINDS:
        raise ValueError(f'dtype {text!r} is refused; only booleans, integers and floats are read')
    return dtype
