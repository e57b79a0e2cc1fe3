"""An arm with the safety layer in front of its driver; stations command only this."""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from arena_robot.core.action import Action, ArmCommand, SafeCommand
from arena_robot.core.clock import Clock
from arena_robot.core.errors import ArenaError, DriverError, SafetyError
from arena_robot.core.observation import ArmState, Floats
from arena_robot.drivers.base import Arm, ArmDescription, StopsInCollision
from arena_robot.drivers.part import Opened
from arena_robot.robots.arms import Robot
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import motion_s
from arena_robot.safety.reflexes import CollisionThresholds
from arena_robot.safety.watchdog import CommandWatchdog, StopOwner

PEAK = 1.875    # of the speed of a min-jerk motion, over its mean


class GuardedArm(Opened):
    """
    An :class:`ActingArm` over another arm; no command reaches that arm unchecked.

    ``watchdog`` latches stops and refuses stale commands, ``safety`` limits targets; ``robot`` is
    the arm's row, ``robot_type`` its embodiment. ``clamp_count`` counts the commands that were
    changed.
    """

    def __init__(self, arm: Arm, safety: Safety, watchdog: CommandWatchdog, robot: Robot,
                 robot_type: str = '') -> None:
        self.arm = arm
        self.safety = safety
        self.watchdog = watchdog
        self.robot = robot
        self.robot_type = robot_type
        self.clamp_count = 0
        self._stops = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open the arm."""
        self.arm.open()

    def close(self) -> None:
        """Close the arm."""
        self.arm.close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state; StaleData when it is older than ``max_age_s``."""
        return self.arm.state(max_age_s)

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state; ReadTimeout when none comes within ``timeout_s``."""
        return self.arm.wait_state(timeout_s)

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track the nearest allowed target; return it. Raises as :meth:`decide` does."""
        return ArmCommand(self.decide(command.q, command.stamp_ns).q, command.stamp_ns)

    def description(self) -> ArmDescription:
        """Return the robot's row, the driver's class, and the row's reset pose."""
        return ArmDescription(self.robot, type(self.arm).__name__, self.robot.reset_joints,
                              self.robot_type)

    def act(self, action: Action, stamp_ns: int) -> 'Future[SafeCommand]':
        """Carry out an action; the future is done."""
        decided: Future[SafeCommand] = Future()
        try:
            decided.set_result(self.decide(action, stamp_ns))
        except ArenaError as error:
            decided.set_exception(error)
        return decided

    def decide(self, wanted: Action | Floats, stamp_ns: int, of_path: bool = False) -> SafeCommand:
        """
        Track what is nearest to an action or a joint target (7,) rad, and allowed; return it.

        ``of_path``: see :meth:`CommandWatchdog.accept`. A refused command leaves the arm as it is.
        Raises SafetyError when halted, or for a stale, invalid or unsafe command.
        """
        with self._lock:
            state = self.arm.state()
            safe = (self.safety.check(wanted, state) if isinstance(wanted, Action)
                    else self.safety.guard_target(wanted, state))
            with self._unless_stopped():
                self.watchdog.accept(stamp_ns, of_path)
                self.clamp_count += bool(safe.clamps)
                return replace(safe, q=self.arm.command(ArmCommand(safe.q, stamp_ns)).q)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """
        Start a min-jerk motion to ``q``, slowed down where a joint would be too fast.

        Raises SafetyError when halted, or when goal or path are outside the limits.
        """
        with self._lock, self._unless_stopped():
            self.watchdog.open_or_raise()
            state = self.arm.state()
            goal = self.safety.check_goal(q, state)
            shortest_s = float(np.max(PEAK * np.abs(goal - state.q) / self.safety.limits.dq_max))
            wanted_s = motion_s(state.q, goal, duration_s, self.robot)
            self.watchdog.drop()
            return self.arm.move_to(goal, max(wanted_s, shortest_s))

    def limit(self, safety: Safety) -> None:
        """Check commands by ``safety`` from the next one on."""
        with self._lock:
            self.safety = safety

    def stop(self) -> None:
        """Come to rest and hold; commands made before now are refused. Works in every state."""
        self.watchdog.drop()
        self._stop()

    def halt(self, reason: str = 'STOP was pressed; the next step of the session releases it',
             owner: StopOwner = StopOwner.SESSION) -> None:
        """Stop, and refuse every command until :meth:`resume` of the same owner."""
        self.watchdog.halt(reason, owner)
        self._stop()

    def resume(self, owner: StopOwner = StopOwner.SESSION) -> None:
        """Release a halt; nothing moves by itself, and the other owner's stays in force."""
        self.watchdog.resume(owner)

    def recover(self) -> None:
        """Clear a reflex or user stop, then hold; a halt stays in force."""
        self.watchdog.drop()
        self.arm.recover()

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """
        Set when the arm stops itself; nothing moves by it.

        Raises SafetyError for thresholds that it cannot have, DriverError where it has none.
        """
        checked = thresholds.checked(self.robot.joints)
        if not isinstance(self.arm, StopsInCollision):
            raise DriverError(f'{type(self.arm).__name__} has no thresholds that can be set; set '
                              "them at the robot's own controller")
        self.arm.set_collision_behavior(checked)

    def watch(self) -> bool:
        """Stop the arm when its command stream has ended; return whether it did so just now."""
        if not self.watchdog.ceased():
            return False
        self._stop()
        return True

    def _stop(self) -> None:
        """Stop the driver at once, also while it is busy with a command or a motion."""
        self._stops += 1
        self.arm.stop()

    @contextmanager
    def _unless_stopped(self) -> Iterator[None]:
        """
        Stop the driver again when a stop came inside the block; it may have undone the first.

        Raises SafetyError then.
        """
        stops = self._stops
        try:
            yield
        finally:
            if self._stops != stops:
                self.arm.stop()
        if self._stops != stops:
            raise SafetyError('a stop came while the driver took the command: the arm holds')


def guarded(arm: Arm, robot: Robot, clock: Clock, robot_type: str = '') -> GuardedArm:
    """Return ``arm`` behind the safety layer, in one process with its commander."""
    return GuardedArm(arm, Safety(robot.limits, clock),
                      CommandWatchdog(clock, math.inf), robot, robot_type)
