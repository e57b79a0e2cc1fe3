"""
Interface of a policy: a spec, ``infer`` and ``reset``.

Wrappers that chunk, resize, record, time or call over a network are policies too, so they can be
combined in any order.
"""

import functools
import math
from dataclasses import dataclass
from operator import index
from types import TracebackType
from typing import Protocol, SupportsIndex, runtime_checkable

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.observation import EYES, Observation, view

PROTOCOL_VERSION = 1
RESIZES = ('fast', 'exact')
GRIPPER = 'closed_is_1'
MAX_SIDE = 4096
MAX_CHUNK = 1024
MAX_WARM_UP = 100


@dataclass(frozen=True)
class PolicySpec:
    """
    A policy's required input (images, cameras) and its output (action space, chunk length).

    ``image_size`` is (height, width), None for the camera's own. ``external_cameras`` 0 to 2;
    ``stereo`` requests both eyes of each camera. ``chunk_length`` 0 means that it varies.
    ``jpeg_quality`` 0 sends raw pixels. ``pipelined`` allows the next query before the last chunk
    has been executed. ``samples``: actions are drawn at random, from the observation's
    ``episode_seed``. ``gripper``: 0 open, 1 closed, a position, closed when > 0.5.

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

    def views(self) -> tuple[str, ...]:
        """
        Return the keys of the images that this policy receives, external cameras first.

        The first external camera is ``left``, the second ``right``, wherever they stand.
        """
        return _views(self.external_cameras, self.wrist_camera, self.stereo)

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
