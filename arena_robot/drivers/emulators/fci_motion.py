"""What a control box does with the commands of a motion: checks them, and drives the arm."""

from collections import deque
from typing import Any

import numpy as np

from arena_robot.core.observation import Floats, RobotMode
from arena_robot.drivers.franka.wire import Dialect, FciController, FciError, FciGenerator
from arena_robot.drivers.sim.arm_control import Phase
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import DOF

TICK_S = 0.001             # the FCI's 1 kHz
LOST = 20                  # commands in a row that may be missing
FIRST = 1000               # states until the first command must have come
START_RAD = 1e-3           # the first set-point's distance from the arm, at most
JUMP_RAD_S2 = 1000.0       # of a set-point; the real box allows less
ASYNC_RAD_S2 = 10.0        # of what the box itself interpolates
TORQUE_STEP_NM = 1.0001    # per ms: libfranka's rate limit of 1, and rounding
ARRIVED_RAD = 1e-3         # of an interpolated motion
FASTER = 1.05              # of the speed limit, for rounding of the client's set-points


class FciMotion:
    """
    One motion of the emulated arm, from the Move to its end; the box's thread calls it.

    States show ``generator`` and ``controller``. ``speed`` (7,) rad/s is set for targets that the
    box itself interpolates, None otherwise. ``shown`` is the number of the first state that showed
    the motion; ``began`` is set with the first command, which clients send after two states.
    """

    def __init__(self, station: SimStation, dialect: Dialect, controller: FciController,
                 generator: FciGenerator, speed: Floats | None) -> None:
        self.controller, self.generator = controller, generator
        self.shown: int | None = None
        self.q_d = held_q(station)
        self.dq_d = np.zeros(DOF)
        self.tau_d = np.zeros(DOF)
        self._arm, self._dialect, self._speed = station.world.arm, dialect, speed
        self._torque = controller is FciController.EXTERNAL
        self._target: Floats | None = None
        self._missing = self._lost = self._cycles = 0
        self._ddq_d = np.zeros(DOF)
        self.began = False
        self._heard: deque[bool] = deque(maxlen=100)
        robot = station.robot
        self._lower = np.array(robot.limits.hardware_lower)
        self._upper = np.array(robot.limits.hardware_upper)
        self._fastest = np.array(robot.joint_velocity)

    @property
    def answered(self) -> bool:
        """Return whether each state gets a command: not while the box itself interpolates."""
        return self.began and self._speed is None

    @property
    def arrived(self) -> bool:
        """Return whether the box has interpolated to the target."""
        return self._target is not None and self._speed is not None and bool(
            np.max(np.abs(self._target - self.q_d)) < ARRIVED_RAD)

    @property
    def success_rate(self) -> float:
        """Return the share of the last 100 states that were answered in time."""
        return sum(self._heard) / max(1, len(self._heard))

    def step(self, command: Any | None) -> FciError | bool:
        """Take a tick's command, None: none came. Return an error, or whether it has ended."""
        self._cycles += 1
        self._heard.append(command is not None)
        if command is None:
            return self._without()
        self._lost, self._missing = self._missing, 0
        if self._dialect.is_finished(command, self._torque):
            return True
        error = self._obey(command)
        self.began = True
        return False if error is None else error

    def _without(self) -> FciError | bool:
        self._missing += 1
        if self._missing >= (LOST if self.began else FIRST) and self._speed is None:
            return FciError.communication_constraints_violation
        if self._speed is not None and self._target is not None:
            self._approach()
        elif self.began and not self._torque:   # with the acceleration that it had
            self.dq_d = self.dq_d + self._ddq_d * TICK_S
            self.q_d = self.q_d + self.dq_d * TICK_S
            self._arm.follow(self.q_d, self.dq_d)
        return False

    def _obey(self, command: Any) -> FciError | None:
        if self._speed is not None:
            return self._aim(np.array(command['q_c']))
        if self._torque:
            return self._drive(np.array(command['tau_J_d']))
        if self.generator is FciGenerator.JOINT_VELOCITY:
            return self._follow(self.q_d + np.array(command['dq_c']) * TICK_S)
        return self._follow(np.array(command['q_c']))

    def _drive(self, tau: Floats) -> FciError | None:
        if not np.all(np.isfinite(tau)):
            return FciError.tau_J_range_violation
        steps = 1 + self._lost
        if self.began and np.max(np.abs(tau - self.tau_d)) > TORQUE_STEP_NM * steps:
            return FciError.controller_torque_discontinuity
        self.tau_d = tau
        self._arm.drive(tau)
        return None

    def _follow(self, q: Floats) -> FciError | None:
        speed = (q - self.q_d) / TICK_S
        if not self.began and np.max(np.abs(q - self.q_d)) > START_RAD:
            return FciError.joint_position_motion_generator_start_pose_invalid
        if not np.all((q >= self._lower) & (q <= self._upper)):
            return FciError.joint_motion_generator_position_limits_violation
        if self.began and np.any(np.abs(speed - self.dq_d) > JUMP_RAD_S2 * TICK_S):
            return FciError.joint_motion_generator_velocity_discontinuity
        if np.any(np.abs(speed) > FASTER * self._fastest):
            return FciError.joint_motion_generator_velocity_limits_violation
        self._ddq_d = np.clip((speed - self.dq_d) / TICK_S, -ASYNC_RAD_S2, ASYNC_RAD_S2)
        self.q_d, self.dq_d = q, speed
        self._arm.follow(q, speed)
        return None

    def _aim(self, q: Floats) -> FciError | None:
        if not np.all((q >= self._lower) & (q <= self._upper)):
            return FciError.joint_motion_generator_position_limits_violation
        self._target = q
        self._approach()
        return None

    def _approach(self) -> None:
        """Move the set-point towards the target, as fast as it can still be stopped there."""
        assert self._target is not None
        assert self._speed is not None
        way = self._target - self.q_d
        most = np.minimum(self._speed, np.sqrt(1.6 * ASYNC_RAD_S2 * np.abs(way)))
        wanted = np.sign(way) * np.minimum(most, 50.0 * np.abs(way))
        change = ASYNC_RAD_S2 * TICK_S
        self.dq_d = self.dq_d + np.clip(wanted - self.dq_d, -change, change)
        self.q_d = self.q_d + self.dq_d * TICK_S
        self._arm.follow(self.q_d, self.dq_d)


def held_q(station: SimStation) -> Floats:
    """Return where the resting arm is held (7,) rad, and its joints while it is not."""
    arm = station.world.arm
    return np.array(arm.q_des if arm.phase is Phase.HOLD
                    else station.world.data.qpos[arm.impedance.qpos])


def fill(state: Any, station: SimStation, motion: FciMotion | None) -> float:
    """Write the simulated arm into a state's datagram; return its fastest joint in rad/s."""
    world = station.world
    data, drive = world.data, world.arm.impedance
    q, dq = data.qpos[drive.qpos], data.qvel[drive.dofs]
    pose = np.eye(4)
    pose[:3, :3] = data.site_xmat[drive.flange].reshape(3, 3)
    pose[:3, 3] = data.site_xpos[drive.flange]
    for name in ('O_T_EE', 'O_T_EE_d', 'O_T_EE_c'):
        state[name][...] = pose.T.ravel()
    tau = (data.qfrc_actuator[drive.dofs] + data.qfrc_gravcomp[drive.dofs]
           + data.qfrc_applied[drive.dofs])
    for name, values in (('q', q), ('theta', q), ('dq', dq), ('dtheta', dq), ('tau_J', tau),
                         ('tau_ext_hat_filtered', world.arm.tau_ext),
                         ('q_d', held_q(station) if motion is None else motion.q_d),
                         ('dq_d', 0.0 if motion is None else motion.dq_d),
                         ('tau_J_d', 0.0 if motion is None else motion.tau_d)):
        state[name][...] = values
    state['motion_generator_mode'] = FciGenerator.IDLE if motion is None else motion.generator
    state['controller_mode'] = FciController.OTHER if motion is None else motion.controller
    state['control_command_success_rate'] = 0.0 if motion is None else motion.success_rate
    return float(np.max(np.abs(dq)))


def collided(station: SimStation) -> bool:
    """Return whether the simulated arm has stopped itself in a collision."""
    return station.world.arm.mode is RobotMode.REFLEX
