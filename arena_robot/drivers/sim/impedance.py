"""
DROID's hybrid joint impedance, evaluated inside MuJoCo at every 1 ms step.

    tau = (Kq + J' Kx J)(q_des - q) + (Kqd + J' Kxd J)(dq_des - dq) + coriolis + gravity

The joint terms are seven affine servos. The task terms are six servos on fixed tendons whose
coefficients are the rows of the flange Jacobian J: their length is J q and their force, mapped
back, J' f. Only J, the set-points and the Coriolis torque are refreshed from Python, once per
tick; MuJoCo clamps each joint's sum to its torque limit. Gravity is compensated in the model.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.arm_model import FLANGE_SITE, JOINTS, TASK_TENDONS
from arena_robot.robots.arms import DOF, KQ, KQD, KX, KXD


@dataclass(frozen=True)
class ImpedanceGains:
    """Joint and task stiffness (N m/rad, N/m) and damping, DROID's shapes (7,) and (6,)."""

    kq: tuple[float, ...]
    kqd: tuple[float, ...]
    kx: tuple[float, ...]
    kxd: tuple[float, ...]


DROID = ImpedanceGains(kq=tuple(KQ), kqd=tuple(KQD), kx=tuple(KX), kxd=tuple(KXD))
HOLD = ImpedanceGains(kq=(800, 800, 800, 800, 300, 300, 120), kqd=(80, 80, 80, 80, 25, 25, 12),
             kx=(0,) * 6,
                       kxd=(0,) * 6)
BRAKE = ImpedanceGains(kq=(0,) * 7, kqd=(220, 220, 160, 160, 30, 30, 12), kx=(0,) * 6,
                       kxd=(0,) * 6)
FREE = ImpedanceGains(kq=(0,) * 7, kqd=(0,) * 7, kx=(0,) * 6, kxd=(0,) * 6)


class HybridImpedance:
    """Drives the servos of one model; the caller owns the lock on model and data."""

    def __init__(self, model: mujoco.MjModel) -> None:
        def ids(kind: int, names: tuple[str, ...]) -> list[int]:
            return [mujoco.mj_name2id(model, kind, name) for name in names]

        self._model = model
        joints = ids(mujoco.mjtObj.mjOBJ_JOINT, JOINTS)
        self.dofs = slice(model.jnt_dofadr[joints[0]], model.jnt_dofadr[joints[0]] + DOF)
        self.qpos = slice(model.jnt_qposadr[joints[0]], model.jnt_qposadr[joints[0]] + DOF)
        self._servos = np.array(ids(mujoco.mjtObj.mjOBJ_ACTUATOR, JOINTS + TASK_TENDONS))
        tendons = ids(mujoco.mjtObj.mjOBJ_TENDON, TASK_TENDONS)
        start = model.tendon_adr[tendons[0]]
        self._coefficients = slice(start, start + 6 * DOF)
        self.flange = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, FLANGE_SITE)
        self._jac = np.zeros((6, model.nv))
        self._lead = np.zeros(DOF + 6)
        self.gains = DROID
        self.use(DROID)

    def use(self, gains: ImpedanceGains) -> None:
        """Set the gains of all thirteen servos."""
        kp, kd = np.array(gains.kq + gains.kx), np.array(gains.kqd + gains.kxd)
        self._model.actuator_gainprm[self._servos, 0] = kp
        self._model.actuator_biasprm[self._servos, 1] = -kp
        self._model.actuator_biasprm[self._servos, 2] = -kd
        self._lead = np.divide(kd, kp, out=np.zeros(DOF + 6), where=kp > 0)
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
