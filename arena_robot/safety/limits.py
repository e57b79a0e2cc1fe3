"""A robot by its name, the limits that a station sets for it, the way and time of a motion."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.core.config import build, nearest
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.core.observation import STILL_RAD_S, Floats
from arena_robot.robots.arms import ROBOTS, ArmLimits, Robot
from arena_robot.safety.embodiments import EMBODIMENTS, arm_of

# Of a JointCourse. The lead is longer than a message takes to a controller at 100 Hz, which
# computes a period ahead; the history covers clocks that differ by 50 ms, the most accepted.
LEAD_NS, HISTORY_NS = 20_000_000, 100_000_000
RAMP_NS = 10_000_000    # of a stop: 10 rad/s² come in 1000 rad/s³, a fifth of an FR3's limit
HARDEST = 0.9           # of the maker's acceleration; shares and times between these are not tried
TIMES_S, SHARES = np.geomspace(0.08, 5.0, 36), np.linspace(0.0, 1.0, 11)
OVER_RAD = 1e-3         # a target at the end of a range is passed by no more


def robot_of(robot_type: str) -> Robot:
    """
    Return the row of ``robot_type``: one of this package, or the arm of an embodiment.

    An embodiment is given by its name or its file: :func:`arena_robot.safety.embodiments.arm_of`.
    Raises ConfigError, which names the nearest known one, or has every mistake of the file.
    """
    if robot_type in ROBOTS:
        return ROBOTS[robot_type]
    name = robot_type.partition('#')[0]
    if not name.endswith(('.yaml', '.yml')) and name not in EMBODIMENTS.names():
        known = [*ROBOTS, *EMBODIMENTS.names()]
        raise ConfigError(f"unknown robot_type '{robot_type}'.{nearest(robot_type, known)}")
    return arm_of(robot_type)


def limits_for(robot_type: str, changes: Mapping[str, Any] | None = None) -> ArmLimits:
    """
    Return the limits of a robot with a station's own values in ``changes``.

    Raises ConfigError for an unknown robot, an unknown key or a bad value, and for a velocity or
    torque above what the robot itself allows.
    """
    robot = robot_of(robot_type)
    own = {field.name: getattr(robot.limits, field.name)
           for field in dataclasses.fields(robot.limits)}
    limits = build(ArmLimits, own | dict(changes or {}), where='limits')
    for name, asked, most in (('velocity', limits.velocity, robot.joint_velocity),
                              ('torque', limits.torque, robot.joint_torque)):
        for i in range(robot.joints):
            if asked[i] > most[i]:
                raise ConfigError(f'limits.{name} of joint {i + 1} is {asked[i]:g}, a '
                                  f'{robot.title} allows {most[i]:g} at most')
    return limits


def move_duration_s(q_from: Floats, q_to: Floats, robot: Robot) -> float:
    """
    Return DROID's time for a min-jerk motion: clamp(max(1, max(8 |dq| / v)), 0, 4) s.

    v are the joint velocities of ``robot``; DROID takes a Panda's for every arm.
    """
    velocity = np.array(robot.joint_velocity)
    longest = float(np.max(np.abs(q_to - q_from) * 8.0 / velocity))
    return min(max(1.0, longest), 4.0)


def motion_s(q_from: Floats, q_to: Floats, duration_s: float | None, robot: Robot) -> float:
    """Return ``duration_s`` checked, or DROID's time where it is None. Raises SafetyError."""
    time_s = move_duration_s(q_from, q_to, robot) if duration_s is None else float(duration_s)
    if not 0.0 < time_s < math.inf:
        raise SafetyError(f'a motion must take some finite time, got {duration_s} s')
    return time_s


def min_jerk(start: Floats, goal: Floats, share: float) -> Floats:
    """Return the joints (n,) after a ``share`` of the motion's time; at the ends beyond it."""
    s = min(1.0, max(0.0, share))
    shape = s ** 3 * (10 - 15 * s + 6 * s * s)
    return np.asarray(start + shape * (goal - start))


@dataclass(frozen=True)
class Knot:
    """A place on a :class:`JointCourse`: a time in ns; rad, rad/s and rad/s², (n,) each."""

    stamp_ns: int
    q: Floats
    dq: Floats
    ddq: Floats


class JointCourse:
    """
    A curve in joint space that is extended target after target, without a jump in acceleration.

    Between two knots lies the polynomial of fifth degree with their positions, speeds and
    accelerations. What is asked for begins ``LEAD_NS`` later, ends at rest and keeps the maker's
    limits. The knots of the last ``HISTORY_NS`` stay: whoever gets the new knots within the lead,
    or reads them by a clock that is a little behind, finds the place at which the arm is.
    The course begins at an arm at ``q`` (n,) rad that moves at ``dq`` (n,) rad/s, and brakes it.
    """

    def __init__(self, robot: Robot, q: Floats, dq: Floats, now_ns: int) -> None:
        self._dq_max = np.array(robot.joint_velocity)
        self._ddq_max = HARDEST * np.array(robot.joint_acceleration)
        self._low = np.array(robot.limits.hardware_lower) - OVER_RAD
        self._high = np.array(robot.limits.hardware_upper) + OVER_RAD
        speed, zero = np.where(np.abs(dq) > STILL_RAD_S, dq, 0.0), np.zeros(len(q))
        self.knots = [
            Knot(now_ns + after_ns, q + after_ns * 1e-9 * speed, speed, zero)
            for after_ns in (-HISTORY_NS, LEAD_NS)]
        self.brake(now_ns)

    @property
    def end(self) -> Knot:
        """Return where and when the arm rests."""
        return self.knots[-1]

    def at(self, stamp_ns: int) -> Knot:
        """Return the place at a time; the first or last knot's before and after them."""
        later = next((i for i, knot in enumerate(self.knots) if knot.stamp_ns > stamp_ns), 0)
        if not later:
            near = self.knots[0 if stamp_ns < self.knots[0].stamp_ns else -1]
            return dataclasses.replace(near, stamp_ns=stamp_ns)
        a, b = self.knots[later - 1:later + 1]
        time_s = np.array((b.stamp_ns - a.stamp_ns) * 1e-9)
        return Knot(stamp_ns, *_quintic(a, b, time_s, (stamp_ns - a.stamp_ns) * 1e-9 / time_s))

    def steer(self, goal: Floats, now_ns: int) -> None:
        """Go to ``goal`` (n,) rad as soon as the limits allow; where none does, as before."""
        begin, zero = self.at(now_ns + LEAD_NS), np.zeros(len(goal))
        end = Knot(0, goal, zero, zero)
        q, dq, ddq = _quintic(begin, end, TIMES_S[:, None, None], SHARES[:, None])
        fits = np.all((np.abs(ddq) <= self._ddq_max) & (np.abs(dq) <= self._dq_max)
                      & (q >= self._low) & (q <= self._high), axis=(1, 2))
        if np.any(fits):
            time_ns = round(TIMES_S[int(np.argmax(fits))] * 1e9)
            self._extend(begin, dataclasses.replace(end, stamp_ns=begin.stamp_ns + time_ns))

    def brake(self, now_ns: int) -> None:
        """Come to rest as soon as the limits allow; the deceleration comes and goes in a ramp."""
        a, ramp_s = self.at(now_ns + LEAD_NS), RAMP_NS * 1e-9
        lost = a.dq + 0.5 * ramp_s * a.ddq
        even_s = max(2.0 * ramp_s, float(np.max(np.abs(lost) / self._ddq_max)))
        knots, slope, zero = [a], -lost / even_s, np.zeros(len(a.q))
        for time_s, ddq in ((ramp_s, slope), (even_s - ramp_s, slope), (ramp_s, zero)):
            b = knots[-1]
            knots.append(Knot(
                b.stamp_ns + round(time_s * 1e9),
                b.q + time_s * b.dq + time_s ** 2 * (2.0 * b.ddq + ddq) / 6.0,
                b.dq + 0.5 * time_s * (b.ddq + ddq), ddq))
        knots[-1] = dataclasses.replace(knots[-1], dq=zero)    # but for rounding it is
        self._extend(*knots)

    def _extend(self, begin: Knot, *later: Knot) -> None:
        """Replace what lies behind ``begin``; forget what is older than the history."""
        before = [knot for knot in self.knots if knot.stamp_ns < begin.stamp_ns]
        since_ns = begin.stamp_ns - LEAD_NS - HISTORY_NS
        while len(before) > 1 and before[1].stamp_ns <= since_ns:
            before.pop(0)
        self.knots = [*before, begin, *later]


def _quintic(a: Knot, b: Knot, time_s: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Return place, speed, acceleration at a ``share`` of the ``time_s`` from ``a`` to ``b``."""
    s, way = share, b.q - a.q
    v0, v1, c2, a1 = a.dq * time_s, b.dq * time_s, 0.5 * a.ddq * time_s ** 2, b.ddq * time_s ** 2
    c3 = 10.0 * way - 6.0 * v0 - 4.0 * v1 - 3.0 * c2 + 0.5 * a1
    c4 = -15.0 * way + 8.0 * v0 + 7.0 * v1 + 3.0 * c2 - a1
    c5 = 6.0 * way - 3.0 * v0 - 3.0 * v1 - c2 + 0.5 * a1
    return (a.q + s * (v0 + s * (c2 + s * (c3 + s * (c4 + s * c5)))),
            (v0 + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))) / time_s,
            (2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5))) / time_s ** 2)
