"""An arm with the safety layer in front of its driver; stations command only this."""

import threading
from types import TracebackType

import numpy as np
from typing_extensions import Self

from arena_robot.core.action import ArmCommand, Clamp
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import ArmState, Floats
from arena_robot.drivers.base import Arm, StopsInCollision
from arena_robot.safety.collision import CollisionThresholds
from arena_robot.safety.filter import Safety
from arena_robot.safety.robots import move_duration_s
from arena_robot.safety.watchdog import CommandWatchdog

PEAK = 1.875
LOCK_S = 0.02


class GuardedArm:
    """
    The :class:`Arm` interface over another arm; no command reaches that arm unchecked.

    ``watchdog`` latches stops and refuses stale commands, ``safety`` limits targets.
    ``last_clamps`` has the changes to the newest command; ``clamp_count`` counts since the start.
    """

    def __init__(self, arm: Arm, safety: Safety, watchdog: CommandWatchdog) -> None:
        self.arm = arm
        self.safety = safety
        self.watchdog = watchdog
        self.last_clamps: tuple[Clamp, ...] = ()
        self.clamp_count = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open the arm."""
        self.arm.open()

    def close(self) -> None:
        """Close the arm."""
        self.arm.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state; StaleData when it is older than ``max_age_s``."""
        return self.arm.state(max_age_s)

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state; ReadTimeout when none comes within ``timeout_s``."""
        return self.arm.wait_state(timeout_s)

    def command(self, command: ArmCommand, of_path: bool = False) -> ArmCommand:
        """
        Track the nearest allowed target; return it. A refused command leaves the arm as it is.

        ``of_path``: see :meth:`CommandWatchdog.accept`.
        Raises SafetyError when halted, or for a stale, invalid or unsafe command.
        """
        with self._lock:
            self.watchdog.accept(command.stamp_ns, of_path)
            safe = self.safety.guard_target(command.q, self.arm.state())
            self.last_clamps = safe.clamps
            self.clamp_count += bool(safe.clamps)
            return self.arm.command(ArmCommand(safe.q, command.stamp_ns))

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """
        Start a min-jerk motion to ``q``, slowed down where a joint would be too fast.

        Raises SafetyError when halted, or when goal or path are outside the limits.
        """
        with self._lock:
            self.watchdog.open_or_raise()
            state = self.arm.state()
            goal = self.safety.check_goal(q, state)
            shortest_s = float(np.max(PEAK * np.abs(goal - state.q) / self.safety.limits.dq_max))
            wanted_s = move_duration_s(state.q, goal) if duration_s is None else duration_s
            if not np.isfinite(wanted_s):
                raise SafetyError(f'the duration of a motion must be finite, found {wanted_s}')
            self.watchdog.drop()
            return self.arm.move_to(goal, max(wanted_s, shortest_s))

    def stop(self) -> None:
        """Come to rest and hold; commands made before now are refused. Works in every state."""
        self.watchdog.drop()
        self._stop_after_commands()

    def halt(self, reason: str) -> None:
        """Stop, and refuse every command until :meth:`resume`."""
        self.watchdog.halt(reason)
        self._stop_after_commands()

    def resume(self) -> None:
        """Accept commands again after a halt; nothing moves by itself."""
        self.watchdog.resume()

    def recover(self) -> None:
        """Clear a reflex or user stop, then hold; a halt stays in force."""
        self.watchdog.drop()
        self.arm.recover()

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """
        Set when the arm stops itself; nothing moves by it.

        Raises SafetyError for thresholds that it cannot have, DriverError where it has none.
        """
        checked = thresholds.checked()
        if not isinstance(self.arm, StopsInCollision):
            raise DriverError(f'{type(self.arm).__name__} has no thresholds that can be set; set '
                              "them at the robot's own controller")
        self.arm.set_collision_behavior(checked)

    def watch(self) -> bool:
        """Stop the arm when its command stream has ended; return whether it did so just now."""
        if not self.watchdog.ceased():
            return False
        self._stop_after_commands()
        return True

    def _stop_after_commands(self) -> None:
        """Stop after a command that was already accepted has been sent; it would undo the stop."""
        waited = self._lock.acquire(timeout=LOCK_S)
        try:
            self.arm.stop()
        finally:
            if waited:
                self._lock.release()
