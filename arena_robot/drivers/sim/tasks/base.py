"""
Interface of a task: props drawn by a seed, a start, an instruction, an oracle.

The oracle's progress is the best stage reached so far (below 1), and 1 while the task is done:
an achievement undone falls back below 1, as a person would score it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from arena_robot.drivers.sim.props import Prop
from arena_robot.drivers.sim.truth import SceneTruth


@dataclass(frozen=True)
class Place:
    """Where a free prop starts: position in m, ``yaw`` in rad, ``flipped`` upside down."""

    x: float
    y: float
    z: float
    yaw: float = 0.0
    flipped: bool = False


@dataclass
class Setup:
    """One seed's instance of a task; ``joints`` start values of fixtures' joints by name."""

    instruction: str
    props: tuple[Prop, ...]
    places: dict[str, Place]
    joints: dict[str, float] = field(default_factory=dict)


class ExpertHands(Protocol):
    """Motions of the scripted expert; every call yields once per control step."""

    truth: SceneTruth

    def pick(self, name: str, height: float = 0.0, yaw: float | None = None,
             lift: float = 0.16) -> Iterator[None]:
        """Grasp a prop ``height`` above its origin from above and lift it."""

    def place(self, x: float, y: float, z: float, yaw: float | None = None) -> Iterator[None]:
        """Put the held prop's grasp point at a position, let go and retreat."""

    def go(self, x: float, y: float, z: float, yaw: float | None = None,
           pitch: float = 0.0) -> Iterator[None]:
        """Move the pads straight to a position; ``pitch`` tips the fingers forward."""

    def grip(self, position: float, force: float = 0.0) -> Iterator[None]:
        """Open (0) or close (1) the gripper and wait for it."""

    def wait(self, seconds: float) -> Iterator[None]:
        """Keep still."""


class Task(Protocol):
    """A task; an instance has one seed's setup and its oracle's memory."""

    name: str
    category: str
    setup: Setup

    def __init__(self, rng: np.random.Generator) -> None: ...

    def stage(self, truth: SceneTruth) -> float:
        """Return the progress of the present state, 0 to below 1; called every 20 ms."""

    def potential(self, truth: SceneTruth) -> float:
        """
        Return the progress of the present state: 0 at reset, 1 when done, without jumps.

        It falls when work is undone. The first call is at reset.
        """

    def done(self, truth: SceneTruth) -> bool:
        """Return whether the task is done now."""

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Do the task; yields once per control step."""
