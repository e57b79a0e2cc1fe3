"""
Interface of a policy: a spec, ``infer`` and ``reset``; checks by client and server against a spec.

Wrappers that chunk, resize, record, time or call over a network are policies too, so they can be
combined in any order.
"""

import functools
import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from types import TracebackType
from typing import Protocol, SupportsIndex, runtime_checkable

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import BadReply, PolicyRefused
from arena_robot.core.observation import DEPTH, EYES, ArmState, DepthImage, Observation, view
from arena_robot.robots.arms import DOF, MOST_JOINTS, RESET_JOINTS
from arena_robot.safety.kinematics import flange_pose

PROTOCOL_VERSION = 1
RESIZES = ('fast', 'exact')
GRIPPER = 'closed_is_1'
MAX_SIDE = 4096        # pixels; a policy could ask for any memory
MAX_CHUNK = 1024       # over a minute of actions at 15 Hz
MAX_WARM_UP = 100      # queries; a session waits for them
LAYOUT = re.compile(r'[\w.-]{1,60}/[\w.-]{1,60}')
MAX_PROMPT = 10_000    # a page of text and more; longer is no instruction


@dataclass(frozen=True)
class PolicySpec:
    """
    A policy's required input (images, cameras) and its output (action space, chunk length).

    ``image_size`` is (height, width), None for the camera's own. ``external_cameras`` 0 to 2;
    ``stereo`` requests both eyes of each camera, ``depth`` the depth of each left eye's pixels.
    ``chunk_length`` 0 means that it varies.
    ``jpeg_quality`` 0 sends raw pixels. ``pipelined`` allows the next query before the last chunk
    has been executed. ``samples``: actions are drawn at random, from the observation's
    ``episode_seed``. ``gripper``: 0 open, 1 closed, a position, closed when > 0.5.
    ``joints`` is the number of joints of the arms that it drives, 0: any number. ``layout`` is
    ROBOT/NAME where the numbers are as the layout NAME of that embodiment has them, and
    ``action_space`` is what the station turns them into; '': they are in ``action_space``.

    So many actions of a chunk are executed as ``open_loop_horizon`` says, 0: all. At the change
    from one chunk to the next so many steps as ``blend_steps`` are mixed from both.
    ``real_time_chunking``: the policy continues the observation's ``left_over``. ``warm_up``
    queries are made before the first one that counts.
    """

    action_space: ActionSpace = ActionSpace.JOINT_POSITION
    image_size: tuple[int, int] | None = (224, 224)
    wrist_camera: bool = True
    external_cameras: int = 1
    stereo: bool = False
    session_id: bool = False
    chunk_length: int = 0
    control_rate_hz: float = 15.0
    resize: str = 'fast'
    jpeg_quality: int = 0
    pipelined: bool = False
    samples: bool = False
    open_loop_horizon: int = 0
    real_time_chunking: bool = False
    blend_steps: int = 0
    warm_up: int = 0
    protocol_version: int = PROTOCOL_VERSION
    gripper: str = GRIPPER
    joints: int = DOF
    layout: str = ''
    depth: bool = False

    def views(self) -> tuple[str, ...]:
        """
        Return the keys of the images that this policy receives, external cameras first.

        The first external camera is ``left``, the second ``right``, wherever they stand.
        """
        return _views(self.external_cameras, self.wrist_camera, self.stereo)

    def depths(self) -> tuple[str, ...]:
        """Return the keys of the depths that this policy receives, such as ``wrist_depth``."""
        return tuple(view(name.partition('_')[0], DEPTH) for name in self.views()
                     if name.endswith(EYES[0])) if self.depth else ()

    def problems(self) -> list[str]:
        """Return what is wrong with these values, one sentence each; empty when nothing is."""
        size = self.image_size
        checks = {
            f"action_space must be one of {', '.join(ActionSpace)}, found {self.action_space!r}":
                isinstance(self.action_space, ActionSpace),
            f'image_size must be two sides of 1 to {MAX_SIDE} pixels or null, found {size}':
                size is None or _sides(size),
            f'external_cameras must be 0, 1 or 2, found {self.external_cameras}':
                self.external_cameras in (0, 1, 2),
            f'chunk_length must be 0 (varies) to {MAX_CHUNK}, found {self.chunk_length}':
                0 <= self.chunk_length <= MAX_CHUNK,
            f'control_rate_hz must be above 0 and at most 1000, found {self.control_rate_hz}':
                math.isfinite(self.control_rate_hz) and 0.0 < self.control_rate_hz <= 1000.0,
            f"resize must be 'fast' or 'exact', found '{self.resize}'": self.resize in RESIZES,
            f'jpeg_quality must be 0 (raw) to 100, found {self.jpeg_quality}':
                0 <= self.jpeg_quality <= 100,
            f"gripper must be '{GRIPPER}', found '{self.gripper}'; send 1 - g instead":
                self.gripper == GRIPPER,
            f'protocol_version must be {PROTOCOL_VERSION}, found {self.protocol_version}':
                self.protocol_version == PROTOCOL_VERSION,
            f'joints must be 0 (any number) to {MOST_JOINTS}, found {self.joints}':
                0 <= self.joints <= MOST_JOINTS,
            f"layout must be ROBOT/NAME, such as so101/degrees, found '{self.layout:.100}'":
                not self.layout or LAYOUT.fullmatch(self.layout) is not None,
            f'warm_up must be 0 to {MAX_WARM_UP} queries, found {self.warm_up}':
                0 <= self.warm_up <= MAX_WARM_UP,
        }
        return [text for text, good in checks.items() if not good] + self._chunk_problems()

    def _chunk_problems(self) -> list[str]:
        """Return what contradicts itself in how chunks are to be executed."""
        length, horizon, blend = self.chunk_length, self.open_loop_horizon, self.blend_steps
        checks = {
            f'open_loop_horizon must be 0 (the whole chunk) to {MAX_CHUNK}, found {horizon}':
                0 <= horizon <= MAX_CHUNK,
            f'open_loop_horizon is {horizon} and a chunk has only {length} actions; lower it, or '
            'set it to 0 to execute the whole chunk': not 0 < length < horizon,
            f'blend_steps must be 0 to {MAX_CHUNK}, found {blend}': 0 <= blend <= MAX_CHUNK,
            f'blend_steps is {blend}, and there is nothing to mix where a whole chunk is executed '
            'before the next one: set open_loop_horizon': not blend or horizon > 0,
            f'blend_steps is {blend}, and behind the open_loop_horizon of {horizon} a chunk has '
            f'only {length - horizon} more actions; lower one of them':
                not (0 < horizon <= length) or blend <= length - horizon,
            f'blend_steps is {blend}, and the actions of a layout are not mixed: set it to 0':
                not (self.layout and blend),
            'real_time_chunking continues a chunk that is still being executed, so it needs '
            'pipelined=True': self.pipelined or not self.real_time_chunking,
            'real_time_chunking continues the last chunk by itself; set blend_steps to 0':
                not (self.real_time_chunking and blend),
        }
        return [text for text, good in checks.items() if not good]


@functools.lru_cache(maxsize=64)
def _views(external: int, wrist: bool, stereo: bool) -> tuple[str, ...]:
    roles = ('left', 'right')[:external] + ('wrist',) * wrist
    eyes = EYES if stereo else EYES[:1]
    return tuple(view(role, eye) for role in roles for eye in eyes)


def _sides(size: object) -> bool:
    """Tell whether a value is height and width of an image."""
    return isinstance(size, tuple | list) and len(size) == 2 and all(
        isinstance(side, SupportsIndex) and 1 <= index(side) <= MAX_SIDE for side in size)


class Policy(Protocol):
    """Interface of a policy; one object serves many episodes, identified by a token."""

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of this policy."""

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """
        Return the next actions for ``observation`` in the episode with this opaque token.

        Raises PolicyError.
        """

    def reset(self, episode: str = '') -> None:
        """Clear all state of an episode; called after each rollout, as by DROID clients."""


@runtime_checkable
class Closable(Protocol):
    """What holds something until it is closed."""

    def close(self) -> None:
        """Release all resources; may be called twice."""


class OpenPolicy(Policy, Protocol):
    """A policy that holds a connection or another resource until it is closed."""

    def close(self) -> None:
        """Release all resources; may be called twice."""

    def __enter__(self) -> 'OpenPolicy':
        """Return itself."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""


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
    Raise PolicyRefused for an arm that the policy does not drive, or a missing or wrong image.

    A pose of NaN alone means that the caller did not send one.
    """
    _check_state(observation, spec.joints)
    _check_depths(observation, spec)
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


def _check_depths(observation: Observation, spec: PolicySpec) -> None:
    for name in spec.depths():
        if name not in observation.depths:
            raise PolicyRefused(f"depth '{name}' is missing; found "
                                f"{', '.join(observation.depths) or 'none'}")
        depth = observation.depths[name].millimetres
        size = tuple(spec.image_size or depth.shape)
        if depth.ndim != 2 or depth.dtype != np.uint16 or depth.shape != size:
            raise PolicyRefused(f"depth '{name}' must be (height, width) uint16 in mm, of size "
                                f'{size}, found {depth.shape} {depth.dtype}')


def resting_depths(spec: PolicySpec, height: int, width: int, stamp_ns: int
                   ) -> dict[str, DepthImage]:
    """Return made-up depths for a policy that asks for them: half a metre everywhere."""
    return {name: DepthImage(np.full((height, width), 500, np.uint16), stamp_ns)
            for name in spec.depths()}


def _check_state(observation: Observation, joints: int) -> None:
    arm = observation.arm
    count = joints or max(1, min(len(arm.q), MOST_JOINTS))
    if len(arm.joint_names) not in (0, count):
        raise PolicyRefused(f'joint_names must name {count} joints, found {len(arm.joint_names)}')
    for name, values, size in (
            ('joint_position', arm.q, count), ('cartesian_position', arm.pose, 6),
            ('gripper_position', [observation.gripper.position], 1)):
        array = np.asarray(values)
        numbers = array.tolist()    # of so few numbers it is the cheapest look
        if array.shape == (size,) and all(map(math.isfinite, numbers)):
            continue
        if values is not arm.pose or array.shape != (6,) or not all(map(math.isnan, numbers)):
            raise PolicyRefused(f'{name} must be {size} finite numbers, found {numbers}')


def resting_arm(spec: PolicySpec, stamp_ns: int, random: np.random.Generator | None = None,
                ) -> ArmState:
    """
    Return a made-up arm that ``spec`` drives; with ``random`` some 0.02 rad from where it rests.

    One of seven joints is a Franka in DROID's reset pose; all numbers of another one are 0.
    """
    joints = spec.joints or DOF
    q = np.array(RESET_JOINTS if joints == DOF else (0.0,) * joints)
    q += 0.0 if random is None else random.normal(0.0, 0.02, joints)
    unknown = np.full(joints, np.nan)
    pose = flange_pose(q) if joints == DOF else np.zeros(6)
    return ArmState(stamp_ns, q, unknown, unknown, unknown, pose, unknown)


def check_chunk(chunk: object, spec: PolicySpec, joints: int = 0) -> Chunk:
    """Return a chunk with float32 actions; raises BadReply as :func:`check_actions` does."""
    if not isinstance(chunk, Chunk):
        shape = f' of shape {chunk.shape}' if isinstance(chunk, np.ndarray) else ''
        raise BadReply(f'infer must return a Chunk, found a {type(chunk).__name__}{shape}: write '
                       'return Chunk(actions, self.spec.action_space)')
    if chunk.space is not spec.action_space:
        raise BadReply(f'the chunk is in {ActionSpace(chunk.space).value}, the spec promises '
                       f'{spec.action_space.value}')
    return Chunk(check_actions(chunk.actions, spec, joints), chunk.space, chunk.inference_s)


def check_actions(actions: object, spec: PolicySpec, joints: int = 0) -> np.ndarray:
    """
    Return ``actions`` (N, size) as float32; raises BadReply when they break ``spec``.

    ``joints`` is the number of joints of the arm, 0: what the spec says, where it says a number.
    """
    array = np.asarray(actions)
    joints = spec.joints or joints or (array.shape[1] - 1 if array.ndim == 2 else DOF)
    size = spec.action_space.size(max(1, min(joints, MOST_JOINTS)))
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


@lru_cache(1000)    # each query of an episode asks
def seed_of(episode: str) -> int:
    """Return the seed of an episode's token, 1 to 2**32 - 1, the same on every machine."""
    digest = hashlib.sha256(f'seed of episode {episode}'.encode()).digest()
    return int.from_bytes(digest[:4], 'big') or 1
