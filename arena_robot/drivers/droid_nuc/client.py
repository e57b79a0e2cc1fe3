"""
A client of DROID's zerorpc server for one thread: every call has a timeout, nothing is kept.

Events of zerorpc's protocol version 3 are a header, a name and arguments, packed with msgpack.
What the server says is checked, and its clock mapped to the station's.
"""

import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
import zmq
from zmq.utils.monitor import recv_monitor_message

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Floats
from arena_robot.drivers.part import fixed
from arena_robot.robots.arms import DOF

CONNECT_S, CALL_S = 1.0, 1.0    # a station's own network answers within milliseconds
LOOK_MS = 50                    # how late a call may notice that it was interrupted
MOST_BYTES = 1 << 20            # an answer of get_robot_state has about 1 kB
LOST = (zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
OK, ERROR = 'OK', 'ERR'
HEARTBEAT, MORE = '_zpc_hb', '_zpc_more'
WAYS = 1000          # readings from which the shortest way is taken
JUMPED_NS = 10**9    # far above any way over a network


class EventError(DriverError):
    """What came is not an event of zerorpc."""


def _new_id() -> bytes:
    return uuid.uuid4().hex.encode()


@dataclass(frozen=True)
class Event:
    """
    An event; ``answers`` is the id of the request that it belongs to, None for a request.

    An id goes back as it came: zerorpc makes bytes, and finds no request for the same as text.
    """

    name: str
    args: Sequence[Any]
    answers: bytes | str | None = None
    identity: bytes | str = field(default_factory=_new_id)

    def packed(self) -> bytes:
        """Return the event's bytes. Raises TypeError for what msgpack cannot hold."""
        header: dict[str, Any] = {'message_id': self.identity, 'v': 3}
        if self.answers is not None:
            header['response_to'] = self.answers
        out: bytes = msgpack.packb((header, self.name, list(self.args)), use_bin_type=True)
        return out


def unpacked(blob: bytes) -> Event:
    """Return the event of some bytes. Raises EventError."""
    try:
        header, name, args = msgpack.unpackb(blob, raw=False)
        return Event(str(name), args if isinstance(args, list) else [args],
                     header.get('response_to'), header['message_id'])
    except (ValueError, TypeError, AttributeError, KeyError, msgpack.UnpackException) as error:
        raise EventError(f'{blob[:40]!r} is not an event of zerorpc') from error


class ServerLost(DriverError):
    """No server answers there; the connection is closed."""


class RemoteError(DriverError):
    """The server's method raised: ``name`` and ``words`` are those of its exception."""

    def __init__(self, method: str, name: str, words: str) -> None:
        super().__init__(f'{method} failed on the server: {name}: {words}')
        self.name, self.words = name, words


class ZerorpcClient:
    """
    One connection to a zerorpc server.

    ZeroMQ alone would keep a message while there is no connection and deliver it later; a target
    for an arm must not come later. So the socket never connects again by itself and drops what
    was not sent. A call that is not answered in time closes it: a late reply is never taken for
    that of another call. Raises ServerLost or RemoteError.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = f'{host}:{port}'
        self._peer = (host, port)
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._interrupted = threading.Event()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection, as far as known."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect and shake hands."""
        self.close()
        self._interrupted.clear()
        try:    # ZeroMQ does not say why it cannot connect
            socket.create_connection(self._peer, CONNECT_S).close()
        except OSError as error:
            raise ServerLost(f'no connection to {self.address}: {_why(error)}') from error
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        for option, value in ((zmq.LINGER, 0), (zmq.IMMEDIATE, 1), (zmq.RECONNECT_IVL, -1),
                              (zmq.MAXMSGSIZE, MOST_BYTES), (zmq.SNDTIMEO, 0)):
            self._socket.setsockopt(option, value)
        self._monitor = self._socket.get_monitor_socket(LOST | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._socket.connect(f'tcp://{self.address}')
        if not self._monitor.poll(round(CONNECT_S * 1e3)):
            raise self._lost(f'{self.address} did not give the ZeroMQ handshake: it is silent, '
                             'or another program')
        if recv_monitor_message(self._monitor)['event'] != zmq.EVENT_HANDSHAKE_SUCCEEDED:
            raise self._lost(f'the program at {self.address} does not speak ZeroMQ 4 without '
                             'encryption')

    def close(self) -> None:
        """Close the connection; can be called twice."""
        if self._socket is not None:
            self._socket.disable_monitor()
            self._socket.close()
        self._socket = self._monitor = None

    def interrupt(self) -> None:
        """End a call that another thread waits in; the connection is lost for it."""
        self._interrupted.set()

    def call(self, method: str, *args: Any, timeout_s: float | None = None) -> Any:
        """Call a method with what msgpack can hold, and return what it returns."""
        timeout_s = CALL_S if timeout_s is None else timeout_s
        end_s = time.monotonic() + timeout_s
        request = Event(method, args)
        self._emit(request)
        while True:
            reply = self._receive(end_s, f'an answer to {method} within {timeout_s:g} s')
            if reply.answers != request.identity or reply.name == MORE:
                continue
            if reply.name == HEARTBEAT:
                self._emit(Event(HEARTBEAT, (0,), request.identity))
            elif reply.name == OK and len(reply.args) == 1:
                return reply.args[0]
            elif reply.name == ERROR and reply.args:
                raise _remote_error(method, reply)
            else:
                raise self._lost(f'{self.address} answered {method} with {reply.name!r:.40}, '
                                 'which this client does not know')

    def _emit(self, event: Event) -> None:
        if self._socket is None:
            raise ServerLost(f'there is no connection to {self.address}')
        try:
            self._socket.send_multipart([b'', event.packed()])
        except zmq.Again as error:    # IMMEDIATE: nobody is connected
            raise self._lost() from error

    def _receive(self, end_s: float, reply_name: str) -> Event:
        """Wait for the next event."""
        assert self._socket is not None
        assert self._monitor is not None
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        while not (ready := dict(poller.poll(LOOK_MS))):
            if time.monotonic() > end_s:
                raise self._lost(f'{self.address} did not give {reply_name}: it is silent or busy')
            if self._interrupted.is_set():
                raise self._lost(f'the call to {self.address} was interrupted')
        if self._socket not in ready:
            raise self._lost()
        try:
            return unpacked(self._socket.recv_multipart()[-1])
        except EventError as error:
            raise self._lost(f'the connection to {self.address} is lost: {error}') from error

    def _lost(self, why: str = '') -> ServerLost:
        self.close()
        return ServerLost(why or f'{self.address} closed the connection: the server has ended')


def _remote_error(method: str, reply: Event) -> RemoteError:
    """Return the error of an ERR event: name, words and traceback, or only a repr before v2."""
    words = [str(word) for word in reply.args]
    if len(words) == 1:
        words = ['error', *words]
    return RemoteError(method, words[0], words[1])


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return 'nothing answers there'
    return error.strerror or str(error)


class NotDroid(DriverError):
    """The server's answer is not that of DROID's server."""


@dataclass(frozen=True)
class Reading:
    """
    One answer of ``get_robot_state``; ``nuc_ns`` is the robot's stamp on the NUC's clock.

    ``q`` (7,) rad, ``dq`` (7,) rad/s, ``tau`` (7,) N m measured, ``pose`` (6,) of the flange,
    ``gripper`` 0 open to 1 closed.
    """

    nuc_ns: int
    q: Floats
    dq: Floats
    tau: Floats
    pose: Floats
    gripper: float
    command_succeeded: bool


def reading_of(answer: Any) -> Reading:
    """Return the reading in an answer of ``get_robot_state``. Raises NotDroid."""
    try:
        state, stamps = answer
        return Reading(
            int(stamps['robot_timestamp_seconds']) * 10**9 + int(stamps['robot_timestamp_nanos']),
            _numbers(state, 'joint_positions', DOF), _numbers(state, 'joint_velocities', DOF),
            _numbers(state, 'motor_torques_measured', DOF),
            _numbers(state, 'cartesian_position', 6), position_of(state['gripper_position']),
            bool(state['prev_command_successful']))
    except (KeyError, TypeError, ValueError) as error:
        raise NotDroid("get_robot_state does not answer as DROID's server does: "
                       f'{type(error).__name__}: {error}') from error


def joints_of(answer: Any, method: str) -> Floats:
    """Return the seven numbers that a method of the server answers. Raises NotDroid."""
    try:
        return _numbers({method: answer}, method, DOF)
    except (TypeError, ValueError) as error:
        raise NotDroid(f"{method} does not answer as DROID's server does: {error}") from error


def position_of(answer: Any) -> float:
    """Return the answer of ``get_gripper_position``, 0 open to 1 closed. Raises NotDroid."""
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not np.isfinite(answer):
        raise NotDroid(f"the gripper's position is {answer!r:.60}, DROID's server gives a number")
    return min(max(float(answer), 0.0), 1.0)


class NucTime:
    """
    The NUC's clock on the station's.

    A stamp was made before its answer came: the shortest way of the last readings bounds the
    offset, and half of the shortest round trip is taken for that way.
    """

    def __init__(self) -> None:
        self._ways: deque[int] = deque(maxlen=WAYS)
        self._trips: deque[int] = deque(maxlen=WAYS)

    def stamp_ns(self, nuc_ns: int, sent_ns: int, came_ns: int) -> int:
        """Return the station's time of ``nuc_ns``, of a call from ``sent_ns`` to ``came_ns``."""
        way = came_ns - nuc_ns
        if self._ways and abs(way - self._ways[-1]) > JUMPED_NS:     # a clock was set
            self._ways.clear()
        self._ways.append(way)
        self._trips.append(max(came_ns - sent_ns, 0))
        return min(nuc_ns + min(self._ways) - min(self._trips) // 2, came_ns)


def _numbers(state: Mapping[str, Any], name: str, size: int) -> Floats:
    values: Floats = np.array(state[name], dtype=float)
    if values.shape != (size,) or not np.all(np.isfinite(values)):
        raise ValueError(f'{name} must be {size} finite numbers, found {state[name]!r:.80}')
    return fixed(values)
