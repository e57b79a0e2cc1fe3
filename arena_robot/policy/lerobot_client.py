"""
A policy behind LeRobot's async inference server.

LeRobot's client tells the server which checkpoint to load, and both send each other pickles. Here
a request is written without LeRobot's classes. An answer is read by a loader that knows the names
of which LeRobot's answers consist, and raises BadReply for any other name, so that no code of a
server runs here.
"""

import functools
import io
import itertools
import math
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from google.protobuf.wrappers_pb2 import BytesValue

from arena_robot.core.action import Chunk
from arena_robot.core.errors import BadReply, ConfigError, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import (
    MAX_CHUNK,
    PolicySpec,
    check_actions,
    check_observation,
    check_spec,
)
from arena_robot.policy.checkpoints import STATE, clipped, state_of
from arena_robot.policy.grpc.channel import open_channel
from arena_robot.policy.grpc.errors import error_of
from arena_robot.policy.options import CallOptions

CLASSES = b'lerobot.async_inference.helpers'    # where LeRobot 0.4 defines what it sends
SERVICE = '/transport.AsyncInference'
PICTURES = 'observation.images.'
# As this package's export for LeRobot names the pictures.
CAMERAS = (('left', 'left_left'), ('wrist', 'wrist_left'))
LOAD_S = 600.0    # a server loads some GB of weights, the first time from a hub
PART_BYTES = 2 << 20    # LeRobot's own; its server takes messages of up to 4 MiB
ANSWER_BYTES = 4 << 20    # four times what 100 actions of 14 numbers take, each with all of them
MOST_NUMBERS = 64    # of one action; twice what the largest model that LeRobot has gives
BEGIN, MIDDLE, END = 1, 2, 3    # of a request's parts
# The number formats that torch writes the tensors of actions in.
STORAGES = {'FloatStorage': '<f4', 'DoubleStorage': '<f8', 'HalfStorage': '<f2',
            'LongStorage': '<i8', 'IntStorage': '<i4'}
MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001    # with which torch begins a storage


class LerobotPolicy:
    """
    A remote policy: ``open`` makes the server load the checkpoint that ``options`` name.

    The server holds one checkpoint for one client, and says nothing of it: action space, pictures
    and state are in the options. It draws without a seed. Calls go one at a time.
    """

    def __init__(self, target: str, options: CallOptions | None = None) -> None:
        self._target, self._options = target, options or CallOptions()
        self._cameras = self._options.cameras or CAMERAS
        self._channel: grpc.Channel | None = None
        self._turn = threading.Lock()
        self._numbers = itertools.count(1)
        self._is_loaded = False
        self.address = f'lerobot://{target}'

    @functools.cached_property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy, as the options say; raises ConfigError."""
        given = self._options
        if given.action_space is None:
            raise ConfigError(f'{self.address} does not say its action space: set action_space')
        views = {view for _, view in self._cameras}
        roles = {view.partition('_')[0] for view in views}
        return check_spec(PolicySpec(
            action_space=given.action_space, image_size=given.image_size,
            wrist_camera='wrist' in roles, stereo=any(view.endswith('_right') for view in views),
            external_cameras=2 if 'right' in roles else int('left' in roles),
            open_loop_horizon=given.open_loop_horizon, pipelined=given.pipelined,
            blend_steps=given.blend_steps, warm_up=given.warm_up,
            joints=PolicySpec.joints if given.joints is None else given.joints,
            layout=given.layout), self.address)

    def open(self) -> 'LerobotPolicy':
        """Connect, and wait until the checkpoint is loaded; raises PolicyError."""
        self._channel = open_channel(self._target, False, self._options, keeps_alive=False)
        try:
            self.reset()
        except BaseException:
            self.close()
            raise
        return self

    def _load(self) -> None:
        size = self.spec.image_size or (1, 1)    # the server resizes to what its policy wants
        features = {PICTURES + name: {'dtype': 'image', 'shape': (*size, 3),
                                      'names': ['height', 'width', 'channels']}
                    for name, _ in self._cameras}
        names = self._state_names()
        features[STATE] = {'dtype': 'float32', 'shape': (len(names),), 'names': names}
        setup = instance('RemotePolicyConfig', {
            'policy_type': self._options.policy_type, 'actions_per_chunk': MAX_CHUNK,
            'pretrained_name_or_path': self._options.checkpoint, 'rename_map': {},
            'lerobot_features': features, 'device': self._options.device})
        self._call('SendPolicyInstructions', BytesValue(value=setup).SerializeToString(), LOAD_S)
        self._is_loaded = True

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Send the observation, and return the chunk that the server answers to it."""
        options, spec = self._options, self.spec
        check_observation(observation, spec)
        seen: dict[str, Any] = {name: observation.images[view].pixels
                                for name, view in self._cameras}
        names = self._state_names()
        state = state_of(observation, spec.action_space, len(names), spec.layout)
        seen |= dict(zip(names, state.tolist(), strict=True))
        seen['task'] = observation.prompt
        with self._turn:
            number, end_s = next(self._numbers), time.monotonic() + options.infer_timeout_s
            query = instance('TimedObservation', {
                'timestamp': time.time(), 'timestep': number, 'observation': seen,
                'must_go': True})
            self._call('SendObservations', parts_of(query), options.infer_timeout_s)
            answer = self._call('GetActions', b'', max(0.0, end_s - time.monotonic()))
            self._is_loaded = bool(answer)    # a server that began anew has no policy
        rows = actions_of(BytesValue.FromString(answer).value, number, self.address)
        return Chunk(clipped(check_actions(rows, spec), spec.action_space, spec.layout),
                     spec.action_space)

    def reset(self, episode: str = '') -> None:
        """
        Let the server drop what it has not answered yet; its policy remembers no episode.

        Where its last answer was nothing it loads the checkpoint anew.
        """
        with self._turn:
            self._call('Ready', b'', self._options.reset_timeout_s)
            if not self._is_loaded:
                self._load()

    def close(self) -> None:
        """Close the connection; can be called twice."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def __enter__(self) -> 'LerobotPolicy':
        """Open, unless it is."""
        return self if self._channel is not None else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _state_names(self) -> list[str]:
        size = self.spec.action_space.size(self.spec.joints) - (not self._options.state_gripper)
        return [f'state_{number}' for number in range(size)]

    def _call(self, method: str, request: bytes | Iterator[bytes], timeout_s: float) -> bytes:
        if self._channel is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        kind = self._channel.unary_unary if isinstance(request, bytes) else \
            self._channel.stream_unary
        try:
            return bytes(kind(f'{SERVICE}/{method}')(request, timeout=timeout_s))
        except grpc.RpcError as error:
            raise error_of(error, method, self.address) from error


def instance(name: str, values: Mapping[str, Any]) -> bytes:
    """Return the pickle of an instance of a class of LeRobot; the class is not needed here."""
    fields = pickle.dumps(dict(values), 3)[2:-1]    # without the version before and the end
    return b'\x80\x03c%b\n%b\n)\x81%bb.' % (CLASSES, name.encode(), fields)


def parts_of(data: bytes) -> Iterator[bytes]:
    """Yield a request in parts, each a message of the parts' state and bytes."""
    for start in range(0, len(data), PART_BYTES):
        last = start + PART_BYTES >= len(data)
        part = BytesValue(value=data[start:start + PART_BYTES]).SerializeToString()
        yield bytes([8, END if last else MIDDLE if start else BEGIN, 0x12]) + part[1:]


def actions_of(data: bytes, number: int, source: str) -> np.ndarray:
    """Return the actions (N, D) of an answer to query ``number``; raises BadReply."""
    if not data:
        raise BadReply(f'{source} answered nothing: its policy failed at this observation, and '
                       "the server's log says why. Are 'cameras' and 'state_gripper' those of "
                       'the checkpoint, and does its kind of policy predict chunks?')
    try:
        if len(data) > ANSWER_BYTES:
            raise ValueError(f'it has {len(data)} bytes, at most {ANSWER_BYTES} are read')
        reader = _Reader(io.BytesIO(data))
        answer = reader.load()
        if type(answer) is not list or not 1 <= len(answer) <= MAX_CHUNK \
                or any(type(action) is not reader.timed_action for action in answer):
            raise ValueError(f'it is no list of 1 to {MAX_CHUNK} actions')
        if answer[0].timestep != number:
            raise ValueError(f'it answers query {answer[0].timestep}, asked was {number}')
        rows = [action.action for action in answer]
        if not all(isinstance(row, np.ndarray) and row.size <= MOST_NUMBERS for row in rows):
            raise ValueError(f'its actions are no arrays of at most {MOST_NUMBERS} numbers')
        return np.stack(rows)
    except Exception as error:    # a pickle may make Python raise anything
        raise BadReply(f'an answer of {source} cannot be used: {error}') from error


class _Reader(pickle.Unpickler):
    """
    Reads one answer of LeRobot's server: every name that is not in the table is refused.

    What stands for a name is made anew for each answer, for a pickle can set attributes of it.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.timed_action = type('TimedAction', (), {})
        self._names: dict[tuple[str, str], Any] = {
            (CLASSES.decode(), 'TimedAction'): self.timed_action,
            ('torch._utils', '_rebuild_tensor_v2'): lambda *given: _tensor(*given),
            ('torch.storage', '_load_from_bytes'): lambda data: _storage(data),
            ('collections', 'OrderedDict'): OrderedDict}

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name."""
        if found := self._names.get((module, name)):
            return found
        raise pickle.UnpicklingError(f'it names {module}.{name}, which is not read here')


class _StorageReader(pickle.Unpickler):
    """Reads the head of a torch storage."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the number format that a storage's class stands for."""
        if module == 'torch' and name in STORAGES:
            return STORAGES[name]
        raise pickle.UnpicklingError(f'a tensor of {module}.{name} is not read here')

    def persistent_load(self, pid: Any) -> Any:
        """Return the number format and the length that stand for a storage."""
        _, form, _, _, length, _ = pid
        return form, length


def _storage(data: bytes) -> np.ndarray:
    """Return the numbers of a storage in torch's format from before its zip files."""
    stream = io.BytesIO(data)
    head = [_StorageReader(stream).load() for _ in range(5)]
    magic, version, _, (form, length), _ = head
    if magic != MAGIC or version != VERSION:
        raise ValueError('a tensor is not in the format that is read here')
    numbers = np.frombuffer(data, form, offset=stream.tell() + 8)    # after their count
    if len(numbers) != length:
        raise ValueError(f'a tensor has {len(numbers)} numbers and says {length}')
    return numbers


def _tensor(storage: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...],
            *_: Any) -> np.ndarray:
    """Return a dense tensor over a part of its storage."""
    dense = tuple(math.prod(size[at + 1:]) for at in range(len(size)))
    part = storage[offset:offset + math.prod(size)]
    if stride != dense or offset < 0 or min(size, default=0) < 0 or part.size != math.prod(size):
        raise ValueError(f'a tensor of shape {size} and stride {stride} is not read here')
    return part.reshape(size)

