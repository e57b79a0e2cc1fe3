"""
Joint trajectories and their goals, by the rules of joint_trajectory_controller.

A tolerance of a goal of follow_joint_trajectory: 0 is the default, a negative one is not checked.
Accelerations are not measured and not checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Protocol

import numpy as np
from builtin_interfaces.msg import Duration
from trajectory_msgs.msg import JointTrajectory

from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.safety.filter import finite

_STEP_S = 1e-4          # of the difference quotient of a path
_SAMPLE_S = 0.02        # between points at which a path is checked
STOPPED_RAD_S = 0.05    # below this a joint is at rest, as a goal's end requires
SETTLE_S = 2.0      # how long an arm may take to its goal once a motion's time is over


@dataclass(frozen=True)
class Trajectory:
    """``times_s`` (n,) from the start and ``points`` (n, joints); ``slopes`` the same or None."""

    times_s: Floats
    points: Floats
    slopes: Floats | None = None

    @property
    def duration_s(self) -> float:
        """Time of the last point."""
        return float(self.times_s[-1])

    def at(self, elapsed_s: float) -> Floats:
        """Return the target (joints,): cubic where velocities were given, else linear."""
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
        """Return the target's velocity (joints,); zero before the start and after the end."""
        if not 0.0 <= elapsed_s < self.duration_s:
            return np.zeros(self.points.shape[1])
        low, high = max(elapsed_s - _STEP_S, 0.0), min(elapsed_s + _STEP_S, self.duration_s)
        return (self.at(high) - self.at(low)) / (high - low)

    def sampled(self) -> tuple[Floats, Floats]:
        """Return times (n,) s and targets (n, joints), close enough to see every excess."""
        grid = [np.linspace(a, b, min(max(math.ceil((b - a) / _SAMPLE_S), 8), 200), endpoint=False)
                for a, b in pairwise(self.times_s)]
        times_s = np.concatenate([*grid, self.times_s[-1:]])
        return times_s, np.array([self.at(float(t)) for t in times_s])


def trajectory(message: JointTrajectory, names: list[str], start: Floats) -> Trajectory:
    """
    Return the trajectory in a message, beginning at ``start`` (joints,).

    Raises SafetyError for wrong names, lengths, numbers, or times that do not increase.
    """
    if sorted(message.joint_names) != sorted(names):
        raise SafetyError(f'trajectory of {list(message.joint_names)}, the joints are {names}')
    if not message.points:
        raise SafetyError('a trajectory needs at least one point')
    order = [list(message.joint_names).index(name) for name in names]
    times, points, slopes = [], [], []
    for i, point in enumerate(message.points):
        points.append(finite(point.positions, len(names), f'point {i} of the trajectory')[order])
        time = point.time_from_start
        times.append(time.sec + time.nanosec * 1e-9)
        if len(point.velocities):
            slopes.append(finite(point.velocities, len(names), f'velocities of point {i}')[order])
    if any(b <= a for a, b in pairwise(times)) or times[0] < 0.0:
        raise SafetyError('time_from_start must increase from point to point')
    smooth = len(slopes) == len(points)
    if times[0] > 0.0:
        times, points = [0.0, *times], [start, *points]
        slopes = [np.zeros(len(names)), *slopes]
    return Trajectory(np.array(times), np.array(points), np.array(slopes) if smooth else None)


class GoalCode(IntEnum):
    """FollowJointTrajectory's error codes, with its numbers."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


@dataclass(frozen=True)
class GoalEnd:
    """How a goal ended; ``text`` is empty when it was reached."""

    code: GoalCode
    text: str = ''


class GoalRefused(SafetyError):
    """A goal that is not begun, and the code of its result."""

    def __init__(self, goal_code: GoalCode, text: str) -> None:
        super().__init__(text)
        self.goal_code = goal_code


class JointTolerance(Protocol):
    """control_msgs/JointTolerance."""

    name: str
    position: float
    velocity: float


class FollowRequest(Protocol):
    """The goal of control_msgs/FollowJointTrajectory."""

    trajectory: JointTrajectory
    path_tolerance: Sequence[JointTolerance]
    goal_tolerance: Sequence[JointTolerance]
    goal_time_tolerance: Duration


@dataclass(frozen=True)
class Tolerance:
    """Allowed distances of joints (7,) rad and of their speeds (7,) rad/s; inf: not checked."""

    position: Floats
    velocity: Floats

    def violation(self, error_q: Floats, error_dq: Floats) -> str:
        """Return which joint is beyond its tolerance and by how much, or nothing."""
        for error, allowed, unit in ((error_q, self.position, 'rad'),
                                     (error_dq, self.velocity, 'rad/s')):
            i = int(np.argmax(np.abs(error) - allowed))
            if abs(error[i]) > allowed[i]:
                return (f'joint {i + 1} is {abs(error[i]):.3f} {unit} off, allowed are '
                        f'{allowed[i]:g}')
        return ''


@dataclass(frozen=True)
class TrajectoryGoal:
    """A path with its tolerances; ``settle_s`` may pass after its end before it has failed."""

    path: Trajectory
    on_path: Tolerance
    at_goal: Tolerance
    settle_s: float = SETTLE_S

    def judge(self, elapsed_s: float, q: Floats, dq: Floats) -> GoalEnd | None:
        """Return how the goal ended at measured ``q`` (7,) rad, ``dq`` rad/s; None: it goes on."""
        if elapsed_s < 0.0:
            return None
        error, speed_error = q - self.path.at(elapsed_s), dq - self.path.velocity_at(elapsed_s)
        if elapsed_s < self.path.duration_s:
            off = self.on_path.violation(error, speed_error)
            return GoalEnd(GoalCode.PATH_TOLERANCE_VIOLATED, f'on the path {off}') if off else None
        off = self.at_goal.violation(error, dq)
        if not off:
            return GoalEnd(GoalCode.SUCCESSFUL)
        if elapsed_s <= self.path.duration_s + self.settle_s:
            return None
        return GoalEnd(GoalCode.GOAL_TOLERANCE_VIOLATED,
                       f'{self.settle_s:g} s after the last point {off}')


def trajectory_goal(request: FollowRequest, names: list[str], start: Floats,
                    goal_tolerance: float) -> TrajectoryGoal:
    """
    Return the goal in a request, its path beginning at ``start`` (joints,).

    ``goal_tolerance`` (rad) is the default at the goal; on the path nothing is checked unless
    asked for. Raises GoalRefused for what makes no sense.
    """
    message = request.trajectory
    if sorted(message.joint_names) != sorted(names):
        raise GoalRefused(GoalCode.INVALID_JOINTS, f'trajectory of {list(message.joint_names)}, '
                          f'the joints are {names}')
    try:
        path = trajectory(message, names, start)
    except SafetyError as error:
        raise GoalRefused(GoalCode.INVALID_GOAL, str(error)) from error
    if np.any(np.abs(message.points[-1].velocities) > 1e-6):
        raise GoalRefused(GoalCode.INVALID_GOAL, 'the last point must have no velocity')
    settle = request.goal_time_tolerance
    settle_s = settle.sec + settle.nanosec * 1e-9
    return TrajectoryGoal(
        path, tolerance(request.path_tolerance, names, math.inf, math.inf),
        tolerance(request.goal_tolerance, names, goal_tolerance, STOPPED_RAD_S),
        SETTLE_S if settle_s == 0.0 else settle_s if settle_s > 0.0 else math.inf)


def tolerance(entries: Sequence[JointTolerance], names: list[str], position: float,
              velocity: float) -> Tolerance:
    """Return the tolerances of ``entries`` over defaults; raises GoalRefused."""
    out = Tolerance(np.full(len(names), position), np.full(len(names), velocity))
    for entry in entries:
        if entry.name not in names:
            raise GoalRefused(GoalCode.INVALID_JOINTS,
                              f"tolerance of '{entry.name}', the joints are {names}")
        i = names.index(entry.name)
        for values, asked in ((out.position, entry.position), (out.velocity, entry.velocity)):
            if math.isnan(asked):
                raise GoalRefused(GoalCode.INVALID_GOAL, f'a tolerance of {entry.name} is NaN')
            if asked != 0.0:
                values[i] = asked if asked > 0.0 else math.inf
    return out
