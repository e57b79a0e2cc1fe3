"""What a control process needs of a library that speaks to a Franka, and what it may say."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Floats
from arena_robot.drivers.franka.board import FrankaOrder
from arena_robot.robots.arms import DOF, KQ, KQD, KX, KXD
from arena_robot.safety.kinematics import frames, jacobian
from arena_robot.safety.limits import robot_of

# A command answers a state within its millisecond: half of it is for the law and the network.
LATE_MS, PUNCTUAL_S = 0.5, 0.5
# bench_franka.py: with 1.5 % late cycles torques went on for a minute, with 10 % came a reflex.
MOST_LATE = 0.05
PUNCTUAL = ('end other programs, give the robot a cable of its own, set realtime: true on a '
            'real-time kernel, or let the robot interpolate: backend libfranka without torques')
INSET_RAD = 0.055       # franka-rs refuses targets that are nearer to the end of a joint's range


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
    and takes its highest priority. ``torques``: targets are tracked with torques at 1 kHz.
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
    torques: bool = False


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

    @property
    def paced(self) -> bool:
        """Whether each state of the robot wants a command: the loop then does not wait."""

    def start(self, order: FrankaOrder, q: Floats) -> None:
        """Begin a motion at the measured joints ``q`` (7,) rad."""

    def send(self, q: Floats) -> None:
        """Give the motion its target (7,) rad."""

    def follow(self, reading: FrankaReading) -> None:
        """Adjust a motion that tracks to a new state, in every cycle of the loop."""

    def end(self) -> None:
        """Come to rest at once, end the motion; the robot holds."""

    def recover(self) -> None:
        """Clear errors."""

    def set_collision(self, lower_torque: tuple[float, ...], upper_torque: tuple[float, ...],
                      lower_force: tuple[float, ...], upper_force: tuple[float, ...]) -> None:
        """Set the thresholds of collisions."""


def reach(robot_type: str) -> tuple[Floats, Floats]:
    """Return the lowest and highest targets (7,) rad that a motion may have."""
    limits = robot_of(robot_type).limits
    return np.array(limits.hardware_lower) + INSET_RAD, np.array(limits.hardware_upper) - INSET_RAD


def droid_gains(q: Floats) -> tuple[Floats, Floats]:
    """
    Return stiffness (7, 7) N m/rad and damping (7, 7) N m s/rad of DROID's law at joints ``q``.

    DROID adds springs at the flange to those of the joints: K = Kq + J' Kx J.
    """
    jac = jacobian(frames(np.asarray(q)))
    return (np.diag(KQ) + (jac.T * KX) @ jac, np.diag(KQD) + (jac.T * KXD) @ jac)


def droid_torque(target: Floats, q: Floats, dq: Floats) -> Floats:
    """Return the torques (7,) N m of DROID's law: K (target - q) - D dq, without Coriolis'."""
    stiffness, damping = droid_gains(q)
    return np.asarray(stiffness @ (target - q) - damping @ dq)


def droid_goal(target: Floats, q: Floats, dq: Floats, stiffness: Floats,
               damping: Floats) -> Floats:
    """
    Return the goal (7,) rad with which separate joints give the torques of DROID's law.

    A controller of separate joints computes ``stiffness (goal - q) - damping dq`` (all (7,)).
    """
    return np.asarray(q + (droid_torque(target, q, dq) + damping * dq) / stiffness)


def late_share(read_s: Mapping[int, float]) -> float:
    """
    Return the share of the robot's milliseconds whose state was lost or read too late to answer.

    ``read_s`` is the monotonic time at which the state of each was read; the one that came soonest
    after its own time tells when the others were due.
    """
    waits = [1e3 * read - ms for ms, read in read_s.items()]
    punctual = sum(wait - min(waits) <= LATE_MS for wait in waits)
    return 1.0 - punctual / (max(read_s) - min(read_s) + 1)


def waits_for_commands(address: str) -> bool:
    """Return whether what is at an address is an emulator on this machine, whose time waits."""
    return address.startswith('127.')


def require_punctual(read: Callable[[], FrankaReading], address: str) -> None:
    """Raise FrankaLost where too many states come too late for torques at 1 kHz."""
    if waits_for_commands(address):
        return
    read_s: dict[int, float] = {}
    end_s = time.monotonic() + PUNCTUAL_S
    while time.monotonic() < end_s or not read_s:
        read_s.setdefault(read().robot_ms, time.monotonic())
    share = late_share(read_s)
    if share > MOST_LATE:
        raise FrankaLost(f"{100 * share:.0f} % of the robot's states were lost or read more than "
                         f'{LATE_MS:g} ms late, at most {100 * MOST_LATE:g} % may be for torques '
                         f'at 1 kHz: {PUNCTUAL}')


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
