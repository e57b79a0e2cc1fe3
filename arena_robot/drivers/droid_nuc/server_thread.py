"""
The one thread that calls DROID's server for a part, and connects again after an error.

A gripper read takes 32 ms on DROID's NUC, and its server answers one call at a time: two pollers
would leave ten states of the arm a second. get_robot_state holds the gripper's position already,
so the arm's driver tells it to the gripper's, in another process of this machine.
"""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any

import msgpack
import zmq

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.drivers.droid_nuc.client import NotDroid, RemoteError, ServerLost, ZerorpcClient

log = logging.getLogger(__name__)

AGAIN_S = 0.5    # between two attempts to connect
LAUNCH_S, LAUNCH_TRIES, LAUNCH_PAUSE_S = 30.0, 2, 0.1
METHODS = ('get_robot_state', 'get_joint_positions', 'get_joint_velocities',
           'get_gripper_position', 'update_joints', 'update_gripper', 'launch_controller',
           'launch_robot')
URGENT_S = 0.5      # how long a stop may take to reach the server; one call of it takes 35 ms
SILENT_NS = 400_000_000     # an arm that brakes tells nothing for 300 ms


class ServerThread:
    """
    Calls ``poll`` at a rate with a connected client; ``lost`` is told of every error.

    ``problem`` says what is wrong now, '' when the server answers. ``urgent`` calls over a
    connection of its own, which nothing else uses, from any thread.
    """

    def __init__(self, name: str, address: tuple[str, int], clock: Clock, rate_hz: float,
                 poll: Callable[[ZerorpcClient], None], lost: Callable[[DriverError], None],
                 ) -> None:
        self.name, self.problem = name, ''
        self._client, self._own = ZerorpcClient(*address), ZerorpcClient(*address)
        self._own_lock = threading.Lock()
        self._clock, self._period_ns = clock, round(1e9 / rate_hz)
        self._poll, self._lost = poll, lost
        self._launches: queue.SimpleQueue[Future[None]] = queue.SimpleQueue()
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, launch: bool = False) -> None:
        """Connect, look at the server's methods, poll once. Raises NotConnected, closed again."""
        try:
            self._connect()
            try:
                self._poll(self._client)
            except RemoteError as error:
                if not launch:
                    raise NotConnected(
                        f"{error}; DROID's server runs without a controller: launch it there, or "
                        'set relaunch (the fingers then open and close)') from error
                log.warning('%s; launching the controller', error)
                self._launch(self._client)
                self._poll(self._client)
        except DriverError as error:
            self._disconnect()
            raise NotConnected(f'{self.name}: {error}') from error
        self.problem = ''
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the connection; can be called twice."""
        self._ended.set()
        self._woken.set()
        if self._thread is not None:
            self._client.interrupt()
            self._thread.join(5.0)
            self._thread = None
        self._disconnect()
        self._refuse_launches(NotConnected(f'{self.name} was closed'))

    def wake(self) -> None:
        """Poll now."""
        self._woken.set()

    def urgent(self, method: str, *args: Any) -> None:
        """Call now, ahead of what waits here. Raises DriverError; the next poll connects again."""
        if not self._own_lock.acquire(timeout=URGENT_S):
            raise ServerLost(self.problem or f'{self.name} is being connected')
        try:
            self._own.call(method, *args, timeout_s=URGENT_S)
        finally:
            self._own_lock.release()

    def launch(self) -> None:
        """Launch controller and robot, which takes at least 5 s. Raises DriverError."""
        done: Future[None] = Future()
        self._launches.put(done)
        self.wake()
        try:
            done.result(2 * LAUNCH_TRIES * LAUNCH_S)
        except NotDone as error:
            raise DriverError(f'{self.name}: the launch did not end; '
                              f'{self.problem or "the server is busy"}') from error

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        due_ns = self._clock.steady_ns()
        while not self._ended.is_set():
            try:
                if not (self._client.connected and self._own.connected):
                    self._connect()
                self._serve()
                self._poll(self._client)
                if self.problem:
                    log.warning('%s: the server answers again', self.name)
                    self.problem = ''
            except DriverError as error:
                if self._ended.is_set():
                    break
                self._fail(error)
                due_ns = self._clock.steady_ns()
            due_ns = max(due_ns + self._period_ns, self._clock.steady_ns())
            self._woken.wait(max(0.0, (due_ns - self._clock.steady_ns()) * 1e-9))
            self._woken.clear()

    def _fail(self, error: DriverError) -> None:
        """Store and report the error; wait before the next attempt."""
        if str(error) != self.problem:
            log.warning('%s: %s', self.name, error)
        self.problem = str(error)
        self._lost(error)
        self._refuse_launches(error)
        self._ended.wait(AGAIN_S)

    def _refuse_launches(self, error: DriverError) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._launches.get_nowait().set_exception(error)

    def _disconnect(self) -> None:
        self._client.close()
        with self._own_lock:
            self._own.close()

    def _connect(self) -> None:
        self._client.connect()
        with self._own_lock:
            self._own.connect()
        try:
            methods = self._client.call('_zerorpc_list')
            missing = [method for method in METHODS if method not in methods]
        except (RemoteError, TypeError) as error:
            raise NotDroid(f'{self._client.address} does not list its methods: {error}') from error
        if missing:
            self._client.close()
            raise NotDroid(f"{self._client.address} is not DROID's server: it lacks "
                           f'{", ".join(missing)}; it has {", ".join(map(str, methods))}')

    def _serve(self) -> None:
        """Launch when another thread has asked for it."""
        with contextlib.suppress(queue.Empty):
            while True:
                done = self._launches.get_nowait()
                try:
                    self._launch(self._client)
                    done.set_result(None)
                except DriverError as error:
                    done.set_exception(error)
                    if isinstance(error, ServerLost):
                        raise

    def _launch(self, client: ZerorpcClient) -> None:
        """As DROID's own client does it: each twice, 0.1 s apart."""
        for method in ('launch_controller', 'launch_robot'):
            self.problem = f'{method} is running on the NUC'
            for attempt in range(LAUNCH_TRIES):
                try:
                    client.call(method, timeout_s=LAUNCH_S)
                    break
                except RemoteError:
                    if attempt + 1 == LAUNCH_TRIES:
                        raise
                    self._ended.wait(LAUNCH_PAUSE_S)
        self.problem = ''


def _place(server: tuple[str, int]) -> str:
    """Return a socket of this machine and user that ends with the process which opened it."""
    host, port = server
    return f'ipc://@arena-nuc-{os.getuid()}-{host}-{port}'


class GripperReport:
    """Tells the gripper's positions; a second one for the same server tells nothing."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._place = _place(server)
        self._socket: zmq.Socket[bytes] | None = None

    def open(self) -> None:
        """Open the socket."""
        publisher: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        publisher.linger = 0
        try:
            publisher.bind(self._place)
        except zmq.ZMQError:
            publisher.close()
        else:
            self._socket = publisher

    def send(self, position: float, trip_ns: int) -> None:
        """Tell a position, 0 open to 1 closed, and how long the call took that read it."""
        if self._socket is not None:
            self._socket.send(msgpack.packb((position, trip_ns)))

    def close(self) -> None:
        """Close the socket; can be called twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


class ReportedGripper:
    """Hears the positions that a :class:`GripperReport` for the same server tells."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._place = _place(server)
        self._socket: zmq.Socket[bytes] | None = None
        self._heard_ns: int | None = None

    def open(self) -> None:
        """Open the socket; whether somebody tells is seen later."""
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        for option, value in ((zmq.LINGER, 0), (zmq.CONFLATE, 1)):
            self._socket.setsockopt(option, value)
        self._socket.subscribe(b'')
        self._socket.connect(self._place)
        self._heard_ns = None

    def newest(self, now_ns: int) -> tuple[float, int] | None:
        """Return (position, trip_ns) that came since the last call, None if nothing did."""
        assert self._socket is not None
        with contextlib.suppress(zmq.Again):
            message: Any = msgpack.unpackb(self._socket.recv(zmq.NOBLOCK))
            self._heard_ns = now_ns
            return float(message[0]), int(message[1])
        return None

    def silent(self, now_ns: int) -> bool:
        """Return whether nobody tells positions."""
        return self._heard_ns is None or now_ns - self._heard_ns > SILENT_NS

    def close(self) -> None:
        """Close the socket; can be called twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
