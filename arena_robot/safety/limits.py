"""A robot by its name, the limits that a station sets for it, the way and time of a motion."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from arena_robot.core.config import build, nearest
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF, ROBOTS, ArmLimits, Robot


def robot_of(robot_type: str) -> Robot:
    """Return the row of ``robot_type``; ConfigError names the nearest known one."""
    if robot_type not in ROBOTS:
        raise ConfigError(f"unknown robot_type '{robot_type}'.{nearest(robot_type, ROBOTS)}")
    return ROBOTS[robot_type]


def limits_for(robot_type: str, changes: Mapping[str, Any] | None = None) -> ArmLimits:
    """
    Return the limits of a robot with a station's own values in ``changes``.

    Raises ConfigError for an unknown robot, an unknown key or a bad value, and for a velocity or
    torque above what the robot itself allows.
    """
    robot = robot_of(robot_type)
    values = dataclasses.asdict(robot.limits) | dict(changes or {})
    limits = build(ArmLimits, values, where='limits')
    for name, asked, own in (('velocity', limits.velocity, robot.joint_velocity),
                             ('torque', limits.torque, robot.joint_torque)):
        for i in range(DOF):
            if asked[i] > own[i]:
                raise ConfigError(f'limits.{name} of joint {i + 1} is {asked[i]:g}, a '
                                  f'{robot.title} allows {own[i]:g} at most')
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
    """Return the joints (7,) rad after a ``share`` of the motion's time; at the ends beyond it."""
    s = min(1.0, max(0.0, share))
    shape = s ** 3 * (10 - 15 * s + 6 * s * s)
    return np.asarray(start + shape * (goal - start))
