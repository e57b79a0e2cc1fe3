"""A Franka that this machine commands itself: the drivers franka_rs and libfranka."""

import importlib.util
import logging
import threading
import time
from dataclasses import replace
from typing import ClassVar

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import ArmState, Floats, RobotMode
from arena_robot.drivers.franka.board import FrankaCommand, FrankaOrder, FrankaRequest, FrankaState
from arena_robot.drivers.franka.client import FrankaConfig, reach
from arena_robot.drivers.franka.probe import (
    HINTS,
    NO_ANSWER,
    advised,
    explained,
    require_box,
    require_settings,
    require_version,
)
from arena_robot.drivers.franka.process import ControlProcess
from arena_robot.drivers.part import Polled, fixed
from arena_robot.robots.arms import DOF
from arena_robot.safety.filter import finite
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.limits import motion_s, robot_of
from arena_robot.safety.reflexes import CollisionThresholds

log = logging.getLogger(__name__)

OPEN_S = 25.0        # until the process has the first state
STOP_S = 0.3         # until the arm brakes
ANSWER_S = 1.2       # until a hold shows in the state
RECOVERY_S = 20.0    # of the robot's own error recovery
TOLD_S = 1.5         # until a setting is answered, or a log says that nothing answers
LOOK_S = 0.004       # between two looks at the state, which comes at 250 Hz


class FrankaArm(Polled[ArmState]):
    """
    Base of both drivers; see :class:`arena_robot.drivers.base.Arm`.

    A control process owns the connection. It is killed and started again when its newest state is
    older than 0.5 s; the robot stops when that happens, and what was commanded before is
    forgotten. Without a motion the robot itself holds its position. ``collision_torque`` and
    ``collision_force`` are set at the joints and at the flange, where ``load_*`` hangs.
    ``realtime`` needs a real-time kernel. ``torques`` has libfranka track with DROID's law in this
    package's own loop at 1 kHz; franka_rs always does. Neither is opened where too many of the
    robot's states come too late for that.
    """

    LIBRARY: ClassVar[str] = ''
    MODULE: ClassVar[str] = ''
    INSTALL: ClassVar[str] = ''
    ROBOTS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, robot_ip: str = '172.16.0.2', robot_type: str = 'fr3',
                 command_timeout: float = 0.5, realtime: bool = False,
                 collision_torque: tuple[float, ...] = (40.0,) * DOF,
                 collision_force: tuple[float, ...] = (40.0,) * 3 + (30.0,) * 3,
                 load_mass: float = 0.0, load_centre: tuple[float, ...] = (0.0, 0.0, 0.06),
                 load_inertia: tuple[float, ...] = (0.001, 0.0, 0.0, 0.0, 0.001, 0.0, 0.0, 0.0,
                                                    0.001),
                 torques: bool = False,
                 clock: Clock | None = None) -> None:
        super().__init__('arm', clock or SystemClock())
        self._lower, self._upper = reach(robot_type)
        self._timeout_ns = round(command_timeout * 1e9)
        CollisionThresholds(collision_torque, collision_torque, collision_force,
                            collision_force).checked()
        self._config = FrankaConfig(
            robot_ip, robot_type, realtime, collision_torque, collision_torque, collision_force,
            collision_force, load_mass, load_centre, load_inertia, torques)
        self._control: ControlProcess | None = None
        self._thread: threading.Thread | None = None
        self._over, self._asking = threading.Event(), threading.Lock()
        self._seen = FrankaState()                  # guarded by _new, as what follows
        self._command = FrankaCommand()
        self._requests = 0

    def open(self) -> None:
        """Connect, set thresholds and load, read the first state; nothing moves."""
        if self._open:
            return
        self.require_library()
        require_settings(self.LIBRARY, self.ROBOTS, self._config)
        require_box(self._config)
        self._state, self._seen, self._command = None, FrankaState(), FrankaCommand()
        self._control = ControlProcess(self.LIBRARY, self._config)
        self._over.clear()
        self._control.start(time.monotonic_ns())
        self._thread = threading.Thread(target=self._look, name=f'{self.LIBRARY} arm', daemon=True)
        self._thread.start()
        try:
            self._await_robot()
            require_version(self._seen.version, self._config.robot_type)
        except BaseException:
            self._end()
            raise
        super().open()

    def close(self) -> None:
        """End a motion and the connection; the robot holds."""
        if self._open:
            self.stop()
        super().close()
        self._end()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        return self._newest(max_age_s, 'the robot sends nothing')

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track ``command.q`` clipped to the joint limits."""
        q = self._checked(command.q)
        with self._new:
            self._require_running()
            self._post(FrankaOrder.TRACK, q)
        return ArmCommand(q, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion from the measured pose; it keeps to the robot's own time."""
        goal = self._checked(q)
        with self._new:
            start = self._require_running()
            time_s = motion_s(start, goal, duration_s, robot_of(self._config.robot_type))
            self._post(FrankaOrder.MOVE, goal, time_s)
        return time_s

    def stop(self) -> None:
        """Come to rest; a control process that does not do it in time is killed, which does."""
        with self._new:
            if self._control is None:
                return
            serial = self._post(FrankaOrder.HOLD, np.zeros(DOF)).serial
            if self._new.wait_for(lambda: self._seen.obeyed >= serial or not self._seen.count,
                                  STOP_S):
                return
            self._control.kill('the control process did not stop the motion in time: it was '
                               'ended, which stops the robot')
            self._seen = FrankaState()
        log.error('%s', self._trouble())

    def recover(self) -> None:
        """Clear errors, and see in the robot's mode that it holds; DriverError says what is."""
        self._require_open('the arm')
        with self._new:
            self._post(FrankaOrder.HOLD, np.zeros(DOF))
            if not self._new.wait_for(lambda: not self._trouble(), ANSWER_S):
                raise DriverError(f'the arm cannot be recovered: {self._trouble()}')
            mode = self._state.mode if self._state else RobotMode.OTHER
        refused = '' if mode in (RobotMode.GUIDING, RobotMode.USER_STOPPED) else \
            self._ask(FrankaRequest.RECOVER, (0.0,) * 26, RECOVERY_S)
        with self._new:
            before = self._count
            recovered = self._new.wait_for(lambda: self._holds(before),
                                           STOP_S if mode in HINTS else ANSWER_S)
            mode = self._state.mode if self._state else RobotMode.OTHER
        if not recovered:
            why = (HINTS.get(mode, ''), refused or self._trouble())
            raise DriverError(f'the arm is still in {mode.name}: {"; ".join(filter(None, why))}')

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """Set the thresholds from now on, also after a new connection."""
        self._require_open('the arm')
        config = self._config
        values = (*(thresholds.lower_torque or config.lower_torque),
                  *(thresholds.upper_torque or config.upper_torque),
                  *(thresholds.lower_force or config.lower_force),
                  *(thresholds.upper_force or config.upper_force))
        if refused := self._ask(FrankaRequest.COLLISION, values, TOLD_S):
            raise DriverError(f'the robot did not take the thresholds: {refused}')
        self._config = replace(config, lower_torque=values[:7], upper_torque=values[7:14],
                               lower_force=values[14:20], upper_force=values[20:])
        if self._control:
            self._control.config = self._config

    # -- the driver's thread -------------------------------------------------------------------

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            with self._new:
                if self._control is None:
                    return
                trouble = self._trouble()
                state = self._control.watch(time.monotonic_ns())
                if self._trouble() != trouble:
                    self._lose()
                if state is not None and state.count != self._seen.count:
                    self._take(state)
                elif state is not None:
                    self._seen = state
                self._new.notify_all()

    def _take(self, state: FrankaState) -> None:
        age_ns = time.monotonic_ns() - state.read_ns
        mode = RobotMode(state.mode)
        errors = tuple(map(explained, state.errors)) or ((HINTS[mode],) if mode in HINTS else ())
        tracked = self._command.order is FrankaOrder.TRACK and (
            state.order is FrankaOrder.TRACK or state.obeyed < self._command.serial)
        pose = fixed(flange_pose(state.q))
        self._seen = state
        self._state = ArmState(
            self._clock.now_ns() - age_ns, state.q, state.dq, state.tau, state.tau_ext, pose,
            self._command.q if tracked else state.q_d, mode, errors, state.success_rate)
        self._read_ns, self._count = self._clock.steady_ns() - age_ns, self._count + 1

    def _lose(self) -> None:
        """Forget what was commanded: a new connection begins at rest."""
        if self._trouble():
            log.error('%s: %s', self.LIBRARY, self._trouble())
            self._seen = FrankaState()
            self._post(FrankaOrder.HOLD, np.zeros(DOF))
        else:
            log.warning('%s: the robot answers again', self.LIBRARY)

    def _trouble(self) -> str:
        return self._control.trouble if self._control else ''

    def _silence(self) -> str:
        return self._trouble() or self._seen.unanswered

    def _holds(self, before: int) -> bool:
        """Return whether a state that came after ``before`` others is one at rest."""
        return (self._state is not None and self._state.mode is RobotMode.IDLE
                and self._count > before and not self._trouble())

    def _end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(10.0)
        self._thread = None
        with self._new:
            control, self._control = self._control, None
        if control is not None:
            control.close()

    def _await_robot(self) -> None:
        """Wait for the first state. Raises NotConnected."""
        with self._new:
            if not self._new.wait_for(lambda: self._state or self._trouble(), TOLD_S):
                log.warning('%s does not answer yet; %s', self._config.address, NO_ANSWER)
                self._new.wait_for(lambda: self._state or self._trouble(), OPEN_S - TOLD_S)
            if self._state is None:
                raise NotConnected(f'no connection to the robot at {self._config.address}: '
                                   + advised(self._trouble() or 'its control process is silent'))

    def _post(self, order: FrankaOrder, q: Floats, duration_s: float = 0.0) -> FrankaCommand:
        """Replace the command; the caller has the lock."""
        now_ns = time.monotonic_ns()
        self._command = FrankaCommand(self._command.serial + 1, order, now_ns,
                                      now_ns + self._timeout_ns, duration_s, fixed(q))
        if self._control is not None:
            self._control.board.post_command(self._command)
        return self._command

    def _ask(self, request: FrankaRequest, values: tuple[float, ...], timeout_s: float) -> str:
        """Have something done once; return why it was not, '' when it was."""
        with self._asking, self._new:
            if self._control is None or self._trouble():
                return self._trouble() or 'the arm is closed'
            self._requests += 1
            serial = self._requests
            self._control.board.post_request(serial, request, values)

            def over() -> bool:
                return self._seen.answered == serial or bool(self._trouble())
            if not self._new.wait_for(over, min(TOLD_S, timeout_s)):
                log.warning('%s; %s', self._silence() or 'no answer yet', NO_ANSWER)
                if not self._new.wait_for(over, timeout_s - TOLD_S):
                    return f'no answer within {timeout_s:g} s'
            return self._trouble() or self._seen.answer

    @classmethod
    def require_library(cls) -> None:
        """Raise NotConnected when the library is not installed."""
        if importlib.util.find_spec(cls.MODULE) is None:
            raise NotConnected(f'{cls.LIBRARY} needs a package that is not installed: pip install '
                               f'{cls.INSTALL}')

    def _require_running(self) -> Floats:
        """Return the measured joints, or raise why commands are refused."""
        if self._trouble() or self._state is None:
            raise DriverError(self._trouble() or 'no state came yet')
        if self._state.mode not in (RobotMode.IDLE, RobotMode.MOVE):
            raise DriverError(f'the arm is in {self._state.mode.name} '
                              f'({", ".join(self._state.errors)}); recover it first')
        return self._state.q

    def _checked(self, q: Floats) -> Floats:
        self._require_open('the arm')
        return np.clip(finite(q, DOF, 'arm target'), self._lower, self._upper)


class FrankaRsArm(FrankaArm):
    """FR3 and Panda through franka-rs: targets become torques with DROID's gains at 1 kHz."""

    LIBRARY, MODULE, INSTALL = 'franka_rs', 'franka', 'franka-rs==0.4.0'
    ROBOTS = ('fr3', 'panda')


class LibfrankaArm(FrankaArm):
    """FR3 through the vendor's pylibfranka: the robot follows a model of DROID's arm."""

    LIBRARY, MODULE, INSTALL = 'libfranka', 'pylibfranka', 'pylibfranka==0.21.3'
    ROBOTS = ('fr3',)
