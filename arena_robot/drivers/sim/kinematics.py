"""Inverse kinematics of the simulated arm for the scripted expert, on MuJoCo's Jacobians."""

import mujoco
import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import PAD_SITE
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.robots.arms import DOF

_DAMPING = 0.02     # m and rad; less lets the joints jump near a singularity
_POSTURE = 0.04     # share of the way to the rest pose per step, in the null space
_STEPS = 12         # nearly every call takes them all: posture pulls against the target


class PadKinematics:
    """Joint angles that put the point between the pads at a pose in the base frame."""

    def __init__(self, world: SimWorld) -> None:
        self._model = world.model
        self._data = mujoco.MjData(world.model)
        self._data.qpos[:] = world.data.qpos
        self._qpos = world.arm.impedance.qpos
        self._dofs = world.arm.impedance.dofs
        self._site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, PAD_SITE)
        margin, robot = 0.06, world.arm.robot
        self._low = np.array(robot.limits.hardware_lower) + margin
        self._high = np.array(robot.limits.hardware_upper) - margin
        self._rest = np.array(robot.reset_joints)

    def pose(self, q: Floats) -> tuple[Floats, Floats]:
        """Return position (3,) and rotation (3, 3) of the pads for ``q`` (7,)."""
        self._data.qpos[self._qpos] = q
        mujoco.mj_kinematics(self._model, self._data)
        return (self._data.site_xpos[self._site].copy(),
                self._data.site_xmat[self._site].reshape(3, 3).copy())

    def solve(self, q: Floats, position: Floats, rotation: Floats) -> Floats:
        """Return (7,) rad near ``q``; the best found when the pose cannot be reached."""
        jac = np.zeros((6, self._model.nv))
        q = np.array(q, dtype=float)
        for _ in range(_STEPS):
            at, turn = self.pose(q)
            error = np.concatenate([position - at, _rotation_vector(rotation @ turn.T)])
            if np.linalg.norm(error) < 1e-5:
                break
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, jac[:3], jac[3:], self._site)
            j = jac[:, self._dofs]
            gain = j.T @ np.linalg.inv(j @ j.T + _DAMPING ** 2 * np.eye(6))
            rest = _POSTURE * (self._rest - q)
            q = np.clip(q + gain @ error + (np.eye(DOF) - gain @ j) @ rest, self._low, self._high)
        return q


def _rotation_vector(turn: Floats) -> Floats:
    quat, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quat, turn.ravel())
    mujoco.mju_quat2Vel(vector, quat, 1.0)
    return vector


def downward(yaw: float, pitch: float = 0.0) -> Floats:
    """Return (3, 3) for fingers pointing down, turned by ``yaw``, tipped forward by ``pitch``."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    turn = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    tip = np.array([[cp, 0, -sp], [0, 1, 0], [sp, 0, cp]])
    out: Floats = turn @ tip @ np.diag([1.0, -1.0, -1.0])
    return out
