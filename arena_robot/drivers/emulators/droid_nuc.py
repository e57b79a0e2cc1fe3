"""
An emulated NUC: DROID's server with its methods over the simulated arm and gripper.

The zerorpc server below it answers named methods over a ZeroMQ socket, one call at a time.
"""

import math
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zmq
from typing_extensions import Self

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ArmState, RobotMode
from arena_robot.drivers.droid_nuc.client import (
    ERROR,
    HEARTBEAT,
    MORE,
    OK,
    Event,
    EventError,
    unpacked,
)
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import DOF, MAX_JOINT_DELTA

GRIPPER_VELOCITY = 0.25                      # what a command of 1 adds, as DROID has it
SPEED = 146 / 255                            # what polymetis sends to the gripper
LAUNCH_S = 5.0                               # what launch_controller takes
STARTING_S = 0.3                             # so long after the first, targets are dropped
GRIPPER_READ_S, ARM_READ_S = 0.032, 0.002    # as DROID's author measured (fairo, issue 1380)
CALL_S = 0.001                               # of a call's own, in lock step
NOT_LAUNCHED = "'FrankaRobot' object has no attribute '_robot'"
FOR_EVER_S = 1e9    # the station itself must neither hold nor find a state old
LOOK_MS = 50        # how late the thread may notice that it is to end
IDLE_MS = 2         # so long without a call passes at once in lock step: a driver waits 4 to 10


@dataclass
class NucFaults:
    """
    What goes wrong on the NUC.

    ``stalled_until_s``: the robot's stamp stands still until then, on the station's clock.
    ``refused``: update_joints raises. ``gripper_dead``: the gripper obeys no command.
    """

    stalled_until_s: float = 0.0
    refused: bool = False
    gripper_dead: bool = False


class DroidNucEmulator:
    """
    DROID's server; ``launched`` tells whether its controller runs already.

    As polymetis does, it drops targets while its impedance controller starts, holds the newest
    target for ever, and after a reflex gives the last state again and again. ``launch_s`` is what
    launch_controller takes, ``gripper_read_s`` what each read of the gripper takes, also in
    get_robot_state, ``arm_read_s`` each of the arm; the server answers nobody else meanwhile. In
    ``lock_step`` time passes while calls are answered, and in short waits for the next one: what
    a call takes beyond that on this machine does not count.
    """

    def __init__(self, host: str = '127.0.0.1', port: int = 4242, *, robot: str = 'panda',
                 task: str = 'do_not_move', launched: bool = True, launch_s: float = LAUNCH_S,
                 gripper_read_s: float = GRIPPER_READ_S, arm_read_s: float = ARM_READ_S,
                 real_time_factor: float = 1.0, lock_step: bool = False) -> None:
        self.station = SimStation.make(task, robot=robot, cameras=(), epoch_ns=time.time_ns(),
                                       command_timeout_s=FOR_EVER_S)
        self.faults = NucFaults()
        self.launches = 0
        self._factor, self._launch_s = real_time_factor, launch_s
        self._gripper_read_s, self._lock_step = gripper_read_s, lock_step
        self._arm_read_s = min(arm_read_s, gripper_read_s)
        self._launched = self._controller = launched
        self._tracks_from_s: float | None = None
        self._frozen: ArmState | None = None
        methods: list[Callable[..., Any]] = [
            self.launch_controller, self.launch_robot, self.kill_controller, self.get_robot_state,
            self.get_joint_positions, self.get_joint_velocities, self.get_ee_pose,
            self.get_gripper_position, self.update_joints, self.update_gripper]
        others = ('update_command', 'update_pose', 'create_action_dict', 'add_noise_to_joints')
        self.server = ZerorpcServer({**{method.__name__: method for method in methods},
                                     **dict.fromkeys(others, _not_emulated)},
                                    host, port, 'FrankaRobot', self._idle if lock_step else None)

    def start(self) -> None:
        """Run the simulation and answer."""
        self.station.open()
        if not self._lock_step:
            self.station.world.start(self._factor)
        self.server.start()

    def stop(self) -> None:
        """End both; can be called twice."""
        self.server.stop()
        self.station.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stall(self, seconds: float = FOR_EVER_S) -> None:
        """Have a reflex: the arm brakes, its state stands still until polymetis recovers."""
        # First until when: another thread that reads a state would let go of it again.
        self.faults.stalled_until_s = self._now_s() + seconds
        self._frozen = self.station.arm.state(FOR_EVER_S)
        self.station.arm.inject(RobotMode.REFLEX)

    # -- DROID's methods -----------------------------------------------------------------------

    def launch_controller(self) -> None:
        """Start polymetis; the gripper activates itself."""
        self.launches += 1
        time.sleep(self._launch_s)
        self._controller, self._launched = True, False
        self.faults.stalled_until_s, self.faults.gripper_dead = 0.0, False
        self._let_go()

    def launch_robot(self) -> None:
        """Connect to polymetis."""
        if not self._controller:
            raise ConnectionError('failed to connect to all addresses')
        self._launched = True

    def kill_controller(self) -> None:
        """End polymetis: the arm brakes."""
        self._controller = False
        self.station.arm.stop()

    def get_robot_state(self) -> list[dict[str, Any]]:
        """Return [state, stamps]; the last ones again while the robot does not run."""
        self._require_robot()
        state = self._read_arm()
        gripper = self.get_gripper_position()
        seconds, nanos = divmod(state.stamp_ns, 10**9)
        torques = _float32(state.tau)
        return [{
            'cartesian_position': state.pose.tolist(), 'gripper_position': gripper,
            'joint_positions': _float32(state.q), 'joint_velocities': _float32(state.dq),
            'joint_torques_computed': torques, 'prev_joint_torques_computed': torques,
            'prev_joint_torques_computed_safened': torques, 'motor_torques_measured': torques,
            'prev_controller_latency_ms': 0.3, 'prev_command_successful': True},
            {'robot_timestamp_seconds': seconds, 'robot_timestamp_nanos': nanos}]

    def get_joint_positions(self) -> list[float]:
        """Return the joints in rad."""
        self._require_robot()
        return _float32(self._read_arm().q)

    def get_joint_velocities(self) -> list[float]:
        """Return the joints' speeds in rad/s."""
        self._require_robot()
        return _float32(self._read_arm().dq)

    def get_ee_pose(self) -> list[float]:
        """Return the flange's pose."""
        self._require_robot()
        return [float(value) for value in self._state().pose]

    def get_gripper_position(self) -> float:
        """Return 0 open to 1 closed."""
        self._require_robot()
        self._take(self._gripper_read_s)
        return self.station.gripper.state(FOR_EVER_S).position

    def update_joints(self, command: Sequence[float], velocity: bool = False,
                      blocking: bool = False, cartesian_noise: Any = None) -> None:
        """Track joints, or velocities of -1 to 1; dropped while the controller starts."""
        self._require_robot()
        if self.faults.refused:
            raise RuntimeError('Desired joint positions are out of the limits')
        state = self._state()
        q = np.array(command, dtype=float)
        if velocity:
            q = state.q + MAX_JOINT_DELTA * q / max(1.0, float(np.max(np.abs(q))))
        if q.shape != (DOF,):
            raise ValueError(f'command has shape {q.shape}')
        if blocking:
            time.sleep(self.station.arm.move_to(q) / self._factor)
            return
        now_s = self._now_s()
        if self._tracks_from_s is None:
            self._tracks_from_s = now_s + STARTING_S
        if self._frozen is None and self._controller and now_s >= self._tracks_from_s:
            self.station.arm.command(ArmCommand(q, 0))

    def update_gripper(self, command: float, velocity: bool = True,
                       blocking: bool = False) -> None:
        """Go to a position, or by a velocity of -1 to 1."""
        self._require_robot()
        if self.faults.gripper_dead:
            return
        position = float(command)
        if velocity:
            way = GRIPPER_VELOCITY * max(-1.0, min(1.0, position))
            position = self.get_gripper_position() + way
        self.station.gripper.command(GripperCommand(position, 0, SPEED, 0.0))

    # -- inside --------------------------------------------------------------------------------

    def _take(self, seconds: float) -> None:
        time.sleep(seconds / self._factor)
        if self._lock_step:
            self.station.world.step(seconds)

    def _idle(self) -> None:
        self.station.world.step(IDLE_MS * 1e-3 * self._factor)

    def _read_arm(self) -> ArmState:
        self._take(self._arm_read_s)
        return self._state()

    def _state(self) -> ArmState:
        if self._frozen is not None and self._now_s() >= self.faults.stalled_until_s:
            self._let_go()
        if not self._controller and self._frozen is None:
            self.faults.stalled_until_s = math.inf
            self._frozen = self.station.arm.state(FOR_EVER_S)
        return self._frozen or self.station.arm.state(FOR_EVER_S)

    def _let_go(self) -> None:
        """Run again, without a policy."""
        self._frozen, self._tracks_from_s = None, None
        self.station.arm.recover()

    def _require_robot(self) -> None:
        if not self._launched:
            raise AttributeError(NOT_LAUNCHED)
        if self._lock_step:
            self._take(CALL_S)

    def _now_s(self) -> float:
        return self.station.world.now_ns() * 1e-9


def _not_emulated(*_: Any) -> None:
    raise NotImplementedError('this method is not emulated; update_joints and update_gripper are')


def _float32(values: Any) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=np.float32)]


class ZerorpcServer:
    """
    Answers calls of ``methods`` in a thread, in the order in which they come.

    As zerorpc does, a call that takes long keeps all clients waiting. ``silent`` makes it hear and
    not answer; ``drop_clients`` closes what is connected; ``idle`` is called when nobody has
    called for IDLE_MS.
    """

    def __init__(self, methods: Mapping[str, Callable[..., Any]], host: str, port: int,
                 name: str = 'server', idle: Callable[[], None] | None = None) -> None:
        listed = list(methods)
        self._idle = idle
        self._methods: dict[str, Callable[..., Any]] = {
            **methods, '_zerorpc_list': lambda: listed, '_zerorpc_name': lambda: name,
            '_zerorpc_ping': lambda: ['pong', name]}
        self._host, self.port = host, port
        self.silent = False
        self.counts: Counter[str] = Counter()    # of calls, by method
        self._drop, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def calls(self) -> int:
        """Return how many calls came."""
        return self.counts.total()

    def start(self) -> None:
        """Listen; port 0 takes a free one. Raises ConfigError when that cannot be."""
        listening = self._listen()
        self._ended.clear()
        self._thread = threading.Thread(target=self._serve, args=listening,
                                        name='zerorpc server', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close every connection; can be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None

    def drop_clients(self) -> None:
        """Close every connection."""
        self._drop.set()

    def _listen(self) -> tuple[zmq.Context[Any], zmq.Socket[bytes]]:
        """Return a bound socket; only the end of its context waits until it is closed."""
        context: zmq.Context[Any] = zmq.Context()
        router = context.socket(zmq.ROUTER)
        router.linger = 0
        try:
            address = socket.gethostbyname(self._host)
            router.bind(f'tcp://{address}:{self.port or "*"}')
        except (OSError, zmq.ZMQError) as error:
            context.destroy()
            raise ConfigError(f'cannot listen on {self._host}:{self.port}: {error}; '
                              'choose another port') from error
        self.port = int(router.last_endpoint.decode().rsplit(':', 1)[-1])
        return context, router

    def _serve(self, context: 'zmq.Context[Any]', router: 'zmq.Socket[bytes]') -> None:
        while not self._ended.is_set():
            if self._drop.is_set():
                self._drop.clear()
                context.destroy()
                context, router = self._listen()
            if not router.poll(IDLE_MS if self._idle else LOOK_MS):
                if self._idle:
                    self._idle()
                continue
            parts = router.recv_multipart()
            try:
                answer = self._answer(unpacked(parts[-1]))
            except EventError:
                continue
            if answer is not None and not self.silent:
                router.send_multipart([*parts[:-1], answer.packed()])
        context.destroy()

    def _answer(self, event: Event) -> Event | None:
        if event.name == MORE:
            return None
        if event.name == HEARTBEAT:
            return Event(HEARTBEAT, (0,), event.answers)
        self.counts[event.name] += 1
        if self.silent:
            return None
        try:
            if event.name not in self._methods:
                raise NameError(event.name)
            answer = Event(OK, (self._methods[event.name](*event.args),), event.identity)
            answer.packed()
        except Exception as error:  # every one goes to the caller, as zerorpc does
            words = (type(error).__name__, str(error), traceback.format_exc())
            return Event(ERROR, words, event.identity)
        return answer
