"""The simulated arm and gripper behind the protocols of drivers."""

import abc
from typing import Generic, TypeVar

import mujoco
import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import (
    ArmState,
    Floats,
    GripperState,
    ObjectStatus,
    RobotMode,
)
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.safety.filter import clipped, finite
from arena_robot.safety.limits import motion_s
from arena_robot.safety.reflexes import CollisionThresholds

State = TypeVar('State', ArmState, GripperState)


class SimPart(Opened, abc.ABC, Generic[State]):
    """A part of a :class:`SimWorld`, which fails while ``name`` is among the world's faults."""

    name = ''
    advice = ''     # what to look at when the newest state is old

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self._last: State | None = None

    def open(self) -> None:
        """Read the first state."""
        super().open()
        self._read()

    def wait_state(self, timeout_s: float) -> State:
        """Return the next new state."""
        self._require_open(f'the simulated {self.name}')
        dead = self._dead
        if dead or not self.world.wait_tick(timeout_s):
            if dead:
                self.world.run_until_ns(self.world.now_ns() + round(timeout_s * 1e9))
            raise ReadTimeout(f'no {self.name} state within {timeout_s} s')
        return self._read()

    def _newest(self, max_age_s: float) -> State:
        """Return the present state, or the last one before the part failed."""
        self._require_open(f'the simulated {self.name}')
        state = self._read()
        age_s = (self.world.now_ns() - state.stamp_ns) * 1e-9 + self.world.silence_s()
        if age_s > max_age_s:
            raise StaleData(f'newest {self.name} state is {age_s:.3f} s old, accepted are '
                            f'{max_age_s} s; {self.advice}')
        return state

    @property
    def _dead(self) -> bool:
        return self.name in self.world.faults.dead

    def _require_answer(self) -> None:
        if self._dead:
            raise DriverError(f'the simulated {self.name} does not answer')

    def _read(self) -> State:
        with self.world.ticked:
            if self._last is None or not self._dead:
                self._last = self._measured()
            return self._last

    @abc.abstractmethod
    def _measured(self) -> State:
        """Return the present state; the world's lock is held."""


class SimArm(SimPart[ArmState]):
    """
    The arm in a :class:`SimWorld`; see :class:`arena_robot.drivers.base.Arm`.

    It holds when ``command_timeout_s`` has passed since the last command.
    """

    name, advice = 'arm', 'is the simulation running?'

    def __init__(self, world: SimWorld, command_timeout_s: float = 0.5) -> None:
        super().__init__(world)
        self.command_timeout_s = command_timeout_s

    def close(self) -> None:
        """Stop and disconnect."""
        if self._open:
            self.stop()
        super().close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the current state, or the last one before the arm failed."""
        return self._newest(max_age_s)

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track ``command.q`` clipped to the joint limits."""
        q = self._checked(command.q)
        with self.world.ticked:
            sent = self.world.arm.track(q, self.world.elapsed_ns, self.command_timeout_s)
        return ArmCommand(sent, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion."""
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
        self._require_open('the simulated arm')
        q = finite(q, self.world.arm.robot.joints, 'arm target')
        self._require_answer()
        mode = self.world.arm.mode
        if mode in (RobotMode.REFLEX, RobotMode.USER_STOPPED):
            raise DriverError(f"the arm is in {mode.name} ({', '.join(self.world.arm.errors)}); "
                              'recover it first')
        return q

    def _measured(self) -> ArmState:
        world, arm = self.world, self.world.arm
        data, imp = world.data, arm.impedance
        mujoco.mj_kinematics(world.model, data)
        tau = (data.qfrc_actuator[imp.dofs] + data.qfrc_gravcomp[imp.dofs]
               + data.qfrc_applied[imp.dofs])
        return ArmState(
            world.now_ns(), q=data.qpos[imp.qpos].copy(), dq=data.qvel[imp.dofs].copy(),
            tau=tau, tau_ext=arm.tau_ext.copy(),
            pose=world.in_base(data.site_xpos[imp.flange], data.site_xmat[imp.flange]),
            q_desired=arm.q_des.copy(), mode=arm.mode, errors=arm.errors)


class SimGripper(SimPart[GripperState]):
    """The gripper in a :class:`SimWorld`; see :class:`arena_robot.drivers.base.Gripper`."""

    name, advice = 'gripper', 'is the gripper powered and connected?'

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the current state, or the last one before the gripper failed."""
        return self._newest(max_age_s)

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position, speed and force, each clipped to 0..1."""
        self._require_open('the simulated gripper')
        sent = clipped(command)
        self._require_answer()
        if self.world.gripper.fault:
            raise DriverError(f'gripper fault {self.world.gripper.fault}; activate() it again')
        with self.world.ticked:
            gripper = self.world.gripper
            gripper.go(gripper.fingers.stroke_m * (1.0 - sent.position), sent.speed, sent.force)
        return sent

    def stop(self) -> None:
        """Stop the fingers where they are."""
        with self.world.ticked:
            self.world.gripper.stop()

    def activate(self) -> None:
        """Clear a fault and hold the present width."""
        self._require_open('the simulated gripper')
        self._require_answer()
        self.inject(0)

    def inject(self, fault: int) -> None:
        """Raise a fault (gFLT), as the device would; 0 clears it."""
        with self.world.ticked:
            self.world.gripper.fault = fault
            self.world.gripper.stop()

    def _measured(self) -> GripperState:
        world, control = self.world, self.world.gripper
        stroke_m = control.fingers.stroke_m
        return GripperState(
            world.now_ns(), position=float(np.clip(1.0 - control.width_m / stroke_m, 0, 1)),
            width_m=control.width_m, requested_position=1.0 - control.requested_m / stroke_m,
            is_moving=control.status is ObjectStatus.MOVING, object_status=control.status,
            fault=control.fault, current_a=control.current_a(world.data))
