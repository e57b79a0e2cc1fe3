"""A joint trajectory as a function of time, by the rules of joint_trajectory_controller."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF
from arena_robot.safety.filter import finite

_STEP_S, _SAMPLE_S = 1e-4, 0.02


@dataclass(frozen=True)
class Trajectory:
    """``times_s`` (n,) from the start and ``points`` (n, 7) rad; ``slopes`` (n, 7) or None."""

    times_s: Floats
    points: Floats
    slopes: Floats | None = None

    @property
    def duration_s(self) -> float:
        """Time of the last point."""
        return float(self.times_s[-1])

    def at(self, elapsed_s: float) -> Floats:
        """Return the target (7,) rad: cubic where velocities were given, else linear."""
        i = int(np.searchsorted(self.times_s, elapsed_s, side='right'))
        if i >= len(self.times_s):
            i = -1
        if i <= 0:
            end: Floats = self.points[i]
            return end
        span_s = float(self.times_s[i] - self.times_s[i - 1])
        s = (elapsed_s - float(self.times_s[i - 1])) / span_s
        p, q = self.points[i - 1], self.points[i]
        out: Floats = p + s * (q - p)
        if self.slopes is not None:
            v, w = span_s * self.slopes[i - 1], span_s * self.slopes[i]
            out = (p + s * v + s * s * (3.0 * (q - p) - 2.0 * v - w)
                   + s ** 3 * (2.0 * (p - q) + v + w))
        return out

    def velocity_at(self, elapsed_s: float) -> Floats:
        """Return the target's velocity (7,) rad/s; zero before the start and after the end."""
        if not 0.0 <= elapsed_s < self.duration_s:
            return np.zeros(DOF)
        low, high = max(elapsed_s - _STEP_S, 0.0), min(elapsed_s + _STEP_S, self.duration_s)
        return (self.at(high) - self.at(low)) / (high - low)

    def sampled(self) -> tuple[Floats, Floats]:
        """Return times (n,) s and targets (n, 7) rad, close enough to see every excess."""
        grid = [np.linspace(a, b, min(max(math.ceil((b - a) / _SAMPLE_S), 8), 200), endpoint=False)
                for a, b in pairwise(self.times_s)]
        times_s = np.concatenate([*grid, self.times_s[-1:]])
        return times_s, np.array([self.at(float(t)) for t in times_s])


def trajectory(message: JointTrajectory, names: list[str], start: Floats) -> Trajectory:
    """
    Return the trajectory in a message, beginning at ``start`` (7,) rad.

    Raises SafetyError for wrong names, lengths, numbers, or times that do not increase.
    """
    if sorted(message.joint_names) != sorted(names):
        raise SafetyError(f'trajectory of {list(message.joint_names)}, the joints are {names}')
    if not message.points:
        raise SafetyError('a trajectory needs at least one point')
    order = [list(message.joint_names).index(name) for name in names]
    times, points, slopes = [], [], []
    for i, point in enumerate(message.points):
        points.append(finite(point.positions, DOF, f'point {i} of the trajectory')[order])
        time = point.time_from_start
        times.append(time.sec + time.nanosec * 1e-9)
        if len(point.velocities):
            slopes.append(finite(point.velocities, DOF, f'velocities of point {i}')[order])
    if any(b <= a for a, b in pairwise(times)) or times[0] < 0.0:
        raise SafetyError('time_from_start must increase from point to point')
    smooth = len(slopes) == len(points)
    if times[0] > 0.0:
        times, points = [0.0, *times], [start, *points]
        slopes = [np.zeros(DOF), *slopes]
    return Trajectory(np.array(times), np.array(points), np.array(slopes) if smooth else None)
