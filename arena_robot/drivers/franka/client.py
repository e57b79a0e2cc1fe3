"""What a control process needs of a library that speaks to a Franka, and what it may say."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import DOF, Floats
from arena_robot.drivers.franka.board import FrankaOrder
from arena_robot.safety.kinematics import frames, jacobian
from arena_robot.safety.limits import KQ, KQD, KX, KXD


class FrankaRefused(DriverError):
    """The robot or its library did not do what was asked; the connection lives."""


class FrankaLost(DriverError):
    """There is no connection, or it has ended."""


@dataclass(frozen=True)
class FrankaConfig:
    """
    How to reach a robot and what to set there.

    Collision thresholds (N m of the joints; N and N m at the flange) and the load (kg, m, and nine
    kg m^2 in columns) are set when the connection is made. ``realtime`` demands a real-time kernel
    and takes its highest priority.
    """

    address: str
    robot_type: str
    realtime: bool
    lower_torque: tuple[float, ...]
    upper_torque: tuple[float, ...]
    lower_force: tuple[float, ...]
    upper_force: tuple[float, ...]
    load_mass: float
    load_centre: tuple[float, ...]
    load_inertia: tuple[float, ...]


@dataclass(frozen=True)
class FrankaReading:
    """A state of the robot: joints (7,) rad, rad/s and N m, ``errors`` in the vendor's names."""

    robot_ms: int
    q: Floats
    dq: Floats
    tau: Floats
    tau_ext: Floats
    q_d: Floats
    mode: int
    errors: tuple[str, ...]
    success_rate: float


class FrankaClient(Protocol):
    """A library, in the control process only; its errors come as FrankaRefused or FrankaLost."""

    version: int

    def connect(self) -> None:
        """Connect, and set thresholds and load; nothing moves."""

    def read(self) -> FrankaReading:
        """Return the newest state."""

    @property
    def running(self) -> bool:
        """Whether a motion runs."""

    def start(self, order: FrankaOrder, q: Floats) -> None:
        """Begin a motion at the measured joints ``q`` (7,) rad."""

    def send(self, q: Floats) -> None:
        """Give the motion its target (7,) rad."""

    def end(self) -> None:
        """Come to rest at once, end the motion; the robot holds."""

    def recover(self) -> None:
        """Clear errors."""

    def set_collision(self, lower_torque: tuple[float, ...], upper_torque: tuple[float, ...],
                      lower_force: tuple[float, ...], upper_force: tuple[float, ...]) -> None:
        """Set the thresholds of collisions."""


def joint_gains(q: Floats) -> tuple[list[float], list[float]]:
    """
    Return stiffness (7,) N m/rad and damping (7,) N m s/rad of DROID's law at joints ``q``.

    DROID adds springs at the flange to those of the joints, K = Kq + J' Kx J. A joint controller
    takes one number for each joint: the diagonal of that matrix.
    """
    jac = jacobian(frames(np.asarray(q)))
    stiffness = KQ + np.einsum('ij,i,ij->j', jac, KX, jac)
    damping = KQD + np.einsum('ij,i,ij->j', jac, KXD, jac)
    return [float(one) for one in stiffness], [float(one) for one in damping]


def ordinary_priority() -> None:
    """Take back the real-time priority that the libraries give to the threads of this process."""
    for task in Path('/proc/self/task').iterdir():
        try:
            if os.sched_getscheduler(int(task.name)) != os.SCHED_OTHER:
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
        except OSError:     # the thread has ended, or had no right to begin with
            continue


def seven(values: object) -> Floats:
    """Return a library's joints as an array of its own."""
    return np.array(values, dtype=float).reshape(DOF)
