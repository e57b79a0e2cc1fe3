"""
Straight motions of the finger pads, one joint target per control step.

Every motion is a generator that yields once per step; between two queries of the policy it
continues with the newest observation. :meth:`VisionHands.look` waits for a new picture taken while
the arm is at rest.

The poses of the finger pads and of the wrist camera are a lab's calibration of its station, not
readings of a simulator: a Franka arm with a Robotiq 2F-85 and a ZED Mini on the hand. Everything
is in m and rad; the base frame is the arm's, the hand frame the flange's.
"""

import math
from collections.abc import Iterator

import numpy as np

from arena_robot.core.observation import Floats, Observation, Pixels
from arena_robot.robots.arms import DOF, RESET_JOINTS
from arena_robot.safety.kinematics import FLANGE, frames, jacobian

VIEW = 'wrist_left'
RATE_HZ = 15.0
SPEED_M_S = 0.26
TURN_RAD_S = 1.6
CLOSING_STEPS = 14
OPENING_STEPS = 8
LOST_RAD = 0.35
_STILL_RAD = 0.012    # between joint target and joints
_PATIENCE = 2         # queries

Steps = Iterator[None]
PAD_M = 0.152                           # flange to the middle of the pads
EYE_M = (0.070, -0.0315, 0.030)         # flange to the mount of the camera's left eye
EYE_TILT = 0.33                         # of the optical axis towards the pads, to 0.03
FOCAL = 700.0 / 720.0                   # in image heights
IMAGE_SIZE = (180, 320)
LOW_Q = np.array([-2.60, -1.60, -2.60, -2.90, -2.60, 0.50, -2.70])
HIGH_Q = -np.array([-2.60, -1.60, -2.60, 0.25, -2.60, -3.60, -2.70])
_DAMPING = 0.02
_POSTURE = 0.04
_REST = np.array(RESET_JOINTS)


class WristEye:
    """
    The left eye of the wrist camera on a hand at ``hand`` (4, 4).

    ``tilt_error`` is how much more than calibrated it is tilted, rad; ``size`` the picture's
    height and width.
    """

    def __init__(self, hand: Floats, tilt_error: float = 0.0,
                 size: tuple[int, int] = IMAGE_SIZE) -> None:
        c, s = math.cos(EYE_TILT + tilt_error), math.sin(EYE_TILT + tilt_error)
        axes = np.array([[0.0, -c, -s], [1.0, 0.0, 0.0], [0.0, -s, c]])
        at = np.array([EYE_M[0] - 0.004 * s, EYE_M[1], EYE_M[2] + 0.004 * c])
        self.rotation = hand[:3, :3] @ axes      # columns: right, down, forward
        self.position = hand[:3, 3] + hand[:3, :3] @ at
        self._focal = FOCAL * size[0]
        self._centre = np.array([(size[1] - 1) / 2, (size[0] - 1) / 2])

    @classmethod
    def at(cls, q: Floats, tilt_error: float = 0.0) -> 'WristEye':
        """Return the eye of an arm at joints ``q`` (7,) rad, in the base frame."""
        return cls(frames(q)[FLANGE], tilt_error)

    @classmethod
    def in_hand(cls, tilt_error: float = 0.0) -> 'WristEye':
        """Return the eye in the hand's own frame."""
        return cls(np.eye(4), tilt_error)

    def pixel_m(self, z: float) -> float:
        """Return about how wide (m) a pixel in the middle is at height ``z``."""
        out: float = max(self.position[2] - z, 0.01) / self._focal
        return out

    def on_plane(self, pixels: Floats, z: float) -> Floats:
        """Return (N, 2) where the rays of ``pixels`` (N, 2; x, y) meet the height ``z``."""
        flat = (np.atleast_2d(pixels) - self._centre) / self._focal
        rays = np.column_stack([flat, np.ones(len(flat))]) @ self.rotation.T
        fall = np.minimum(rays[:, 2], -1e-3)
        out: Floats = self.position[:2] + rays[:, :2] * ((z - self.position[2]) / fall)[:, None]
        return out

    def project(self, points: Floats) -> Floats:
        """Return (N, 2) pixels of ``points`` (N, 3); behind the eye they are far outside."""
        seen = (np.atleast_2d(points) - self.position) @ self.rotation
        out: Floats = self._centre + self._focal * seen[:, :2] / np.maximum(seen[:, 2:], 1e-3)
        return out


class VisionHands:
    """
    The arm as the policy commands it: joint target ``q`` (7,) rad and gripper ``closed`` 0 or 1.

    ``haste`` scales every speed. ``seen`` is the newest observation.
    """

    def __init__(self, seen: Observation, haste: float = 1.0) -> None:
        self.seen = seen
        self.tilt_error = 0.0
        self.closed = 0.0
        self._haste = haste
        self._queries = 1
        self._anchor()

    def _anchor(self) -> None:
        self.q = np.array(self.seen.arm.q, dtype=float)
        self.at, turn = pads(self.q)
        self._yaw = math.atan2(turn[1, 0], turn[0, 0])
        self._pitch = math.atan2(turn[2, 0], math.hypot(turn[0, 0], turn[1, 0]))

    def show(self, seen: Observation) -> None:
        """Store a new observation; reset the target when the arm is far from it."""
        self.seen = seen
        self._queries += 1
        if float(np.abs(self.q - seen.arm.q).max()) > LOST_RAD:
            self._anchor()

    @property
    def grip(self) -> float:
        """The gripper's measured position, 0 open to 1 closed."""
        return float(self.seen.gripper.position)

    def eye(self) -> WristEye:
        """Return the eye that took the newest picture."""
        return WristEye.at(self.seen.arm.q, self.tilt_error)

    def picture(self) -> Pixels:
        """Return the newest picture (H, W, 3)."""
        return self.seen.images[VIEW].pixels

    def go(self, goal: Floats, yaw: float | None = None, pitch: float = 0.0,
           speed: float = 1.0) -> Steps:
        """Move the pads straight to ``goal`` (3,), turned by ``yaw``, tipped by ``pitch``."""
        start, goal = self.at.copy(), np.asarray(goal, dtype=float)
        yaw_from, pitch_from = self._yaw, self._pitch
        yaw_to = yaw_from if yaw is None else yaw
        seconds = 1.5 * max(float(np.linalg.norm(goal - start)) / SPEED_M_S,
                            max(abs(yaw_to - yaw_from), abs(pitch - pitch_from)) / TURN_RAD_S,
                            0.15) / (self._haste * speed)
        steps = math.ceil(seconds * RATE_HZ)
        for step in range(1, steps + 1):
            s = step / steps
            s = s * s * (3.0 - 2.0 * s)
            self.at = start + s * (goal - start)
            self._yaw = yaw_from + s * (yaw_to - yaw_from)
            self._pitch = pitch_from + s * (pitch - pitch_from)
            self.q = joints_for(self.q, self.at, downward(self._yaw, self._pitch), 6)
            yield

    def wait(self, steps: int) -> Steps:
        """Hold."""
        for _ in range(steps):
            yield

    def look(self) -> Steps:
        """Hold until an image arrives that was taken at rest, at the commanded position."""
        yield from self._news()
        for _ in range(_PATIENCE):
            yield from self._news()
            if float(np.abs(self.q - self.seen.arm.q).max()) < _STILL_RAD:
                return

    def open(self) -> Steps:
        """Open the gripper and wait for it."""
        self.closed = 0.0
        yield from self.wait(OPENING_STEPS)

    def close(self) -> Steps:
        """Close the gripper, wait for it, and read where it came to rest."""
        self.closed = 1.0
        yield from self.wait(CLOSING_STEPS)
        yield from self._news()

    def _news(self) -> Steps:
        before = self._queries
        while self._queries == before:
            yield


def downward(yaw: float, pitch: float = 0.0) -> Floats:
    """Return (3, 3) for pads that point down, turned by ``yaw``, then tipped out by ``pitch``."""
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    turn = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    tip = np.array([[cp, 0.0, -sp], [0.0, 1.0, 0.0], [sp, 0.0, cp]])
    out: Floats = turn @ tip @ np.diag([1.0, -1.0, -1.0])
    return out


def pads(q: Floats) -> tuple[Floats, Floats]:
    """Return position (3,) and rotation (3, 3) of the point between the pads at ``q`` (7,)."""
    hand = frames(q)[FLANGE]
    return hand[:3, 3] + PAD_M * hand[:3, 2], hand[:3, :3]


def joints_for(q: Floats, position: Floats, rotation: Floats, rounds: int = 10) -> Floats:
    """Return (7,) rad near ``q`` that bring the pads to a pose, or as near to it as possible."""
    for _ in range(rounds):
        chain = frames(q)
        turn, arm = chain[FLANGE, :3, :3], PAD_M * chain[FLANGE, :3, 2]
        error = np.concatenate([position - chain[FLANGE, :3, 3] - arm,
                                _turn_between(turn, rotation)])
        if float(np.abs(error).max()) < 1e-5:
            break
        jac = jacobian(chain)
        x, y, z = arm
        jac[:3] += np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]) @ jac[3:]
        gain = jac.T @ np.linalg.inv(jac @ jac.T + _DAMPING ** 2 * np.eye(6))
        rest = _POSTURE * (_REST - q)
        q = np.clip(q + gain @ error + (np.eye(DOF) - gain @ jac) @ rest, LOW_Q, HIGH_Q)
    return q


def _turn_between(old: Floats, new: Floats) -> Floats:
    """Return the rotation vector (3,) in the base frame that turns ``old`` into ``new``."""
    turn = new @ old.T
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    size = float(np.linalg.norm(axis))
    if size < 1e-9:
        return np.zeros(3)
    return axis / size * math.atan2(size, float(np.trace(turn)) - 1.0)
