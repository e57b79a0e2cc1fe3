"""
Controller states of the simulated arm (track, move, brake, hold, reflex) and DROID's impedance.

    tau = (Kq + J' Kx J)(q_des - q) + (Kqd + J' Kxd J)(dq_des - dq) + coriolis + gravity

MuJoCo evaluates this at every 1 ms step. The joint terms are seven affine servos. The task terms
are six servos on fixed tendons whose coefficients are the rows of the flange Jacobian J: their
length is J q and their force, mapped back, J' f. Only J, the set-points and the Coriolis torque
are refreshed from Python, once per tick; MuJoCo clamps each joint's sum to its torque limit.
Gravity is compensated in the model. An arm of an embodiment has no task terms; its joints have the
stiffness that gives each the same bandwidth with the mass that it moves.
"""

from dataclasses import dataclass
from enum import Enum

import mujoco
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.observation import Floats, RobotMode
from arena_robot.drivers.sim.arm_model import FLANGE_SITE, TASK_TENDONS, joint_names
from arena_robot.robots.arms import KQ, KQD, KX, KXD, Robot

REST_RAD_S = 0.004      # the brake's end: slower, and holding starts without a jerk
# Of a joint's external torque, until thresholds are set; of an embodiment's arm no more than a
# joint's own torque, and that where it slides. The fingers of its other arms' hands have none.
COLLISION_NM = 40.0
# Of an embodiment's arm: the bandwidths (rad/s) of its joints, of a maker's position controller
# while it tracks targets at 15 Hz, and twice that while it holds; the poses (seed 0) at which the
# mass that a joint moves is looked at.
TRACK_RAD_S, HOLD_RAD_S, POSES = 30.0, 60.0, 20
Places = slice | NDArray[np.int32]    # addresses of joints in qpos or qvel
_FILTER = 0.3  # of the external torque, per 4 ms tick: about 10 ms


@dataclass(frozen=True)
class ImpedanceGains:
    """Joint and task stiffness (N m/rad, N/m) and damping of shapes (n,) and (6,)."""

    kq: tuple[float, ...]
    kqd: tuple[float, ...]
    kx: tuple[float, ...]
    kxd: tuple[float, ...]


DROID = ImpedanceGains(kq=tuple(KQ), kqd=tuple(KQD), kx=tuple(KX), kxd=tuple(KXD))
HOLD = ImpedanceGains(kq=(800, 800, 800, 800, 300, 300, 120), kqd=(80, 80, 80, 80, 25, 25, 12),
                      kx=(0,) * 6, kxd=(0,) * 6)
BRAKE = ImpedanceGains(kq=(0,) * 7, kqd=(220, 220, 160, 160, 30, 30, 12), kx=(0,) * 6,
                       kxd=(0,) * 6)
FREE = ImpedanceGains(kq=(0,) * 7, kqd=(0,) * 7, kx=(0,) * 6, kxd=(0,) * 6)


@dataclass(frozen=True)
class ArmGains:
    """The gains of an arm in its phases."""

    track: ImpedanceGains = DROID
    hold: ImpedanceGains = HOLD
    brake: ImpedanceGains = BRAKE
    free: ImpedanceGains = FREE


def gains_for(model: mujoco.MjModel, robot: Robot, at: Places) -> ArmGains:
    """Return DROID's gains for a Franka, else those of the masses that the joints move."""
    if not robot.own_joints:
        return ArmGains()
    data, most = mujoco.MjData(model), np.zeros(robot.joints)
    full, rng = np.zeros((model.nv, model.nv)), np.random.default_rng(0)
    for _ in range(POSES):
        data.qpos[at] = rng.uniform(robot.limits.q_min, robot.limits.q_max)
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, full)
        most = np.maximum(most, np.diag(full)[at])

    def gains(stiff: float, damp: float) -> ImpedanceGains:
        stiffness = most * stiff ** 2
        if not stiff and damp:    # a brake; fingers go on holding
            stiffness[list(robot.fingers)] = (most * damp ** 2)[list(robot.fingers)]
        return ImpedanceGains(tuple(stiffness.tolist()),
                              tuple((2.0 * most * damp).tolist()), (0.0,) * 6, (0.0,) * 6)

    return ArmGains(gains(TRACK_RAD_S, TRACK_RAD_S), gains(HOLD_RAD_S, HOLD_RAD_S),
                    gains(0.0, HOLD_RAD_S), gains(0.0, 0.0))


def _places(addresses: NDArray[np.int32]) -> Places:
    """Return addresses as a slice, which is faster, where they follow each other."""
    first = int(addresses[0])
    span = np.arange(first, first + len(addresses))
    return slice(first, first + len(span)) if np.array_equal(addresses, span) else addresses


class HybridImpedance:
    """Drives the servos of one model; the caller owns the lock on model and data."""

    def __init__(self, model: mujoco.MjModel, robot: Robot) -> None:
        def ids(kind: int, names: tuple[str, ...]) -> list[int]:
            return [mujoco.mj_name2id(model, kind, name) for name in names]

        self._model = model
        names, count = joint_names(robot), robot.joints
        joints = ids(mujoco.mjtObj.mjOBJ_JOINT, names)
        self.dofs = _places(model.jnt_dofadr[joints])
        self.qpos = _places(model.jnt_qposadr[joints])
        self._servos = np.array(ids(mujoco.mjtObj.mjOBJ_ACTUATOR, names + TASK_TENDONS))
        tendons = ids(mujoco.mjtObj.mjOBJ_TENDON, TASK_TENDONS)
        start = model.tendon_adr[tendons[0]]
        self._coefficients = slice(start, start + 6 * count)
        self.flange = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, FLANGE_SITE)
        self._jac = np.zeros((6, model.nv))
        self._lead = np.zeros(count + 6)
        self.table = gains_for(model, robot, self.qpos)
        self.gains = self.table.track
        self.use(self.gains)

    def use(self, gains: ImpedanceGains) -> None:
        """Set the gains of all servos."""
        kp, kd = np.array(gains.kq + gains.kx), np.array(gains.kqd + gains.kxd)
        self._model.actuator_gainprm[self._servos, 0] = kp
        self._model.actuator_biasprm[self._servos, 1] = -kp
        self._model.actuator_biasprm[self._servos, 2] = -kd
        self._lead = np.divide(kd, kp, out=np.zeros(len(kp)), where=kp > 0)
        self.gains = gains

    def refresh(self, data: mujoco.MjData, q_des: Floats, dq_des: Floats | None = None) -> None:
        """Set Jacobian rows, set-points (rad, rad/s) and the Coriolis torque for the next tick."""
        jac = self._jac
        mujoco.mj_jacSite(self._model, data, jac[:3], jac[3:], self.flange)
        j = jac[:, self.dofs]
        self._model.wrap_prm[self._coefficients] = j.ravel()
        target = np.concatenate([q_des, j @ q_des])
        if dq_des is not None:
            target += self._lead * np.concatenate([dq_des, j @ dq_des])
        data.ctrl[self._servos] = target
        data.qfrc_applied[self.dofs] = data.qfrc_bias[self.dofs] - data.qfrc_gravcomp[self.dofs]


class Phase(str, Enum):
    """
    Source of the target: a command stream, a motion, none while braking, or the held pose.

    FOLLOW and TORQUE are those of a control box: set-points or torques that come every
    millisecond.
    """

    TRACK = 'track'
    MOVE = 'move'
    BRAKE = 'brake'
    HOLD = 'hold'
    FOLLOW = 'follow'
    TORQUE = 'torque'


MOVING = (Phase.TRACK, Phase.MOVE, Phase.FOLLOW, Phase.TORQUE)


@dataclass(frozen=True)
class Motion:
    """A min-jerk motion from ``start`` to ``goal`` (n,) rad beginning at ``begin_ns``."""

    start: Floats
    goal: Floats
    begin_ns: int
    duration_s: float

    def at(self, now_ns: int) -> tuple[Floats, Floats]:
        """Return position and velocity (n,) at a time."""
        s = min(1.0, (now_ns - self.begin_ns) * 1e-9 / self.duration_s)
        shape = s ** 3 * (10 - 15 * s + 6 * s * s)
        slope = 30 * s * s * (1 - s) ** 2 / self.duration_s
        delta = self.goal - self.start
        return self.start + shape * delta, slope * delta


class ArmControl:
    """The arm's 250 Hz state machine; the world calls it under its lock."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.collision_nm = np.full(robot.joints, COLLISION_NM)
        if robot.own_joints:
            own, slides = np.array(robot.joint_torque), robot.limits.chain.sliding
            self.collision_nm = np.where(slides, own, np.minimum(own, COLLISION_NM))
            self.collision_nm[list(robot.fingers)] = np.inf
        self.mode = RobotMode.IDLE
        self.errors: tuple[str, ...] = ()
        self.phase = Phase.HOLD
        self.q_des = np.zeros(robot.joints)
        self.tau_ext = np.zeros(robot.joints)
        self._lead = np.zeros(robot.joints)
        self._tau = np.zeros(robot.joints)
        self._goal = np.zeros(robot.joints)
        self._motion: Motion | None = None
        self._hold_ns = self._since_ns = 0
        self._impedance: HybridImpedance | None = None

    @property
    def impedance(self) -> HybridImpedance:
        """The servos of the world's present model."""
        assert self._impedance is not None
        return self._impedance

    def bind(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Use a new model; hold the position in ``data``."""
        self._impedance = HybridImpedance(model, self.robot)
        self.mode, self.errors = RobotMode.IDLE, ()
        self.tau_ext = np.zeros(self.robot.joints)
        self.q_des = self._q(data)
        self._hold(data)
        self.impedance.refresh(data, self.q_des)

    def track(self, q: Floats, now_ns: int, timeout_s: float) -> Floats:
        """
        Track ``q`` clipped to the joint limits for a time; return what is tracked.

        A Franka's springs pull to it at once. The controller of an embodiment's arm goes there at
        no more than the joints' speeds.
        """
        self._goal, self._since_ns = self._within(q), now_ns
        if not self.robot.own_joints:
            self.q_des = self._goal
        self._hold_ns = now_ns + round(timeout_s * 1e9)
        self._enter(Phase.TRACK, self.impedance.table.track)
        out: Floats = self._goal.copy()
        return out

    def move(self, data: mujoco.MjData, q: Floats, duration_s: float, now_ns: int) -> None:
        """Start a min-jerk motion from the measured pose."""
        goal = self._within(q)
        self._motion = Motion(self._q(data), goal, now_ns, duration_s)
        self._enter(Phase.MOVE, self.impedance.table.hold)

    def follow(self, q: Floats, dq: Floats) -> None:
        """Have the stiff controller follow a set-point (rad, rad/s) until the next one."""
        self.q_des, self._lead = self._within(q), dq
        self._enter(Phase.FOLLOW, self.impedance.table.hold)

    def drive(self, tau: Floats) -> None:
        """Apply torques (n,) N m in addition to those that carry the arm's weight."""
        most = np.array(self.robot.joint_torque)
        self._tau = np.clip(tau, -most, most)
        self._enter(Phase.TORQUE, self.impedance.table.free)

    def brake(self) -> None:
        """Come to rest at once, then hold."""
        self._enter(Phase.BRAKE, self.impedance.table.brake)

    def trip(self, mode: RobotMode, error: str) -> None:
        """Brake in ``mode`` (a reflex or a user stop) until :meth:`recover`."""
        self.mode, self.errors = mode, (error,)
        self.brake()

    def recover(self, data: mujoco.MjData) -> None:
        """Leave reflex or user stop and hold the measured pose."""
        self.mode, self.errors = RobotMode.IDLE, ()
        self.tau_ext = np.zeros(self.robot.joints)
        self._hold(data)

    def tick(self, data: mujoco.MjData, now_ns: int) -> None:
        """Set the servos for the next tick."""
        external = data.qfrc_constraint[self.impedance.dofs]
        self.tau_ext += _FILTER * (external - self.tau_ext)
        if self.mode in (RobotMode.IDLE, RobotMode.MOVE):
            size = np.abs(self.tau_ext) / self.collision_nm
            if size.max() > 1.0:
                self.trip(RobotMode.REFLEX, f'joint{size.argmax() + 1}_collision')
        lead = None
        if self.phase is Phase.TRACK and now_ns > self._hold_ns:
            self.brake()
        if self.robot.own_joints:
            self._approach(data, now_ns)
        if self.phase is Phase.BRAKE:
            if np.max(np.abs(data.qvel[self.impedance.dofs])) < REST_RAD_S:
                self._hold(data)
        elif self.phase is Phase.MOVE and self._motion is not None:
            self.q_des, lead = self._motion.at(now_ns)
            if (now_ns - self._motion.begin_ns) * 1e-9 >= self._motion.duration_s:
                self._enter(Phase.HOLD, self.impedance.table.hold)
        elif self.phase is Phase.FOLLOW:
            lead = self._lead
        elif self.phase is Phase.TORQUE:
            self.q_des = self._q(data)
        self.impedance.refresh(data, self.q_des, lead)
        if self.phase is Phase.TORQUE:
            data.qfrc_applied[self.impedance.dofs] = self._tau

    def _approach(self, data: mujoco.MjData, now_ns: int) -> None:
        """Move the set-point of a position controller towards what is tracked."""
        if self.phase is Phase.TRACK:
            way = (now_ns - self._since_ns) * 1e-9 * np.array(self.robot.joint_velocity)
            self.q_des = np.clip(self._goal, self.q_des - way, self.q_des + way)
            self._since_ns = now_ns
        elif self.phase is Phase.BRAKE:
            self.q_des = self._here(data)

    def _within(self, q: Floats) -> Floats:
        limits = self.robot.limits
        return np.clip(q, limits.hardware_lower, limits.hardware_upper)

    def _here(self, data: mujoco.MjData) -> Floats:
        """Return where the arm is, and the set-point of fingers: they may hold something."""
        q, fingers = self._q(data), list(self.robot.fingers)
        q[fingers] = self.q_des[fingers]
        return q

    def _hold(self, data: mujoco.MjData) -> None:
        self.q_des = self._here(data)
        self._enter(Phase.HOLD, self.impedance.table.hold)

    def _q(self, data: mujoco.MjData) -> Floats:
        return np.array(data.qpos[self.impedance.qpos])

    def _enter(self, phase: Phase, gains: ImpedanceGains) -> None:
        self.phase = phase
        if self.mode in (RobotMode.IDLE, RobotMode.MOVE):
            self.mode = RobotMode.MOVE if phase in MOVING else RobotMode.IDLE
        if self.impedance.gains is not gains:
            self.impedance.use(gains)
