"""The vendor's pylibfranka in the control process: FR3, by positions or by torques."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from arena_robot.core.observation import Floats, RobotMode
from arena_robot.drivers.franka.board import FrankaOrder
from arena_robot.drivers.franka.client import (
    FrankaConfig,
    FrankaLost,
    FrankaReading,
    FrankaRefused,
    droid_torque,
    ordinary_priority,
    require_punctual,
    seven,
)
from arena_robot.drivers.franka.droid_model import DroidModel
from arena_robot.robots.arms import DOF
from arena_robot.safety.limits import robot_of

VERSION = 10
TOLERANCE_RAD = 10.0    # of the library's own "reached"; the driver looks at the joints itself
STEP_NM = 0.99          # of a joint's torque from one millisecond to the next; the robot allows 1
LOST = ('NetworkException', 'RealtimeException', 'IncompatibleVersionException')


class LibfrankaClient:
    """
    See :class:`FrankaClient`. No call lets other Python threads run meanwhile.

    TRACK gives the robot, which interpolates, the joints that DROID's law would have by now; with
    ``torques`` it computes the law's torques for each state of the robot. MOVE gives the robot the
    path itself.
    """

    def __init__(self, config: FrankaConfig) -> None:
        import pylibfranka
        self.version = VERSION
        self._library, self._config = pylibfranka, config
        limits = robot_of(config.robot_type)
        self._speed = [float(speed) for speed in np.minimum(limits.limits.velocity,
                                                            limits.joint_velocity)]
        self._robot: Any = None
        self._handler: Any = None
        self._torques: Any = None       # while torques are sent
        self._most = np.array(limits.limits.torque)
        self._target = np.zeros(DOF)
        self._droid: DroidModel | None = None       # while the robot gets its joints
        self._seen: Any = None
        self._mode = 0

    def connect(self) -> None:
        """Connect, and set thresholds and load."""
        config, kind = self._config, self._library.RealtimeConfig
        with self._told(FrankaLost):
            self._robot = self._library.Robot(config.address,
                                              kind.kEnforce if config.realtime else kind.kIgnore)
        if not config.realtime:
            ordinary_priority()
        self.set_collision(config.lower_torque, config.upper_torque, config.lower_force,
                           config.upper_force)
        if config.torques:
            with self._told(FrankaLost):
                self._model = self._robot.load_model()
        if config.load_mass > 0.0:
            with self._told():
                self._robot.set_load(config.load_mass, list(config.load_centre),
                                     list(config.load_inertia))
        if config.torques:
            require_punctual(self.read, config.address)

    def read(self) -> FrankaReading:
        """Return the newest state."""
        with self._told(FrankaLost):
            state = self._seen = self._next()
        self._mode = int(RobotMode[_snake(state.robot_mode.name)])
        errors = _flags(state.current_errors)
        if not errors and self._mode == RobotMode.REFLEX:
            errors = _flags(state.last_motion_errors)
        return FrankaReading(
            round(state.time.to_sec() * 1000), seven(state.q), seven(state.dq),
            seven(state.tau_J), seven(state.tau_ext_hat_filtered), seven(state.q_d), self._mode,
            errors, float(state.control_command_success_rate))

    def _next(self) -> Any:
        """Return the next state; a motion that the robot has ended is forgotten."""
        if self._torques is not None:
            try:
                return self._torques.readOnce()[0]
            except self._library.ControlException:
                self._torques = None
        return self._robot.read_once()

    @property
    def running(self) -> bool:
        """Whether a motion runs: the mode tells, calls of the handler do not."""
        return ((self._handler is not None or self._torques is not None)
                and self._mode == RobotMode.MOVE)

    @property
    def paced(self) -> bool:
        """Whether each state wants a command: while torques are sent."""
        return self._torques is not None

    def start(self, order: FrankaOrder, q: Floats) -> None:
        """Begin a motion; without a target the arm stays."""
        if order is FrankaOrder.TRACK and self._config.torques:
            self._target = q
            with self._told():
                self._torques = self._robot.start_torque_control()
            return
        kind = self._library.AsyncPositionControlHandler
        with self._told():
            setup = kind.configure(self._robot, kind.Configuration(self._speed, TOLERANCE_RAD))
        if setup.error_message:
            raise FrankaRefused(setup.error_message)
        self._handler, self._target = setup.handler, q
        if order is FrankaOrder.TRACK:
            self._droid = DroidModel(self._config.robot_type, np.array(self._speed), q)
        self.read()

    def send(self, q: Floats) -> None:
        """Give the motion its target."""
        self._target = q
        if self._droid is None:
            self._aim(q)

    def _aim(self, q: Floats) -> None:
        """Give the robot a position to go to."""
        if self._handler is None:
            return
        kind = self._library.AsyncPositionControlHandler
        with self._told():
            answer = self._handler.set_joint_position_target(
                kind.JointPositionTarget([float(joint) for joint in q]))
        if not answer.was_successful:
            raise FrankaRefused(answer.error_message)

    def follow(self, reading: FrankaReading) -> None:
        """Move the model on, or answer the newest state with its torques where they are sent."""
        if self._droid is not None:
            self._aim(self._droid.advance(self._target, reading.q, reading.robot_ms))
        if self._torques is None:
            return
        with self._told():
            wanted = droid_torque(self._target, reading.q, reading.dq) + np.array(
                self._model.coriolis(self._seen))
            last = seven(self._seen.tau_J_d)    # what the robot has, also where a command was lost
            step = np.clip(wanted, -self._most, self._most) - last
            tau = last + np.clip(step, -STEP_NM, STEP_NM)
            self._torques.writeOnce(self._library.Torques([float(torque) for torque in tau]))

    def end(self) -> None:
        """Stop at once."""
        self._torques = self._droid = None      # without torques the library stops the motion
        handler, self._handler = self._handler, None
        if handler is None:
            return
        with contextlib.suppress(FrankaRefused), self._told():
            handler.stop_control()

    def recover(self) -> None:
        """Clear errors."""
        self.end()
        with self._told():
            self._robot.automatic_error_recovery()

    def set_collision(self, lower_torque: tuple[float, ...], upper_torque: tuple[float, ...],
                      lower_force: tuple[float, ...], upper_force: tuple[float, ...]) -> None:
        """Set the thresholds of collisions."""
        with self._told():
            self._robot.set_collision_behavior(list(lower_torque), list(upper_torque),
                                               list(lower_force), list(upper_force))

    @contextlib.contextmanager
    def _told(self, otherwise: type[Exception] = FrankaRefused) -> Iterator[None]:
        """Have the library's errors as ours; a broken socket escapes it as a bare RuntimeError."""
        try:
            yield
        except (RuntimeError, self._library.FrankaException) as error:
            bare = type(error) is RuntimeError
            kind = FrankaLost if bare or type(error).__name__ in LOST else otherwise
            raise kind(str(error)) from error


def _snake(name: str) -> str:
    """Return ``kUserStopped`` as ``USER_STOPPED``."""
    words = name.removeprefix('k')
    return ''.join(f'_{letter}' if letter.isupper() and i else letter
                   for i, letter in enumerate(words)).upper()


def _flags(errors: Any) -> tuple[str, ...]:
    """Return the names of the flags that are set."""
    names = (name for name in dir(errors) if not name.startswith('_'))
    return tuple(name for name in names if getattr(errors, name) is True)
