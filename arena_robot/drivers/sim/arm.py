"""The simulated arm behind the Arm protocol."""

import mujoco
import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import ArmState, Floats, RobotMode
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.mjcf import pose_of
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.robots.arms import DOF
from arena_robot.safety.filter import finite
from arena_robot.safety.limits import motion_s
from arena_robot.safety.reflexes import CollisionThresholds


class SimArm(Opened):
    """
    A Franka in a :class:`SimWorld`; see :class:`arena_robot.drivers.base.Arm`.

    It holds when ``command_timeout_s`` has passed since the last command.
    """

    def __init__(self, world: SimWorld, command_timeout_s: float = 0.5) -> None:
        self.world = world
        self.command_timeout_s = command_timeout_s
        self._last: ArmState | None = None

    def open(self) -> None:
        """Read the first state."""
        super().open()
        self._read()

    def close(self) -> None:
        """Stop and disconnect."""
        if self._open:
            self.stop()
        super().close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the current state, or the last one before the arm failed."""
        self._require_open('the simulated arm')
        state = self._read()
        age_s = (self.world.now_ns() - state.stamp_ns) * 1e-9 + self.world.silence_s()
        if age_s > max_age_s:
            raise StaleData(f'newest arm state is {age_s:.3f} s old, accepted are {max_age_s} s; '
                            'is the simulation running?')
        return state

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state."""
        self._require_open('the simulated arm')
        dead = 'arm' in self.world.faults.dead
        if dead or not self.world.wait_tick(timeout_s):
            if dead:
                self.world.run_until_ns(self.world.now_ns() + round(timeout_s * 1e9))
            raise ReadTimeout(f'no arm state within {timeout_s} s')
        return self._read()

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track ``command.q`` clipped to the joint limits."""
        self._require_open('the simulated arm')
        q = self._checked(command.q)
        with self.world.ticked:
            sent = self.world.arm.track(q, self.world.elapsed_ns, self.command_timeout_s)
        return ArmCommand(sent, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion."""
        self._require_open('the simulated arm')
        goal = self._checked(q)
        with self.world.ticked:
            now = self.world.data.qpos[self.world.arm.impedance.qpos]
            time_s = motion_s(now, goal, duration_s, self.world.arm.robot)
            self.world.arm.move(self.world.data, goal, time_s, self.world.elapsed_ns)
        return time_s

    def stop(self) -> None:
        """Brake and hold."""
        with self.world.ticked:
            self.world.arm.brake()

    def recover(self) -> None:
        """Clear a reflex or user stop; hold where the arm is."""
        self._require_open('the simulated arm')
        with self.world.ticked:
            self.world.arm.recover(self.world.data)

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """Trip a reflex above the joints' upper thresholds; it has none for forces."""
        self._require_open('the simulated arm')
        if not thresholds.upper_torque:
            raise DriverError('the simulated arm compares torques of joints only: give '
                              'upper_torque_thresholds_nominal')
        with self.world.ticked:
            self.world.arm.collision_nm = np.array(thresholds.upper_torque)

    def inject(self, mode: RobotMode, error: str = 'injected') -> None:
        """Trip a reflex or user stop, as a collision or the button would."""
        with self.world.ticked:
            self.world.arm.trip(mode, error)

    def _checked(self, q: Floats) -> Floats:
        q = finite(q, DOF, 'arm target')
        if 'arm' in self.world.faults.dead:
            raise DriverError('the simulated arm does not answer')
        mode = self.world.arm.mode
        if mode in (RobotMode.REFLEX, RobotMode.USER_STOPPED):
            raise DriverError(f"the arm is in {mode.name} ({', '.join(self.world.arm.errors)}); "
                              'recover it first')
        return q

    def _read(self) -> ArmState:
        world, arm = self.world, self.world.arm
        with world.ticked:
            if 'arm' in world.faults.dead and self._last is not None:
                return self._last
            data, imp = world.data, arm.impedance
            mujoco.mj_kinematics(world.model, data)
            tau = (data.qfrc_actuator[imp.dofs] + data.qfrc_gravcomp[imp.dofs]
                   + data.qfrc_applied[imp.dofs])
            self._last = ArmState(
                world.now_ns(), q=data.qpos[imp.qpos].copy(), dq=data.qvel[imp.dofs].copy(),
                tau=tau, tau_ext=arm.tau_ext.copy(),
                pose=pose_of(data.site_xpos[imp.flange], data.site_xmat[imp.flange]),
                q_desired=arm.q_des.copy(), mode=arm.mode, errors=arm.errors)
            return self._last
