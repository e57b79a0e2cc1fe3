"""The 2F-85's controller: a ramp at the requested speed, a force limit, object detection."""

import mujoco
import numpy as np

from arena_robot.core.observation import ObjectStatus
from arena_robot.drivers.sim.gripper_model import FINGERS
from arena_robot.robots.grippers import ROBOTIQ_2F85

SPEED_M_S = (0.020, 0.150)
FORCE_N = (20.0, 235.0)
_SQUEEZE_M = 0.012       # the ramp may run ahead of a blocked finger by this much
_STALL_S = 0.06
_AT_M = 0.0015
_STILL_M_S = 0.004


class GripperControl:
    """The gripper's 250 Hz state machine; widths in m between the pads."""

    def __init__(self) -> None:
        self.requested_m = ROBOTIQ_2F85.stroke_m
        self.speed, self.force = 0.5, 0.0
        self.fault = 0
        self.status = ObjectStatus.AT_REQUESTED
        self.width_m = ROBOTIQ_2F85.stroke_m
        self.width_rate_m_s = 0.0
        self._ramp_m = ROBOTIQ_2F85.stroke_m
        self._blocked_s = 0.0

    def bind(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Use a new model; hold the present width."""
        kind = mujoco.mjtObj
        joints = [mujoco.mj_name2id(model, kind.mjOBJ_JOINT, name) for name in FINGERS]
        self._model = model
        self._qpos = np.array([model.jnt_qposadr[j] for j in joints])
        self._dofs = np.array([model.jnt_dofadr[j] for j in joints])
        self._servos = np.array([mujoco.mj_name2id(model, kind.mjOBJ_ACTUATOR, name)
                                 for name in FINGERS])
        self._read(data)
        self.requested_m = self._ramp_m = self.width_m
        self.status, self.fault = ObjectStatus.AT_REQUESTED, 0
        self._set_force()
        data.ctrl[self._servos] = self._ramp_m / 2

    def go(self, width_m: float, speed: float, force: float) -> None:
        """Ramp to ``width_m`` with ``speed`` and ``force`` as fractions 0 to 1."""
        if abs(width_m - self.requested_m) > 1e-4:
            self.status, self._blocked_s = ObjectStatus.MOVING, 0.0
        self.requested_m, self.speed, self.force = width_m, speed, force
        self._set_force()

    def resume(self, other: 'GripperControl', data: mujoco.MjData) -> None:
        """Continue with the state of another controller."""
        self.requested_m, self.speed, self.force = other.requested_m, other.speed, other.force
        self.status, self.fault = other.status, other.fault
        self._ramp_m, self._blocked_s = other._ramp_m, other._blocked_s
        self._set_force()
        data.ctrl[self._servos] = self._ramp_m / 2

    def stop(self) -> None:
        """Keep the fingers where they are."""
        self.requested_m = self._ramp_m = self.width_m
        self.status = ObjectStatus.AT_REQUESTED

    def tick(self, data: mujoco.MjData, dt: float) -> None:
        """Advance the ramp by ``dt`` seconds and detect contact of the fingers."""
        self._read(data)
        rate = SPEED_M_S[0] + self.speed * (SPEED_M_S[1] - SPEED_M_S[0])
        step = max(-rate * dt, min(rate * dt, self.requested_m - self._ramp_m))
        ahead = self._ramp_m + step - self.width_m
        self._ramp_m = self.width_m + max(-_SQUEEZE_M, min(_SQUEEZE_M, ahead))
        data.ctrl[self._servos] = self._ramp_m / 2
        self._judge(dt)

    def _judge(self, dt: float) -> None:
        error = self.requested_m - self.width_m
        still = abs(self.width_rate_m_s) < _STILL_M_S
        if abs(error) < _AT_M:
            self.status = ObjectStatus.AT_REQUESTED
            return
        pushing = abs(self._ramp_m - self.width_m) > 0.6 * min(abs(error), _SQUEEZE_M)
        self._blocked_s = self._blocked_s + dt if still and pushing else 0.0
        if self._blocked_s >= _STALL_S:
            self.status = (ObjectStatus.GRIPPED_CLOSING if error < 0
                           else ObjectStatus.GRIPPED_OPENING)
        elif not still:
            self.status = ObjectStatus.MOVING

    def _read(self, data: mujoco.MjData) -> None:
        self.width_m = float(data.qpos[self._qpos].sum())
        self.width_rate_m_s = float(data.qvel[self._dofs].sum())

    def _set_force(self) -> None:
        newton = FORCE_N[0] + self.force * (FORCE_N[1] - FORCE_N[0])
        self._model.actuator_forcerange[self._servos] = (-newton, newton)

    def current_a(self, data: mujoco.MjData) -> float:
        """Return a motor current in A that grows with the force, as the real one reports."""
        return float(0.05 + 0.004 * np.abs(data.actuator_force[self._servos]).mean())
