"""
The arms of DROID stations, one row each: everything that depends on which Franka it is.

What the maker publishes, and DROID's limits a little inside of it. Whatever needs the name of a
joint or frame, a limit, the reset pose or the geometry of an arm takes it from here. What a
model of motion adds (masses) stands in links.py.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from arena_robot.core.config import build, nearest
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.core.observation import DOF, Floats
from arena_robot.safety.limits import ArmLimits

# What the names of the base and flange frames end with.
BASE_LINK, FLANGE_LINK = '_link0', f'_link{DOF + 1}'

# DROID's reset pose, rad.
RESET_JOINTS = (0.0, -math.pi / 5, 0.0, -4 * math.pi / 5, 0.0, 3 * math.pi / 5, 0.0)

# Modified (Craig) Denavit-Hartenberg parameters a_{i-1} (m), d_i (m), alpha_{i-1} (rad) of joints
# 1 to 7, and the way from the seventh frame to the flange (m): the same for Panda and FR3.
FRANKA_DH = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
FRANKA_FLANGE_M = 0.107


@dataclass(frozen=True)
class Robot:
    """
    One arm.

    ``name`` is what joint and frame names begin with, and the value of ``robot_type``.
    ``joint_velocity`` (7,) rad/s, ``joint_acceleration`` (7,) rad/s² and ``joint_torque`` (7,) N m
    are the maker's limits; those of position are ``limits.hardware_*``. ``limits`` is what a
    station allows unless it says less.
    """

    name: str
    title: str
    limits: ArmLimits
    joint_velocity: tuple[float, ...]
    joint_acceleration: tuple[float, ...]
    joint_torque: tuple[float, ...]
    reset_joints: tuple[float, ...] = RESET_JOINTS
    dh: tuple[tuple[float, float, float], ...] = FRANKA_DH
    flange_m: float = FRANKA_FLANGE_M

    def arm_name(self, prefix: str = '') -> str:
        """Return what all names of an arm begin with, such as ``panda`` or ``left_fr3``."""
        return f'{prefix}_{self.name}' if prefix else self.name

    def joint_names(self, prefix: str = '') -> list[str]:
        """Return Franka's joint names, such as ``left_fr3_joint1``."""
        return [f'{self.arm_name(prefix)}_joint{i}' for i in range(1, DOF + 1)]

    def flange_joint(self, prefix: str = '') -> str:
        """Return Franka's name of the fixed joint behind the last one."""
        return f'{self.arm_name(prefix)}_joint{DOF + 1}'

    def base_frame(self, prefix: str = '') -> str:
        """Return the name of the base frame, such as ``panda_link0``: poses are in it."""
        return f'{self.arm_name(prefix)}{BASE_LINK}'

    def flange_frame(self, prefix: str = '') -> str:
        """Return the name of the flange's frame, such as ``panda_link8``."""
        return f'{self.arm_name(prefix)}{FLANGE_LINK}'


PANDA = Robot(
    'panda', 'Franka Panda (FER)',
    ArmLimits(
        joint_lower=(-2.80, -1.66, -2.80, -2.97, -2.80, 0.08, -2.80),
        joint_upper=(2.80, 1.66, 2.80, -0.17, 2.80, 3.65, 2.80),
        hardware_lower=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
        hardware_upper=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)),
    joint_velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    joint_acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    joint_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0))
FR3 = Robot(
    'fr3', 'Franka Research 3',
    ArmLimits(
        joint_lower=(-2.65, -1.68, -2.80, -2.95, -2.70, 0.45, -2.90),
        joint_upper=(2.65, 1.68, 2.80, -0.16, 2.70, 4.40, 2.90),
        hardware_lower=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
        hardware_upper=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159)),
    joint_velocity=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    joint_acceleration=(10.0,) * DOF,
    joint_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0))
ROBOTS = {robot.name: robot for robot in (PANDA, FR3)}


def robot_of(robot_type: str) -> Robot:
    """Return the row of ``robot_type``; ConfigError names the nearest known one."""
    if robot_type not in ROBOTS:
        raise ConfigError(f"unknown robot_type '{robot_type}'.{nearest(robot_type, ROBOTS)}")
    return ROBOTS[robot_type]


@cache
def robot_of_joints(names: tuple[str, ...]) -> Robot | None:
    """Return the robot whose joints ``names`` are, in order and with any prefix; None: of none."""
    for robot in ROBOTS.values():
        own = robot.joint_names()
        prefix = names[0].removesuffix(own[0]) if names else ''
        if names == tuple(prefix + name for name in own):
            return robot
    return None


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
