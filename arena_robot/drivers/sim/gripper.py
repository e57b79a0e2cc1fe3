"""The simulated 2F-85 behind the Gripper protocol."""

import numpy as np

from arena_robot.core.action import GripperCommand
from arena_robot.core.errors import DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.gripper_model import STROKE_M
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.filter import clipped


class SimGripper(Opened):
    """A 2F-85 in a :class:`SimWorld`; see :class:`arena_robot.drivers.base.Gripper`."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self._last: GripperState | None = None

    def open(self) -> None:
        """Read the first state."""
        super().open()
        self._read()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the current state, or the last one before the gripper failed."""
        self._require_open('the simulated gripper')
        state = self._read()
        age_s = (self.world.now_ns() - state.stamp_ns) * 1e-9 + self.world.silence_s()
        if age_s > max_age_s:
            raise StaleData(f'newest gripper state is {age_s:.3f} s old, accepted are '
                            f'{max_age_s} s; is the gripper powered and connected?')
        return state

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next new state."""
        self._require_open('the simulated gripper')
        dead = 'gripper' in self.world.faults.dead
        if dead or not self.world.wait_tick(timeout_s):
            if dead:
                self.world.run_until_ns(self.world.now_ns() + round(timeout_s * 1e9))
            raise ReadTimeout(f'no gripper state within {timeout_s} s')
        return self._read()

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position, speed and force, each clipped to 0..1."""
        self._require_open('the simulated gripper')
        sent = clipped(command)
        self._require_answer()
        if self.world.gripper.fault:
            raise DriverError(f'gripper fault {self.world.gripper.fault}; activate() it again')
        with self.world.ticked:
            self.world.gripper.go(ROBOTIQ_2F85.width_m(sent.position), sent.speed, sent.force)
        return sent

    def stop(self) -> None:
        """Stop the fingers where they are."""
        with self.world.ticked:
            self.world.gripper.stop()

    def activate(self) -> None:
        """Clear a fault and hold the present width."""
        self._require_open('the simulated gripper')
        self._require_answer()
        with self.world.ticked:
            self.world.gripper.fault = 0
            self.world.gripper.stop()

    def inject(self, fault: int) -> None:
        """Raise a fault (gFLT), as the device would."""
        with self.world.ticked:
            self.world.gripper.fault = fault
            self.world.gripper.stop()

    def _require_answer(self) -> None:
        if 'gripper' in self.world.faults.dead:
            raise DriverError('the simulated gripper does not answer; is it powered?')

    def _read(self) -> GripperState:
        world, control = self.world, self.world.gripper
        with world.ticked:
            if 'gripper' in world.faults.dead and self._last is not None:
                return self._last
            self._last = GripperState(
                world.now_ns(), position=float(np.clip(1.0 - control.width_m / STROKE_M, 0, 1)),
                width_m=control.width_m, requested_position=1.0 - control.requested_m / STROKE_M,
                is_moving=control.status is ObjectStatus.MOVING, object_status=control.status,
                fault=control.fault, current_a=control.current_a(world.data))
            return self._last
