"""Checks by client and server: an observation against a spec, a chunk against a spec."""

import math

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, PolicyRefused
from arena_robot.core.observation import Observation
from arena_robot.policy.base import MAX_CHUNK, PolicySpec
from arena_robot.robots.arms import DOF

MAX_PROMPT = 10_000


def check_spec(spec: PolicySpec, source: str) -> PolicySpec:
    """Return ``spec``; raises BadReply with a list of its errors."""
    if not isinstance(spec, PolicySpec):
        raise BadReply(f'the spec of {source} must be a PolicySpec, found a '
                       f'{type(spec).__name__}: write spec = PolicySpec(image_size=(224, 224))')
    try:
        problems = spec.problems()
    except TypeError as error:
        raise BadReply(f'the spec of {source} has a value of a wrong type: {error}') from error
    if problems:
        raise BadReply(f"the spec of {source} cannot be used: {'; '.join(problems)}")
    return spec


def check_observation(observation: Observation, spec: PolicySpec) -> None:
    """
    Raise PolicyRefused when a required image is missing or of another size.

    A pose of NaN alone means that the caller did not send one.
    """
    _check_state(observation)
    if len(observation.prompt) > MAX_PROMPT:
        raise PolicyRefused(f'the prompt has {len(observation.prompt)} characters, at most '
                            f'{MAX_PROMPT} are accepted')
    views = spec.views()
    for name in views:
        if name not in observation.images:
            raise PolicyRefused(
                f"image '{name}' is missing; this policy wants {', '.join(views)}, "
                f"found {', '.join(observation.images) or 'none'}")
        pixels = observation.images[name].pixels
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise PolicyRefused(f"image '{name}' must be (height, width, 3) uint8, found "
                                f'{pixels.shape} {pixels.dtype}')
        if spec.image_size is not None and pixels.shape[:2] != tuple(spec.image_size):
            raise PolicyRefused(f"image '{name}' must be {spec.image_size[0]}x"
                                f'{spec.image_size[1]} (height x width), found '
                                f'{pixels.shape[0]}x{pixels.shape[1]}')


def _check_state(observation: Observation) -> None:
    arm = observation.arm
    if len(arm.joint_names) not in (0, DOF):
        raise PolicyRefused(f'joint_names must name {DOF} joints, found {len(arm.joint_names)}')
    for name, values, size in (('joint_position', arm.q, DOF), ('cartesian_position', arm.pose, 6),
                               ('gripper_position', [observation.gripper.position], 1)):
        found = np.asarray(values)
        numbers = found.tolist()    # of so few numbers it is the cheapest look
        if found.shape == (size,) and all(map(math.isfinite, numbers)):
            continue
        if values is not arm.pose or found.shape != (6,) or not all(map(math.isnan, numbers)):
            raise PolicyRefused(f'{name} must be {size} finite numbers, found {numbers}')


def check_chunk(chunk: object, spec: PolicySpec) -> Chunk:
    """Return a chunk with float32 actions; raises BadReply when it breaks ``spec``."""
    if not isinstance(chunk, Chunk):
        shape = f' of shape {chunk.shape}' if isinstance(chunk, np.ndarray) else ''
        raise BadReply(f'infer must return a Chunk, found a {type(chunk).__name__}{shape}: write '
                       'return Chunk(actions, self.spec.action_space)')
    if chunk.space is not spec.action_space:
        raise BadReply(f'the chunk is in {ActionSpace(chunk.space).value}, the spec promises '
                       f'{spec.action_space.value}')
    return Chunk(check_actions(chunk.actions, spec), chunk.space, chunk.inference_s)


def check_actions(actions: object, spec: PolicySpec) -> np.ndarray:
    """Return ``actions`` as (N, 7 or 8) float32; raises BadReply when they break ``spec``."""
    array = np.asarray(actions)
    size = spec.action_space.size
    if array.dtype.kind not in 'fiu':
        raise BadReply(f'actions must be numbers, found dtype {array.dtype}; return a float32 '
                       'array')
    if array.ndim != 2 or array.shape[1] != size:
        raise BadReply(f'actions must be (N, {size}) for {spec.action_space.value}, found '
                       f'{array.shape}')
    if not 1 <= len(array) <= MAX_CHUNK:
        raise BadReply(f'a chunk must hold 1 to {MAX_CHUNK} actions, found {len(array)}')
    if spec.chunk_length and len(array) != spec.chunk_length:
        raise BadReply(f'the spec promises chunks of {spec.chunk_length} actions, found '
                       f'{len(array)}; return that many or set chunk_length to 0 (varies)')
    with np.errstate(over='ignore'):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise BadReply(f'actions must be finite, found {array[row, column]} in row {row}, '
                       f'column {column}')
    return array
