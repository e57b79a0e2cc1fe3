"""
Straight motions of the finger pads, one joint target per control step.

Every motion is a generator that yields once per step; between two queries of the policy it
continues with the newest observation. :meth:`VisionHands.look` waits for a new picture taken while
the arm is at rest.
"""

import math
from collections.abc import Iterator

import numpy as np

from arena_robot.core.observation import Floats, Observation, Pixels
from arena_robot.policy.examples.vision_body import WristEye, downward, joints_for, pads

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
