"""
A policy behind GR00T's server (N1.6 and later): msgpack over a ZeroMQ request and its reply.

The server says which pictures and states it wants, and of which times. An array is the map
``{'__ndarray_class__': True, 'as_npy': bytes}``, in numpy's file format. An array is read as a
view of its bytes, so one of objects, or of another length than its shape says, is refused.
"""

import io
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import msgpack
import numpy as np
import zmq

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import (
    BadReply,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.observation import Floats, Observation, Pixels
from arena_robot.policy.base import PolicySpec, check_actions, check_observation, check_spec
from arena_robot.policy.checkpoints import clipped, views_of
from arena_robot.policy.options import CallOptions
from arena_robot.safety.kinematics import rotation_of

ANSWER_BYTES = 4 << 20    # a hundred times a chunk of 50 actions with all that can stand beside it
SIZE = (180, 320)         # what GR00T's own client for DROID sends
MOST_HELD = 256           # frames of one episode; more than 15 s at 15 Hz, a query at each step
MOST_EPISODES = 16       # whose frames are held, where nobody resets them
ARRAY, BYTES, CONFIG = '__ndarray_class__', 'as_npy', '__ModalityConfig_class__'
GRIPPER = 'gripper_position'
# GR00T turns a flange's frame by this; its pose is a place and two rows of a rotation.
TURNED = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0,
           (2, 0): np.lib.format.read_array_header_2_0}


def _turned_pose(observation: Observation) -> Floats:
    pose = observation.arm.pose
    return np.append(pose[:3], (rotation_of(pose[3:]) @ TURNED)[:2])


# The states that this robot has, by the names that GR00T's data of DROID give them.
STATES: dict[str, Callable[[Observation], Floats]] = {
    'joint_position': lambda seen: seen.arm.q, 'eef_9d': _turned_pose,
    'cartesian_position': lambda seen: seen.arm.pose,
    GRIPPER: lambda seen: np.array([seen.gripper.position])}


class Gr00tPolicy:
    """
    A remote policy: ``open`` asks what it wants; then calls go one at a time.

    ``target`` is ``host:port``. The action space is the one whose name is among the keys of the
    policy's actions, or the options'. Of earlier times a policy gets the pictures of the query
    that was nearest before, the first query's if there is none.
    """

    def __init__(self, target: str, options: CallOptions | None = None) -> None:
        self._target, self._options = target, options or CallOptions()
        self._socket: zmq.Socket[bytes] | None = None
        self._turn = threading.Lock()
        self._wants: dict[str, tuple[list[str], list[int]]] = {}
        self._views: dict[str, str] = {}
        self._spec: PolicySpec | None = None
        self._seen: dict[str, list[tuple[int, Mapping[str, Pixels]]]] = {}
        self._is_open = False
        self.address = f'gr00t://{target}'

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy, as the server says."""
        if self._spec is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        return self._spec

    def _said_spec(self) -> PolicySpec:
        given, (pictures, _) = self._options, self._wants['video']
        self._views = dict(given.cameras) or views_of(pictures)
        if lacking := sorted(set(pictures) - set(self._views)):
            raise BadReply(f'{self.address} wants the picture {lacking[0]}: add cameras='
                           f'{lacking[0]}:VIEW to the address')
        if unknown := sorted(set(self._wants['state'][0]) - set(STATES)):
            raise BadReply(f"{self.address} wants the state {', '.join(unknown)}; known are "
                           f"{', '.join(STATES)}")
        views = {self._views[name] for name in pictures}
        roles = {view.partition('_')[0] for view in views}
        return check_spec(PolicySpec(
            action_space=self._space(), image_size=given.image_size or SIZE,
            wrist_camera='wrist' in roles, stereo=any(view.endswith('_right') for view in views),
            external_cameras=2 if 'right' in roles else int('left' in roles),
            open_loop_horizon=given.open_loop_horizon, pipelined=given.pipelined,
            blend_steps=given.blend_steps, warm_up=given.warm_up,
            joints=PolicySpec.joints if given.joints is None else given.joints), self.address)

    def _space(self) -> ActionSpace:
        keys = self._wants['action'][0]
        said = self._options.action_space
        spaces = [space for space in ActionSpace if space.value in keys and said in (None, space)]
        if len(spaces) != 1 or GRIPPER not in keys:
            raise BadReply(f"{self.address} answers {', '.join(keys)}; of one action space's name "
                           f'and {GRIPPER} an action is made, see action_space in the address')
        return spaces[0]

    def open(self) -> 'Gr00tPolicy':
        """Connect and ask what the policy wants; raises PolicyError."""
        self._is_open = True
        try:
            self._wants = {
                name: _wanted(self.address, name, config) for name, config in dict(self._call(
                    'get_modality_config', None, self._options.connect_timeout_s)).items()}
            if lacking := {'video', 'state', 'action', 'language'} - set(self._wants):
                raise BadReply(f"{self.address} does not say its {', '.join(sorted(lacking))}")
            self._spec = self._said_spec()
        except BaseException:
            self.close()
            raise
        return self

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Send the observation, and return the chunk that the server answers to it."""
        spec = self.spec
        check_observation(observation, spec)
        states, times = self._wants['state']
        prompts, _ = self._wants['language']
        rows_of = {name: np.tile(STATES[name](observation), (len(times), 1)) for name in states}
        asked = {'video': self._video(observation, episode),
                 'state': {name: rows[None].astype(np.float32) for name, rows in rows_of.items()},
                 'language': {prompts[0]: [[observation.prompt]]}}
        with self._turn:
            answer = self._call('get_action', {'observation': asked, 'options': None},
                                self._options.infer_timeout_s)
        try:
            parts = [np.asarray(answer[0][name]) for name in (spec.action_space.value, GRIPPER)]
            rows = np.concatenate([part.reshape(len(part[0]), -1) for part in parts], axis=1)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadReply(f'an answer of {self.address} has no {spec.action_space.value} and '
                           f'{GRIPPER} of shape (1, N, numbers): {error}') from error
        return Chunk(clipped(check_actions(rows, spec), spec.action_space), spec.action_space)

    def _video(self, observation: Observation, episode: str) -> dict[str, np.ndarray]:
        """Return the pictures (1, T, H, W, 3) of the times that the policy wants."""
        names, times = self._wants['video']
        now = {name: observation.images[self._views[name]].pixels for name in names}
        if len(times) == 1:
            return {name: frame[None, None] for name, frame in now.items()}
        held = self._seen.setdefault(episode, [])
        step = observation.step
        if held and step == 0:    # of a caller that counts none
            step = held[-1][0] + (self.spec.open_loop_horizon or len(self._wants['action'][1]))
        held.append((step, now))
        for other in [*self._seen][:-MOST_EPISODES]:
            del self._seen[other]
        first = step + min(times)
        while len(held) > 1 and (held[1][0] <= first or len(held) > MOST_HELD):
            del held[0]
        frames = [next((frame for at, frame in reversed(held) if at <= step + time), held[0][1])
                  for time in times]
        return {name: np.stack([frame[name] for frame in frames])[None] for name in names}

    def reset(self, episode: str = '') -> None:
        """Forget an episode, here and at the server."""
        self._seen.pop(episode, None)
        with self._turn:
            self._call('reset', {'options': None}, self._options.reset_timeout_s)

    def close(self) -> None:
        """Close the connection; can be called twice."""
        self._is_open = False
        self._drop()

    def __enter__(self) -> 'Gr00tPolicy':
        """Open, unless it is."""
        return self if self._is_open else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _call(self, endpoint: str, data: Any, timeout_s: float) -> Any:
        """Return the answer to a request. One that is late is never taken for a later one's."""
        if not self._is_open:
            raise PolicyUnavailable(f'{self.address} is not open')
        request = {'endpoint': endpoint} | ({} if data is None else {'data': data}) | (
            {'api_token': self._options.token} if self._options.token else {})
        line = self._socket or self._connected()
        try:
            line.send(msgpack.packb(request, default=_encoded))
            if not line.poll(round(timeout_s * 1e3)):
                raise PolicyTimeout(f'{endpoint} at {self.address}: no answer in {timeout_s:g} s')
            reply = line.recv()
        except zmq.ZMQError as error:
            self._drop()
            raise PolicyUnavailable(f'{endpoint} at {self.address}: {error}') from error
        except PolicyTimeout:
            self._drop()
            raise
        return self._read(endpoint, reply)

    def _read(self, endpoint: str, reply: bytes) -> Any:
        try:
            answer = msgpack.unpackb(reply, object_hook=_decoded)
        except (ValueError, TypeError, KeyError, msgpack.UnpackException,
                RecursionError) as error:
            raise BadReply(f'{endpoint} at {self.address}: the answer cannot be read: {error}'
                           ) from error
        if isinstance(answer, Mapping) and 'error' in answer:
            said = str(answer['error'])
            kind = PolicyRefused if said.startswith('Unauthorized') else PolicyError
            raise kind(f'{endpoint} at {self.address}: {said:.300}')
        return answer

    def _connected(self) -> 'zmq.Socket[bytes]':
        host, _, port = self._target.rpartition(':')
        try:    # ZeroMQ does not say that nobody listens
            socket.create_connection((host.strip('[]'), int(port)),
                                     self._options.connect_timeout_s).close()
        except OSError as error:
            raise PolicyUnavailable(f'{self.address} does not answer: {error}') from error
        line: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
        for option, value in ((zmq.LINGER, 0), (zmq.MAXMSGSIZE, ANSWER_BYTES),
                              (zmq.IPV6, int('[' in host)),
                              (zmq.SNDTIMEO, round(self._options.connect_timeout_s * 1e3))):
            line.setsockopt(option, value)
        line.connect(f'tcp://{self._target}')
        self._socket = line
        return line

    def _drop(self) -> None:
        line, self._socket = self._socket, None
        if line is not None:
            line.close()


def _wanted(source: str, name: str, config: Any) -> tuple[list[str], list[int]]:
    """Return the keys and the times of a part of what a policy wants; raises BadReply."""
    keys = config.get('modality_keys') if isinstance(config, Mapping) else None
    times = config.get('delta_indices') if isinstance(config, Mapping) else None
    if not isinstance(keys, list) or not isinstance(times, list) or not keys or not times or \
            not all(isinstance(time, int) and abs(time) < 10_000 for time in times) or \
            any('.' in str(key) and name != 'language' for key in keys):
        raise BadReply(f'{source} says of its {name} {config!r:.100}; expected are modality_keys '
                       'and delta_indices as GR00T N1.6 and later say them')
    return [str(key) for key in keys], times


def _encoded(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        raise TypeError(f'a {type(value).__name__} cannot be sent')
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(value), allow_pickle=False)
    return {ARRAY: True, BYTES: stream.getvalue()}


def _decoded(value: dict[Any, Any]) -> Any:
    if CONFIG in value:    # two names in GR00T's own two clients
        return value.get('as_json', value.get('as_dict'))
    if ARRAY not in value:
        return value
    stream = io.BytesIO(value[BYTES])
    read = HEADERS.get(np.lib.format.read_magic(stream))
    if read is None:
        raise ValueError('an array in a version of the format that is not read here')
    shape, by_column, dtype = read(stream)
    return np.frombuffer(stream.read(), dtype).reshape(shape, order='F' if by_column else 'C')
