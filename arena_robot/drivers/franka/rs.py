"""franka-rs in the control process: FR3 and Panda, torques of a joint impedance at 1 kHz."""

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
    droid_gains,
    droid_goal,
    ordinary_priority,
    reach,
    require_punctual,
    seven,
)
from arena_robot.robots.arms import DOF

MODES = {mode.name.lower(): int(mode) for mode in RobotMode}
# How far the law's goal may be ahead of a joint. DROID's largest step, 0.2 rad in each joint, is a
# goal at most 0.45 rad ahead at the reset pose, as its springs couple the joints; the arm went as
# far in half a second of such steps with 0.3 as with 0.6 (at the emulated box, six directions).
LEASH_RAD = 0.3
STRAY_RAD = 10.0        # the library's own limit of the way from the start: none
# Shares of the joints' speed, acceleration and jerk that the library's generator gives to a goal.
# A law on torques takes its targets as they come, as DROID's does: at once, within some cycles.
GENTLE, AT_ONCE = 0.8, 1000.0
GONE = ('network', 'protocol')


class FrankaRsClient:
    """
    See :class:`FrankaClient`.

    TRACK sends torques of DROID's law: the library computes those of separate joints at 1 kHz, and
    its goal is set so in every cycle of the loop that the whole matrices' torques come out. MOVE
    has the robot's own controller follow a path.
    """

    def __init__(self, config: FrankaConfig) -> None:
        import franka
        self.version = 0
        self._library, self._config = franka, config
        self._robot: Any = None
        self._targets: Any = None
        self._lower, self._upper = reach(config.robot_type)
        self._gains = (np.ones(DOF), np.zeros(DOF))
        self._tracked: Floats | None = None

    def connect(self) -> None:
        """Connect, and set thresholds and load."""
        config = self._config
        with self._told():
            self._robot = self._library.Robot(config.address,
                                              realtime='enforce' if config.realtime else 'ignore')
            self.version = int(self._robot.fci_version)
        if not config.realtime:
            ordinary_priority()
        self.set_collision(config.lower_torque, config.upper_torque, config.lower_force,
                           config.upper_force)
        if config.load_mass > 0.0:
            raise FrankaLost("franka-rs 0.4.0 cannot set a load: set the tool's mass and centre "
                             "in Franka's Desk, and load_mass to 0")
        require_punctual(self.read, config.address)

    def read(self) -> FrankaReading:
        """Return the newest state."""
        if self._targets is not None and not self._targets.running:
            self._close_targets()
        with self._told():
            state = (self._robot.read_once() if self._targets is None else self._targets.state())
        errors = tuple(state.current_errors) or (
            tuple(state.last_motion_errors) if state.robot_mode == 'reflex' else ())
        return FrankaReading(
            round(state.time * 1000), seven(state.q), seven(state.dq), seven(state.tau_J),
            seven(state.tau_ext_hat_filtered), seven(state.q_d), MODES[state.robot_mode], errors,
            float(state.control_command_success_rate))

    @property
    def running(self) -> bool:
        """Whether a motion runs."""
        return self._targets is not None and bool(self._targets.running)

    @property
    def paced(self) -> bool:
        """Whether each state wants a command: the library gives it."""
        return False

    def start(self, order: FrankaOrder, q: Floats) -> None:
        """Begin a motion at the measured joints."""
        common: dict[str, Any] = {'max_deviation': STRAY_RAD}
        self._tracked = None
        if order is FrankaOrder.TRACK:
            stiffness, damping = (np.diag(gain).copy() for gain in droid_gains(q))
            self._gains, self._tracked = (stiffness, damping), q
            common.update(fraction=AT_ONCE, backend='impedance', joint_stiffness=stiffness,
                          joint_damping=damping, velocity_feedforward=False, leash=LEASH_RAD)
        else:
            common.update(fraction=GENTLE, backend='robot')
        with self._told():
            self._targets = self._robot.joint_targets(**common)
        if not self._config.realtime:
            ordinary_priority()

    def send(self, q: Floats) -> None:
        """Give the motion its target."""
        if self._targets is None:
            return
        if self._tracked is not None:
            self._tracked = q       # until the next state
            return
        with self._told():
            self._targets.move_to(q)

    def follow(self, reading: FrankaReading) -> None:
        """Set the goal of the joints' law for this state."""
        if self._targets is None or self._tracked is None:
            return
        goal = droid_goal(self._tracked, reading.q, reading.dq, *self._gains)
        with self._told():
            self._targets.move_to(np.clip(goal, self._lower, self._upper))

    def end(self) -> None:
        """Stop at once."""
        if self._targets is None:
            return
        with self._told():
            if self._targets.running:
                self._robot.stop()
        self._close_targets()

    def recover(self) -> None:
        """Clear errors."""
        self._close_targets()
        with self._told():
            self._robot.automatic_error_recovery()

    def set_collision(self, lower_torque: tuple[float, ...], upper_torque: tuple[float, ...],
                      lower_force: tuple[float, ...], upper_force: tuple[float, ...]) -> None:
        """Set the thresholds of collisions."""
        with self._told():
            self._robot.set_collision_behavior_simple(
                list(lower_torque), list(upper_torque), list(lower_force), list(upper_force))

    def _close_targets(self) -> None:
        """Forget a motion that has ended; what ended it is in the robot's state."""
        targets, self._targets = self._targets, None
        if targets is None:
            return
        try:
            targets.stop()
        except self._library.ControlException:
            return
        except self._library.FrankaError as error:
            if error.kind in GONE:
                raise FrankaLost(str(error)) from error

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Have the library's errors as ours."""
        try:
            yield
        except self._library.FrankaError as error:
            kind = FrankaLost if error.kind in (*GONE, 'incompatible_version', 'realtime',
                                                'model') else FrankaRefused
            raise kind(str(error)) from error
