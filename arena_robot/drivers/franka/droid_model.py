"""DROID's arm as a model: where its law of springs and dampers would have the joints by now."""

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.franka.client import droid_gains
from arena_robot.robots.arms import DOF, FRICTION, ROTORS, Link
from arena_robot.safety.kinematics import AFTER, FLANGE, NEXT, frames
from arena_robot.safety.limits import robot_of

STEP_S = 0.001       # DROID's controller runs at 1 kHz
LONGEST_MS = 100     # a longer pause counts as so many ms
LEAD_RAD = 0.3       # how far the model may be ahead of a joint
TURNED_RAD = 0.01    # by which a joint turns until gains and inertia are computed again
# A Robotiq 2F-85 with DROID's wrist camera, as a body at the flange.
HAND = Link(0.963, (0.0078, 0.0, 0.0587), (0.00212, 0.00221, 0.00090, 0.0, 0.0, 0.0))


class DroidModel:
    """
    The joints of DROID's arm, begun at rest at ``q`` (7,) rad and moved on in time.

    M(q) ddq = K(q) (target - q) - D(q) dq, with gravity and Coriolis' forces compensated, the
    springs' torques within the robot's, ``speed`` (7,) rad/s and the range of the joints kept.
    """

    def __init__(self, robot_type: str, speed: Floats, q: Floats) -> None:
        robot = robot_of(robot_type)
        self.q, self.dq = np.array(q), np.zeros(DOF)
        self._speed, self._most = speed, np.array(robot.joint_torque)
        self._lower = np.minimum(q, robot.limits.hardware_lower)
        self._upper = np.maximum(q, robot.limits.hardware_upper)
        self._bodies = _Bodies(robot_type)
        self._at_ms: int | None = None
        self._turn()

    def advance(self, target: Floats, measured: Floats, now_ms: int) -> Floats:
        """
        Return the joints (7,) rad at the robot's time ``now_ms``, near the ``measured`` ones.

        A time that is not later changes nothing; a pause counts as a tenth of a second at most.
        """
        before, self._at_ms = self._at_ms, max(now_ms, self._at_ms or 0)
        steps = 0 if before is None else min(self._at_ms - before, LONGEST_MS)
        if steps:
            self._integrate(target, steps)
        self._keep(np.maximum(self._lower, measured - LEAD_RAD),
                   np.minimum(self._upper, measured + LEAD_RAD))
        return self.q

    def _integrate(self, target: Floats, steps: int) -> None:
        if np.max(np.abs(self.q - self._turned)) > TURNED_RAD:
            self._turn()
        for _ in range(steps):
            springs = self._stiffness @ (target - self.q)
            force = np.clip(springs - self._damping @ self.dq, -self._most, self._most)
            change = STEP_S * (self._mobility @ (force - FRICTION * self.dq))
            self.dq = np.clip(self.dq + change, -self._speed, self._speed)
            self.q = self.q + STEP_S * self.dq

    def _turn(self) -> None:
        """Compute what depends on the joints."""
        self._turned = self.q
        self._stiffness, self._damping = droid_gains(self.q)
        slowed = self._damping + FRICTION * np.eye(DOF)
        # The dampers act at the end of a step, so that a stiff one cannot swing.
        self._mobility = np.linalg.inv(self._bodies.inertia(self.q) + STEP_S * slowed)

    def _keep(self, lower: Floats, upper: Floats) -> None:
        """Stop the joints that would leave their range."""
        kept = np.clip(self.q, lower, upper)
        self.dq = np.where(kept == self.q, self.dq, 0.0)
        self.q = kept


class _Bodies:
    """Masses of an arm with a hand: link i turns with joints 0 to i, the hand with all."""

    def __init__(self, robot_type: str) -> None:
        links = (*robot_of(robot_type).links, HAND)
        self._centre = np.array([link.com for link in links])
        self._root = np.sqrt(np.array([link.mass for link in links]))[:, None, None]
        self._turns = np.array([np.linalg.cholesky(_matrix(link)).T for link in links])
        self._moved = np.tril(np.ones((DOF + 1, DOF), bool))[:, None, :]
        self._moved[FLANGE] = True

    def inertia(self, q: Floats) -> Floats:
        """Return the joints' inertia (7, 7) kg m^2 at ``q``."""
        chain = frames(q)
        turned, at = chain[:, :3, :3], chain[:, :3, 3]
        away = (at + np.einsum('ijk,ik->ij', turned, self._centre))[:, None] - at[None, :DOF]
        axis = turned[:DOF, :, 2]
        moves = axis[:, NEXT] * away[..., AFTER] - axis[:, AFTER] * away[..., NEXT]
        linear = self._root * self._moved * moves.transpose(0, 2, 1)
        angular = self._turns @ turned.transpose(0, 2, 1) @ (self._moved * axis.T)
        both = np.concatenate([linear, angular]).reshape(-1, DOF)
        return np.asarray(both.T @ both + np.diag(ROTORS))


def _matrix(link: Link) -> Floats:
    xx, yy, zz, xy, xz, yz = link.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
